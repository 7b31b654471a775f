//! Who may call the server over HTTP, and over what.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use ipnet::IpNet;
use kubecrier_k8s::ClusterIdentity;
use kubecrier_server::{AuditTarget, ProxyMapping, TlsFiles, TrustedUserHeader};

use super::ConfigError;
use crate::cli::IdentityChoice;

/// The settings that decide who may call.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting, or a fact"
)]
pub(super) struct Access {
    /// Whether callers have to present something.
    pub(super) is_authenticated: bool,
    pub(super) allow_unauthenticated: bool,
    pub(super) allow_other_users: bool,
    /// Whether callers can run executables.
    pub(super) has_project: bool,
    /// Whether the system tells the user of a connection.
    pub(super) knows_users: bool,
}

// === impl Access ===

impl Access {
    /// Refuses to listen where everyone could call by accident.
    pub(super) fn check(self, address: IpAddr) -> Result<(), ConfigError> {
        if self.is_authenticated {
            return Ok(());
        }
        if !address.to_canonical().is_loopback() {
            return if self.allow_unauthenticated {
                Ok(())
            } else {
                Err(ConfigError::Unauthenticated { address })
            };
        }
        let is_open = !self.knows_users && !self.allow_other_users;
        if is_open && self.has_project {
            return Err(ConfigError::ProjectForAll);
        }
        Ok(())
    }
}

/// As whom callers are to act in clusters, and what else is set.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdentityRequest {
    pub(super) choice: Option<IdentityChoice>,
    pub(super) has_port: bool,
    /// Whether callers have to present something.
    pub(super) is_authenticated: bool,
    pub(super) has_project: bool,
    /// A setting with which the identity has to be chosen, because it promises that callers are
    /// told apart.
    pub(super) needed_by: Option<&'static str>,
}

// === impl IdentityRequest ===

impl IdentityRequest {
    /// As whom callers act, if that goes with what else is set.
    pub(super) fn check(self) -> Result<ClusterIdentity, ConfigError> {
        let refused = |why, hint| Err(ConfigError::Impersonation { why, hint });
        match (self.choice, self.needed_by) {
            (None, Some(setting)) => Err(ConfigError::IdentityNotChosen { setting }),
            (None | Some(IdentityChoice::Shared), _) => Ok(ClusterIdentity::Shared),
            (Some(IdentityChoice::Impersonate), _) if !self.has_port => refused(
                "on stdio the one client has no identity besides that of the kubeconfig",
                "leave it out: on stdio the kubeconfig says who acts; or serve HTTP with --port",
            ),
            (Some(IdentityChoice::Impersonate), _) if !self.is_authenticated => refused(
                "nothing tells who calls",
                "name tokens with a Kubernetes user each (--auth-token-file), or the header of a \
                 proxy that authenticates (--trusted-user-header)",
            ),
            (Some(IdentityChoice::Impersonate), _) if self.has_project => refused(
                "the programs of `project-root` run with the rights of the server",
                "serve the project with a second server whose cluster identity is shared",
            ),
            (Some(IdentityChoice::Impersonate), _) => Ok(ClusterIdentity::Impersonate),
        }
    }
}

/// The headers in which a proxy describes the caller.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxySettings {
    pub(super) user_header: Option<String>,
    pub(super) groups_header: Option<String>,
    pub(super) proxies: Vec<String>,
}

// === impl ProxySettings ===

impl ProxySettings {
    /// The header in which a proxy names the caller, and how it becomes a Kubernetes user.
    pub(super) fn read(
        self,
        identity: ClusterIdentity,
    ) -> Result<Option<TrustedUserHeader>, ConfigError> {
        let needs = |given, missing| Err(ConfigError::Incomplete { given, missing });
        let (user_header, proxies) = match (self.user_header, self.proxies) {
            (None, _) if self.groups_header.is_some() => {
                return needs("trusted-groups-header", "trusted-user-header");
            }
            (None, proxies) if proxies.is_empty() => return Ok(None),
            (Some(_), proxies) if proxies.is_empty() => {
                return needs("trusted-user-header", "trusted-proxies");
            }
            (None, _) => return needs("trusted-proxies", "trusted-user-header"),
            (Some(header), proxies) => (header, proxies),
        };
        let network = |text: String| {
            let text = text.trim();
            // A bare address is a network of one.
            let network = text.parse::<IpAddr>().map(IpNet::from);
            network.or_else(|_| text.parse()).map_err(|_| {
                let expected = "networks such as 10.0.0.0/8, 192.0.2.7 or fd00::/8";
                value("trusted-proxies", text.to_owned(), expected)
            })
        };
        let header = user_header.parse().map_err(|_| {
            let expected = "the name of a header, such as X-Forwarded-User";
            value("trusted-user-header", user_header, expected)
        })?;
        let mapping = match (identity, self.groups_header) {
            (ClusterIdentity::Shared, None) => None,
            (ClusterIdentity::Shared, Some(name)) => {
                let expected = "left out, or go with --cluster-identity impersonate: groups say what a \
                                caller may read, and all read what the server may read";
                return Err(value("trusted-groups-header", name, expected));
            }
            (ClusterIdentity::Impersonate, groups) => {
                let parsed = groups.map(|name| match name.parse() {
                    Ok(parsed) if parsed != header => Ok(parsed),
                    _ => {
                        let expected = "the name of another header, such as X-Forwarded-Groups";
                        Err(value("trusted-groups-header", name, expected))
                    }
                });
                Some(ProxyMapping {
                    groups_header: parsed.transpose()?,
                })
            }
        };
        Ok(Some(TrustedUserHeader {
            header,
            proxies: proxies.into_iter().map(network).collect::<Result<_, _>>()?,
            mapping,
        }))
    }
}

/// Where calls are recorded.
pub(super) fn audit_target(target: PathBuf) -> AuditTarget {
    match target.to_str() {
        Some("stderr") => AuditTarget::Stderr,
        _ => AuditTarget::File(target),
    }
}

/// The files of the certificate.
pub(super) fn tls(
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<TlsFiles>, ConfigError> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => Err(ConfigError::Incomplete {
            given: "tls-cert",
            missing: "tls-key",
        }),
        (None, Some(_)) => Err(ConfigError::Incomplete {
            given: "tls-key",
            missing: "tls-cert",
        }),
    }
}

/// The address of the pages for operators.
pub(super) fn admin_address(text: Option<String>) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(text) = text else { return Ok(None) };
    match text.parse() {
        Ok(address) => Ok(Some(address)),
        Err(_) => {
            let expected = "an IP address and a port, such as 127.0.0.1:9090 or [::1]:9090";
            Err(value("admin-address", text, expected))
        }
    }
}

/// The hosts that requests may name. Every host may be named only where every caller has to
/// present a token: a page in a browser can give its own name to the address of this server,
/// and then everything that the browser or a proxy beside it adds by itself.
pub(super) fn hosts(
    hosts: Option<Vec<String>>,
    has_only_tokens: bool,
) -> Result<Vec<String>, ConfigError> {
    let hosts = hosts.unwrap_or_default();
    for host in &hosts {
        let expected = match host.as_str() {
            "*" if has_only_tokens => continue,
            "*" => {
                "host names; `*` needs --auth-token-file or --oauth-issuer, without --trusted-user-header: \
                 else any web page could call the server under its own name"
            }
            host if kubecrier_server::is_host(host) => continue,
            _ => "host names such as crier.example or crier.example:8080, or `*`",
        };
        return Err(value("allowed-hosts", host.clone(), expected));
    }
    Ok(hosts)
}

/// The origins of the web pages that may call the server.
pub(super) fn origins(origins: Option<Vec<String>>) -> Result<Vec<String>, ConfigError> {
    let origins = origins.unwrap_or_default();
    match origins.iter().find(|one| !kubecrier_server::is_origin(one)) {
        None => Ok(origins),
        Some(other) => {
            let expected =
                "origins such as https://ui.example or http://ui.example:3000, each by its name";
            Err(value("allowed-origins", other.clone(), expected))
        }
    }
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
    use proptest::prelude::*;

    use super::*;

    fn address() -> impl Strategy<Value = IpAddr> {
        const KNOWN: [&str; 6] = [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
        ];
        prop_oneof![
            prop::sample::select(&KNOWN[..]).prop_map(|text| text.parse().unwrap()),
            any::<IpAddr>(),
        ]
    }

    proptest! {
        /// Nobody can call without a token or a user that is known, unless a flag says so.
        #[test]
        fn nothing_is_open_by_accident(
            address in address(),
            [is_authenticated, allow_unauthenticated, allow_other_users] in any::<[bool; 3]>(),
            [has_project, knows_users] in any::<[bool; 2]>(),
        ) {
            let access = Access {
                is_authenticated,
                allow_unauthenticated,
                allow_other_users,
                has_project,
                knows_users,
            };
            let starts = access.check(address).is_ok();
            if address.to_canonical().is_loopback() {
                let runs_for_all = has_project && !is_authenticated && !knows_users;
                prop_assert_eq!(starts, !runs_for_all || allow_other_users);
            } else {
                prop_assert_eq!(starts, is_authenticated || allow_unauthenticated);
            }
        }
    }

    #[test]
    fn a_header_needs_proxies_and_proxies_are_networks() {
        let header = |name: Option<&str>, proxies: &[&str]| {
            let settings = ProxySettings {
                user_header: name.map(str::to_owned),
                groups_header: None,
                proxies: proxies.iter().map(ToString::to_string).collect(),
            };
            settings.read(ClusterIdentity::Shared)
        };
        assert_eq!(header(None, &[]).unwrap(), None);
        let both = header(Some("X-User"), &["10.0.0.0/8", " fd00::/8", "192.0.2.7"]);
        let both = both.unwrap().unwrap();
        assert_eq!(both.header, "x-user");
        assert_eq!(both.proxies[2], "192.0.2.7/32".parse().unwrap());
        let refused = |name, proxies: &[&str]| header(name, proxies).unwrap_err().to_string();
        assert!(refused(Some("X-User"), &[]).contains("`trusted-proxies`"));
        assert!(refused(None, &["10.0.0.0/8"]).contains("`trusted-user-header`"));
        assert!(refused(Some("X-User"), &["10.0.0.0/33"]).contains("10.0.0.0/33"));
        assert!(refused(Some("X-User"), &["proxy.example"]).contains("proxy.example"));
        assert!(refused(Some("X User"), &["::1"]).contains("X User"));
    }

    #[test]
    fn groups_come_with_users_that_act_as_themselves() {
        let read = |user: Option<&str>, groups: &str, identity| {
            let settings = ProxySettings {
                user_header: user.map(str::to_owned),
                groups_header: Some(groups.to_owned()),
                proxies: vec!["10.0.0.0/8".to_owned()],
            };
            settings.read(identity).map_err(|error| error.to_string())
        };
        let both = read(Some("X-User"), "X-Groups", ClusterIdentity::Impersonate);
        let mapping = both.unwrap().unwrap().mapping.unwrap();
        assert_eq!(mapping.groups_header.unwrap(), "x-groups");
        for (user, groups, identity, part) in [
            (
                None,
                "X-Groups",
                ClusterIdentity::Impersonate,
                "`trusted-user-header`",
            ),
            (
                Some("X-User"),
                "X-Groups",
                ClusterIdentity::Shared,
                "--cluster-identity",
            ),
            (
                Some("X-User"),
                "X Groups",
                ClusterIdentity::Impersonate,
                "X Groups",
            ),
            (
                Some("X-User"),
                "x-user",
                ClusterIdentity::Impersonate,
                "another header",
            ),
        ] {
            let error = read(user, groups, identity).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn callers_act_as_themselves_only_where_they_are_known() {
        let whole = IdentityRequest {
            choice: Some(IdentityChoice::Impersonate),
            has_port: true,
            is_authenticated: true,
            has_project: false,
            needed_by: None,
        };
        assert_eq!(whole.check().unwrap(), ClusterIdentity::Impersonate);
        let refused = |request: IdentityRequest, part: &str| {
            let error = request.check().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("hint: "), "{error}");
        };
        refused(
            IdentityRequest {
                has_port: false,
                ..whole
            },
            "on stdio",
        );
        refused(
            IdentityRequest {
                is_authenticated: false,
                ..whole
            },
            "--auth-token-file",
        );
        refused(
            IdentityRequest {
                has_project: true,
                ..whole
            },
            "`project-root`",
        );
        let unset = IdentityRequest {
            choice: None,
            ..whole
        };
        assert_eq!(unset.check().unwrap(), ClusterIdentity::Shared);
        let needed = IdentityRequest {
            needed_by: Some("oauth-issuer"),
            ..unset
        };
        refused(needed, "`oauth-issuer`");
        let shared = Some(IdentityChoice::Shared);
        let shared = IdentityRequest {
            choice: shared,
            ..needed
        };
        assert_eq!(shared.check().unwrap(), ClusterIdentity::Shared);
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let path = || Some(PathBuf::from("x"));
        assert!(tls(None, None).unwrap().is_none());
        assert!(tls(path(), path()).unwrap().is_some());
        let error = tls(path(), None).unwrap_err().to_string();
        assert!(error.contains("`tls-cert` needs `tls-key`"), "{error}");
        assert!(tls(None, path()).is_err());
    }

    #[test]
    fn an_admin_address_has_a_port() {
        let parse = |text: &str| admin_address(Some(text.to_owned()));
        assert_eq!(parse("[::1]:9090").unwrap(), "[::1]:9090".parse().ok());
        for text in ["9090", ":9090", "localhost:9090", "127.0.0.1"] {
            assert!(
                parse(text).unwrap_err().to_string().contains(text),
                "{text}"
            );
        }
    }

    #[test]
    fn hosts_and_origins_are_checked_before_the_server_listens() {
        let given = |all: &[&str]| Some(all.iter().map(ToString::to_string).collect());
        assert_eq!(hosts(None, false).unwrap(), [""; 0]);
        let named = ["crier.example", "crier.example:8080", "[::1]"];
        assert_eq!(hosts(given(&named), false).unwrap(), named);
        assert_eq!(hosts(given(&["*"]), true).unwrap(), ["*"]);
        for (all, part) in [
            (["a", "*"], "--auth-token-file"),
            (["a", "*.example"], "crier.example"),
            (["a", "https://b"], "crier.example"),
            (["a", ""], "crier.example"),
        ] {
            let refused = hosts(given(&all), false).unwrap_err().to_string();
            assert!(
                refused.contains(part) && refused.contains("allowed-hosts"),
                "{refused}"
            );
        }
        let pages = ["https://ui.example", "http://ui.example:3000"];
        assert_eq!(origins(given(&pages)).unwrap(), pages);
        for other in [
            "*",
            "ui.example",
            "https://*.example",
            "null",
            "https://a@b",
        ] {
            let refused = origins(given(&[other])).unwrap_err().to_string();
            assert!(refused.contains("each by its name"), "{refused}");
        }
    }
}
