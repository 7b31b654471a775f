//! Caps with default settings, and the ends of subscriptions that nobody asks for.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::{Options, User};

use crate::{
    harness::{Http, one_context},
    upstream::{open_watches, until_watches},
};

async fn subscriptions(http: &Http) -> Value {
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    stats["subscriptions"].clone()
}

/// S3-66, S3-67, S3-70: 10 of a session and 100 in all, and the error says which.
#[tokio::test]
async fn the_hundred_and_first_is_refused_by_default() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let subscribe = json!({"namespace": "default"});
    let mut sessions = Vec::new();
    for _ in 0..10 {
        let session = http.another("2025-11-25").await;
        for _ in 0..10 {
            let made = session.call("events_subscribe", subscribe.clone());
            made.await.ok();
        }
        sessions.push(session);
    }
    let eleventh = sessions[0].call("events_subscribe", subscribe.clone());
    eleventh.await.refused(
        "limit",
        &["10 subscriptions", "--max-subscriptions-per-session"],
    );
    let refused = http.call("events_subscribe", subscribe.clone()).await;
    refused.refused(
        "limit",
        &["100 subscriptions", "--max-subscriptions-global"],
    );
    assert_eq!(subscriptions(&http).await, 100);
    sessions[0].delete().await;
    http.call("events_subscribe", subscribe).await.ok();
    assert_eq!(subscriptions(&http).await, 91);
}

/// S3-40, S3-41, S3-43; C9, C48: as the API server sees it.
#[tokio::test]
async fn a_watch_ends_with_its_server_and_with_a_client_that_no_longer_answers() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("ends", Options::default());
    let file = one_context(&cluster, User::Reader);
    let before = Http::start(&file.path, &[]).await;
    before.call("events_subscribe", json!({})).await.ok();
    until_watches(&cluster, 1).await;
    before.server.signal(Signal::KILL);
    until_watches(&cluster, 0).await;
    let http = Http::start(&file.path, &["--heartbeat-interval", "1s"]).await;
    let old = before.moved_to(&http.base);
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}});
    assert_eq!(old.post(&list).await.status(), 404);
    assert_eq!(old.open(None).await.status(), 404);
    assert_eq!(subscriptions(&http).await, 0, "nothing was kept");
    assert_eq!(open_watches(&cluster).await, 0);
    // A client that answers one ping and then none.
    let dying = http.another("2025-11-25").await;
    let mut stream = dying.stream(None).await;
    dying.call("events_subscribe", json!({})).await.ok();
    until_watches(&cluster, 1).await;
    let ping = loop {
        let message = stream.anything().await;
        if message["method"] == "ping" {
            break message;
        }
    };
    let pong = json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}});
    assert_eq!(dying.post(&pong).await.status(), 202);
    let rest = stream.rest().await;
    assert!(rest.contains(": the session has ended"), "{rest}");
    let freed = async {
        while subscriptions(&http).await != 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    (tokio::time::timeout(Duration::from_secs(20), freed).await).expect("its entry is freed");
    until_watches(&cluster, 0).await;
}
