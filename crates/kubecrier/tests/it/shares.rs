//! A greedy caller beside a modest one, for each limit: whatever the one does, the other
//! keeps half of it.

mod parked;
mod requests;
mod sockets;

use std::{collections::HashMap, fmt, path::Path};

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{LogScript, User, pod};

use crate::harness::{File, Http, HttpSession, initialize, kubeconfig, one_context};

/// The callers; each has its name in its token.
const CALLERS: [&str; 3] = ["starter", "greedy", "modest"];

/// A server with several callers, and a session of each.
pub(super) struct Shared {
    pub(super) http: Http,
    sessions: HashMap<&'static str, HttpSession>,
    _tokens: tempfile::NamedTempFile,
}

pub(super) fn token(caller: &str) -> String {
    format!("{caller}-0123456789abcdef")
}

pub(super) fn no_cluster() -> File {
    kubeconfig(|file| {
        file.server_context("dev", "https://127.0.0.1:1", "")
            .current("dev")
    })
}

// === impl Shared ===

impl Shared {
    pub(super) async fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let tokens = tempfile::NamedTempFile::new().unwrap();
        let lines = CALLERS.map(|caller| format!("{caller}:{}\n", token(caller)));
        std::fs::write(tokens.path(), lines.concat()).unwrap();
        let path = tokens.path().to_str().unwrap();
        let arguments = [&["--auth-token-file", path], arguments].concat();
        let http = Http::start_with_token(kubeconfig, &arguments, &token("starter")).await;
        let mut sessions = HashMap::new();
        for caller in ["greedy", "modest"] {
            let session = HttpSession::begin_as(&http.base, &token(caller)).await;
            sessions.insert(caller, session);
        }
        Self {
            http,
            sessions,
            _tokens: tokens,
        }
    }

    pub(super) fn greedy(&self) -> &HttpSession {
        &self.sessions["greedy"]
    }

    pub(super) fn modest(&self) -> &HttpSession {
        &self.sessions["modest"]
    }

    /// Another session of a caller.
    pub(super) async fn another(&self, caller: &str) -> HttpSession {
        HttpSession::begin_as(&self.http.base, &token(caller)).await
    }

    async fn initialize(&self, caller: &str) -> reqwest::Response {
        let bearer = format!("Bearer {}", token(caller));
        let message = initialize("2025-11-25");
        (self.http.fresh_with(&message, "authorization", &bearer)).await
    }
}

/// Subscribes to resources, in order; returns how many were granted and the first refusal.
async fn subscribe_all(
    session: &HttpSession,
    uris: impl IntoIterator<Item = impl fmt::Display>,
) -> (usize, Option<String>) {
    let mut granted = 0;
    for uri in uris {
        let params = json!({"uri": uri.to_string()});
        let answer = session.rpc("resources/subscribe", params).await;
        match answer["error"]["message"].as_str() {
            None => granted += 1,
            Some(refusal) => return (granted, Some(refusal.to_owned())),
        }
    }
    (granted, None)
}

#[tokio::test]
async fn sessions() {
    let file = no_cluster();
    // One each of the three callers is there.
    let shared = Shared::start(&file.path, &["--max-sessions", "8"]).await;
    let mut granted = 1;
    let refused = loop {
        let answer = shared.initialize("greedy").await;
        if answer.status() != StatusCode::OK {
            break answer;
        }
        granted += 1;
    };
    assert_eq!(
        (granted, refused.status()),
        (4, StatusCode::TOO_MANY_REQUESTS)
    );
    let text = refused.text().await.unwrap();
    assert!(text.contains("--max-sessions-per-caller"), "{text}");
    for _ in 0..2 {
        assert_eq!(shared.initialize("modest").await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn new_sessions_a_second() {
    let file = no_cluster();
    let shared = Shared::start(&file.path, &["--max-session-rate", "10"]).await;
    // All at once, because a busy machine may take longer than a second one by one.
    let answers = join_all((0..40).map(|_| shared.initialize("greedy"))).await;
    let refused = answers
        .into_iter()
        .find(|one| one.status() != StatusCode::OK);
    let refused = refused.expect("more than half of the rate");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let text = refused.text().await.unwrap();
    assert!(
        text.contains("this caller") && text.contains("--max-session-rate"),
        "{text}"
    );
    // With the first sessions of the two others, that is half of the rate.
    for _ in 0..3 {
        assert_eq!(shared.initialize("modest").await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn subscriptions() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let arguments = ["--max-subscriptions-global", "6"];
    let shared = Shared::start(&file.path, &arguments).await;
    let more = shared.another("greedy").await;
    for session in [shared.greedy(), &more, &more] {
        session.call("events_subscribe", json!({})).await.ok();
    }
    for session in [shared.greedy(), &more] {
        let refused = session.call("events_subscribe", json!({})).await;
        let words = ["3 subscriptions", "--caller-share", "events_unsubscribe"];
        refused.refused("limit", &words);
    }
    for _ in 0..3 {
        shared
            .modest()
            .call("events_subscribe", json!({}))
            .await
            .ok();
    }
    // What one gives back it can have again.
    assert_eq!(more.delete().await, 204);
    shared
        .greedy()
        .call("events_subscribe", json!({}))
        .await
        .ok();
}

#[tokio::test]
async fn watches() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let shared = Shared::start(&file.path, &["--max-watches", "6"]).await;
    let of = |namespace: &str| json!({"namespace": namespace});
    for namespace in ["made-up-1", "made-up-2"] {
        let call = shared.greedy().call("events_subscribe", of(namespace));
        call.await.ok();
    }
    let resources = [1, 3, 4].map(|number| format!("k8s://dev/made-up-{number}/events"));
    let (granted, refusal) = subscribe_all(shared.greedy(), &resources).await;
    // The first is a watch that it has already.
    assert_eq!(granted, 2);
    let refusal = refusal.unwrap();
    assert!(
        refusal.contains("3 watches") && refusal.contains("--max-watches"),
        "{refusal}"
    );
    let refused = shared
        .greedy()
        .call("events_subscribe", of("made-up-5"))
        .await;
    refused.refused("limit", &["3 watches", "--caller-share of --max-watches"]);
    for namespace in ["own-1", "own-2", "own-3"] {
        let call = shared.modest().call("events_subscribe", of(namespace));
        call.await.ok();
    }
    // Sharing what there is costs the server nothing, but counts for who shares it.
    let refused = shared
        .modest()
        .call("events_subscribe", of("made-up-1"))
        .await;
    refused.refused("limit", &["3 watches"]);
}

#[tokio::test]
async fn what_the_one_still_holds_does_not_count_for_the_other_that_left() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let shared = Shared::start(&file.path, &["--max-watches", "8"]).await;
    let uris: Vec<_> = (0..4)
        .map(|n| format!("k8s://dev/left-{n}/events"))
        .collect();
    // The modest one is first, the greedy one joins and stays.
    assert_eq!(subscribe_all(shared.modest(), &uris).await, (4, None));
    assert_eq!(subscribe_all(shared.greedy(), &uris).await, (4, None));
    for uri in &uris {
        let left = shared
            .modest()
            .rpc("resources/unsubscribe", json!({"uri": uri}));
        assert_eq!(left.await["result"], json!({}));
    }
    let others: Vec<_> = (0..4)
        .map(|n| format!("k8s://dev/next-{n}/events"))
        .collect();
    assert_eq!(subscribe_all(shared.modest(), &others).await, (4, None));
    let (granted, _) = subscribe_all(shared.greedy(), &others).await;
    assert_eq!(granted, 0);
}

#[tokio::test]
async fn graphs() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let shared = Shared::start(&file.path, &["--max-graphs", "4"]).await;
    let uris = |name: &str| {
        (0..3)
            .map(|n| format!("k8s://dev/{name}-{n}/graph"))
            .collect()
    };
    let (greedy, modest): (Vec<_>, Vec<_>) = (uris("greedy"), uris("modest"));
    let (granted, refusal) = subscribe_all(shared.greedy(), &greedy).await;
    assert_eq!(granted, 2);
    let refusal = refusal.unwrap();
    assert!(
        refusal.contains("2 graphs") && refusal.contains("--max-graphs"),
        "{refusal}"
    );
    let read = json!({"uri": greedy[2]});
    let refused = shared.greedy().rpc("resources/read", read).await;
    assert!(
        refused["error"].to_string().contains("--max-graphs"),
        "{refused}"
    );
    let (granted, _) = subscribe_all(shared.modest(), &modest).await;
    assert_eq!(granted, 2);
}

#[tokio::test]
async fn followed_logs() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let names: Vec<_> = (0..6)
        .map(|number| format!("shared-log-{number}"))
        .collect();
    for name in &names {
        cluster
            .create(&pod("default", name, &["app"]))
            .await
            .unwrap();
        let log = LogScript::lines(["ready"]);
        cluster.node().set_log(&format!("default/{name}/app"), log);
    }
    let uris: Vec<_> = (names.iter())
        .map(|name| format!("k8s://dev/default/pods/{name}/logs/app"))
        .collect();
    let file = one_context(cluster, User::Reader);
    let shared = Shared::start(&file.path, &["--max-followed-logs", "6"]).await;
    let (granted, refusal) = subscribe_all(shared.greedy(), &uris).await;
    assert_eq!(granted, 3);
    let refusal = refusal.unwrap();
    let words = ["3 followed logs", "--max-followed-logs"];
    assert!(words.iter().all(|word| refusal.contains(word)), "{refusal}");
    assert_eq!(subscribe_all(shared.modest(), &uris[3..]).await, (3, None));
}

/// On this host callers without a token have one address: there each session has its share.
#[tokio::test]
async fn sessions_without_a_name_have_a_share_each() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--max-subscriptions-global", "4"]).await;
    let modest = http.another("2025-11-25").await;
    for _ in 0..2 {
        http.call("events_subscribe", json!({})).await.ok();
    }
    let refused = http.call("events_subscribe", json!({})).await;
    refused.refused("limit", &["2 subscriptions"]);
    for _ in 0..2 {
        modest.call("events_subscribe", json!({})).await.ok();
    }
}

/// A process on stdio has one client, which may use everything.
#[tokio::test]
async fn the_only_client_has_everything() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let mut command = crate::harness::command();
    command.arg("--kubeconfig").arg(&file.path);
    command.args(["--max-watches", "3"]);
    let answers: Vec<Value> = tokio::task::spawn_blocking(move || {
        let mut client = crate::harness::StdioSession::start(&mut command);
        client.handshake();
        (0..4)
            .map(|number| {
                let params = json!({"uri": format!("k8s://dev/own-{number}/events")});
                client.rpc("resources/subscribe", params)
            })
            .collect()
    })
    .await
    .unwrap();
    for answer in &answers[..3] {
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    let refused = answers[3]["error"].to_string();
    assert!(refused.contains("3 watches"), "{refused}");
}
