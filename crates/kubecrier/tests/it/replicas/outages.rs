//! The registry that replicas share fails.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
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
use crate::harness::{HttpSession, one_context};

/// A registry that can be away.
#[derive(Debug, Default)]
struct Fickle {
    records: MemoryRegistry,
    is_away: AtomicBool,
}

impl Fickle {
    fn or<'a, T: Send + 'a>(&self, answer: RegistryFuture<'a, T>) -> RegistryFuture<'a, T> {
        if !self.is_away.load(Ordering::Relaxed) {
            return answer;
        }
        Box::pin(ready(Err(RegistryError::Unavailable {
            doing: "read",
            why: "it is away".to_owned(),
        })))
    }
}

impl Registry for Fickle {
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<RegistryEntry>> {
        self.or(self.records.get(key))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision> {
        self.or(self.records.put(key, value, time_to_live))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome> {
        self.or((self.records).compare_and_set(key, expected, value, time_to_live))
    }

    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
        self.or(self.records.delete(key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, RegistryEntry)>> {
        self.or(self.records.list(prefix))
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
    fickle.is_away.store(true, Ordering::Relaxed);
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
    fickle.is_away.store(false, Ordering::Relaxed);
    session.base.clone_from(&second.base);
    assert_eq!(session.post(&list).await.status(), StatusCode::OK);
    ann.call(&second, "events_poll", id.clone()).await.ok();
    ann.call(&second, "events_unsubscribe", id).await.ok();
    first.serving.close();
    second.serving.close();
}
