//! A subscriber without a session, of 2026-07-28: it polls, each time whichever server is next, with
//! the cursor of the last answer.

use std::sync::Arc;

use reqwest::Client;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::watch,
    time::{Duration, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    heard::Heard,
    wire::{self, Entry, Failure},
};

/// How long a poll waits for something new.
const WAIT_SECONDS: u64 = 2;

/// How long the answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(WAIT_SECONDS + 5);

/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(500);

/// Refusals in a row after which a caller has no other way than to begin from nothing.
const REFUSALS_MAX: u32 = 12;

pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) url: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) stop: CancellationToken,
    /// How many subscribers are ready.
    pub(crate) ready: watch::Sender<usize>,
    /// Whether it names a subscription, or says its filters each time.
    pub(crate) subscribes: bool,
    pub(crate) heard: Heard,
}

/// What a poll answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Polled<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
    cursor: String,
    more: bool,
    missed: u64,
}

// === impl Caller ===

impl Caller {
    /// Polls until it is stopped.
    pub(crate) async fn run(mut self) -> Heard {
        let stop = self.stop.clone();
        let mut subscription = None;
        let mut cursor: Option<String> = None;
        let (mut is_ready, mut refusals) = (false, 0);
        while !stop.is_cancelled() {
            if self.subscribes && subscription.is_none() {
                match stop.run_until_cancelled(self.subscribe()).await {
                    None => break,
                    Some(Ok(id)) => subscription = Some(id),
                    Some(Err(failure)) => {
                        self.note(failure);
                        sleep(PAUSE).await;
                        continue;
                    }
                }
            }
            let polling = self.poll(subscription.as_deref(), cursor.as_deref());
            let more = match stop.run_until_cancelled(polling).await {
                None => break,
                Some(Ok((next, more))) => {
                    cursor = Some(next);
                    refusals = 0;
                    if !is_ready {
                        is_ready = true;
                        self.ready.send_modify(|ready| *ready += 1);
                    }
                    more
                }
                Some(Err(failure)) => {
                    refusals += u32::from(matches!(failure, Failure::Said(_)));
                    self.note(failure);
                    if refusals > REFUSALS_MAX {
                        (cursor, subscription, refusals) = (None, None, 0);
                        self.heard.started_over();
                    }
                    false
                }
            };
            if !more {
                let _stopped = stop.run_until_cancelled(sleep(PAUSE)).await;
            }
        }
        if let Some(id) = subscription {
            let end = json!({"subscriptionId": id});
            let end =
                wire::call_without_session(&self.client, &self.url, "events_unsubscribe", &end);
            match wire::ask(end, ANSWER_WITHIN).await {
                Ok(_) => self.heard.ended = Some(id),
                Err(failure) => self.note(failure),
            }
        }
        self.heard
    }

    async fn subscribe(&self) -> Result<String, Failure> {
        let arguments = json!({"namespace": *self.namespace, "mode": "events"});
        let result = self.call("events_subscribe", &arguments).await?;
        let result: Value = serde_json::from_str(&result).map_err(|error| unread(&error))?;
        let id = result["structuredContent"]["subscriptionId"].as_str();
        id.map(str::to_owned)
            .ok_or_else(|| Failure::Said("no subscriptionId".to_owned()))
    }

    /// The next cursor, and whether there is more at once.
    async fn poll(
        &mut self,
        subscription: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<(String, bool), Failure> {
        let mut arguments = match subscription {
            Some(id) => json!({"subscriptionId": id}),
            None => json!({"namespace": *self.namespace, "mode": "events"}),
        };
        arguments["limit"] = json!(500);
        arguments["waitSeconds"] = json!(WAIT_SECONDS);
        if let Some(cursor) = cursor {
            arguments["cursor"] = json!(cursor);
        }
        let result = self.call("events_poll", &arguments).await?;
        let result: Value = serde_json::from_str(&result).map_err(|error| unread(&error))?;
        let content = result["structuredContent"].to_string();
        let polled: Polled<'_> = serde_json::from_str(&content).map_err(|error| unread(&error))?;
        if polled.missed > 0 {
            let detail = format!("{} are not kept any more", polled.missed);
            self.heard.gap(None, &detail);
        }
        for entry in &polled.events {
            match serde_json::from_str::<Entry<'_>>(entry.get()) {
                Ok(entry) => self.heard.entry(&entry),
                Err(error) => self
                    .heard
                    .error(&format!("an entry that cannot be read: {error}")),
            }
        }
        Ok((polled.cursor, polled.more))
    }

    /// The result of a tool, as JSON.
    async fn call(&self, tool: &str, arguments: &Value) -> Result<String, Failure> {
        let call = wire::call_without_session(&self.client, &self.url, tool, arguments);
        let (_, text) = wire::ask(call, ANSWER_WITHIN).await?;
        let result = wire::result_of(&text);
        let result = result.map_err(|error| Failure::Said(format!("{error:#}")))?;
        match wire::tool_error(&result) {
            Some(error) => Err(Failure::Said(error)),
            None => Ok(result.to_string()),
        }
    }

    fn note(&mut self, failure: Failure) {
        match failure {
            Failure::NotFound => self.heard.error("404"),
            Failure::Silent => self.heard.trouble.silent += 1,
            Failure::Said(text) => self.heard.error(&text),
        }
    }
}

fn unread(error: &serde_json::Error) -> Failure {
    Failure::Said(format!("an answer that cannot be read: {error}"))
}
