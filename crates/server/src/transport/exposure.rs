//! Who else can reach a listener, and what the operator should know about it.

use std::net::SocketAddr;

use super::HttpConfig;
use crate::{
    caller::Identity,
    peer::{PEER_USERS_ARE_KNOWN, PeerPolicy},
};

/// Whose connections a listener serves. With tokens alone it does not matter whose they
/// are; the header of a proxy can be written by everyone on this machine.
pub(super) fn peers(config: &HttpConfig, listen: SocketAddr, identity: &Identity) -> PeerPolicy {
    let only_tokens = identity.takes_tokens() && identity.user_header.is_none();
    if config.allow_other_users || only_tokens || !is_loopback(listen) {
        PeerPolicy::Anyone
    } else {
        PeerPolicy::same_user()
    }
}

/// Warnings for the log, once, at the start.
pub(super) fn warnings(
    config: &HttpConfig,
    address: SocketAddr,
    identity: &Identity,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if address.ip().is_unspecified() && config.allowed_hosts.is_empty() && config.oauth.is_none() {
        warnings.push(
            "requests must name this host by its address; name others with --allowed-hosts"
                .to_owned(),
        );
    }
    if !is_loopback(address) && config.tls.is_none() {
        warnings.push(format!(
            "others can reach {address}, and everything is sent in clear text, tokens too: name a \
             certificate with --tls-cert and --tls-key, or keep the network private"
        ));
    }
    if let Some(address) = config.admin.filter(|address| !is_loopback(*address)) {
        warnings.push(format!(
            "everyone who can reach {address} (--admin-address) sees what all callers watch: keep \
             the network private"
        ));
    }
    let is_open = is_loopback(address) && !identity.is_required() && !config.allow_other_users;
    if is_open && !PEER_USERS_ARE_KNOWN {
        warnings.push(
            "this system does not tell which user connects: every user of this machine can call \
             the server; give callers tokens with --auth-token-file"
                .to_owned(),
        );
    }
    warnings
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        SessionLimits, TlsFiles,
        caller::{Tokens, TrustedUserHeader},
    };

    fn config() -> HttpConfig {
        HttpConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            sessions: SessionLimits::default(),
            auth_token_file: None,
            own_token: None,
            allow_other_users: false,
            user_header: None,
            oauth: None,
            service_account_audience: None,
            audit: None,
            tls: None,
            admin: None,
            connections_max: 1,
            descriptors_reserved: 0,
        }
    }

    fn check(config: &HttpConfig, address: &str, parts: &[&str]) {
        let address = address.parse().unwrap();
        let found = warnings(config, address, &Identity::default());
        for part in parts {
            assert!(
                found.iter().any(|one| one.contains(part)),
                "{part} in {found:?}"
            );
        }
        assert_eq!(found.len(), parts.len(), "{address}: {found:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_server_that_others_can_reach_without_tls_says_so() {
        for loopback in ["127.0.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            check(&config(), loopback, &[]);
        }
        check(&config(), "192.0.2.7:80", &["--tls-cert"]);
        check(
            &config(),
            "0.0.0.0:80",
            &["--tls-cert", "name others with --allowed-hosts"],
        );
        let files = TlsFiles {
            certificate: "c".into(),
            key: "k".into(),
        };
        let tls = HttpConfig {
            tls: Some(files),
            ..config()
        };
        check(&tls, "192.0.2.7:80", &[]);
        let admin = HttpConfig {
            admin: Some(SocketAddr::from(([0, 0, 0, 0], 9090))),
            ..config()
        };
        check(&admin, "127.0.0.1:80", &["--admin-address"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn users_are_looked_up_on_loopback_unless_a_token_or_a_flag_decides() {
        let tokens = || Some(Arc::new(Tokens::single("0123456789abcdef")));
        let header = || {
            Some(TrustedUserHeader {
                header: http::HeaderName::from_static("x-user"),
                proxies: Vec::new(),
                mapping: None,
            })
        };
        let looks = |config: &HttpConfig, address: &str, identity: Identity| {
            let policy = peers(config, address.parse().unwrap(), &identity);
            matches!(policy, PeerPolicy::SameUser(..))
        };
        let identity = |tokens, user_header| Identity {
            tokens,
            user_header,
            ..Identity::default()
        };
        for loopback in ["127.0.0.1:80", "127.1.2.3:80", "[::1]:80"] {
            assert!(looks(&config(), loopback, identity(None, None)));
            assert!(looks(&config(), loopback, identity(None, header())));
            assert!(looks(&config(), loopback, identity(tokens(), header())));
            assert!(!looks(&config(), loopback, identity(tokens(), None)));
            let open = HttpConfig {
                allow_other_users: true,
                ..config()
            };
            assert!(!looks(&open, loopback, identity(None, None)));
        }
        assert!(!looks(&config(), "192.0.2.7:80", identity(None, None)));
    }
}
