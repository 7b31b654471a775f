//! An MCP session over HTTP, as any client has one.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};

use super::wire::{Endpoint, WireError};

/// The newest version that has sessions and a stream.
const VERSION: &str = "2025-11-25";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The server sends a sign of life four times as often.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// A session. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    endpoint: Arc<Endpoint>,
    headers: HeaderMap,
    /// Ids of requests, which run side by side.
    next: Arc<AtomicU64>,
    server: Value,
}

/// What the server says by itself.
pub(crate) struct Told {
    events: Pin<Box<dyn Stream<Item = Sse> + Send>>,
    last_id: Option<String>,
}

// === impl Session ===

impl Session {
    /// `initialize` and `notifications/initialized`.
    pub(crate) async fn begin(endpoint: Arc<Endpoint>) -> Result<Self, WireError> {
        let mut headers = HeaderMap::new();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let mut session = Self {
            endpoint,
            headers,
            next: Arc::default(),
            server: Value::Null,
        };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "kubecrier-watch", "version": env!("CARGO_PKG_VERSION")},
        }});
        let (headers, body) = session.post(&hello).await?;
        session.server = session.result(&body)?;
        if let Some(id) = headers.get(&SESSION) {
            session.headers.insert(SESSION, id.clone());
        }
        let agreed = session.server["protocolVersion"]
            .as_str()
            .unwrap_or(VERSION);
        if let Ok(agreed) = HeaderValue::try_from(agreed) {
            let name = HeaderName::from_static("mcp-protocol-version");
            session.headers.insert(name, agreed);
        }
        session
            .post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(session)
    }

    /// What the server said of itself.
    pub(crate) fn server(&self) -> &Value {
        &self.server
    }

    /// Opens the stream, or opens it again after the last event that came.
    pub(crate) async fn listen(&self, last_id: Option<String>) -> Result<Told, WireError> {
        let mut headers = self.headers.clone();
        headers.remove(header::CONTENT_TYPE);
        let stream = HeaderValue::from_static("text/event-stream");
        headers.insert(header::ACCEPT, stream);
        if let Some(id) = last_id
            .as_deref()
            .and_then(|id| HeaderValue::try_from(id).ok())
        {
            headers.insert(HeaderName::from_static("last-event-id"), id);
        }
        let response = (self.endpoint)
            .send(Method::GET, headers, Bytes::new())
            .await?;
        let chunks = response.into_body().into_data_stream();
        // A connection that died without a word is silent for ever.
        let chunks = stream::unfold(Box::pin(chunks), |mut chunks| async {
            let next = tokio::time::timeout(SILENCE_MAX, chunks.next()).await;
            Some((next.ok()??, chunks))
        });
        let events = SseStream::from_bytes_stream(chunks);
        // What cannot be read ends the stream as an end does.
        let events = events.take_while(|event| std::future::ready(event.is_ok()));
        Ok(Told {
            events: Box::pin(events.filter_map(async |event| event.ok())),
            last_id,
        })
    }

    /// One request, and its result.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, WireError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (_, body) = self.post(&body).await?;
        self.result(&body)
    }

    /// What a tool answers, as data.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, WireError> {
        let params = json!({"name": tool, "arguments": arguments});
        let mut result = self.request("tools/call", params).await?;
        if result["isError"] == true {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            return Err(WireError::Tool(text.to_owned()));
        }
        Ok(result["structuredContent"].take())
    }

    /// Answers a ping, or it is taken for gone.
    pub(crate) async fn pong(&self, id: &Value) -> Result<(), WireError> {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        self.post(&body).await.map(drop)
    }

    /// Ends it, so that the server need not wait for it to be idle.
    pub(crate) async fn end(self) {
        let gone = self
            .endpoint
            .send(Method::DELETE, self.headers.clone(), Bytes::new());
        // It would end by itself too.
        let _told = tokio::time::timeout(Duration::from_secs(1), gone).await;
    }

    async fn post(&self, body: &Value) -> Result<(HeaderMap, Bytes), WireError> {
        let body = body.to_string().into();
        self.endpoint.ask(self.headers.clone(), body).await
    }

    /// The result in a JSON body, or in an event stream.
    fn result(&self, body: &[u8]) -> Result<Value, WireError> {
        let text = String::from_utf8_lossy(body);
        let from_events = || {
            text.lines()
                .filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok())
                .find(|message: &Value| message.get("id").is_some())
        };
        let message = serde_json::from_str(&text).ok().or_else(from_events);
        let Some(mut message) = message else {
            let url = self.endpoint.url();
            return Err(WireError::Rpc(format!("{url} does not speak MCP")));
        };
        if let Some(error) = message.get("error") {
            let said = error["message"]
                .as_str()
                .unwrap_or("an error without a message");
            return Err(WireError::Rpc(said.to_owned()));
        }
        Ok(message["result"].take())
    }
}

// === impl Told ===

impl Told {
    /// The next message; none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let event = self.events.next().await?;
            if let Some(id) = event.id {
                self.last_id = Some(id);
            }
            let message = event.data.and_then(|data| serde_json::from_str(&data).ok());
            if message.is_some() {
                return message;
            }
        }
    }

    /// Where to go on.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Told")
            .field("last_id", &self.last_id)
            .finish_non_exhaustive()
    }
}
