//! A subscriber with a session, of 2025-11-25: it reads its stream, and opens it again with the last
//! id whenever it ends or is silent.

use std::sync::Arc;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Duration, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    heard::Heard,
    wire::{self, Failure, Logged, Message, SILENCE_MAX, Stream},
};

const VERSION: &str = "2025-11-25";

/// How long the answer to a request may take, which may have to be forwarded.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);

/// The pause before a stream is opened again.
const RETRY: Duration = Duration::from_millis(300);

/// How often the answer to a ping is sent if that fails.
const PONGS: usize = 2;

/// How often a session is asked to end.
const GOODBYES: usize = 10;

pub(crate) struct SessionSubscriber {
    pub(crate) client: Client,
    pub(crate) url: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) stop: CancellationToken,
    /// How many subscribers are ready.
    pub(crate) ready: watch::Sender<usize>,
    /// Whether the session is ended at the end, or left where it is.
    pub(crate) says_goodbye: bool,
    pub(crate) heard: Heard,
}

/// Why a session is left.
enum Left {
    Lost,
    Stopped,
}

// === impl SessionSubscriber ===

impl SessionSubscriber {
    /// Subscribes, and listens until it is stopped.
    pub(crate) async fn run(mut self) -> Heard {
        let mut is_ready = false;
        while !self.stop.is_cancelled() {
            let session = match self.begin().await {
                Ok(session) => session,
                Err(failure) => {
                    self.note(failure);
                    self.pause().await;
                    continue;
                }
            };
            if !is_ready {
                is_ready = true;
                self.ready.send_modify(|ready| *ready += 1);
            }
            match self.listen(&session).await {
                Left::Lost => {
                    self.heard.not_found();
                    self.heard.started_over();
                }
                Left::Stopped if self.says_goodbye => self.end(&session).await,
                Left::Stopped => {}
            }
        }
        self.heard
    }

    async fn begin(&self) -> Result<String, Failure> {
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": VERSION,
                "capabilities": {},
                "clientInfo": {"name": "chaos", "version": "1"},
            },
        });
        let hello = wire::post(&self.client, &self.url, &hello);
        let (session, text) = wire::ask(hello, ANSWER_WITHIN).await?;
        wire::result_of(&text).map_err(said)?;
        let session = session.ok_or_else(|| Failure::Said("no session".to_owned()))?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        wire::ask(self.post(&session, &done), ANSWER_WITHIN).await?;
        let level = json!({"level": "info"});
        self.request(&session, "logging/setLevel", &level).await?;
        let arguments = json!({"namespace": *self.namespace, "mode": "events"});
        let call = json!({"name": "events_subscribe", "arguments": arguments});
        let result = self.request(&session, "tools/call", &call).await?;
        match wire::tool_error(&result) {
            Some(error) => Err(Failure::Said(error)),
            None => Ok(session),
        }
    }

    async fn request(&self, session: &str, method: &str, params: &Value) -> Result<Value, Failure> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, text) = wire::ask(self.post(session, &body), ANSWER_WITHIN).await?;
        wire::result_of(&text).map_err(said)
    }

    fn post(&self, session: &str, body: &Value) -> RequestBuilder {
        of_session(wire::post(&self.client, &self.url, body), session)
    }

    /// Reads the stream of a session, in as many pieces as it comes in.
    async fn listen(&mut self, session: &str) -> Left {
        let stop = self.stop.clone();
        let mut stream = Stream::default();
        let mut pongs = JoinSet::new();
        loop {
            let reading = self.read_one(session, &mut stream, &mut pongs);
            match stop.run_until_cancelled(reading).await {
                None => return Left::Stopped,
                Some(Failure::NotFound) => return Left::Lost,
                Some(failure) => self.note(failure),
            }
            self.pause().await;
        }
    }

    /// Opens the stream once, and reads it to its end.
    async fn read_one(
        &mut self,
        session: &str,
        stream: &mut Stream,
        pongs: &mut JoinSet<()>,
    ) -> Failure {
        stream.reopen();
        let mut get = self.client.get(format!("{}/mcp", self.url));
        get = of_session(get.header("accept", "text/event-stream"), session);
        if let Some(id) = &stream.last_id {
            get = get.header("last-event-id", id);
        }
        let opened = timeout(SILENCE_MAX, wire::open(get)).await;
        let mut response = match opened.unwrap_or(Err(Failure::Silent)) {
            Ok(response) => response,
            Err(failure) => return failure,
        };
        loop {
            match timeout(SILENCE_MAX, response.chunk()).await {
                Err(_elapsed) => return Failure::Silent,
                Ok(Err(_) | Ok(None)) => {
                    self.heard.trouble.ended += 1;
                    return Failure::Said("the stream ended".to_owned());
                }
                Ok(Ok(Some(bytes))) => stream.push(&bytes),
            }
            let mut pings = Vec::new();
            let heard = &mut self.heard;
            stream.events(|data| pings.extend(take(heard, data)));
            for id in pings {
                self.pong(session, &id, pongs);
            }
            while pongs.try_join_next().is_some() {}
        }
    }

    /// Answers a ping, beside the stream.
    fn pong(&self, session: &str, id: &RawValue, pongs: &mut JoinSet<()>) {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        let sending = (0..PONGS).map(|_| self.post(session, &answer));
        let sending: Vec<_> = sending.collect();
        pongs.spawn(async move {
            for answer in sending {
                if wire::ask(answer, Duration::from_secs(2)).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// Ends the session, so that nothing of it is left.
    async fn end(&mut self, session: &str) {
        for _ in 0..GOODBYES {
            let delete = self.client.delete(format!("{}/mcp", self.url));
            match wire::ask(of_session(delete, session), ANSWER_WITHIN).await {
                // It may have ended with an answer that broke off.
                Ok(_) | Err(Failure::NotFound) => return,
                Err(failure) => self.note(failure),
            }
            sleep(RETRY).await;
        }
    }

    fn note(&mut self, failure: Failure) {
        match failure {
            // A session that was just begun.
            Failure::NotFound => self.heard.not_found(),
            Failure::Silent => self.heard.trouble.silent += 1,
            Failure::Said(text) => self.heard.error(&text),
        }
    }

    async fn pause(&self) {
        let _stopped = self.stop.run_until_cancelled(sleep(RETRY)).await;
    }
}

/// Takes a message; the id of a ping is to be answered.
fn take(heard: &mut Heard, data: &str) -> Option<Box<RawValue>> {
    let message: Message<'_> = match serde_json::from_str(data) {
        Ok(message) => message,
        Err(error) => {
            heard.error(&format!("a message that cannot be read: {error}"));
            return None;
        }
    };
    let params = message.params.map_or("", RawValue::get);
    match message.method.as_deref() {
        Some("ping") => return message.id.map(RawValue::to_owned),
        Some("notifications/message") => match serde_json::from_str::<Logged<'_>>(params) {
            Ok(logged) => heard.entry(&logged.data),
            Err(error) => heard.error(&format!("an entry that cannot be read: {error}")),
        },
        Some("notifications/stream/gap") => heard.gap(None, params),
        _ => {}
    }
    None
}

fn of_session(request: RequestBuilder, session: &str) -> RequestBuilder {
    request
        .header("mcp-session-id", session)
        .header("mcp-protocol-version", VERSION)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn said(error: anyhow::Error) -> Failure {
    Failure::Said(format!("{error:#}"))
}
