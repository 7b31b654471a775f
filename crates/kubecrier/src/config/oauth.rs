//! Whose access tokens are accepted, and whom they name. `flags` are the settings of it, `prefixes`
//! what stands before names.

mod flags;
mod prefixes;

use kubecrier_core::filters::Glob;
use kubecrier_oauth::{
    Algorithm, ClaimMapping, ClaimPath, IntrospectionConfig, IssuerUrl, OAuthConfig, TrustedIssuer,
};
use kubecrier_server::{OAuthSettings, PublicUrl, ScopePolicy};

use self::flags::OAuthFlags;
use super::ConfigError;

/// In place of a scope: none.
const NO_SCOPE: &str = "none";

// === impl OAuthFlags ===

impl OAuthFlags {
    /// The settings; `None` without an issuer.
    pub(super) fn read(self, has_project: bool) -> Result<Option<OAuthSettings>, ConfigError> {
        let issuers = self.issuers()?;
        if issuers.is_empty() {
            return self.useless().map_or(Ok(None), Err);
        }
        let Some(public_url) = self.public_url.clone() else {
            return Err(incomplete("oauth-issuer", "public-url"));
        };
        let Some(url) = PublicUrl::parse(&public_url) else {
            let expected = "the URL that clients use, such as https://crier.example or \
                            http://127.0.0.1:8080";
            return Err(value("public-url", public_url, expected));
        };
        let introspection = self.introspection()?;
        let tokens = OAuthConfig {
            issuers: self.trusted(issuers)?,
            audiences: self.audiences(&url)?,
            algorithms: self.algorithms()?,
            ca_file: self.oauth_ca_file.clone(),
            introspection,
        };
        Ok(Some(OAuthSettings {
            tokens,
            public_url: url,
            scopes: self.scopes(has_project)?,
        }))
    }

    fn issuers(&self) -> Result<Vec<IssuerUrl>, ConfigError> {
        let given = self.oauth_issuer.iter().flatten();
        let issuers = given.map(|text| {
            let issuer = IssuerUrl::parse(text.trim());
            issuer.map_err(|error| value("oauth-issuer", text.clone(), &error.to_string()))
        });
        issuers.collect()
    }

    /// A setting that means nothing without an issuer. The public URL alone does no harm.
    fn useless(&self) -> Option<ConfigError> {
        let others = ["public-url", "service-account-audience"];
        let useless = self.given().find(|key| !others.contains(key));
        useless.map(|key| incomplete(key, "oauth-issuer"))
    }

    fn audiences(&self, url: &PublicUrl) -> Result<Vec<String>, ConfigError> {
        let Some(given) = &self.oauth_audience else {
            return Ok(vec![url.resource(), url.base(), format!("{}/", url.base())]);
        };
        let names: Vec<_> = given.iter().map(|name| name.trim().to_owned()).collect();
        if names.is_empty() || names.iter().any(String::is_empty) {
            let expected = "names of this server in the `aud` claim; without any, tokens for other \
                            servers would be accepted";
            return Err(value("oauth-audience", names.join(","), expected));
        }
        Ok(names)
    }

    fn algorithms(&self) -> Result<Vec<Algorithm>, ConfigError> {
        let Some(given) = &self.oauth_algorithms else {
            return Ok(Algorithm::DEFAULT.to_vec());
        };
        let expected = Algorithm::ALL.map(Algorithm::as_str).join(", ");
        let expected =
            format!("among {expected}: what verifies a token must not be able to sign one");
        let algorithms = given.iter().map(|name| {
            let algorithm = name.trim().parse();
            algorithm.map_err(|_| value("oauth-algorithms", name.clone(), &expected))
        });
        let algorithms = algorithms.collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            return Err(value("oauth-algorithms", String::new(), &expected));
        }
        Ok(algorithms)
    }

    fn introspection(&self) -> Result<Option<IntrospectionConfig>, ConfigError> {
        const URL: &str = "oauth-introspection-url";
        const CLIENT: &str = "oauth-introspection-client-id";
        const SECRET: &str = "oauth-introspection-secret-file";
        let client = self.oauth_introspection_client_id.clone();
        let secret = self.oauth_introspection_secret_file.clone();
        match (&self.oauth_introspection_url, client, secret) {
            (None, None, None) => Ok(None),
            (None, Some(_), _) => Err(incomplete(CLIENT, URL)),
            (None, None, Some(_)) => Err(incomplete(SECRET, URL)),
            (Some(_), None, _) => Err(incomplete(URL, CLIENT)),
            (Some(_), Some(_), None) => Err(incomplete(URL, SECRET)),
            (Some(url), Some(client), Some(secret)) => {
                let config = IntrospectionConfig::new(url, client, secret);
                let config = config.map_err(|error| value(URL, url.clone(), &error.to_string()));
                config.map(Some)
            }
        }
    }

    /// The issuers, each with whom its tokens name.
    fn trusted(&self, issuers: Vec<IssuerUrl>) -> Result<Vec<TrustedIssuer>, ConfigError> {
        let path = |key, text: &str| {
            let expected = "a claim, or one inside of another such as realm_access.roles";
            ClaimPath::parse(text).ok_or_else(|| value(key, text.to_owned(), expected))
        };
        let groups_claim = self.groups_claim.as_deref();
        if groups_claim.is_none() {
            let unused = [
                ("groups-prefix", self.groups_prefix.is_some()),
                ("allowed-groups", self.allowed_groups.is_some()),
            ];
            if let Some((key, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
                return Err(incomplete(key, "groups-claim"));
            }
        }
        let allowed = self.allowed_groups.iter().flatten();
        let allowed: Vec<_> = allowed.map(|name| Glob::new(name.trim())).collect();
        let username_claim = self.username_claim.as_deref().unwrap_or("sub");
        let username_claim = path("username-claim", username_claim)?;
        let groups_claim = groups_claim
            .map(|claim| path("groups-claim", claim))
            .transpose()?;
        let of_users = self.username_prefix.as_deref();
        let of_users = prefixes::read("username-prefix", of_users, &issuers)?;
        let of_groups = match &groups_claim {
            Some(_) => prefixes::read("groups-prefix", self.groups_prefix.as_deref(), &issuers)?,
            None => vec![String::new(); issuers.len()],
        };
        let prefixes = of_users.into_iter().zip(of_groups);
        let trusted = |(url, (username_prefix, groups_prefix))| TrustedIssuer {
            url,
            mapping: ClaimMapping {
                username_claim: username_claim.clone(),
                username_prefix,
                groups_claim: groups_claim.clone(),
                groups_prefix,
                allowed_groups: allowed.clone(),
            },
        };
        Ok(issuers.into_iter().zip(prefixes).map(trusted).collect())
    }

    fn scopes(&self, has_project: bool) -> Result<ScopePolicy, ConfigError> {
        let base = match self.oauth_required_scope.as_deref() {
            None => vec![ScopePolicy::READ.to_owned()],
            Some([only]) if only == NO_SCOPE => Vec::new(),
            Some(given) => given.iter().map(|scope| scope.trim().to_owned()).collect(),
        };
        // RFC 6749: what else would be, cannot be asked for.
        let is_scope = |scope: &String| {
            let allowed = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
            !scope.is_empty() && scope.bytes().all(allowed) && scope != NO_SCOPE
        };
        if let Some(wrong) = base.iter().find(|scope| !is_scope(scope)) {
            let expected = "scopes such as kubecrier:read, or `none` alone";
            return Err(value("oauth-required-scope", wrong.clone(), expected));
        }
        // Without a scope for anything, nothing is asked for by content either, unless somebody
        // says so.
        let by_content = self.oauth_content_scopes.unwrap_or(!base.is_empty());
        Ok(ScopePolicy::new(base, by_content, has_project))
    }
}

/// Tokens of service accounts have to be for something.
pub(super) fn check_service_account_audience(audience: Option<&str>) -> Result<(), ConfigError> {
    match audience {
        Some(audience) if audience.trim().is_empty() => {
            let expected = "a name of this server, which tokens have to be for";
            Err(value(
                "service-account-audience",
                audience.to_owned(),
                expected,
            ))
        }
        _ => Ok(()),
    }
}

fn incomplete(given: &'static str, missing: &'static str) -> ConfigError {
    ConfigError::Incomplete { given, missing }
}

fn value(key: &'static str, value: String, expected: &str) -> ConfigError {
    ConfigError::Value {
        origin: String::new(),
        key,
        value,
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::{IdentityChoice, Settings},
        config::Config,
    };

    fn flags() -> OAuthFlags {
        OAuthFlags {
            public_url: Some("https://crier.example".to_owned()),
            oauth_issuer: Some(vec!["https://id.example".to_owned()]),
            ..OAuthFlags::default()
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a setting that is there")]
    fn list(all: &[&str]) -> Option<Vec<String>> {
        Some(all.iter().map(ToString::to_string).collect())
    }

    fn refused(flags: OAuthFlags, parts: &[&str]) {
        let error = flags.read(false).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn an_issuer_and_a_public_url_are_enough() {
        assert!(OAuthFlags::default().read(false).unwrap().is_none());
        let settings = flags().read(false).unwrap().unwrap();
        assert_eq!(
            settings.tokens.issuers[0].url.as_str(),
            "https://id.example"
        );
        let audiences = [
            "https://crier.example/mcp",
            "https://crier.example",
            "https://crier.example/",
        ];
        assert_eq!(settings.tokens.audiences, audiences);
        assert_eq!(settings.tokens.issuers[0].mapping.username_prefix, "oidc:");
        assert_eq!(settings.scopes.base(), ["kubecrier:read"]);
        let supported = ["kubecrier:read", "kubecrier:events", "kubecrier:logs"];
        assert_eq!(settings.scopes.supported(), supported);
        let with_project = flags().read(true).unwrap().unwrap();
        assert_eq!(with_project.scopes.supported().len(), 4);
    }

    #[test]
    fn a_setting_that_would_do_nothing_or_harm_is_refused_by_its_name() {
        let only = |change: fn(&mut OAuthFlags)| {
            let mut flags = OAuthFlags::default();
            change(&mut flags);
            flags
        };
        refused(
            only(|flags| flags.oauth_audience = list(&["a"])),
            &["`oauth-audience` needs `oauth-issuer`"],
        );
        refused(
            only(|flags| flags.groups_claim = Some("groups".to_owned())),
            &["`groups-claim` needs"],
        );
        refused(
            only(|flags| flags.oauth_ca_file = Some("x".into())),
            &["`oauth-ca-file` needs"],
        );
        refused(
            only(|flags| flags.oauth_introspection_client_id = Some("a".to_owned())),
            &["`oauth-introspection-client-id` needs `oauth-issuer`"],
        );
        let with = |change: fn(&mut OAuthFlags)| {
            let mut flags = flags();
            change(&mut flags);
            flags
        };
        refused(
            with(|flags| flags.public_url = None),
            &["`oauth-issuer` needs `public-url`"],
        );
        refused(
            with(|flags| flags.public_url = Some("http://crier.example".to_owned())),
            &["public-url"],
        );
        refused(
            with(|flags| flags.oauth_issuer = list(&["http://id.example"])),
            &["oauth-issuer", "https"],
        );
        refused(
            with(|flags| flags.oauth_audience = list(&[])),
            &["oauth-audience"],
        );
        refused(
            with(|flags| flags.oauth_audience = list(&["a", " "])),
            &["oauth-audience"],
        );
        for weak in ["HS256", "none", "rs256", ""] {
            let flags = OAuthFlags {
                oauth_algorithms: list(&[weak]),
                ..flags()
            };
            refused(flags, &["oauth-algorithms", "RS256"]);
        }
        refused(
            with(|flags| flags.username_claim = Some("a..b".to_owned())),
            &["username-claim"],
        );
        refused(
            with(|flags| flags.allowed_groups = list(&["a"])),
            &["`allowed-groups` needs `groups-claim`"],
        );
        refused(
            with(|flags| flags.oauth_required_scope = list(&["a b"])),
            &["oauth-required-scope"],
        );
        refused(
            with(|flags| flags.oauth_required_scope = list(&["a", "none"])),
            &["oauth-required-scope"],
        );
        refused(
            with(|flags| flags.oauth_issuer = list(&["https://id.example", "https://b.example"])),
            &["`username-prefix` is `oidc:`", "https://b.example=b:"],
        );
        refused(
            with(|flags| {
                flags.oauth_issuer = list(&["https://id.example", "https://b.example"]);
                let prefixes = "https://id.example=a:,https://b.example=b:";
                flags.username_prefix = Some(prefixes.to_owned());
                flags.groups_claim = Some("groups".to_owned());
            }),
            &["`groups-prefix` is `oidc:`"],
        );
        let url = "oauth-introspection-url";
        refused(
            with(|flags| flags.oauth_introspection_client_id = Some("a".to_owned())),
            &[url],
        );
        refused(
            with(|flags| flags.oauth_introspection_secret_file = Some("a".into())),
            &[url],
        );
        let at = |url: &str| OAuthFlags {
            oauth_introspection_url: Some(url.to_owned()),
            oauth_introspection_client_id: Some("crier".to_owned()),
            oauth_introspection_secret_file: Some("secret".into()),
            ..flags()
        };
        refused(at("http://id.example/introspect"), &[url, "https"]);
        assert!(at("https://id.example/introspect").read(false).is_ok());
    }

    #[test]
    fn a_server_that_others_can_reach_starts_if_callers_have_tokens() {
        let settings = |change: fn(&mut Settings)| {
            let mut settings = Settings {
                port: Some(0),
                bind_address: Some("0.0.0.0".to_owned()),
                allowed_hosts: list(&["*"]),
                ..Settings::default()
            };
            change(&mut settings);
            Config::try_from(settings).map_err(|error| error.to_string())
        };
        let error = settings(|_| {}).unwrap_err();
        assert!(error.contains("--oauth-issuer"), "{error}");
        let oauth = |identity| {
            let mut settings = Settings {
                port: Some(0),
                bind_address: Some("0.0.0.0".to_owned()),
                allowed_hosts: list(&["*"]),
                public_url: Some("https://crier.example".to_owned()),
                oauth_issuer: list(&["https://id.example"]),
                ..Settings::default()
            };
            settings.cluster_identity = identity;
            Config::try_from(settings).map_err(|error| error.to_string())
        };
        for identity in [IdentityChoice::Shared, IdentityChoice::Impersonate] {
            let chosen = oauth(Some(identity));
            assert!(chosen.is_ok(), "{chosen:?}");
        }
        let error = oauth(None).unwrap_err();
        assert!(error.contains("--cluster-identity"), "{error}");
        let accounts =
            settings(|settings| settings.service_account_audience = Some("a".to_owned()));
        assert!(accounts.is_ok(), "{accounts:?}");
        let nothing = settings(|settings| settings.service_account_audience = Some(" ".to_owned()));
        assert!(nothing.unwrap_err().contains("service-account-audience"));
        // A page in a browser cannot add a token, but a proxy beside it adds its header.
        let both = settings(|settings| {
            settings.service_account_audience = Some("a".to_owned());
            settings.trusted_user_header = Some("X-User".to_owned());
            settings.trusted_proxies = list(&["10.0.0.0/8"]);
        });
        assert!(both.unwrap_err().contains("allowed-hosts"));
    }

    #[test]
    fn scopes_can_be_left_to_the_cluster() {
        let with = |scopes: &[&str], by_content| OAuthFlags {
            oauth_required_scope: list(scopes),
            oauth_content_scopes: by_content,
            ..flags()
        };
        let supported = |flags: OAuthFlags| flags.read(true).unwrap().unwrap().scopes.supported();
        assert!(supported(with(&["none"], None)).is_empty());
        assert_eq!(supported(with(&["access"], Some(false))), ["access"]);
        assert_eq!(supported(with(&["access"], None)).len(), 4);
        assert_eq!(supported(with(&["none"], Some(true))).len(), 3);
    }
}
