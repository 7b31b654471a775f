//! What is pushed: events, faults and incidents of subscriptions, and updates of resources.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};
use testbed::event;
use tokio::time::{Instant, timeout_at};

use super::{
    planted::{
        DEPLOYMENT, DEPLOYMENT_EVENT, EVENT, LOG, OTHER_CONTEXT, OTHER_EVENT, OTHER_LOG, OTHER_POD,
        OTHER_SPACE, POD, SERVICE, SPACE,
    },
    walk::{Walk, modes},
};
use crate::{
    harness::{Stream, Subscriber, TIMEOUT},
    resources::UpdateStream,
};

/// Attempts to see an update: one that is replaced by a newer one is not seen.
const ATTEMPTS: usize = 30;

impl Walk<'_> {
    /// Subscribes in every mode and to every place, and reads until what was made last has
    /// come: what was made before it would have come too.
    pub(super) async fn pushes(&mut self) {
        let session = self.http.another("2025-11-25").await;
        let mut client = Subscriber::new(&session).await;
        let mut waiting: HashMap<String, (&str, Value)> = HashMap::new();
        for mode in modes() {
            for place in [
                json!({}),
                json!({"namespace": SPACE}),
                json!({"namespace": OTHER_SPACE}),
                json!({"namespace": SPACE, "context": OTHER_CONTEXT}),
            ] {
                let mut arguments = place;
                arguments["mode"] = mode.into();
                let call = json!({"name": "events_subscribe", "arguments": &arguments});
                let answer = session.rpc("tools/call", call.clone()).await;
                self.note(format!("tools/call events_subscribe {call}"), &answer);
                let id = &answer["result"]["structuredContent"]["subscriptionId"];
                if let Some(id) = id.as_str() {
                    waiting.insert(id.to_owned(), (mode, arguments));
                }
            }
        }
        let made = waiting.clone();
        // What is open was in the answer; nothing new has to come.
        waiting.retain(|_, (mode, _)| *mode != "incidents");
        let last = format!("sentinel-{}", self.own);
        self.happen(&last).await;
        let until = Instant::now() + TIMEOUT;
        while !waiting.is_empty() {
            let Ok(message) = timeout_at(until, client.message()).await else {
                panic!("{}: `{last}` does not come to {waiting:?}", self.own);
            };
            let (id, text) = (&message["data"]["subscriptionId"], message.to_string());
            let id = id.as_str().unwrap_or_default().to_owned();
            let (mode, asked) = &made[&id];
            self.note(format!("push {mode} {asked}"), &message);
            let ends = match waiting.get(&id) {
                Some(("events", _)) => text.contains(&last) && text.contains("ConfigMap"),
                Some(_) => text.contains(&last),
                None => false,
            };
            if ends {
                waiting.remove(&id);
            }
        }
        for (id, (_, asked)) in &made {
            let uri = format!("kubecrier://subscriptions/{id}");
            let read = session.rpc("resources/read", json!({"uri": uri})).await;
            self.note(format!("resources/read subscription {asked}"), &read);
        }
        let none = json!({"uri": "kubecrier://subscriptions/none"});
        self.ask("resources/read", none).await;
    }

    /// Makes events of everything that was planted, and then of something else.
    async fn happen(&self, last: &str) {
        // A fault is told once in a while, by its reason.
        let unique = last.replace('-', "");
        let unique_last = format!("Last{unique}");
        for (space, object, kind, reason, message) in [
            (SPACE, format!("Pod/{POD}"), "Normal", "Pulled", EVENT),
            (
                SPACE,
                format!("Pod/{POD}"),
                "Warning",
                unique.as_str(),
                "a fault",
            ),
            (
                SPACE,
                format!("Deployment/{DEPLOYMENT}"),
                "Normal",
                "ScalingReplicaSet",
                DEPLOYMENT_EVENT,
            ),
            (
                OTHER_SPACE,
                format!("Pod/{OTHER_POD}"),
                "Normal",
                "Pulled",
                OTHER_EVENT,
            ),
            (
                OTHER_SPACE,
                format!("Pod/{OTHER_POD}"),
                "Warning",
                &unique,
                last,
            ),
            (
                OTHER_SPACE,
                "ConfigMap/last".to_owned(),
                "Normal",
                "Last",
                last,
            ),
            (SPACE, format!("Pod/{POD}"), "Warning", &unique_last, last),
            (SPACE, "ConfigMap/last".to_owned(), "Normal", "Last", last),
        ] {
            let one = event(space, &object, kind, reason, message);
            self.cluster.create(&one).await.unwrap();
        }
    }

    /// Subscribes to every resource, and reads updates until what was made last is among
    /// them.
    pub(super) async fn updates(&mut self) {
        let session = self.http.another("2025-11-25").await;
        let mut stream = UpdateStream::of(&session).await;
        let mut accepted = Vec::new();
        for uri in Self::uris() {
            let answer = session
                .rpc("resources/subscribe", json!({"uri": uri}))
                .await;
            self.note(format!("resources/subscribe {uri}"), &answer);
            if answer["result"].is_object() {
                accepted.push(uri);
            }
        }
        self.listen(&accepted).await;
        let mut waiting = accepted;
        for attempt in 0.. {
            assert!(attempt < ATTEMPTS, "no update of {waiting:?}");
            let last = format!("sentinel-{}-{attempt}", self.own);
            self.change(&last).await;
            let until = Instant::now() + Duration::from_secs(3);
            while !waiting.is_empty() {
                let Ok((uri, update)) = timeout_at(until, stream.update()).await else {
                    break;
                };
                self.note(format!("update of {uri}"), &update);
                // Incidents do not change by that: the first update is all.
                if update.to_string().contains(&last) || uri.ends_with("/incidents") {
                    waiting.retain(|one| *one != uri);
                }
            }
            if waiting.is_empty() {
                return;
            }
        }
    }

    /// A listen gets what a subscription gets, and nothing else.
    async fn listen(&mut self, subscribed: &[String]) {
        let wanted = json!({"notifications": {"resourceSubscriptions": Self::uris()}});
        let response = self.http.modern("subscriptions/listen", None, wanted).await;
        let ack = Stream::new(response).next().await;
        let honoured = &ack["params"]["notifications"]["resourceSubscriptions"];
        let honoured: Vec<_> = honoured.as_array().into_iter().flatten().collect();
        for uri in honoured.into_iter().filter_map(Value::as_str) {
            assert!(subscribed.iter().any(|one| one == uri), "listens to {uri}");
        }
    }

    /// Changes everything that was planted, and then something else.
    async fn change(&self, last: &str) {
        let label = json!({"metadata": {"labels": {last: "x"}}});
        let deployments = format!("/apis/apps/v1/namespaces/{SPACE}/deployments/{DEPLOYMENT}");
        self.cluster
            .send("PATCH", &deployments, &label)
            .await
            .unwrap();
        for (space, pod, log) in [(SPACE, POD, LOG), (OTHER_SPACE, OTHER_POD, OTHER_LOG)] {
            let service = format!("/api/v1/namespaces/{space}/services/{SERVICE}");
            self.cluster.send("PATCH", &service, &label).await.unwrap();
            let key = format!("{space}/{pod}/app");
            self.cluster.node().append(&key, log);
            self.cluster.node().append(&key, last);
        }
        self.happen(last).await;
    }
}
