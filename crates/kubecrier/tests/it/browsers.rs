//! Web pages, proxies and probes: whose requests are answered, by which name.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use testbed::Kubeconfig;

use crate::harness::{File, Http, Server, command, initialize, kubeconfig};

const PAGE: &str = "https://ui.example";
const TOKEN: &str = "0123456789abcdef-ann";

fn no_cluster() -> File {
    kubeconfig(|file: Kubeconfig| file)
}

/// The status of a request that is written by hand.
fn status(base: &str, head: &str) -> u16 {
    let address = base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = head.replace("HERE", address);
    let request = format!("{head}Connection: close\r\n\r\n").replace("\r\n", "\n");
    stream
        .write_all(request.replace('\n', "\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_request_that_names_two_hosts_or_origins_is_refused() {
    let file = no_cluster();
    let http = Http::start(&file.path, &[]).await;
    for (head, expected) in [
        ("GET /stats HTTP/1.1\nHost: HERE\n", 200),
        (
            "GET /stats HTTP/1.1\nHost: HERE\nOrigin: http://localhost\n",
            200,
        ),
        ("GET http://HERE/stats HTTP/1.1\nHost: HERE\n", 200),
        ("GET /stats HTTP/1.1\nHost: HERE\nHost: HERE\n", 400),
        ("GET /stats HTTP/1.1\nHost: HERE\nHost: evil.example\n", 400),
        ("GET /stats HTTP/1.1\nHost: evil.example\nHost: HERE\n", 400),
        (
            "GET /stats HTTP/1.1\nHost: HERE\nOrigin: http://localhost\nOrigin: http://evil.example\n",
            400,
        ),
        ("GET /stats HTTP/1.1\nHost: user@HERE\n", 400),
        ("GET http://user@HERE/stats HTTP/1.1\nHost: HERE\n", 400),
        ("GET http://evil.example/stats HTTP/1.1\nHost: HERE\n", 400),
        ("GET http://HERE/stats HTTP/1.1\nHost: evil.example\n", 400),
        (
            "GET http://evil.example/stats HTTP/1.1\nHost: evil.example\n",
            403,
        ),
        ("GET /stats HTTP/1.1\nHost: evil.example\n", 403),
        ("GET /stats HTTP/1.1\nHost:\n", 400),
    ] {
        assert_eq!(status(&http.base, head), expected, "{head}");
    }
}

#[tokio::test]
async fn probes_and_scrapers_may_name_any_host() {
    let file = no_cluster();
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--admin-address", "127.0.0.1:0"]),
    );
    let admin = format!("http://{}", crate::admin::admin_address(&server));
    let http = Http::start(&file.path, &[]).await;
    for base in [&http.base, &admin] {
        for page in ["/healthz", "/readyz", "/metrics"] {
            let head = format!("GET {page} HTTP/1.1\nHost: kubecrier.team-a.svc:8080\n");
            assert_eq!(status(base, &head), 200, "{page}");
            let of_a_page = format!("{head}Origin: http://evil.example\n");
            assert_eq!(status(base, &of_a_page), 403, "{page}");
        }
        let head = "GET /stats HTTP/1.1\nHost: kubecrier.team-a.svc:8080\n";
        assert_eq!(status(base, head), 403, "there are names in it");
    }
    let head = "GET /healthz HTTP/1.1\nHost: 10.1.2.3:8080\n";
    assert_eq!(status(&base, head), 200);
}

/// A server that requires a token, and accepts pages of one origin.
fn with_pages(file: &File, more: &[&str]) -> (Server, String, tempfile::NamedTempFile) {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), format!("ann:{TOKEN}\n")).unwrap();
    let mut command = command();
    command
        .arg("--kubeconfig")
        .arg(&file.path)
        .args(["--allowed-origins", PAGE]);
    command
        .arg("--auth-token-file")
        .arg(tokens.path())
        .args(more);
    let (server, base) = Http::launch(&mut command);
    (server, base, tokens)
}

/// What a browser would let a page of this origin do with an answer.
fn check_page(head: &HeaderMap, origin: &str, is_welcome: bool) {
    let value = |name: &str| {
        head.get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    if !is_welcome {
        let cors: Vec<_> = (head.keys())
            .filter(|name| name.as_str().starts_with("access-control-"))
            .collect();
        assert!(cors.is_empty(), "{origin}: {cors:?}");
        return;
    }
    assert_eq!(
        value("access-control-allow-origin").as_deref(),
        Some(origin)
    );
    assert_eq!(value("vary").as_deref(), Some("origin"));
    let exposed = value("access-control-expose-headers").unwrap();
    for name in ["mcp-session-id", "mcp-protocol-version", "www-authenticate"] {
        assert!(exposed.contains(name), "{exposed}");
    }
    assert_eq!(value("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn a_page_of_a_named_origin_can_use_the_server_and_no_other_page() {
    let file = no_cluster();
    let (_server, base, _tokens) = with_pages(&file, &[]);
    let client = reqwest::Client::new();
    let url = format!("{base}/mcp");
    let wanted = "authorization,content-type,mcp-protocol-version,mcp-param-region";
    let origins = [
        (PAGE, true),
        ("http://localhost:6274", true),
        ("https://evil.example", false),
        ("null", false),
    ];
    for (origin, is_welcome) in origins {
        for method in ["POST", "GET", "DELETE"] {
            // The browser asks without the token.
            let asked = client
                .request(Method::OPTIONS, &url)
                .header("origin", origin)
                .header("access-control-request-method", method)
                .header("access-control-request-headers", wanted);
            let asked = asked.send().await.unwrap();
            assert_eq!(
                asked.status(),
                if is_welcome { 204 } else { 403 },
                "{origin}"
            );
            check_page(asked.headers(), origin, is_welcome);
            if is_welcome {
                let value = |name: &str| asked.headers()[name].to_str().unwrap();
                assert!(value("access-control-allow-methods").contains(method));
                assert_eq!(value("access-control-allow-headers"), wanted);
            }
        }
        let post = |body: &Value| {
            let request = client.post(&url).json(body).header("origin", origin);
            request.header("accept", "application/json, text/event-stream")
        };
        let refused = post(&initialize("2025-11-25")).send().await.unwrap();
        assert_eq!(refused.status(), if is_welcome { 401 } else { 403 });
        check_page(refused.headers(), origin, is_welcome);
        let begun = post(&initialize("2025-11-25"))
            .bearer_auth(TOKEN)
            .send()
            .await
            .unwrap();
        assert_eq!(begun.status(), if is_welcome { 200 } else { 403 });
        check_page(begun.headers(), origin, is_welcome);
        if !is_welcome {
            continue;
        }
        let session = begun.headers()["mcp-session-id"].clone();
        let wrong = post(&json!([])).bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(wrong.status(), 400);
        check_page(wrong.headers(), origin, true);
        let stream = client.get(&url).header("origin", origin).bearer_auth(TOKEN);
        let stream = stream
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session);
        let stream = stream.send().await.unwrap();
        assert_eq!(stream.status(), 200);
        check_page(stream.headers(), origin, true);
        let missing = client.get(format!("{base}/nope")).header("origin", origin);
        let missing = missing.bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(missing.status(), 404);
        check_page(missing.headers(), origin, true);
        let ended = client
            .delete(&url)
            .header("origin", origin)
            .bearer_auth(TOKEN);
        let ended = ended
            .header("mcp-session-id", session)
            .send()
            .await
            .unwrap();
        assert_eq!(ended.status(), 204);
        check_page(ended.headers(), origin, true);
    }
    // Who is no page hears nothing of pages.
    let plain = client.get(format!("{base}/healthz")).send().await.unwrap();
    check_page(plain.headers(), "none", false);
}

#[tokio::test]
async fn every_host_is_welcome_only_where_every_caller_has_a_token() {
    let file = no_cluster();
    let (_server, base, _tokens) = with_pages(&file, &["--allowed-hosts", "*"]);
    let stats = format!("GET /stats HTTP/1.1\nAuthorization: Bearer {TOKEN}\nHost: any.example\n");
    assert_eq!(status(&base, &stats), 200);
    assert_eq!(
        status(&base, "GET /stats HTTP/1.1\nHost: any.example\n"),
        401
    );
    let of_a_page = format!("{stats}Origin: https://evil.example\n");
    assert_eq!(status(&base, &of_a_page), 403);
    let fails = async |arguments: &[&str], part: &str| {
        let mut server = Server::start(command().args(["--port", "0"]).args(arguments));
        assert_eq!(server.exit().await.code(), Some(64), "{arguments:?}");
        server.wait_for(part);
    };
    fails(&["--allowed-hosts", "*"], "--auth-token-file").await;
    fails(&["--allowed-hosts", "*.example"], "crier.example").await;
    fails(&["--allowed-origins", "*"], "each by its name").await;
}
