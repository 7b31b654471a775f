//! The registry that replicas share fails.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kubecrier_history::{
    MemoryNetwork, MemoryRegistry, Registry, RegistryEntry, RegistryError, RegistryFuture,
    Revision, SetOutcome,
};
use reqwest::StatusCode;
use serde_json::json;
use testbed::User;

use super::{replica, stateless::Client};
use crate::harness::{HttpSession, initialize, one_context};

/// A way to a registry, which can be cut.
#[derive(Debug, Default)]
struct Fickle {
    records: Arc<MemoryRegistry>,
    is_away: AtomicBool,
    /// It can be read, and takes no records.
    is_full: AtomicBool,
    reconnects: AtomicU64,
    /// How long a call takes that fails.
    patience: Duration,
    /// Reads that fail, and the most that did so at the same time.
    failing: AtomicUsize,
    failing_max: AtomicUsize,
}

impl Fickle {
    fn or<'a, T: Send + 'a>(
        &'a self,
        answer: impl FnOnce() -> RegistryFuture<'a, T>,
    ) -> RegistryFuture<'a, T> {
        if !self.is_away.load(Ordering::Relaxed) {
            return answer();
        }
        Box::pin(async {
            let failing = self.failing.fetch_add(1, Ordering::Relaxed) + 1;
            self.failing_max.fetch_max(failing, Ordering::Relaxed);
            tokio::time::sleep(self.patience).await;
            self.failing.fetch_sub(1, Ordering::Relaxed);
            Err(RegistryError::Unavailable {
                doing: "read",
                why: "it is away".to_owned(),
            })
        })
    }

    fn cut(&self) {
        self.is_away.store(true, Ordering::Relaxed);
    }

    fn heal(&self) {
        self.is_away.store(false, Ordering::Relaxed);
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }
}

impl Registry for Fickle {
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<RegistryEntry>> {
        self.or(|| self.records.get(key))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision> {
        self.or(|| self.records.put(key, value, time_to_live))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome> {
        if self.is_full.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(RegistryError::Unavailable {
                doing: "written",
                why: "it is full".to_owned(),
            })));
        }
        self.or(|| {
            self.records
                .compare_and_set(key, expected, value, time_to_live)
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
        self.or(|| self.records.delete(key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, RegistryEntry)>> {
        self.or(|| self.records.list(prefix))
    }

    fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    fn is_failing(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_said_to_be_gone_while_the_registry_is_away() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let fickle = Arc::new(Fickle::default());
    let registry: Arc<dyn Registry> = Arc::clone(&fickle) as _;
    let network = MemoryNetwork::default();
    let first = replica(&file.path, "first", &registry, &network).await;
    let second = replica(&file.path, "second", &registry, &network).await;
    let client = reqwest::Client::new();
    let mut session = HttpSession::begin_with(client, &first.base, "2025-11-25", None).await;
    let ann = Client::new(None);
    let made = ann.call(&first, "events_subscribe", json!({})).await.ok();
    let id = json!({"subscriptionId": made.data["subscriptionId"]});
    fickle.cut();
    session.base.clone_from(&second.base);
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    let refused = session.post(&list).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    let text = refused.text().await.unwrap();
    assert!(text.contains("try again"), "{text}");
    session.base.clone_from(&first.base);
    let here = session.post(&list).await;
    assert_eq!(here.status(), StatusCode::OK, "it is here");
    for (tool, arguments) in [
        ("events_poll", &id),
        ("events_unsubscribe", &id),
        ("events_list_subscriptions", &json!({})),
        ("events_subscribe", &json!({})),
    ] {
        let refused = ann.call(&second, tool, arguments.clone()).await;
        refused.refused("unavailable", &["try again"]);
    }
    ann.call(&first, "events_poll", id.clone()).await.ok();
    let filters = json!({"namespace": "default"});
    ann.call(&second, "events_poll", filters).await.ok();
    let listen = ann.listen(&second, &made.data["resourceUri"]).await;
    assert_eq!(listen.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(listen.headers().contains_key("retry-after"));
    fickle.heal();
    session.base.clone_from(&second.base);
    assert_eq!(session.post(&list).await.status(), StatusCode::OK);
    ann.call(&second, "events_poll", id.clone()).await.ok();
    ann.call(&second, "events_unsubscribe", id).await.ok();
    first.serving.close();
    second.serving.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_with_equal_filters_do_not_wait_for_the_registry_one_after_the_other() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let fickle = Arc::new(Fickle {
        patience: Duration::from_secs(1),
        ..Fickle::default()
    });
    let registry: Arc<dyn Registry> = Arc::clone(&fickle) as _;
    let network = MemoryNetwork::default();
    let only = replica(&file.path, "only", &registry, &network).await;
    let ann = Client::new(None);
    let filters = json!({"namespace": "default"});
    let made = ann.call(&only, "events_poll", filters.clone()).await.ok();
    let id = json!({"subscriptionId": made.data["subscriptionId"]});
    fickle.cut();
    for arguments in [filters, id] {
        fickle.failing_max.store(0, Ordering::Relaxed);
        let polls = (0..6).map(|_| ann.call(&only, "events_poll", arguments.clone()));
        for polled in futures_util::future::join_all(polls).await {
            polled.ok();
        }
        assert!(
            fickle.failing_max.load(Ordering::Relaxed) >= 6,
            "{arguments}"
        );
    }
    only.serving.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_said_to_be_kept_that_a_full_registry_does_not_take() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let fickle = Arc::new(Fickle::default());
    let registry: Arc<dyn Registry> = Arc::clone(&fickle) as _;
    let network = MemoryNetwork::default();
    let first = replica(&file.path, "first", &registry, &network).await;
    let second = replica(&file.path, "second", &registry, &network).await;
    let client = reqwest::Client::new();
    let mut session =
        HttpSession::begin_with(client.clone(), &first.base, "2025-11-25", None).await;
    let mut unknown = HttpSession::begin_with(client, &second.base, "2025-11-25", None).await;
    assert_eq!(unknown.delete().await, StatusCode::NO_CONTENT);
    "00000000-0000-4000-8000-000000000000".clone_into(&mut unknown.session);
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    assert_eq!(unknown.post(&list).await.status(), StatusCode::NOT_FOUND);
    fickle.is_full.store(true, Ordering::Relaxed);
    // Another server would not find it.
    let hello = initialize("2025-11-25");
    let refused = session.fresh(&hello).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(first.server.sessions(), 1);
    // One that could not be written is not said to be missing.
    let refused = unknown.post(&list).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    // What there was goes on, and what would be lost with its server is not begun.
    session.base.clone_from(&second.base);
    assert_eq!(session.post(&list).await.status(), StatusCode::OK);
    let subscribed = session.call("events_subscribe", json!({})).await;
    subscribed.refused("unavailable", &["try again"]);
    let none = session.call("events_list_subscriptions", json!({})).await;
    assert_eq!(none.ok().data["subscriptions"], json!([]));
    let level = json!({"level": "info"});
    let refused = session.rpc("logging/setLevel", level).await;
    assert_eq!(refused["error"]["data"]["kind"], "unavailable", "{refused}");
    fickle.is_full.store(false, Ordering::Relaxed);
    let works_again = async {
        loop {
            let subscribed = session.call("events_subscribe", json!({})).await;
            let is_known = unknown.post(&list).await.status() == StatusCode::NOT_FOUND;
            if !subscribed.is_error && is_known {
                return;
            }
        }
    };
    let works_again = tokio::time::timeout(Duration::from_mins(1), works_again).await;
    works_again.expect("it works again");
    assert_eq!(session.fresh(&hello).await.status(), StatusCode::OK);
    first.serving.close();
    second.serving.close();
}
