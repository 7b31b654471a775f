//! A client that sets a log level and reads the log messages of its stream.

use serde_json::{Value, json};

use super::{HttpSession, Stream};

/// A session and its stream.
pub(crate) struct Subscriber<'a> {
    pub(crate) session: &'a HttpSession,
    stream: Stream,
}

// === impl Subscriber ===

impl<'a> Subscriber<'a> {
    pub(crate) async fn new(session: &'a HttpSession) -> Self {
        Self::at(session, Some("info")).await
    }

    pub(crate) async fn at(session: &'a HttpSession, level: Option<&str>) -> Self {
        let stream = session.stream(None).await;
        if let Some(level) = level {
            session
                .rpc("logging/setLevel", json!({"level": level}))
                .await;
        }
        Self { session, stream }
    }

    /// The id of a new subscription.
    pub(crate) async fn subscribe(&self, arguments: Value) -> String {
        let answer = self.session.call("events_subscribe", arguments).await.ok();
        answer.data["subscriptionId"].as_str().unwrap().to_owned()
    }

    /// The params of the next message; `list_changed` notifications are skipped.
    pub(crate) async fn message(&mut self) -> Value {
        loop {
            let message = self.stream.next().await;
            match message["method"].as_str().unwrap() {
                "notifications/message" => return message["params"].clone(),
                method if method.ends_with("/list_changed") => {}
                _ => panic!("{message}"),
            }
        }
    }

    /// The data of the next message; checks that it belongs to this subscription.
    pub(crate) async fn event(&mut self, id: &str) -> Value {
        let message = self.message().await;
        assert_eq!(message["data"]["subscriptionId"], id, "{message}");
        message["data"].clone()
    }
}

// === impl HttpSession ===

impl HttpSession {
    /// The ids of the faults that this session's subscriptions were notified of.
    pub(crate) async fn notified_faults(&self) -> Vec<String> {
        let own = self.call("events_list_subscriptions", json!({})).await.ok();
        let own = own.data["subscriptions"].as_array().unwrap().clone();
        let mut ids = Vec::new();
        for one in own.iter().filter(|one| one["mode"] == "faults") {
            let mut poll = json!({"subscriptionId": one["subscriptionId"], "limit": 500});
            loop {
                let feed = self.call("events_poll", poll.clone()).await.ok().data;
                let found = feed["events"].as_array().unwrap().iter();
                ids.extend(found.filter_map(|event| event["faultId"].as_str().map(str::to_owned)));
                // A page is as large as an answer may be.
                if feed["more"] != true {
                    break;
                }
                poll["cursor"] = feed["cursor"].clone();
            }
        }
        ids.sort();
        ids.dedup();
        ids
    }
}
