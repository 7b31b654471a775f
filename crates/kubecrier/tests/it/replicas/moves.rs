//! What goes on in a session while another replica takes it, and who may take it.

use std::sync::Arc;

use kubecrier_history::{MemoryNetwork, MemoryRegistry, Registry};
use reqwest::{
    Client, StatusCode,
    header::{AUTHORIZATION, HeaderMap},
};
use serde_json::json;
use testbed::{User, event, namespace};

use super::{Extras, replica, start, until_left};
use crate::harness::{HttpSession, message, one_context};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_runs_while_its_session_moves_is_answered() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "replicas-moves");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let file = one_context(cluster, User::Reader);
    let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
    let network = MemoryNetwork::default();
    let first = replica(&file.path, "first", &registry, &network).await;
    let second = replica(&file.path, "second", &registry, &network).await;
    let mut session = HttpSession::begin_with(Client::new(), &first.base, "2025-11-25", None).await;
    let mut on_first = session.stream(None).await;
    let wait = |id: u64| {
        let arguments = json!({"namespace": name, "timeoutSeconds": 6});
        json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "faults_wait", "arguments": arguments},
        })
    };
    // One came directly, the other one was sent on.
    let direct = session.post(&wait(41)).await;
    session.base.clone_from(&second.base);
    let sent_on = session.post(&wait(42)).await;
    let _on_second = session.stream(None).await;
    until_left(&first).await;
    while on_first.until_end().await.is_some() {}
    let mut ids = Vec::new();
    for (id, running) in [(41, direct), (42, sent_on)] {
        assert_eq!(running.status(), StatusCode::OK);
        let text = running.text().await.unwrap();
        let answer = message(&text);
        assert_eq!(answer["id"], id, "{text}");
        assert_eq!(answer["result"]["isError"], false, "{text}");
        let written = text.lines().filter_map(|line| line.strip_prefix("id:"));
        ids.extend(written.map(|id| id.trim().to_owned()).next());
    }
    // What is asked for now has other ids: an old one leads to no answer of another request.
    let running = session.post(&wait(43)).await;
    assert_eq!(ids.len(), 2);
    for id in &ids {
        assert_eq!(session.open(Some(id)).await.status(), StatusCode::GONE);
    }
    drop(running);
    first.serving.close();
    second.serving.close();
}

const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

fn client(token: &str) -> Client {
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {token}").parse().unwrap();
    headers.insert(AUTHORIZATION, bearer);
    Client::builder().default_headers(headers).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_caller_cannot_use_a_session_through_any_replica() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let held = tempfile::tempdir().unwrap();
    let tokens = held.path().join("tokens");
    std::fs::write(&tokens, format!("ann:{ANN}\nbob:{BOB}\n")).unwrap();
    let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
    let network = MemoryNetwork::default();
    let one = async |name: &str| {
        let extras = Extras {
            tokens: Some(&tokens),
            ..Extras::default()
        };
        start(&file.path, name, &registry, &network, extras).await
    };
    let (first, second) = (one("first").await, one("second").await);
    let mut ann = HttpSession::begin_with(client(ANN), &first.base, "2025-11-25", Some(ANN)).await;
    let mut bob = HttpSession::begin_with(client(BOB), &first.base, "2025-11-25", Some(BOB)).await;
    assert_eq!(bob.delete().await, StatusCode::NO_CONTENT);
    let mut stream = ann.stream(None).await;
    bob.session.clone_from(&ann.session);
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    for replica in [&first, &second] {
        bob.base.clone_from(&replica.base);
        assert_eq!(bob.post(&list).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(bob.open(None).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(bob.delete().await, StatusCode::NOT_FOUND);
        assert_eq!((first.server.sessions(), second.server.sessions()), (1, 0));
    }
    // It is where it was, with its stream, and its caller's everywhere.
    ann.base.clone_from(&second.base);
    assert_eq!(ann.post(&list).await.status(), StatusCode::OK);
    assert_eq!(ann.delete().await, StatusCode::NO_CONTENT);
    while stream.until_end().await.is_some() {}
    first.serving.close();
    second.serving.close();
}

/// As while servers learn of a secret that was made when NATS had lost the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_reads_the_cursor_of_a_replica_with_another_secret() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "replicas-secrets");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
    let network = MemoryNetwork::default();
    let one = async |name: &str, secret: [u8; 32], other: [u8; 32]| {
        let extras = Extras {
            history: Some(held.path()),
            secret: Some(secret),
            ..Extras::default()
        };
        let replica = start(&file.path, name, &registry, &network, extras).await;
        let history = replica.server.history().unwrap();
        history.set_other_secrets(vec![other]);
        replica
    };
    let first = one("first", [7; 32], [8; 32]).await;
    let second = one("second", [8; 32], [7; 32]).await;
    let begin =
        async |base: &str| HttpSession::begin_with(Client::new(), base, "2025-11-25", None).await;
    let (here, there) = (begin(&first.base).await, begin(&second.base).await);
    let polled = here.call("events_poll", json!({"namespace": name})).await;
    let cursor = polled.ok().data["cursor"].clone();
    let new_event = event(name, "Pod/web-0", "Warning", "Later", "it went wrong");
    cluster.create(&new_event).await.unwrap();
    let poll = json!({"namespace": name, "cursor": cursor, "waitSeconds": 20});
    let polled = there.call("events_poll", poll).await.ok();
    assert_eq!(polled.data["events"][0]["event"]["reason"], "Later");
    // Of other filters it leads nowhere, as ever.
    let other = json!({"namespace": "default", "cursor": cursor});
    let refused = there.call("events_poll", other).await;
    refused.refused("invalid", &["cursor"]);
    first.serving.close();
    second.serving.close();
}
