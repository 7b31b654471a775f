//! Whether a connection really carries what the server says by itself.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    session::Session,
    wire::{Endpoint, WireError},
};

/// What is in the way of a push longer than this holds pushes back.
const PUSH_WITHIN: Duration = Duration::from_secs(5);

/// What a probe found, in order; it ends where it could not go on.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// The server's name and version, and the protocol's version.
    pub(crate) server: Option<String>,
    /// How long it took to get there.
    pub(crate) begun: Duration,
    /// How long a push took to come, and which.
    pub(crate) pushed: Option<(Duration, String)>,
    /// Whether it lets clients say how loud it should be.
    pub(crate) level: bool,
    /// Whether it lets clients subscribe to events.
    pub(crate) subscribe: bool,
    /// Why it ended before that.
    pub(crate) error: Option<WireError>,
}

// === impl Probe ===

impl Probe {
    /// Every fresh session is told of its lists as soon as its stream is open: a
    /// message that nobody asked for, and that needs no cluster.
    pub(crate) async fn run(endpoint: Endpoint) -> Self {
        let mut probe = Self::default();
        let began = Instant::now();
        match Session::begin(Arc::new(endpoint)).await {
            Ok(session) => {
                probe.begun = began.elapsed();
                probe.server = Some(describe(session.server()));
                probe.error = probe.listen(&session).await.err();
                session.end().await;
            }
            Err(error) => probe.error = Some(error),
        }
        probe
    }

    async fn listen(&mut self, session: &Session) -> Result<(), WireError> {
        let began = Instant::now();
        let mut told = session.listen(None).await?;
        let push = async {
            loop {
                let message = told.next().await?;
                match message["method"].as_str() {
                    Some(method) if method.starts_with("notifications/") => {
                        return Some(method.to_owned());
                    }
                    _ => {}
                }
            }
        };
        let came = tokio::time::timeout(PUSH_WITHIN, push).await;
        self.pushed = came.ok().flatten().map(|method| (began.elapsed(), method));
        let level = session.request("logging/setLevel", json!({"level": "info"}));
        self.level = level.await.is_ok();
        let tools = session.request("tools/list", json!({})).await?;
        let tools = tools["tools"].as_array().into_iter().flatten();
        self.subscribe = tools
            .into_iter()
            .any(|tool| tool["name"] == "events_subscribe");
        Ok(())
    }
}

fn describe(server: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!(
        "{} {}, MCP {}",
        word(&server["serverInfo"]["name"]),
        word(&server["serverInfo"]["version"]),
        word(&server["protocolVersion"])
    )
}
