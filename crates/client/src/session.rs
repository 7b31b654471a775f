//! An MCP session over Streamable HTTP.

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

use crate::{ClientError, Endpoint};

/// The newest protocol version that has sessions and a GET stream.
const PROTOCOL_VERSION: &str = "2025-11-25";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// A stream that is silent for longer is broken: the server sends a keep-alive four
/// times as often.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// An initialized session. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    endpoint: Arc<Endpoint>,
    headers: HeaderMap,
    /// The last request id; requests run side by side.
    last_request: Arc<AtomicU64>,
    /// The result of `initialize`.
    server: Value,
}

/// The messages that the server sends by itself, on the session's GET stream.
pub(crate) struct MessageStream {
    events: Pin<Box<dyn Stream<Item = Sse> + Send>>,
    last_event_id: Option<String>,
}

// === impl Session ===

impl Session {
    /// Sends `initialize` and `notifications/initialized`.
    pub(crate) async fn initialize(endpoint: Arc<Endpoint>) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let mut session = Self {
            endpoint,
            headers,
            last_request: Arc::default(),
            server: Value::Null,
        };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "kubecrier-watch", "version": env!("CARGO_PKG_VERSION")},
        }});
        let (headers, body) = session.post(&hello).await?;
        session.server = session.result(&body)?;
        if let Some(id) = headers.get(&SESSION_ID) {
            session.headers.insert(SESSION_ID, id.clone());
        }
        let agreed = session.server["protocolVersion"]
            .as_str()
            .unwrap_or(PROTOCOL_VERSION);
        if let Ok(agreed) = HeaderValue::try_from(agreed) {
            let name = HeaderName::from_static("mcp-protocol-version");
            session.headers.insert(name, agreed);
        }
        session
            .post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(session)
    }

    /// The result of `initialize`.
    pub(crate) fn server(&self) -> &Value {
        &self.server
    }

    /// Opens the stream; with the id of the last event that arrived, resumes it there.
    pub(crate) async fn open_stream(
        &self,
        last_event_id: Option<String>,
    ) -> Result<MessageStream, ClientError> {
        let mut headers = self.headers.clone();
        headers.remove(header::CONTENT_TYPE);
        let stream = HeaderValue::from_static("text/event-stream");
        headers.insert(header::ACCEPT, stream);
        if let Some(id) = last_event_id
            .as_deref()
            .and_then(|id| HeaderValue::try_from(id).ok())
        {
            headers.insert(HeaderName::from_static("last-event-id"), id);
        }
        let response = (self.endpoint)
            .send(Method::GET, headers, Bytes::new())
            .await?;
        let chunks = response.into_body().into_data_stream();
        // A connection whose peer has vanished is never closed.
        let chunks = stream::unfold(Box::pin(chunks), |mut chunks| async {
            let next = tokio::time::timeout(SILENCE_MAX, chunks.next()).await;
            Some((next.ok()??, chunks))
        });
        let events = SseStream::from_bytes_stream(chunks);
        // An error ends the stream, as its end does.
        let events = events.take_while(|event| std::future::ready(event.is_ok()));
        Ok(MessageStream {
            events: Box::pin(events.filter_map(async |event| event.ok())),
            last_event_id,
        })
    }

    /// Sends a request and returns its result.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.last_request.fetch_add(1, Ordering::Relaxed) + 1;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (_, body) = self.post(&body).await?;
        self.result(&body)
    }

    /// Calls a tool and returns its structured content.
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, ClientError> {
        let params = json!({"name": tool, "arguments": arguments});
        let mut result = self.request("tools/call", params).await?;
        if result["isError"] == true {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(ClientError::Tool {
                kind: text(&result["structuredContent"]["error"]["kind"]),
                text: text(&result["content"][0]["text"]),
            });
        }
        Ok(result["structuredContent"].take())
    }

    /// Answers a ping. A session that does not answer is removed by the server.
    pub(crate) async fn pong(&self, id: &Value) -> Result<(), ClientError> {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        self.post(&body).await.map(drop)
    }

    /// Ends the session, so that the server need not wait for its idle timeout.
    pub(crate) async fn end(self) {
        let deleted = self
            .endpoint
            .send(Method::DELETE, self.headers.clone(), Bytes::new());
        // A session that is not deleted ends by itself when it has been idle.
        let _best_effort = tokio::time::timeout(Duration::from_secs(1), deleted).await;
    }

    async fn post(&self, body: &Value) -> Result<(HeaderMap, Bytes), ClientError> {
        let body = body.to_string().into();
        self.endpoint.post(self.headers.clone(), body).await
    }

    /// The result in a body of JSON, or of server-sent events.
    fn result(&self, body: &[u8]) -> Result<Value, ClientError> {
        let text = String::from_utf8_lossy(body);
        let from_events = || {
            text.lines()
                .filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok())
                .find(|message: &Value| message.get("id").is_some())
        };
        let message = serde_json::from_str(&text).ok().or_else(from_events);
        let Some(mut message) = message else {
            let url = self.endpoint.url();
            return Err(ClientError::Rpc(format!("{url} does not speak MCP")));
        };
        if let Some(error) = message.get("error") {
            let text = error["message"]
                .as_str()
                .unwrap_or("an error without a message");
            return Err(ClientError::Rpc(text.to_owned()));
        }
        Ok(message["result"].take())
    }
}

// === impl MessageStream ===

impl MessageStream {
    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let event = self.events.next().await?;
            if let Some(id) = event.id {
                self.last_event_id = Some(id);
            }
            let message = event.data.and_then(|data| serde_json::from_str(&data).ok());
            if message.is_some() {
                return message;
            }
        }
    }

    /// Where to resume.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }
}

impl std::fmt::Debug for MessageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageStream")
            .field("last_event_id", &self.last_event_id)
            .finish_non_exhaustive()
    }
}
