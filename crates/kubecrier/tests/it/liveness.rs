//! What the server asks of its clients: whether they are there, and their roots.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::harness::{Http, HttpSession, Stream, kubeconfig};

/// The next of our requests of that method.
async fn asked(stream: &mut Stream, method: &str) -> Value {
    loop {
        let message = stream.anything().await;
        if message["method"] == method {
            return message;
        }
    }
}

async fn answer(session: &HttpSession, request: &Value, result: Value) {
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    assert_eq!(session.post(&body).await.status(), StatusCode::ACCEPTED);
}

async fn is_there(session: &HttpSession) -> bool {
    let list = json!({"jsonrpc": "2.0", "id": "there?", "method": "tools/list", "params": {}});
    session.post(&list).await.status() == StatusCode::OK
}

#[tokio::test]
async fn a_client_that_no_longer_answers_is_gone_and_no_other() {
    let file = kubeconfig(|file| file);
    let http = Http::start(&file.path, &["--heartbeat-interval", "1s"]).await;
    // Its first answer shows that it can; then it falls silent.
    let dying = http.another("2025-11-25").await;
    let mut dying_stream = dying.stream(None).await;
    // It never answers: nothing is known of it.
    let mute = http.another("2025-06-18").await;
    let mut mute_stream = mute.stream(None).await;
    // It has no stream, so nobody asks.
    let without = http.another("2025-11-25").await;
    let mut stream = http.stream(None).await;
    let began = Instant::now();
    let ping = asked(&mut dying_stream, "ping").await;
    answer(&dying, &ping, json!({})).await;
    let answering = async {
        loop {
            let ping = asked(&mut stream, "ping").await;
            answer(&http, &ping, json!({})).await;
        }
    };
    let rest = tokio::select! {
        rest = dying_stream.rest() => rest,
        () = answering => unreachable!(),
    };
    let took = began.elapsed();
    let pings = rest.matches("\"ping\"").count();
    assert_eq!(pings, 4, "down after more than three: {rest}");
    assert!(took < Duration::from_secs(20), "after {took:?}");
    assert!(!is_there(&dying).await);
    for one in [&*http, &mute, &without] {
        assert!(is_there(one).await);
    }
    let mut pings = 0;
    while let Ok(message) = timeout(Duration::from_secs(4), mute_stream.anything()).await {
        pings += usize::from(message["method"] == "ping");
    }
    assert_eq!(pings, 3, "who never answers is left alone");
    assert!(is_there(&mute).await);
    let mut late = without.stream(None).await;
    let first = late.anything().await;
    assert_ne!(first["method"], "ping", "{first}");
}

#[tokio::test]
async fn roots_are_asked_for_once_the_client_is_quiet() {
    let file = kubeconfig(|file| file);
    let http = Http::start(&file.path, &["--log-level", "debug"]).await;
    let mut stream = http.stream(None).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    for _burst in 0..5 {
        assert_eq!(http.post(&changed).await.status(), StatusCode::ACCEPTED);
    }
    let request = asked(&mut stream, "roots/list").await;
    let roots =
        json!({"roots": [{"uri": "file:///b"}, {"uri": "file:///a"}, {"uri": "file:///b"}]});
    answer(&http, &request, roots).await;
    let line = http.server.wait_for("roots of a client");
    assert!(
        line.contains("version=1") && line.contains("count=2"),
        "{line}"
    );
    stream.expect_silence(Duration::from_secs(1)).await;
}
