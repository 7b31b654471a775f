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
    let admitted = guard.admit(
        Some([192, 0, 2, 7].into()),
        &"/mcp".parse().unwrap(),
        &headers,
    );
    assert_eq!(
        admitted.is_ok(),
        welcome,
        "{host:?} {origin:?}: {admitted:?}"
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
    check(Some("user@localhost"), None, false);
    check(Some("localhost@"), None, false);
    check(None, None, false);
}

fn status(target: &str, headers: &[(&'static str, &str)], hosts: &[&str]) -> Option<u16> {
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    let guard = OriginPolicy::new(&hosts, &[]);
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), value.parse().unwrap());
    }
    let admitted = guard.admit(None, &target.parse().unwrap(), &map);
    admitted.err().map(|refusal| refusal.status.as_u16())
}

#[test]
fn a_request_that_names_two_hosts_or_origins_is_refused() {
    const HOST: &str = "host";
    const ORIGIN: &str = "origin";
    let local = (HOST, "localhost");
    let page = (ORIGIN, "http://localhost");
    let status = |target: &str, headers: &[_]| status(target, headers, &[]);
    assert_eq!(status("/mcp", &[local]), None);
    assert_eq!(status("/mcp", &[local, local]), Some(400));
    assert_eq!(status("/mcp", &[local, (HOST, "evil.example")]), Some(400));
    let pages = [local, page, page];
    assert_eq!(status("/mcp", &pages), Some(400));
    assert_eq!(status("/mcp", &pages[..2]), None);
    assert_eq!(status("/mcp", &[(HOST, "user@localhost")]), Some(400));
    assert_eq!(status("http://localhost/mcp", &[local]), None);
    assert_eq!(status("http://LOCALHOST:80/mcp", &[local]), None);
    assert_eq!(status("http://localhost/mcp", &[]), None);
    for other in [
        "http://evil.example/mcp",
        "http://localhost:81/mcp",
        "http://a@localhost/mcp",
    ] {
        assert_eq!(status(other, &[local]), Some(400), "{other}");
    }
    assert_eq!(status("http://evil.example/mcp", &[]), Some(403));
    let evil = [(HOST, "evil.example")];
    assert_eq!(status("http://localhost/mcp", &evil), Some(400));
}

#[test]
fn probes_may_name_any_host_and_pages_of_others_may_not_even_ask_them() {
    const HOST: &str = "host";
    const ORIGIN: &str = "origin";
    let foreign = (HOST, "10.1.2.3:8080");
    for page in PAGES_AT_ANY_HOST {
        assert_eq!(status(page, &[foreign], &[]), None, "{page}");
        let of_a_page = [foreign, (ORIGIN, "http://evil.example")];
        assert_eq!(status(page, &of_a_page, &[]), Some(403), "{page}");
        assert_eq!(status(page, &[foreign, foreign], &[]), Some(400));
    }
    for page in ["/stats", "/mcp", "/metrics/", "/"] {
        assert_eq!(status(page, &[foreign], &[]), Some(403), "{page}");
        assert_eq!(status(page, &[foreign], &["*"]), None, "{page}");
        let of_a_page = [foreign, (ORIGIN, "http://evil.example")];
        assert_eq!(status(page, &of_a_page, &["*"]), Some(403), "{page}");
    }
}

#[test]
fn hosts_and_origins_that_can_be_named_are_told_from_others() {
    for host in [
        "crier.example",
        "crier.example:8080",
        "192.0.2.7",
        "[::1]:80",
    ] {
        assert!(is_host(host), "{host}");
        assert!(is_origin(&format!("https://{host}")), "{host}");
        assert!(!is_origin(host), "{host}");
    }
    for other in [
        "",
        "a b",
        "*",
        "*.example",
        "user@crier.example",
        "http://crier.example",
    ] {
        assert!(!is_host(other), "{other}");
        assert!(!is_origin(&format!("https://{other}")), "{other}");
    }
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
        if let Ok(host) = HeaderValue::from_bytes(&host) {
            headers.insert(header::HOST, host);
        }
        let welcome = guard.admit(None, &Uri::from_static("/mcp"), &headers).is_ok();
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
