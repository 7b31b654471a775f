//! Unauthenticated and broken clients get a clear error, and nothing else.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{LogScript, User, pod};

use crate::harness::{Http, HttpSession, initialize, kubeconfig, one_context};

const ANN: &str = "0123456789abcdef-ann";
const BOB: &str = "0123456789abcdef-bob";

/// A request with an id of its own.
fn list() -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(100);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}})
}

fn nowhere() -> crate::harness::File {
    kubeconfig(|file| {
        file.server_context("dev", "https://127.0.0.1:1", "")
            .current("dev")
    })
}

#[tokio::test]
async fn only_a_known_token_opens_the_door_and_a_session_is_its_callers() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, format!("ann:{ANN}\nbob:{BOB}\n")).unwrap();
    let file = nowhere();
    let arguments = ["--auth-token-file", tokens.to_str().unwrap()];
    let http = Http::start_with_token(&file.path, &arguments, ANN).await;
    let status = async |token: Option<&str>| {
        let mut request = http.request(&list());
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.send().await.unwrap()
    };
    let anonymous = status(None).await;
    assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(
        anonymous.headers()["www-authenticate"],
        "Bearer realm=\"kubecrier\""
    );
    let wrong = status(Some("0123456789abcdef-eve")).await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    assert!(
        wrong.headers()["www-authenticate"]
            .to_str()
            .unwrap()
            .contains("invalid_token")
    );
    assert_eq!(status(Some(ANN)).await.status(), StatusCode::OK);
    assert_eq!(
        status(Some(BOB)).await.status(),
        StatusCode::NOT_FOUND,
        "ann's, not bob's"
    );
    let taken = http.delete_as(BOB).await;
    assert_eq!(taken, StatusCode::NOT_FOUND, "and he cannot end it");
    assert_eq!(
        http.get("/healthz").await.status(),
        StatusCode::OK,
        "probes need no token"
    );
    assert!(
        !http.server.log().contains("0123456789abcdef"),
        "a token in the log"
    );
}

async fn post_raw(http: &HttpSession, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
    let request = http
        .request(&json!({}))
        .header("content-type", "application/json");
    let answer = request.body(body).send().await.unwrap();
    let status = answer.status();
    (
        status,
        serde_json::from_str(&answer.text().await.unwrap()).unwrap(),
    )
}

#[tokio::test]
async fn an_invalid_message_is_an_error() {
    let file = nowhere();
    let http = Http::start(&file.path, &[]).await;
    let (status, answer) = post_raw(&http, "{\"jsonrpc\": ").await;
    assert_eq!(
        (status.as_u16(), &answer["error"]["code"]),
        (400, &json!(-32700)),
        "{answer}"
    );
    let (status, answer) = post_raw(&http, json!([list(), list()]).to_string()).await;
    assert_eq!(
        (status.as_u16(), &answer["error"]["code"]),
        (400, &json!(-32600)),
        "{answer}"
    );
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("batches")
    );
    let (status, _) = post_raw(&http, vec![b' '; 100 << 20]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let version = http
        .fresh_with(&list(), "mcp-protocol-version", "1999-01-01")
        .await;
    assert_eq!(version.status(), StatusCode::BAD_REQUEST);
    let stranger = http.fresh_with(&list(), "mcp-session-id", "nobody's").await;
    assert_eq!(stranger.status(), StatusCode::NOT_FOUND);
    let nothing = http.fresh(&list()).await;
    assert!(nothing.status().is_client_error(), "{}", nothing.status());
    // After all of that, it works.
    assert!(http.rpc("tools/list", json!({})).await["result"]["tools"].is_array());
}

#[tokio::test]
async fn a_client_that_drips_or_babbles_is_let_go() {
    let file = nowhere();
    let http = Http::start(&file.path, &[]).await;
    let address = http.base.strip_prefix("http://").unwrap().to_owned();
    let talk = move |bytes: Vec<u8>| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(2)))
            .unwrap();
        let _sent = stream.write_all(&bytes);
        let mut answer = Vec::new();
        // The end of the stream, however it comes, is what is waited for.
        let _ended = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let drip = talk.clone();
    let dripping =
        tokio::task::spawn_blocking(move || drip(b"POST /mcp HTTP/1.1\r\nHost: x".to_vec()));
    let noise: Vec<u8> = (0..4096_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let babbling = tokio::task::spawn_blocking(move || talk(noise));
    assert!(babbling.await.unwrap().starts_with("HTTP/1.1 400"));
    dripping.await.unwrap();
    let http = http.another("2025-11-25").await;
    assert!(http.rpc("tools/list", json!({})).await["result"]["tools"].is_array());
}

#[tokio::test]
async fn a_busy_server_says_so() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("default", "busy", &["app"]))
        .await
        .unwrap();
    let slow = LogScript::lines(["x"]).delayed(Duration::from_secs(3));
    bed.dev().node().set_log("default/busy/app", slow);
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--max-concurrent-requests", "1"]).await;
    // A request without a session is worked on until its answer begins.
    let call = json!({"name": "pods_log", "arguments": {"name": "busy"}});
    let (first, second) = tokio::join!(http.modern("tools/call", Some("pods_log"), call), async {
        let asked = || {
            let all = bed.dev().node().requests();
            all.iter().any(|one| one.container == "default/busy/app")
        };
        while !asked() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        http.fresh(&initialize("2025-11-25")).await
    });
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(
        http.fresh(&initialize("2025-11-25")).await.status(),
        StatusCode::OK
    );
}
