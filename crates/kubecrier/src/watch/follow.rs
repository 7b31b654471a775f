//! Hearing of news for as long as it takes: a stream that breaks is opened again
//! where it broke, a session that is gone is made anew, and both are said.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    session::{Session, Told},
    wire::{Endpoint, WireError},
    wish::{Order, Wish},
};

/// Tries again after this, and after twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Contexts that are subscribed to at once.
const AT_ONCE: usize = 32;

/// A client that stays.
#[derive(Debug)]
pub(crate) struct Follower {
    endpoint: Arc<Endpoint>,
    wish: Wish,
    state: State,
    /// The last session, to be ended whatever state it is in.
    current: Option<Session>,
    pause: Duration,
}

#[derive(Debug)]
enum State {
    /// There is no session; whether there was one.
    Apart { before: bool },
    /// There is one, without a stream; where that broke.
    Deaf {
        session: Session,
        last_id: Option<String>,
    },
    /// All is well.
    Hearing { session: Session, told: Told },
}

/// What a follower hears.
#[derive(Debug)]
pub(crate) enum Heard {
    /// It has subscribed, with a word on what may be wrong with that.
    Subscribed {
        orders: Vec<Order>,
        notes: Vec<String>,
        /// Whether there was a session before, whose news may have been missed.
        again: bool,
    },
    /// The stream goes on where it broke.
    Resumed,
    /// The connection is gone, and will be tried again.
    Lost(String),
    /// The data of a message.
    News(Value),
    /// So many messages could not be kept.
    Missing(u64),
}

// === impl Follower ===

impl Follower {
    pub(crate) fn new(endpoint: Arc<Endpoint>, wish: Wish) -> Self {
        Self {
            endpoint,
            wish,
            state: State::Apart { before: false },
            current: None,
            pause: PAUSE_MIN,
        }
    }

    /// The next that a person should know. Fails when trying again would not help:
    /// at the first try, or when the server does not want us. What is cancelled here
    /// cannot be gone on with, only ended.
    pub(crate) async fn next(&mut self) -> Result<Heard, WireError> {
        loop {
            let state = std::mem::replace(&mut self.state, State::Apart { before: true });
            match state {
                State::Apart { before } => {
                    let tried = self.subscribe(before).await;
                    match tried {
                        Ok(heard) => return Ok(heard),
                        Err(error) if before && error.may_pass() => self.rest().await,
                        Err(error) => return Err(error),
                    }
                }
                State::Deaf { session, last_id } => {
                    match session.listen(last_id.clone()).await {
                        Ok(told) => {
                            self.state = State::Hearing { session, told };
                            self.pause = PAUSE_MIN;
                            return Ok(Heard::Resumed);
                        }
                        // The server has started anew, or has waited long enough.
                        Err(WireError::SessionGone | WireError::Refused { .. }) => {}
                        Err(error) if error.may_pass() => {
                            self.state = State::Deaf { session, last_id };
                            self.rest().await;
                        }
                        Err(error) => return Err(error),
                    }
                }
                State::Hearing { session, mut told } => match told.next().await {
                    Some(message) => {
                        let heard = hear(&session, message).await;
                        self.state = State::Hearing { session, told };
                        if let Some(heard) = heard {
                            return Ok(heard);
                        }
                    }
                    None => {
                        let last_id = told.last_id().map(str::to_owned);
                        self.state = State::Deaf { session, last_id };
                        return Ok(Heard::Lost("the connection is gone".to_owned()));
                    }
                },
            }
        }
    }

    /// A session, its stream, a level, and the subscriptions.
    async fn subscribe(&mut self, again: bool) -> Result<Heard, WireError> {
        let session = Session::begin(Arc::clone(&self.endpoint)).await?;
        self.current = Some(session.clone());
        let told = session.listen(None).await?;
        session
            .request("logging/setLevel", json!({"level": "info"}))
            .await?;
        let (mut orders, mut notes, mut failed) = (Vec::new(), Vec::new(), None);
        let wanted = self.wish.orders(&session).await?;
        // Dead clusters cost their time once, and not one after the other.
        let asked = wanted.into_iter().map(|order| {
            let arguments = self.wish.subscription(&order);
            let session = &session;
            async move { (order, session.call("events_subscribe", arguments).await) }
        });
        let mut asked = stream::iter(asked).buffered(AT_ONCE);
        while let Some((order, made)) = asked.next().await {
            match made {
                Ok(made) => {
                    let warnings = made["warnings"].as_array().into_iter().flatten();
                    notes.extend(warnings.filter_map(Value::as_str).map(str::to_owned));
                    orders.push(order);
                }
                // One dead cluster of several must not keep the others quiet.
                Err(WireError::Tool(error)) => {
                    notes.push(format!("not watching {}: {error}", order.describe()));
                    failed = Some(WireError::Tool(error));
                }
                Err(error) => return Err(error),
            }
        }
        drop(asked);
        if let Some(error) = failed.filter(|_| orders.is_empty()) {
            return Err(error);
        }
        self.state = State::Hearing { session, told };
        self.pause = PAUSE_MIN;
        Ok(Heard::Subscribed {
            orders,
            notes,
            again,
        })
    }

    /// What was there before, the oldest first.
    pub(crate) async fn history(
        &mut self,
        orders: &[Order],
        since: &str,
    ) -> Result<Vec<(String, Value)>, WireError> {
        let State::Hearing { session, .. } = &self.state else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        for order in orders {
            for arguments in order.lists(since) {
                let mut page = session.call("events_list", arguments).await?;
                if let Value::Array(listed) = page["events"].take() {
                    let wanted = listed.into_iter().filter(|row| order.admits(row));
                    rows.extend(wanted.map(|row| (order.context.clone(), row)));
                }
            }
        }
        rows.sort_by_cached_key(|(_, row)| {
            let seen = row["lastSeen"].as_str().unwrap_or_default();
            seen.parse::<jiff::Timestamp>().unwrap_or_default()
        });
        Ok(rows)
    }

    /// Leaves in good order.
    pub(crate) async fn end(self) {
        if let Some(session) = self.current {
            session.end().await;
        }
    }

    async fn rest(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// What a message means to a person; a ping is answered.
async fn hear(session: &Session, mut message: Value) -> Option<Heard> {
    match message["method"].as_str()? {
        "ping" => {
            // One that does not arrive is asked for again.
            let _answered = session.pong(&message["id"]).await;
            None
        }
        "notifications/message" => Some(Heard::News(message["params"]["data"].take())),
        "notifications/stream/gap" => {
            let missing = message["params"]["missing"].as_u64().unwrap_or_default();
            Some(Heard::Missing(missing))
        }
        _ => None,
    }
}
