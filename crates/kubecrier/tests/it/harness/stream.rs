//! Reads server-sent events.

use std::time::Duration;

use serde_json::Value;

use super::{TIMEOUT, validate};

/// Server-sent events, one by one.
pub(crate) struct Stream {
    response: reqwest::Response,
    version: String,
    /// The beginning of a character.
    pending: Vec<u8>,
    buffer: String,
    /// The ids of the events so far.
    pub(crate) ids: Vec<String>,
}

// === impl Stream ===

impl Stream {
    /// A stream of the newest protocol version.
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self::at(response, "2026-07-28")
    }

    /// A stream of this protocol version.
    pub(crate) fn at(response: reqwest::Response, version: &str) -> Self {
        Self {
            response,
            version: version.to_owned(),
            pending: Vec::new(),
            buffer: String::new(),
            ids: Vec::new(),
        }
    }

    /// The next message that is no ping.
    pub(crate) async fn next(&mut self) -> Value {
        self.within(async |stream| stream.message().await).await
    }

    /// The next message, or `None` at the end of the stream.
    pub(crate) async fn until_end(&mut self) -> Option<Value> {
        let next = tokio::time::timeout(TIMEOUT, self.message()).await;
        next.expect("a message, or the end")
    }

    /// The next message, whatever it is.
    pub(crate) async fn anything(&mut self) -> Value {
        self.within(async |stream| stream.any_message().await).await
    }

    async fn within(&mut self, read: impl AsyncFnOnce(&mut Self) -> Option<Value>) -> Value {
        match tokio::time::timeout(TIMEOUT, read(self)).await {
            Ok(Some(message)) => message,
            Ok(None) => panic!("the stream ended: {:?}", self.buffer),
            Err(elapsed) => panic!("{elapsed}, no message; so far {:?}", self.buffer),
        }
    }

    /// Everything until the stream ends.
    pub(crate) async fn rest(&mut self) -> String {
        self.rest_within(TIMEOUT).await
    }

    /// The same for a stream that lasts longer.
    pub(crate) async fn rest_within(&mut self, limit: Duration) -> String {
        let all = async { while self.read().await {} };
        tokio::time::timeout(limit, all)
            .await
            .expect("the stream ends");
        self.buffer.clone()
    }

    async fn message(&mut self) -> Option<Value> {
        loop {
            let message = self.any_message().await?;
            if message["method"] != "ping" {
                return Some(message);
            }
        }
    }

    async fn any_message(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.buffer = rest;
                for line in event.lines() {
                    if let Some(id) = line.strip_prefix("id: ") {
                        self.ids.push(id.to_owned());
                    }
                }
                let data = event.lines().find_map(|line| line.strip_prefix("data:"));
                if let Some(data) = data.filter(|data| !data.trim().is_empty()) {
                    let message = serde_json::from_str(data).unwrap();
                    validate(&self.version, None, &message).expect_valid(&message);
                    return Some(message);
                }
            }
            if !self.read().await {
                return None;
            }
        }
    }

    async fn read(&mut self) -> bool {
        match self.response.chunk().await {
            Ok(Some(chunk)) => {
                // A chunk may end within a character.
                self.pending.extend_from_slice(&chunk);
                let whole = match std::str::from_utf8(&self.pending) {
                    Ok(_) => self.pending.len(),
                    Err(error) => error.valid_up_to(),
                };
                let rest = self.pending.split_off(whole);
                let text = std::mem::replace(&mut self.pending, rest);
                self.buffer.push_str(std::str::from_utf8(&text).unwrap());
                true
            }
            Ok(None) | Err(_) => false,
        }
    }
}
