//! A check of a connection: does what the server pushes arrive?

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{ClientError, Endpoint, session::Session};

/// A push that takes longer is held back by something between client and server.
const PUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The findings of a check, in the order of its steps; an error ends it.
#[derive(Debug, Default)]
pub struct Probe {
    /// The server's name and version, and the protocol's version.
    pub server: Option<String>,
    /// The time until the session was initialized.
    pub connect_time: Duration,
    /// The first push: the time it took to arrive, and its method.
    pub push: Option<(Duration, String)>,
    /// Whether the server accepts `logging/setLevel`.
    pub accepts_level: bool,
    /// Whether the server has the tool `events_subscribe`.
    pub has_subscribe: bool,
    /// The error that ended the check.
    pub error: Option<ClientError>,
}

// === impl Probe ===

impl Probe {
    /// Runs the check. The server sends `list_changed` to every new session as soon as its
    /// stream is open: a push that needs neither a request nor a cluster.
    pub async fn run(endpoint: Endpoint) -> Self {
        let mut probe = Self::default();
        let began = Instant::now();
        match Session::initialize(Arc::new(endpoint)).await {
            Ok(session) => {
                probe.connect_time = began.elapsed();
                probe.server = Some(describe(session.server()));
                probe.error = probe.check(&session).await.err();
                session.end().await;
            }
            Err(error) => probe.error = Some(error),
        }
        probe
    }

    async fn check(&mut self, session: &Session) -> Result<(), ClientError> {
        let began = Instant::now();
        let mut messages = session.open_stream(None).await?;
        let push = async {
            loop {
                let message = messages.next().await?;
                match message["method"].as_str() {
                    Some(method) if method.starts_with("notifications/") => {
                        return Some(method.to_owned());
                    }
                    _ => {}
                }
            }
        };
        let arrived = tokio::time::timeout(PUSH_TIMEOUT, push).await;
        self.push = arrived
            .ok()
            .flatten()
            .map(|method| (began.elapsed(), method));
        let level = session.request("logging/setLevel", json!({"level": "info"}));
        self.accepts_level = level.await.is_ok();
        let tools = session.request("tools/list", json!({})).await?;
        let tools = tools["tools"].as_array().into_iter().flatten();
        self.has_subscribe = tools
            .into_iter()
            .any(|tool| tool["name"] == "events_subscribe");
        Ok(())
    }
}

fn describe(server: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!(
        "{} {}, MCP {}",
        text(&server["serverInfo"]["name"]),
        text(&server["serverInfo"]["version"]),
        text(&server["protocolVersion"])
    )
}
