//! The settings of access tokens, as a part of all settings. They are fields of [`Settings`]: with
//! a struct flattened into it, errors in the configuration file would lose their line.

use std::path::PathBuf;

use crate::cli::Settings;

/// The settings of access tokens, as they are given.
#[derive(Clone, Debug, Default)]
pub(crate) struct OAuthFlags {
    pub(crate) public_url: Option<String>,
    pub(crate) oauth_issuer: Option<Vec<String>>,
    pub(crate) oauth_audience: Option<Vec<String>>,
    pub(crate) oauth_required_scope: Option<Vec<String>>,
    pub(crate) oauth_content_scopes: Option<bool>,
    pub(crate) oauth_algorithms: Option<Vec<String>>,
    pub(crate) oauth_ca_file: Option<PathBuf>,
    pub(crate) oauth_introspection_url: Option<String>,
    pub(crate) oauth_introspection_client_id: Option<String>,
    pub(crate) oauth_introspection_secret_file: Option<PathBuf>,
    pub(crate) username_claim: Option<String>,
    pub(crate) username_prefix: Option<String>,
    pub(crate) groups_claim: Option<String>,
    pub(crate) groups_prefix: Option<String>,
    pub(crate) allowed_groups: Option<Vec<String>>,
    pub(crate) service_account_audience: Option<String>,
}

// === impl Settings ===

impl Settings {
    /// Takes the settings of access tokens out; what is left accepts none.
    pub(crate) fn take_oauth(&mut self) -> OAuthFlags {
        OAuthFlags {
            public_url: self.public_url.take(),
            oauth_issuer: self.oauth_issuer.take(),
            oauth_audience: self.oauth_audience.take(),
            oauth_required_scope: self.oauth_required_scope.take(),
            oauth_content_scopes: self.oauth_content_scopes.take(),
            oauth_algorithms: self.oauth_algorithms.take(),
            oauth_ca_file: self.oauth_ca_file.take(),
            oauth_introspection_url: self.oauth_introspection_url.take(),
            oauth_introspection_client_id: self.oauth_introspection_client_id.take(),
            oauth_introspection_secret_file: self.oauth_introspection_secret_file.take(),
            username_claim: self.username_claim.take(),
            username_prefix: self.username_prefix.take(),
            groups_claim: self.groups_claim.take(),
            groups_prefix: self.groups_prefix.take(),
            allowed_groups: self.allowed_groups.take(),
            service_account_audience: self.service_account_audience.take(),
        }
    }
}

// === impl OAuthFlags ===

impl OAuthFlags {
    /// The names of those that are given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self {
            public_url,
            oauth_issuer,
            oauth_audience,
            oauth_required_scope,
            oauth_content_scopes,
            oauth_algorithms,
            oauth_ca_file,
            oauth_introspection_url,
            oauth_introspection_client_id,
            oauth_introspection_secret_file,
            username_claim,
            username_prefix,
            groups_claim,
            groups_prefix,
            allowed_groups,
            service_account_audience,
        } = self;
        let all = [
            ("public-url", public_url.is_some()),
            ("oauth-issuer", oauth_issuer.is_some()),
            ("oauth-audience", oauth_audience.is_some()),
            ("oauth-required-scope", oauth_required_scope.is_some()),
            ("oauth-content-scopes", oauth_content_scopes.is_some()),
            ("oauth-algorithms", oauth_algorithms.is_some()),
            ("oauth-ca-file", oauth_ca_file.is_some()),
            ("oauth-introspection-url", oauth_introspection_url.is_some()),
            (
                "oauth-introspection-client-id",
                oauth_introspection_client_id.is_some(),
            ),
            (
                "oauth-introspection-secret-file",
                oauth_introspection_secret_file.is_some(),
            ),
            ("username-claim", username_claim.is_some()),
            ("username-prefix", username_prefix.is_some()),
            ("groups-claim", groups_claim.is_some()),
            ("groups-prefix", groups_prefix.is_some()),
            ("allowed-groups", allowed_groups.is_some()),
            (
                "service-account-audience",
                service_account_audience.is_some(),
            ),
        ];
        let given = all.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    /// One that is declared and not taken would count for a server that should not have it.
    #[test]
    fn every_setting_of_access_tokens_is_taken() {
        let command = Settings::augment_args(clap::Command::new("kubecrier"));
        let is_identity = |arg: &&clap::Arg| arg.get_help_heading() == Some("Identity");
        let identity = command.get_arguments().filter(is_identity);
        let names = identity.filter_map(clap::Arg::get_long);
        // The audit log is about all callers.
        let declared: Vec<_> = names.filter(|name| *name != "audit-log").collect();
        let text = "oauth_content_scopes = true\noauth_ca_file = \"x\"\noauth_introspection_secret_file = \"x\"\n";
        let lists = [
            "oauth_issuer",
            "oauth_audience",
            "oauth_required_scope",
            "oauth_algorithms",
            "allowed_groups",
        ];
        let texts = [
            "public_url",
            "oauth_introspection_url",
            "oauth_introspection_client_id",
            "username_claim",
            "username_prefix",
            "groups_claim",
            "groups_prefix",
            "service_account_audience",
        ];
        let lists = lists.iter().map(|key| format!("{key} = [\"x\"]\n"));
        let texts = texts.iter().map(|key| format!("{key} = \"x\"\n"));
        let file: String = [text.to_owned()]
            .into_iter()
            .chain(lists)
            .chain(texts)
            .collect();
        let mut settings: Settings = toml::from_str(&file).unwrap();
        let taken = settings.take_oauth();
        assert_eq!(taken.given().collect::<Vec<_>>(), declared);
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.take_oauth().given().count(), 0);
    }
}
