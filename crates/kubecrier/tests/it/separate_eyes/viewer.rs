//! One user with everything that it has open: a session with its stream, a listen, and polls of
//! both eras.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::oracle::{Oracle, Way};
use crate::harness::{HttpSession, Stream, message};

/// What a user has open.
pub(super) struct Viewer {
    user: &'static str,
    session: HttpSession,
    stream: Stream,
    listen: Stream,
    /// The subscription of the session, and where its polls are.
    id: String,
    cursor: Option<String>,
    modern_cursor: Option<String>,
    notices: usize,
}

// === impl Viewer ===

impl Viewer {
    pub(super) async fn start(user: &'static str, session: HttpSession) -> Self {
        let stream = session.stream(None).await;
        session
            .rpc("logging/setLevel", json!({"level": "debug"}))
            .await;
        let filters = json!({"reason": "Eyes"});
        let made = session.call("events_subscribe", filters).await.ok().data;
        let warnings = made["warnings"].to_string();
        assert!(
            warnings.contains("you may not list events in the whole cluster"),
            "{warnings}"
        );
        let id = made["subscriptionId"].as_str().unwrap().to_owned();
        let updates = json!({"uri": format!("kubecrier://subscriptions/{id}")});
        session.rpc("resources/subscribe", updates).await;
        let wanted = json!({"notifications": {"resourceSubscriptions": [
            "k8s://dev/-/events", "k8s://dev/eyes-a/events",
        ]}});
        let listen = session.modern("subscriptions/listen", None, wanted).await;
        assert_eq!(listen.status(), 200);
        Self {
            user,
            session,
            stream,
            listen: Stream::new(listen),
            id,
            cursor: None,
            modern_cursor: None,
            notices: 0,
        }
    }

    pub(super) fn user(&self) -> &'static str {
        self.user
    }

    /// How often it was told that a right is gone.
    pub(super) fn notices(&self) -> usize {
        self.notices
    }

    /// What the server counts.
    pub(super) async fn metrics(&self) -> String {
        self.session.get("/metrics").await.text().await.unwrap()
    }

    /// Reads what has come.
    pub(super) async fn receive(&mut self, oracle: &mut Oracle) {
        for way in [Way::Pushed, Way::Listened] {
            let stream = match way {
                Way::Pushed => &mut self.stream,
                _ => &mut self.listen,
            };
            let brief = Duration::from_millis(2);
            while let Ok(message) = timeout(brief, stream.next()).await {
                self.notices += usize::from(message.to_string().contains("\"withdrawn\""));
                oracle.received(self.user, way, Instant::now(), &message.to_string());
            }
        }
    }

    /// Polls the subscription of the session until there is no more.
    pub(super) async fn poll(&mut self, oracle: &mut Oracle) {
        loop {
            let asked = Instant::now();
            let mut poll = json!({"subscriptionId": self.id, "limit": 500});
            if let Some(cursor) = &self.cursor {
                poll["cursor"] = cursor.as_str().into();
            }
            let page = self.session.call("events_poll", poll).await.ok().data;
            oracle.received(self.user, Way::Polled, asked, &page.to_string());
            self.cursor = page["cursor"].as_str().map(str::to_owned);
            if page["more"] != true {
                return;
            }
        }
    }

    /// Polls without a session until there is no more.
    pub(super) async fn poll_modern(&mut self, oracle: &mut Oracle) {
        loop {
            let asked = Instant::now();
            let mut poll = json!({"reason": "Eyes", "limit": 500});
            if let Some(cursor) = &self.modern_cursor {
                poll["cursor"] = cursor.as_str().into();
            }
            let call = json!({"name": "events_poll", "arguments": poll});
            let page = self.modern("tools/call", "events_poll", call).await;
            let page = &page["structuredContent"];
            oracle.received(self.user, Way::PolledModern, asked, &page.to_string());
            self.modern_cursor = page["cursor"].as_str().map(str::to_owned);
            if page["more"] != true {
                return;
            }
        }
    }

    /// Reads the resource of the feed.
    pub(super) async fn read(&mut self, oracle: &mut Oracle) {
        let asked = Instant::now();
        let uri = json!({"uri": format!("kubecrier://subscriptions/{}", self.id)});
        let read = self.session.rpc("resources/read", uri).await;
        oracle.received(self.user, Way::Read, asked, &read["result"].to_string());
    }

    /// Reads events as the user itself, over impersonation.
    pub(super) async fn read_modern(&mut self, oracle: &mut Oracle) {
        let asked = Instant::now();
        let uri = "k8s://dev/eyes-b/events";
        let read = self
            .session
            .modern("resources/read", Some(uri), json!({"uri": uri}))
            .await;
        let text = read.text().await.unwrap();
        oracle.received(self.user, Way::Read, asked, &text);
    }

    /// Searches what was kept of a namespace, and lists what it has in answer.
    pub(super) async fn search(&mut self, oracle: &mut Oracle, space: &str) {
        let asked = Instant::now();
        let call = json!({"namespace": space, "since": "1h", "limit": 500});
        let found = self.session.call("events_list", call).await;
        let text = format!("{}{}", found.text, found.data);
        oracle.received(self.user, Way::Read, asked, &text);
    }

    /// Loses its stream, and continues from an earlier event.
    pub(super) async fn reconnect(&mut self, oracle: &mut Oracle) {
        let from = self.stream.ids.len().saturating_sub(20);
        // Without an id, what is on its way would be lost.
        let Some(last) = self.stream.ids.get(from).cloned() else {
            return;
        };
        self.stream = self.session.stream(Some(&last)).await;
        self.replayed(oracle, Duration::from_millis(50)).await;
    }

    /// Asks for everything that is kept.
    pub(super) async fn replay_all(&mut self, oracle: &mut Oracle) {
        self.stream = self.session.stream(Some("0")).await;
        self.replayed(oracle, Duration::from_secs(1)).await;
    }

    async fn replayed(&mut self, oracle: &mut Oracle, patience: Duration) {
        while let Ok(message) = timeout(patience, self.stream.next()).await {
            let text = message.to_string();
            // What is new comes on the same stream.
            oracle.received(self.user, Way::Replayed, Instant::now(), &text);
            oracle.received(self.user, Way::Pushed, Instant::now(), &text);
        }
    }

    async fn modern(&self, method: &str, name: &str, params: Value) -> Value {
        let answer = self.session.modern(method, Some(name), params).await;
        let answer = message(&answer.text().await.unwrap());
        answer["result"].clone()
    }
}
