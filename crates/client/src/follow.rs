//! Follows a server for as long as it takes: a stream that breaks is resumed, a session
//! that is gone is made again, and each is reported.

use std::{collections::HashSet, slice, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::{
    ClientError, Endpoint, WatchRequest,
    request::{ContextRequest, OpenIncidents},
    session::{MessageStream, Session},
};

/// Exponential backoff between attempts: the first delay, and the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Contexts that are subscribed to at once.
const SUBSCRIBE_CONCURRENCY: usize = 32;

/// Keeps a session, its stream and its subscriptions alive.
#[derive(Debug)]
pub(crate) struct Follower {
    endpoint: Arc<Endpoint>,
    request: WatchRequest,
    state: State,
    /// The last session, to be ended in whatever state it is.
    session: Option<Session>,
    backoff: Duration,
}

#[derive(Debug)]
enum State {
    /// There is no session; `reconnecting` if there was one.
    Disconnected { reconnecting: bool },
    /// There is a session whose stream broke after an event.
    StreamBroken {
        session: Session,
        last_event_id: Option<String>,
    },
    /// Messages arrive.
    Streaming {
        session: Session,
        messages: MessageStream,
    },
}

/// What a follower reports.
#[derive(Debug)]
pub(crate) enum Update {
    /// Subscriptions were made in a new session.
    Subscribed {
        contexts: Vec<ContextRequest>,
        warnings: Vec<String>,
        /// Incidents that are open, of each context.
        open: Vec<OpenIncidents>,
        /// Whether there was a session before, whose notifications may have been missed.
        reconnected: bool,
    },
    /// The stream was resumed where it broke.
    Resumed,
    /// The connection is lost; the follower will try again.
    Disconnected,
    /// The data of a log message.
    Notification(Value),
    /// The server dropped that many messages.
    Gap(u64),
}

/// What happened before a subscription.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// With the members of notifications, the oldest first.
    pub(crate) rows: Vec<Value>,
    /// What the server said of them: what is missing, and how far back they go.
    pub(crate) notes: Vec<String>,
}

// === impl Follower ===

impl Follower {
    pub(crate) fn new(endpoint: Arc<Endpoint>, request: WatchRequest) -> Self {
        Self {
            endpoint,
            request,
            state: State::Disconnected {
                reconnecting: false,
            },
            session: None,
            backoff: BACKOFF_MIN,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.endpoint.url()
    }

    /// The next update. Fails when the first attempt fails, and later when a retry cannot
    /// help. Not cancel-safe: after a cancelled call only [`Follower::end`] may follow.
    pub(crate) async fn next(&mut self) -> Result<Update, ClientError> {
        loop {
            let state =
                std::mem::replace(&mut self.state, State::Disconnected { reconnecting: true });
            match state {
                State::Disconnected { reconnecting } => match self.subscribe(reconnecting).await {
                    Ok(update) => return Ok(update),
                    Err(error) if reconnecting && error.is_transient() => self.back_off().await,
                    Err(error) => return Err(error),
                },
                State::StreamBroken {
                    session,
                    last_event_id,
                } => {
                    match session.open_stream(last_event_id.clone()).await {
                        Ok(messages) => {
                            self.state = State::Streaming { session, messages };
                            self.backoff = BACKOFF_MIN;
                            return Ok(Update::Resumed);
                        }
                        // The server was restarted, or the session's idle timeout passed.
                        Err(ClientError::SessionExpired | ClientError::Status { .. }) => {}
                        Err(error) if error.is_transient() => {
                            self.state = State::StreamBroken {
                                session,
                                last_event_id,
                            };
                            self.back_off().await;
                        }
                        Err(error) => return Err(error),
                    }
                }
                State::Streaming {
                    session,
                    mut messages,
                } => match messages.next().await {
                    Some(message) => {
                        let update = handle(&session, message).await;
                        self.state = State::Streaming { session, messages };
                        if let Some(update) = update {
                            return Ok(update);
                        }
                    }
                    None => {
                        let last_event_id = messages.last_event_id().map(str::to_owned);
                        self.state = State::StreamBroken {
                            session,
                            last_event_id,
                        };
                        return Ok(Update::Disconnected);
                    }
                },
            }
        }
    }

    /// Makes a session, opens its stream, sets a level and subscribes.
    async fn subscribe(&mut self, reconnected: bool) -> Result<Update, ClientError> {
        let session = Session::initialize(Arc::clone(&self.endpoint)).await?;
        self.session = Some(session.clone());
        let messages = session.open_stream(None).await?;
        session
            .request("logging/setLevel", json!({"level": "info"}))
            .await?;
        let (mut contexts, mut warnings, mut failure) = (Vec::new(), Vec::new(), None);
        let mut open = Vec::new();
        let requests = self.request.resolve(&session).await?;
        // Unreachable clusters time out side by side, not one after the other.
        let subscribing = requests.into_iter().map(|context| {
            let arguments = context.subscribe_arguments();
            let session = &session;
            async move {
                let answer = session.call_tool("events_subscribe", arguments).await;
                (context, answer)
            }
        });
        let mut subscribing = stream::iter(subscribing).buffered(SUBSCRIBE_CONCURRENCY);
        while let Some((context, answer)) = subscribing.next().await {
            match answer {
                Ok(mut answer) => {
                    let texts = answer["warnings"].as_array().into_iter().flatten();
                    warnings.extend(texts.filter_map(Value::as_str).map(str::to_owned));
                    let context = context.subscribed(answer["subscriptionId"].take());
                    open.extend(context.open_incidents(&answer));
                    contexts.push(context);
                }
                // One unreachable cluster of several must not hide the others.
                Err(error @ ClientError::Tool { .. }) => {
                    warnings.push(format!("not watching {}: {error}", context.describe()));
                    failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        drop(subscribing);
        if let Some(error) = failure.filter(|_| contexts.is_empty()) {
            return Err(error);
        }
        self.state = State::Streaming { session, messages };
        self.backoff = BACKOFF_MIN;
        Ok(Update::Subscribed {
            contexts,
            warnings,
            open,
            reconnected,
        })
    }

    /// The session, if there is one.
    pub(crate) fn session(&self) -> Option<Session> {
        self.session.clone()
    }

    /// Lists what happened before the subscription; nothing unless the request asks for it.
    pub(crate) async fn history(&self, contexts: &[ContextRequest]) -> Result<Past, ClientError> {
        let (State::Streaming { session, .. }, Some(since)) = (&self.state, &self.request.since)
        else {
            return Ok(Past::default());
        };
        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        for context in contexts {
            let (tool, key) = context.list_tool();
            for arguments in context.list_arguments(since) {
                let mut page = session.call_tool(tool, arguments).await?;
                let told = [&page["note"], &page["notes"]].into_iter();
                let told = told.flat_map(|one| match one {
                    Value::Array(all) => all.as_slice(),
                    one => slice::from_ref(one),
                });
                for note in told.filter_map(Value::as_str) {
                    // Of each namespace it may be the same.
                    if !notes.iter().any(|known| known == note) {
                        notes.push(note.to_owned());
                    }
                }
                if let Value::Array(listed) = page[key].take() {
                    let matching = listed.into_iter().filter(|row| context.matches(row));
                    rows.extend(matching.map(|row| context.notification(&row)));
                }
            }
        }
        // A node can hurt two namespaces.
        let mut seen = HashSet::new();
        rows.retain(|row| {
            let incident = (&row["cluster"], &row["incident"]["id"]);
            incident.1.is_null() || seen.insert((incident.0.to_string(), incident.1.to_string()))
        });
        rows.sort_by_cached_key(|row| {
            let seen = (row["event"]["timestamp"].as_str()).or(row["incident"]["at"].as_str());
            let seen = seen.unwrap_or_default();
            seen.parse::<jiff::Timestamp>().unwrap_or_default()
        });
        Ok(Past { rows, notes })
    }

    /// Ends the session on the server.
    pub(crate) async fn end(self) {
        if let Some(session) = self.session {
            session.end().await;
        }
    }

    async fn back_off(&mut self) {
        tokio::time::sleep(self.backoff).await;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }
}

/// The update in a message of the server, if it has one; answers a ping.
async fn handle(session: &Session, mut message: Value) -> Option<Update> {
    match message["method"].as_str()? {
        "ping" => {
            // The server repeats a ping whose answer is lost.
            let _ignored = session.pong(&message["id"]).await;
            None
        }
        "notifications/message" => Some(Update::Notification(message["params"]["data"].take())),
        "notifications/stream/gap" => {
            let missing = message["params"]["missing"].as_u64().unwrap_or_default();
            Some(Update::Gap(missing))
        }
        _ => None,
    }
}
