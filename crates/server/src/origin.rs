//! Host and Origin: only named web pages may reach a server on loopback.
//!
//! A page in a browser can send requests to any address, with the name of its own site
//! in Host (after rebinding that name to 127.0.0.1) or in Origin. Both are checked, for
//! every method. The address that a connection has reached is always welcome as Host: a
//! name can be rebound, an address cannot. A request that names two hosts or two origins
//! is refused, because something behind or before this could read the other one.
//!
//! The pages of a named origin are told so (`cors`), or their browser would keep the
//! answers from them.

mod cors;

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header, uri::Authority};

use crate::{log_limit::LogLimit, oauth, peer::Peer};

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What probes and scrapers ask for by whatever name they have for this server. There is
/// nothing in it for a web page.
const PAGES_AT_ANY_HOST: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Stands for every host.
const ANY: &str = "*";

/// The hosts and origins that are welcome.
#[derive(Debug)]
pub(super) struct OriginPolicy {
    hosts: Vec<String>,
    any_host: bool,
    origins: Vec<String>,
    log_limit: LogLimit,
}

/// Why a request is turned away.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: StatusCode,
    why: String,
}

/// Whether text is a host that a request can name: `host` or `host:port`.
pub fn is_host(text: &str) -> bool {
    let is_plain = !text.contains(['@', '*']);
    is_plain
        && text
            .parse::<Authority>()
            .is_ok_and(|host| !host.host().is_empty())
}

/// Whether text is an origin of web pages: `scheme://host` or `scheme://host:port`.
pub fn is_origin(text: &str) -> bool {
    let parts = text.split_once("://");
    parts.is_some_and(|(scheme, host)| !scheme.is_empty() && is_host(host))
}

// === impl OriginPolicy ===

impl OriginPolicy {
    /// Loopback, and what is named besides: `host` or `host:port`, `*` for all of them, and
    /// `scheme://host` or `scheme://host:port`.
    pub(super) fn new(hosts: &[String], origins: &[String]) -> Self {
        let loopback = LOOPBACK.iter().map(ToString::to_string);
        let pages = LOOPBACK
            .iter()
            .flat_map(|host| [format!("http://{host}"), format!("https://{host}")]);
        Self {
            any_host: hosts.iter().any(|host| host == ANY),
            hosts: loopback
                .chain(hosts.iter().map(|host| host.to_lowercase()))
                .collect(),
            origins: pages
                .chain(origins.iter().map(|origin| origin.to_lowercase()))
                .collect(),
            log_limit: LogLimit::default(),
        }
    }

    /// The origin of the page that sends a request, if a page sends it.
    fn admit<'a>(
        &self,
        reached: Option<IpAddr>,
        uri: &Uri,
        headers: &'a HeaderMap,
    ) -> Result<Option<&'a HeaderValue>, Refusal> {
        let host = host(uri, headers)?;
        let is_reached = || reached.is_some_and(|reached| ip(&host) == Some(reached));
        let is_known = || self.hosts.iter().any(|known| admits(known, &host, None));
        let is_for_all = self.any_host || PAGES_AT_ANY_HOST.contains(&uri.path());
        if !is_for_all && !is_known() && !is_reached() {
            return Err(Refusal::foreign(format!(
                "host `{host}` is not allowed; name it with --allowed-hosts"
            )));
        }
        let Some(origin) = single(headers, &header::ORIGIN)? else {
            return Ok(None);
        };
        let known = origin
            .to_str()
            .is_ok_and(|origin| self.admits_origin(&origin.to_lowercase()));
        if !known {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            return Err(Refusal::foreign(format!(
                "origin `{origin}` is not allowed; name it with --allowed-origins"
            )));
        }
        Ok(Some(origin))
    }

    fn admits_origin(&self, origin: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else {
            return false;
        };
        let Ok(authority) = authority.parse::<Authority>() else {
            return false;
        };
        if authority.as_str().contains('@') {
            return false;
        }
        let usual = usual_port(scheme);
        self.origins.iter().any(|known| {
            known
                .split_once("://")
                .is_some_and(|(known_scheme, known_authority)| {
                    known_scheme == scheme && admits(known_authority, &authority, usual)
                })
        })
    }
}

// === impl Refusal ===

impl Refusal {
    /// The request itself is wrong.
    fn malformed(why: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            why: why.into(),
        }
    }

    /// The request is not for this server, or of a page that is not welcome.
    fn foreign(why: String) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            why,
        }
    }
}

/// The host that a request is for, by its Host header and by its target.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Refusal> {
    let target = uri.authority();
    let named = match single(headers, &header::HOST)? {
        Some(named) => {
            let host = named.to_str().ok().and_then(|text| text.parse().ok());
            host.ok_or_else(|| Refusal::malformed("the Host header is not a host"))?
        }
        None => target
            .cloned()
            .ok_or_else(|| Refusal::malformed("the request names no host"))?,
    };
    let has_user = |host: &Authority| host.as_str().contains('@');
    if has_user(&named) || target.is_some_and(has_user) {
        return Err(Refusal::malformed("a host has no user name"));
    }
    let usual = uri.scheme_str().and_then(usual_port);
    let port = |host: &Authority| host.port_u16().or(usual);
    let is_same = |target: &Authority| {
        target.host().eq_ignore_ascii_case(named.host()) && port(target) == port(&named)
    };
    if target.is_some_and(|target| !is_same(target)) {
        let why = "the request is for one host, and its Host header names another";
        return Err(Refusal::malformed(why));
    }
    Ok(named)
}

/// The value of a header that a request has at most once.
fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::malformed(format!(
            "the request has more than one `{name}` header"
        )));
    }
    Ok(first)
}

/// The port that a browser leaves out.
fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
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

/// Middleware: turns strangers away, and lets browsers hand answers to the pages that are
/// welcome.
pub(super) async fn check(
    State(guard): State<Arc<OriginPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    // Whoever wants to log in needs it first, from wherever their page is.
    if oauth::is_metadata(request.uri().path()) {
        let mut answer = match cors::preflight(request.method(), request.headers()) {
            Some(answer) => answer,
            None => next.run(request).await,
        };
        cors::allow(answer.headers_mut(), HeaderValue::from_static("*"));
        return answer;
    }
    let reached = request.extensions().get::<Peer>().map(|peer| peer.reached);
    let origin = match guard.admit(reached, request.uri(), request.headers()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(origin)) => origin.clone(),
        Err(Refusal { status, why }) => {
            if guard.log_limit.allows() {
                tracing::warn!(why, "request turned away");
            }
            return (status, format!("{why}\n")).into_response();
        }
    };
    // A browser asks first, without a token, so that is answered here.
    let mut answer = match cors::preflight(request.method(), request.headers()) {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    cors::allow(answer.headers_mut(), origin);
    answer
}

#[cfg(test)]
mod tests;
