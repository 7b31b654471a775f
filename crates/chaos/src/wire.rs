//! Requests over HTTP, and what servers say, as little of both as subscribers need.

use std::borrow::Cow;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use memchr::memmem;
use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::time::{Duration, timeout};

/// Whoever is silent for so long is taken for dead.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The session is not there.
    NotFound,
    /// Nothing came in time.
    Silent,
    /// It was refused, or broke off.
    Said(String),
}

/// A message of a server, on a stream.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

/// The parameters of a log message.
#[derive(Deserialize)]
pub(crate) struct Logged<'a> {
    #[serde(borrow)]
    pub(crate) data: Entry<'a>,
}

/// An entry of a subscription.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry<'a> {
    #[serde(borrow)]
    pub(crate) event_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) event: Option<EventText<'a>>,
    #[serde(borrow)]
    pub(crate) gap: Option<AnnouncedGap<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct EventText<'a> {
    #[serde(borrow)]
    pub(crate) message: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(crate) struct AnnouncedGap<'a> {
    pub(crate) since: Option<Timestamp>,
    #[serde(borrow)]
    pub(crate) detail: Option<Cow<'a, str>>,
}

/// The bytes of a stream of server-sent events, as they come.
#[derive(Default)]
pub(crate) struct Stream {
    input: Vec<u8>,
    /// The id of the last event.
    pub(crate) last_id: Option<String>,
}

/// A client whose every request has a connection of its own.
pub(crate) fn client() -> Result<Client> {
    Ok(Client::builder().pool_max_idle_per_host(0).build()?)
}

/// Sends a request and reads the whole answer: its headers and its text.
pub(crate) async fn ask(
    request: RequestBuilder,
    within: Duration,
) -> Result<(Option<String>, String), Failure> {
    let asking = async {
        let response = open(request).await?;
        let session = session_of(&response);
        let text = response.text().await.map_err(broke_off)?;
        Ok((session, text))
    };
    timeout(within, asking)
        .await
        .unwrap_or(Err(Failure::Silent))
}

/// Sends a request; the answer follows.
pub(crate) async fn open(request: RequestBuilder) -> Result<Response, Failure> {
    let response = request.send().await.map_err(broke_off)?;
    match response.status().as_u16() {
        200..=299 => Ok(response),
        404 => Err(Failure::NotFound),
        status => {
            let text = response.text().await.unwrap_or_default();
            Err(Failure::Said(format!("{status} {}", text.trim())))
        }
    }
}

fn session_of(response: &Response) -> Option<String> {
    let id = response.headers().get("mcp-session-id")?;
    id.to_str().ok().map(str::to_owned)
}

fn broke_off(error: reqwest::Error) -> Failure {
    // The address has a port of this run, and says nothing.
    let mut innermost: &dyn std::error::Error = &error.without_url();
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    Failure::Said(innermost.to_string())
}

/// The response in a JSON body or in an event stream.
pub(crate) fn result_of(body: &str) -> Result<Value> {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let found = parsed(body).or_else(|| {
        let mut data = body.lines().filter_map(|line| line.strip_prefix("data:"));
        data.find_map(|text| parsed(text).filter(|value| value.get("id").is_some()))
    });
    let mut answer = found.context("no response in the answer")?;
    anyhow::ensure!(answer["error"].is_null(), "{}", answer["error"]);
    Ok(answer["result"].take())
}

/// The text of a tool's result, if it failed.
pub(crate) fn tool_error(result: &Value) -> Option<String> {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    (result["isError"] == true).then(|| text.to_owned())
}

/// A request of 2026-07-28, which has no session, to a tool.
pub(crate) fn call_without_session(
    client: &Client,
    url: &str,
    tool: &str,
    arguments: &Value,
) -> RequestBuilder {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": tool,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "chaos", "version": "1"},
            },
        },
    });
    post(client, url, &body)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
}

pub(crate) fn post(client: &Client, url: &str, body: &Value) -> RequestBuilder {
    let request = client.post(format!("{url}/mcp")).json(body);
    request.header("accept", "application/json, text/event-stream")
}

// === impl Stream ===

impl Stream {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Hands over the data of the events that are complete.
    pub(crate) fn events(&mut self, mut take: impl FnMut(&str)) {
        let mut begin = 0;
        while let Some(length) = memmem::find(&self.input[begin..], b"\n\n") {
            let event = String::from_utf8_lossy(&self.input[begin..begin + length]);
            begin += length + 2;
            for line in event.lines() {
                if let Some(id) = line.strip_prefix("id:") {
                    self.last_id = Some(id.trim().to_owned());
                } else if let Some(data) = line.strip_prefix("data:")
                    && !data.trim().is_empty()
                {
                    take(data);
                }
            }
        }
        self.input.drain(..begin);
    }

    /// Forgets the part of an event that broke off.
    pub(crate) fn reopen(&mut self) {
        self.input.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_in_whatever_pieces_they_come() {
        let text = "id: 1.a\ndata: {\"x\":1}\n\n: alive\n\nid: 2.b\ndata: {\"x\":2}\n\n";
        for size in 1..text.len() {
            let (mut stream, mut found) = (Stream::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                stream.push(piece);
                stream.events(|data| found.push(data.trim().to_owned()));
            }
            assert_eq!(found, [r#"{"x":1}"#, r#"{"x":2}"#]);
            assert_eq!(stream.last_id.as_deref(), Some("2.b"));
        }
    }

    #[test]
    fn an_id_is_not_that_of_an_event_that_broke_off() {
        let mut stream = Stream::default();
        stream.push(b"id: 1\ndata: {}\n\nid: 2\nda");
        stream.events(|_| {});
        stream.reopen();
        assert_eq!(stream.last_id.as_deref(), Some("1"));
    }
}
