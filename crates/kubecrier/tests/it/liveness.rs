//! Requests of the server to its clients: pings, and no others.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{Kubeconfig, User};
use tokio::time::Instant;

use crate::harness::{
    File, Http, HttpSession, StdioSession, Stream, command, kubeconfig, one_context,
};

/// The next request of the server with that method.
async fn asked(stream: &mut Stream, method: &str) -> Value {
    loop {
        let message = stream.anything().await;
        if message["method"] == method {
            return message;
        }
    }
}

/// How many requests of that method come before the tools change, which they do now, by
/// contexts in an empty kubeconfig. `lists` are the changed lists still to come before.
async fn asked_before_the_tools_change(
    file: &File,
    stream: &mut Stream,
    method: &str,
    mut lists: usize,
) -> usize {
    Kubeconfig::new()
        .server_context("dev", "https://127.0.0.1:1", "")
        .server_context("prod", "https://127.0.0.1:1", "")
        .current("dev")
        .write(&file.path)
        .unwrap();
    let mut count = 0;
    loop {
        let message = stream.anything().await;
        let name = message["method"].as_str().unwrap();
        count += usize::from(name == method);
        if name.ends_with("/list_changed") {
            if lists == 0 {
                return count;
            }
            lists -= 1;
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
    // It never responds, so the server does not know whether it supports pings.
    let mute = http.another("2025-06-18").await;
    let mut mute_stream = mute.stream(None).await;
    // It has no stream, so the server cannot send it a ping.
    let without = http.another("2025-11-25").await;
    let mut stream = http.stream(None).await;
    let began = Instant::now();
    let ping = asked(&mut dying_stream, "ping").await;
    answer(&dying, &ping, json!({})).await;
    let answering = async |stream: &mut Stream, times: usize| {
        for _ in 0..times {
            let ping = asked(stream, "ping").await;
            answer(&http, &ping, json!({})).await;
        }
    };
    let rest = tokio::select! {
        rest = dying_stream.rest() => rest,
        () = answering(&mut stream, usize::MAX) => unreachable!(),
    };
    let took = began.elapsed();
    let pings = rest.matches("\"ping\"").count();
    assert_eq!(pings, 4, "down after more than three: {rest}");
    assert!(took < Duration::from_secs(20), "after {took:?}");
    assert!(!is_there(&dying).await);
    for one in [&*http, &mute, &without] {
        assert!(is_there(one).await);
    }
    // As often as the one that never answers would have been asked by now.
    answering(&mut stream, 4).await;
    let pings = asked_before_the_tools_change(&file, &mut mute_stream, "ping", 3).await;
    assert_eq!(pings, 3, "who never answers is left alone");
    assert!(is_there(&mute).await);
    let mut late = without.stream(None).await;
    let first = late.anything().await;
    assert_ne!(first["method"], "ping", "{first}");
}

#[tokio::test]
async fn changed_roots_are_accepted_and_not_asked_for() {
    let file = kubeconfig(|file| file);
    let http = Http::start(&file.path, &["--heartbeat-interval", "2s"]).await;
    let mut stream = http.stream(None).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    for _burst in 0..5 {
        assert_eq!(http.post(&changed).await.status(), StatusCode::ACCEPTED);
    }
    // The ping comes at least 1.6 s after the last change, and after all that the
    // changes could have caused.
    let changed = Instant::now();
    loop {
        let message = stream.anything().await;
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        assert!(!method.contains("roots"), "{message}");
        if method == "ping" && changed.elapsed() > Duration::from_secs(1) {
            return;
        }
        if method == "ping" {
            answer(&http, &message, json!({})).await;
        }
    }
}

/// S1-10, S2-3: nothing waits for a reply to a notification, and one that comes is ignored.
#[tokio::test]
async fn a_reply_that_nothing_waits_for_is_ignored() {
    let replies = [
        json!({"jsonrpc": "2.0", "id": 4242, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "1", "result": {"acknowledged": true}}),
        json!({"jsonrpc": "2.0", "id": 4243, "error": {"code": -32601, "message": "no"}}),
    ];
    let file = kubeconfig(|file| file);
    let http = Http::start(&file.path, &["--heartbeat-interval", "0s"]).await;
    let mut stream = http.stream(None).await;
    for _list in 0..3 {
        let changed = stream.next().await;
        assert_eq!(changed.get("id"), None, "there is nothing to reply to");
        for reply in &replies {
            assert_eq!(http.post(reply).await.status(), StatusCode::ACCEPTED);
        }
    }
    assert!(is_there(&http).await);
    let none = asked_before_the_tools_change(&file, &mut stream, "ping", 0).await;
    assert_eq!(none, 0);
    let mut stdio = StdioSession::start(&mut command());
    stdio.handshake();
    for _list in 0..3 {
        stdio.receive();
        for reply in &replies {
            stdio.send(reply);
        }
    }
    // The answer is the next line: nothing was said about the replies.
    stdio.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
    assert_eq!(stdio.receive()["id"], 7);
}

/// The number of sessions, without a request in any of them.
async fn sessions(http: &Http) -> Value {
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    stats["sessions"].clone()
}

/// S3-45: a client whose connection closes without a word is let go within 45 s, with what
/// it has subscribed to; one that comes back in time misses nothing, and one that has no
/// stream has the idle timeout.
#[tokio::test]
async fn a_client_that_vanishes_is_let_go_in_45_seconds_and_one_that_comes_back_is_not() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--session-idle-timeout", "1h"]).await;
    let (vanishes, returns) = (
        http.another("2025-11-25").await,
        http.another("2025-11-25").await,
    );
    let filters = json!({"namespace": "default", "reason": "NoSuchReason"});
    for session in [&vanishes, &returns] {
        session.call("events_subscribe", filters.clone()).await.ok();
    }
    let mut stream = returns.stream(None).await;
    for _ in 0..3 {
        stream.next().await;
    }
    let last_seen = stream.ids.last().cloned();
    drop(stream);
    drop(vanishes.stream(None).await);
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let mut stream = returns.stream(last_seen.as_deref()).await;
    while sessions(&http).await != 2 {
        assert!(
            began.elapsed() < Duration::from_secs(45),
            "it is still there"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(
        began.elapsed() > Duration::from_secs(25),
        "it might have come back"
    );
    assert!(!is_there(&vanishes).await);
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["subscriptions"], 1, "{stats}");
    // The one that came back is served, and told: of the tools, which change now.
    let kept = returns
        .call("events_list_subscriptions", json!({}))
        .await
        .ok();
    assert_eq!(kept.data["subscriptions"].as_array().unwrap().len(), 1);
    let more = Kubeconfig::new()
        .context("dev", bed.dev(), User::Reader)
        .context("dev-2", bed.dev(), User::Reader);
    more.current("dev").write(&file.path).unwrap();
    let news = asked(&mut stream, "notifications/tools/list_changed").await;
    assert_eq!(news["method"], "notifications/tools/list_changed");
    assert!(is_there(&http).await, "it never had a stream");
}
