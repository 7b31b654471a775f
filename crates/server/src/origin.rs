//! Host and Origin: only named web pages may reach a server on loopback.
//!
//! A page in a browser can send requests to any address, with the name of its own site
//! in Host (after rebinding that name to 127.0.0.1) or in Origin. Both are checked, for
//! every method. The address that a connection has reached is always welcome as Host: a
//! name can be rebound, an address cannot.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, Uri, header, uri::Authority};

use crate::{log_limit::LogLimit, peer::Peer};

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The hosts and origins that are welcome.
#[derive(Debug)]
pub(super) struct OriginPolicy {
    hosts: Vec<String>,
    origins: Vec<String>,
    log_limit: LogLimit,
}

// === impl OriginPolicy ===

impl OriginPolicy {
    /// Loopback, and what is named besides: `host` or `host:port`, and `scheme://host` or
    /// `scheme://host:port`.
    pub(super) fn new(hosts: &[String], origins: &[String]) -> Self {
        let loopback = LOOPBACK.iter().map(ToString::to_string);
        let pages = LOOPBACK
            .iter()
            .flat_map(|host| [format!("http://{host}"), format!("https://{host}")]);
        Self {
            hosts: loopback
                .chain(hosts.iter().map(|host| host.to_lowercase()))
                .collect(),
            origins: pages
                .chain(origins.iter().map(|origin| origin.to_lowercase()))
                .collect(),
            log_limit: LogLimit::default(),
        }
    }

    fn refuses(&self, reached: Option<IpAddr>, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let host = match headers.get(header::HOST) {
            Some(host) => host
                .to_str()
                .ok()
                .and_then(|host| host.parse::<Authority>().ok()),
            None => uri.authority().cloned(),
        };
        let Some(host) = host else {
            return Some("the request names no host".to_owned());
        };
        let is_reached = || reached.is_some_and(|reached| ip(&host) == Some(reached));
        if !self.hosts.iter().any(|known| admits(known, &host, None)) && !is_reached() {
            return Some(format!(
                "host `{host}` is not allowed; name it with --allowed-hosts"
            ));
        }
        let origin = headers.get(header::ORIGIN)?;
        let known = origin
            .to_str()
            .is_ok_and(|origin| self.admits_origin(&origin.to_lowercase()));
        (!known).then(|| {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            format!("origin `{origin}` is not allowed; name it with --allowed-origins")
        })
    }

    fn admits_origin(&self, origin: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else {
            return false;
        };
        let Ok(authority) = authority.parse::<Authority>() else {
            return false;
        };
        // A browser leaves the scheme's own port out.
        let usual = match scheme {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        };
        self.origins.iter().any(|known| {
            known
                .split_once("://")
                .is_some_and(|(known_scheme, known_authority)| {
                    known_scheme == scheme && admits(known_authority, &authority, usual)
                })
        })
    }
}

/// Compares a configured name with a given one. A name without a port admits every
/// port.
fn admits(known: &str, given: &Authority, usual_port: Option<u16>) -> bool {
    let Ok(known) = known.parse::<Authority>() else {
        return false;
    };
    known.host() == given.host().to_lowercase()
        && known
            .port_u16()
            .is_none_or(|port| Some(port) == given.port_u16().or(usual_port))
}

/// The address that an authority is, if it is one and not a name.
fn ip(authority: &Authority) -> Option<IpAddr> {
    let host = authority.host();
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let ip: IpAddr = bare.unwrap_or(host).parse().ok()?;
    Some(ip.to_canonical())
}

/// Middleware: turns strangers away.
pub(super) async fn check(
    State(guard): State<Arc<OriginPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    let reached = request.extensions().get::<Peer>().map(|peer| peer.reached);
    match guard.refuses(reached, request.uri(), request.headers()) {
        None => next.run(request).await,
        Some(why) => {
            if guard.log_limit.allows() {
                tracing::warn!(why, "request turned away");
            }
            (StatusCode::FORBIDDEN, format!("{why}\n")).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(host: Option<&str>, origin: Option<&str>, welcome: bool) {
        let guard = OriginPolicy::new(
            &["mcp.example".to_owned(), "other.example:8443".to_owned()],
            &[
                "https://ui.example".to_owned(),
                "https://only-443.example:443".to_owned(),
            ],
        );
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        let refused = guard.refuses(
            Some([192, 0, 2, 7].into()),
            &"/mcp".parse().unwrap(),
            &headers,
        );
        assert_eq!(
            refused.is_none(),
            welcome,
            "{host:?} {origin:?}: {refused:?}"
        );
    }

    #[test]
    fn only_hosts_that_are_named_are_welcome() {
        check(Some("127.0.0.1:8080"), None, true);
        check(Some("localhost"), None, true);
        check(Some("LOCALHOST:1"), None, true);
        check(Some("[::1]:8080"), None, true);
        check(Some("mcp.example:80"), None, true);
        check(Some("192.0.2.7:8080"), None, true);
        check(Some("192.0.2.8:8080"), None, false);
        check(Some("192.0.2.7.evil.example"), None, false);
        check(Some("other.example:8443"), None, true);
        check(Some("other.example:80"), None, false);
        check(Some("evil.example"), None, false);
        check(Some("localhost.evil.example"), None, false);
        check(Some("evil.example@localhost:1@"), None, false);
        check(None, None, false);
    }

    #[test]
    fn only_origins_that_are_named_are_welcome() {
        check(Some("localhost"), Some("http://localhost:6274"), true);
        check(Some("localhost"), Some("http://[::1]:6274"), true);
        check(Some("localhost"), Some("https://ui.example"), true);
        check(Some("localhost"), Some("http://ui.example"), false);
        check(Some("localhost"), Some("https://only-443.example"), true);
        check(
            Some("localhost"),
            Some("https://only-443.example:8443"),
            false,
        );
        check(Some("localhost"), Some("https://evil.example"), false);
        check(Some("localhost"), Some("null"), false);
        check(Some("localhost"), Some(""), false);
    }

    proptest! {
        #[test]
        fn fuzz_no_host_and_no_origin_gets_in_by_its_spelling(
            host in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "[a-z.@:\\[\\]]{0,6}(localhost|127\\.0\\.0\\.1)[a-z.@:0-9\\]]{0,8}".prop_map(String::into_bytes),
            ],
            origin in "(https?|file)?:?/{0,3}[a-z.@]{0,4}(localhost)?[.a-z@:0-9]{0,8}",
        ) {
            let guard = OriginPolicy::new(&[], &[]);
            let mut headers = HeaderMap::new();
            if let Ok(host) = http::HeaderValue::from_bytes(&host) {
                headers.insert(header::HOST, host);
            }
            let welcome = guard.refuses(None, &Uri::from_static("/mcp"), &headers).is_none();
            let plain = ["localhost", "127.0.0.1", "[::1]"];
            let text = String::from_utf8_lossy(&host).to_lowercase();
            let (_, name) = text.rsplit_once('@').unwrap_or(("", &text));
            let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
            prop_assert!(!welcome || plain.contains(&name), "{text}");
            let welcome = guard.admits_origin(&origin);
            let page = origin.split_once("://").map_or("", |(_, page)| page);
            let (_, page) = page.rsplit_once('@').unwrap_or(("", page));
            let page = page.rsplit_once(':').map_or(page, |(page, _)| page);
            prop_assert!(!welcome || plain.contains(&page), "{origin}");
        }
    }
}
