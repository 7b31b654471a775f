//! Checks whether the issuers of access tokens can be used, and what a token would be.

use std::path::Path;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use kubecrier_core::{KubernetesUser, filters::Glob};
use kubecrier_k8s::Contexts;
use kubecrier_oauth::{
    AccessToken, Authenticator, ClaimMapping, IssuerUrl, OAuthConfig, TokenError, check_issuer,
};
use kubecrier_server::{OAuthSettings, ScopePolicy, Transport, may_be_of_account};

use super::report::{Finding, Section};
use crate::{cli::Settings, config::Config, watch::read_token};

/// Issuers that are checked at once, so that those that are away time out side by side.
const CONCURRENCY: usize = 8;

/// Checks the issuers of a server with these settings, and tries a token if there is one. What
/// is wrong with the settings themselves is found with the others.
pub(super) async fn check_oauth(
    settings: &Settings,
    token_file: Option<&Path>,
    contexts: &Contexts,
) -> Vec<Section> {
    let transport = Config::try_from(settings.clone()).map(|config| config.transport);
    let (oauth, audience) = match transport {
        Ok(Transport::Http(http)) => (http.oauth, http.service_account_audience),
        Ok(Transport::Stdio) => (None, None),
        Err(error) => {
            // Other checks show it as well, but this is why no token can be tried.
            let refused = || vec![Finding::fail(error.to_string())];
            let tried = token_file.map(|_| Section::new("token", refused()));
            return tried.into_iter().collect();
        }
    };
    let mut sections = match &oauth {
        Some(oauth) => check_issuers(oauth).await,
        None => Vec::new(),
    };
    if let Some(path) = token_file {
        let accounts = audience.as_deref().map(|audience| (contexts, audience));
        let findings = try_token(oauth.as_ref(), accounts, path).await;
        sections.push(Section::new("token", findings));
    }
    sections
}

async fn check_issuers(oauth: &OAuthSettings) -> Vec<Section> {
    let issuers = oauth.tokens.issuers.iter();
    let checks = issuers.map(|issuer| check(&oauth.tokens, &issuer.url));
    let mut sections: Vec<_> = stream::iter(checks).buffered(CONCURRENCY).collect().await;
    sections.push(Section::new("access tokens", describe(oauth)));
    sections
}

async fn check(config: &OAuthConfig, issuer: &IssuerUrl) -> Section {
    let about = format!("issuer {issuer}");
    let checked = match check_issuer(config, issuer).await {
        Ok(checked) => checked,
        Err(error) => return Section::new(about, vec![Finding::fail(error.to_string())]),
    };
    let mut findings = vec![Finding::ok(format!(
        "its metadata is at {}",
        checked.metadata_url
    ))];
    let algorithms: Vec<_> = checked.algorithms.iter().map(|one| one.as_str()).collect();
    let keys = format!("it has {} keys", checked.keys);
    findings.push(if algorithms.is_empty() {
        Finding::fail(format!("{keys}, none for an accepted algorithm"))
            .hint("accept others with --oauth-algorithms")
    } else {
        Finding::ok(format!("{keys}, for {}", algorithms.join(", ")))
    });
    if let Some(endpoint) = checked.introspection_endpoint
        && config.introspection.is_none()
    {
        findings.push(
            Finding::note("opaque tokens are not accepted").hint(format!(
                "if it issues such: --oauth-introspection-url {endpoint}"
            )),
        );
    }
    Section::new(about, findings)
}

/// What tokens have to be, and whom they name.
fn describe(oauth: &OAuthSettings) -> Vec<Finding> {
    let OAuthConfig {
        audiences, issuers, ..
    } = &oauth.tokens;
    let scopes = match oauth.scopes.supported().as_slice() {
        [] => "no scope is asked for".to_owned(),
        scopes => format!("scopes are {}", scopes.join(", ")),
    };
    let audiences = audiences.join(" or ");
    let mut findings = vec![Finding::ok(format!("a token has to be for {audiences}"))];
    findings.extend(issuers.iter().map(|issuer| {
        let mapped = describe_mapping(&issuer.mapping);
        Finding::ok(match issuers.as_slice() {
            [_] => format!("its caller is {mapped}"),
            _ => format!("its caller is {mapped}, if it is of {}", issuer.url),
        })
    }));
    findings.push(Finding::ok(scopes));
    findings.push(Finding::ok(format!(
        "clients find the issuers at {}",
        oauth.public_url.metadata()
    )));
    findings
}

fn describe_mapping(mapping: &ClaimMapping) -> String {
    let groups = match &mapping.groups_claim {
        None => "without groups (--groups-claim)".to_owned(),
        Some(claim) => {
            let kept: Vec<_> = mapping.allowed_groups.iter().map(Glob::as_str).collect();
            let kept = match kept.as_slice() {
                [] => "all".to_owned(),
                kept => kept.join(", "),
            };
            let (prefix, claim) = (&mapping.groups_prefix, claim.as_str());
            format!("with the groups `{prefix}` + `{claim}` ({kept})")
        }
    };
    let (prefix, claim) = (&mapping.username_prefix, mapping.username_claim.as_str());
    format!("the user `{prefix}` + `{claim}`, {groups}")
}

/// Tries a token in the order of the server: its issuer, then the cluster with the audience of
/// service accounts.
async fn try_token(
    oauth: Option<&OAuthSettings>,
    accounts: Option<(&Contexts, &str)>,
    path: &Path,
) -> Vec<Finding> {
    let token = match read_token(Some(path)) {
        Ok(Some(token)) => token,
        Ok(None) => return vec![Finding::fail(format!("`{}` is empty", path.display()))],
        Err(error) => return vec![Finding::fail(format!("{error:#}"))],
    };
    let refused = match oauth {
        None => None,
        Some(oauth) => {
            let authenticator = Authenticator::new(oauth.tokens.clone());
            match authenticator.authenticate(&token).await {
                Ok(accepted) => return describe_accepted(oauth, &accepted),
                Err(error) => Some(error),
            }
        }
    };
    let by_cluster = accounts.filter(|_| refused.as_ref().is_none_or(may_be_of_account));
    let reviewed = match by_cluster {
        None => Ok(None),
        Some((contexts, audience)) => contexts.review_token(&token, audience).await,
    };
    match (reviewed, refused) {
        (Ok(Some(user)), _) => describe_account(&user),
        (Err(error), _) => vec![Finding::fail(format!(
            "the token cannot be reviewed: {error}"
        ))],
        (Ok(None), Some(error)) => {
            let finding = Finding::fail(error.to_string());
            vec![match hint(&error) {
                Some(hint) => finding.hint(hint),
                None => finding,
            }]
        }
        (Ok(None), None) if accounts.is_some() => vec![
            Finding::fail("the cluster does not accept the token for this server").hint(
                "it has to be for the audience of --service-account-audience, and not expired",
            ),
        ],
        (Ok(None), None) => vec![
            Finding::fail("there is no issuer whose tokens would be accepted")
                .hint("name it with --oauth-issuer, the server with --public-url, and its --port"),
        ],
    }
}

fn describe_account(user: &KubernetesUser) -> Vec<Finding> {
    let groups: Vec<&str> = user.groups().iter().map(AsRef::as_ref).collect();
    vec![
        Finding::ok("it is accepted: the cluster says whose it is (tokenreviews)"),
        Finding::ok(format!(
            "the user of Kubernetes is `{}`, in the groups {}, in the context of calls that name none",
            user.name(),
            groups.join(", ")
        )),
        Finding::ok("scopes do not limit it"),
    ]
}

fn describe_accepted(oauth: &OAuthSettings, accepted: &AccessToken) -> Vec<Finding> {
    let seconds = accepted.expires.as_second() - Timestamp::now().as_second();
    let groups: Vec<&str> = accepted.user.groups().iter().map(AsRef::as_ref).collect();
    let mut findings = vec![
        Finding::ok(format!(
            "it is accepted: the caller is `{}` of {}",
            accepted.subject, accepted.issuer
        )),
        Finding::ok(format!(
            "the user of Kubernetes is `{}`, in the groups {}",
            accepted.user.name(),
            groups.join(", ")
        )),
        Finding::ok(format!("it expires in {seconds} s")),
    ];
    let scopes: Vec<&str> = accepted.scopes.iter().collect();
    let scopes = match scopes.as_slice() {
        [] => "it has no scopes".to_owned(),
        scopes => format!("its scopes are {}", scopes.join(", ")),
    };
    findings.push(scope_finding(&oauth.scopes, &accepted.scopes, scopes));
    findings
}

fn scope_finding(policy: &ScopePolicy, granted: &kubecrier_oauth::Scopes, text: String) -> Finding {
    let missing = policy.missing_of_base(granted);
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Finding::fail(format!(
            "{text}; without {missing} every request is refused"
        ))
        .hint("let the issuer grant it, or choose what is needed with --oauth-required-scope");
    }
    let missing = policy.missing(granted);
    if missing.is_empty() {
        return Finding::ok(text);
    }
    let missing = missing.join(", ");
    Finding::note(format!("{text}; what needs {missing} is refused"))
}

/// What an operator can do about a token that is refused.
fn hint(error: &TokenError) -> Option<&'static str> {
    match error {
        TokenError::Audience { .. } | TokenError::Claim("aud") => Some(
            "let the issuer write one of them into `aud`, or accept what it writes with --oauth-audience",
        ),
        TokenError::Issuer { .. } => {
            Some("if it is to be trusted, name it exactly so with --oauth-issuer")
        }
        TokenError::Algorithm { .. } => Some("accept others with --oauth-algorithms"),
        TokenError::Opaque => Some("--oauth-introspection-url asks its issuer about it"),
        TokenError::Expired | TokenError::NotYetValid => {
            Some("is the clock of this machine right?")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::IdentityChoice;

    fn text(sections: &[Section]) -> String {
        let findings = sections.iter().flat_map(|section| &section.findings);
        findings
            .map(|one| format!("{:?}: {} {:?}\n", one.verdict, one.text, one.hint))
            .collect()
    }

    fn settings() -> Settings {
        Settings {
            port: Some(0),
            public_url: Some("https://crier.example".to_owned()),
            // Nobody listens on the first port.
            oauth_issuer: Some(vec!["http://127.0.0.1:1".to_owned()]),
            cluster_identity: Some(IdentityChoice::Shared),
            groups_claim: Some("realm_access.roles".to_owned()),
            allowed_groups: Some(vec!["team-*".to_owned()]),
            ..Settings::default()
        }
    }

    async fn checked(settings: &Settings, token_file: Option<&Path>) -> String {
        let config = Config::try_from(Settings::default()).unwrap();
        let contexts = Contexts::new(config.cluster);
        text(&check_oauth(settings, token_file, &contexts).await)
    }

    /// Entra asks for a scope by its whole name, and writes its last part into tokens.
    #[test]
    fn scopes_are_compared_as_the_server_compares_them() {
        let base = vec!["api://crier/access".to_owned()];
        let policy = ScopePolicy::new(base, false, false);
        let verdict = |scopes: &[&str]| {
            let granted = scopes.iter().copied().collect();
            format!(
                "{:?}",
                scope_finding(&policy, &granted, String::new()).verdict
            )
        };
        assert_eq!(verdict(&["access"]), "Ok");
        assert_eq!(verdict(&["api://crier/access"]), "Ok");
        assert_eq!(verdict(&["acces"]), "Fail");
    }

    #[tokio::test]
    async fn an_issuer_that_is_away_and_the_mapping_are_reported() {
        let found = checked(&settings(), None).await;
        for part in [
            "Fail: cannot reach http://127.0.0.1:1",
            "Ok: a token has to be for https://crier.example/mcp or",
            "the user `oidc:` + `sub`, with the groups `oidc:` + `realm_access.roles` (team-*)",
            "Ok: scopes are kubecrier:read, kubecrier:events, kubecrier:logs",
            "https://crier.example/.well-known/oauth-protected-resource/mcp",
        ] {
            assert!(found.contains(part), "{part} in {found}");
        }
        assert_eq!(checked(&Settings::default(), None).await, "");
    }

    #[tokio::test]
    async fn a_token_that_is_tried_is_explained_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let token = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.";
        std::fs::write(file.path(), token).unwrap();
        let found = checked(&settings(), Some(file.path())).await;
        assert!(
            found.contains("Fail: the token is signed with `none`"),
            "{found}"
        );
        assert!(found.contains("--oauth-algorithms"), "{found}");
        assert!(!found.contains(token), "{found}");
        let without = checked(&Settings::default(), Some(file.path())).await;
        assert!(without.contains("--oauth-issuer"), "{without}");
    }
}
