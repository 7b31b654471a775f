//! Checks whether the issuers of access tokens can be used, and what a token would be.

use std::path::Path;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use kubecrier_core::filters::Glob;
use kubecrier_oauth::{Authenticator, IssuerUrl, OAuthConfig, TokenError, check_issuer};
use kubecrier_server::{OAuthSettings, ScopePolicy, Transport};

use super::report::{Finding, Section};
use crate::{cli::Settings, config::Config, watch::read_token};

/// Issuers that are checked at once, so that those that are away time out side by side.
const CONCURRENCY: usize = 8;

/// Checks the issuers of a server with these settings, and tries a token if there is one. What
/// is wrong with the settings themselves is found with the others.
pub(super) async fn check_oauth(settings: &Settings, token_file: Option<&Path>) -> Vec<Section> {
    let transport = Config::try_from(settings.clone()).map(|config| config.transport);
    let oauth = match transport {
        Ok(Transport::Http(http)) => Ok(http.oauth),
        Ok(Transport::Stdio) => Ok(None),
        Err(error) => Err(error),
    };
    let Ok(Some(oauth)) = oauth else {
        let finding = match oauth {
            // Other checks show it as well, but this is why no token can be tried.
            Err(error) => Finding::fail(error.to_string()),
            Ok(_) => Finding::fail("there is no issuer whose tokens would be accepted")
                .hint("name it with --oauth-issuer, the server with --public-url, and its --port"),
        };
        let tried = token_file.map(|_| Section::new("token", vec![finding]));
        return tried.into_iter().collect();
    };
    let issuers = oauth.tokens.issuers.iter();
    let checks = issuers.map(|issuer| check(&oauth.tokens, issuer));
    let mut sections: Vec<_> = stream::iter(checks).buffered(CONCURRENCY).collect().await;
    sections.push(Section::new("access tokens", describe(&oauth)));
    if let Some(path) = token_file {
        sections.push(Section::new("token", try_token(&oauth, path).await));
    }
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
        audiences, mapping, ..
    } = &oauth.tokens;
    let groups = match &mapping.groups_claim {
        None => "without groups (--groups-claim)".to_owned(),
        Some(claim) => {
            let kept: Vec<_> = mapping.allowed_groups.iter().map(Glob::as_str).collect();
            let kept = match kept.as_slice() {
                [] => "all".to_owned(),
                kept => kept.join(", "),
            };
            format!(
                "with the groups `{}` + `{}` ({kept})",
                mapping.groups_prefix,
                claim.as_str()
            )
        }
    };
    let scopes = match oauth.scopes.supported().as_slice() {
        [] => "no scope is asked for".to_owned(),
        scopes => format!("scopes are {}", scopes.join(", ")),
    };
    vec![
        Finding::ok(format!("a token has to be for {}", audiences.join(" or "))),
        Finding::ok(format!(
            "its caller is the user `{}` + `{}`, {groups}",
            mapping.username_prefix,
            mapping.username_claim.as_str()
        )),
        Finding::ok(scopes),
        Finding::ok(format!(
            "clients find the issuers at {}",
            oauth.public_url.metadata()
        )),
    ]
}

async fn try_token(oauth: &OAuthSettings, path: &Path) -> Vec<Finding> {
    let token = match read_token(Some(path)) {
        Ok(Some(token)) => token,
        Ok(None) => return vec![Finding::fail(format!("`{}` is empty", path.display()))],
        Err(error) => return vec![Finding::fail(format!("{error:#}"))],
    };
    let accepted = Authenticator::new(oauth.tokens.clone())
        .authenticate(&token)
        .await;
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(error) => {
            let finding = Finding::fail(error.to_string());
            return vec![match hint(&error) {
                Some(hint) => finding.hint(hint),
                None => finding,
            }];
        }
    };
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
    let lacks = |scope: &&String| !granted.contains(scope);
    let missing: Vec<_> = policy.base().iter().filter(lacks).cloned().collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Finding::fail(format!(
            "{text}; without {missing} every request is refused"
        ))
        .hint("let the issuer grant it, or choose what is needed with --oauth-required-scope");
    }
    let all = policy.supported();
    let missing: Vec<_> = all.iter().filter(lacks).cloned().collect();
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

    #[tokio::test]
    async fn an_issuer_that_is_away_and_the_mapping_are_reported() {
        let found = text(&check_oauth(&settings(), None).await);
        for part in [
            "Fail: cannot reach http://127.0.0.1:1",
            "Ok: a token has to be for https://crier.example/mcp or",
            "the user `oidc:` + `sub`, with the groups `oidc:` + `realm_access.roles` (team-*)",
            "Ok: scopes are kubecrier:read, kubecrier:events, kubecrier:logs",
            "https://crier.example/.well-known/oauth-protected-resource/mcp",
        ] {
            assert!(found.contains(part), "{part} in {found}");
        }
        assert!(check_oauth(&Settings::default(), None).await.is_empty());
    }

    #[tokio::test]
    async fn a_token_that_is_tried_is_explained_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let token = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.";
        std::fs::write(file.path(), token).unwrap();
        let found = text(&check_oauth(&settings(), Some(file.path())).await);
        assert!(
            found.contains("Fail: the token is signed with `none`"),
            "{found}"
        );
        assert!(found.contains("--oauth-algorithms"), "{found}");
        assert!(!found.contains(token), "{found}");
        let without = text(&check_oauth(&Settings::default(), Some(file.path())).await);
        assert!(without.contains("--oauth-issuer"), "{without}");
    }
}
