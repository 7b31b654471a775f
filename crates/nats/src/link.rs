//! Whether there is a connection, and since when not.

use std::sync::Arc;

use async_nats::{ClientError, Event, ServerError};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Duration, Instant, timeout_at},
};

use crate::failures::{Doing, Failures};

/// A connection that was closed may be there again after so long. Who asks for something waits
/// for that, and no longer.
const BACK_SOON: Duration = Duration::from_millis(500);

/// How long other servers may take to come back after NATS was away: several times the longest
/// pause between two of their attempts.
const SETTLING: Duration = Duration::from_secs(5);

/// Whether the store can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// There is a connection.
    Connected,
    /// It was lost, and is tried again for ever.
    Lost {
        /// When it was lost.
        since: Timestamp,
        /// What the last attempt says.
        why: String,
    },
    /// There is a connection, and something that is asked for does not work.
    Failing {
        /// When it worked last, or was first tried.
        since: Timestamp,
        /// What NATS says.
        why: String,
    },
}

/// What is known of the connection. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: watch::Sender<State>,
    /// A lock for one note.
    failures: Arc<Mutex<Failures>>,
}

/// Which connection there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) health: Health,
    /// How often there was another one after the first.
    pub(crate) reconnects: u64,
    /// When that was the last time.
    reconnected: Option<Instant>,
    /// When it was last lost.
    lost: Option<Instant>,
}

// === impl Link ===

impl Link {
    /// There will be a first connection.
    pub(crate) fn new() -> Self {
        let state = State {
            health: Health::Connected,
            reconnects: 0,
            reconnected: None,
            lost: None,
        };
        Self {
            state: watch::Sender::new(state),
            failures: Arc::default(),
        }
    }

    /// Takes note of what the client tells.
    pub(crate) fn on_event(&self, event: &Event) {
        if let Event::ServerError(ServerError::Other(said)) = event
            && said.to_lowercase().contains("permissions violation")
        {
            self.failures.lock().deny(said);
        }
        if *event == Event::Connected && !self.is_connected() {
            // What failed before says nothing of another connection.
            *self.failures.lock() = Failures::default();
        }
        self.state.send_if_modified(|state| step(state, event));
    }

    /// Takes note of how a call went. One that fails without a connection says nothing else.
    pub(crate) fn note(&self, doing: Doing, result: Result<(), &str>) {
        if result.is_ok() || self.is_connected() {
            self.failures.lock().note(doing, result);
        }
    }

    /// Whether any call has failed lately.
    pub(crate) fn has_failures(&self) -> bool {
        self.failures.lock().is_any()
    }

    /// Whether one kind of call has failed lately, and not worked since.
    pub(crate) fn has_failed(&self, doing: Doing) -> bool {
        self.failures.lock().has(doing)
    }

    /// The right that NATS lately said to be missing.
    pub(crate) fn denied(&self) -> Option<String> {
        self.failures.lock().denied().map(str::to_owned)
    }

    /// Whether there is a connection, and what is asked for works.
    pub(crate) fn health(&self) -> Health {
        let health = self.state.borrow().health.clone();
        if health != Health::Connected {
            return health;
        }
        match self.failures.lock().lasting() {
            Some((since, why)) => Health::Failing { since, why },
            None => Health::Connected,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state.borrow().health == Health::Connected
    }

    /// Whether there is a connection, and it is still this one.
    pub(crate) fn is_current(&self, reconnects: u64) -> bool {
        let state = self.state.borrow();
        state.health == Health::Connected && state.reconnects == reconnects
    }

    /// Whether other servers, which lost their connections too, have had the time to come back.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.state.borrow();
        let is_settled = |since: Instant| since.elapsed() >= SETTLING;
        state.health == Health::Connected && state.reconnected.is_none_or(is_settled)
    }

    /// Tells of changes.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Waits for a connection for as long as it may be back at once; false if it is not.
    pub(crate) async fn is_back_soon(&self) -> bool {
        let lost = self.state.borrow().lost;
        let until = lost.map_or_else(Instant::now, |lost| lost + BACK_SOON);
        timeout_at(until, self.connected()).await.is_ok()
    }

    /// Waits for a connection, and gives its number. Cancel-safe.
    pub(crate) async fn connected(&self) -> u64 {
        let mut changes = self.state.subscribe();
        loop {
            {
                let state = changes.borrow_and_update();
                if state.health == Health::Connected {
                    return state.reconnects;
                }
            }
            // The sender is `self`, so there will be a change.
            let _changed = changes.changed().await;
        }
    }
}

fn step(state: &mut State, event: &Event) -> bool {
    match (event, &mut state.health) {
        (Event::Disconnected | Event::Closed, Health::Connected) => {
            state.health = Health::Lost {
                since: Timestamp::now(),
                why: "the connection was closed".to_owned(),
            };
            state.lost = Some(Instant::now());
            true
        }
        (Event::Connected, Health::Lost { .. }) => {
            state.health = Health::Connected;
            state.reconnects += 1;
            state.reconnected = Some(Instant::now());
            true
        }
        (Event::ClientError(ClientError::Other(said)), Health::Lost { why, .. }) => {
            why.clone_from(said);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_over_which_nothing_works_is_no_health() {
        let link = Link::new();
        for _ in 0..3 {
            link.note(Doing::WriteRecords, Err("insufficient resources"));
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        let health = link.health();
        assert!(matches!(health, Health::Failing { why, .. } if why == "insufficient resources"));
        assert!(link.is_connected());
        link.note(Doing::WriteRecords, Ok(()));
        assert_eq!(link.health(), Health::Connected);
        link.note(Doing::ReadLog, Err("no stream"));
        link.on_event(&Event::Disconnected);
        link.on_event(&Event::Connected);
        assert!(!link.has_failures(), "that was another connection");
        let said = "Permissions Violation for Publish to \"$JS.API.INFO\"".to_owned();
        link.on_event(&Event::ServerError(ServerError::Other(said.clone())));
        assert_eq!(link.denied(), Some(said));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_says_why_and_comes_back_as_another() {
        let link = Link::new();
        link.on_event(&Event::Connected);
        assert_eq!(
            link.connected().await,
            0,
            "the first one is no reconnection"
        );
        assert!(link.is_settled());
        link.on_event(&Event::Disconnected);
        assert!(!link.is_settled());
        link.on_event(&Event::ClientError(ClientError::Other("IO error".into())));
        assert!(matches!(link.health(), Health::Lost { why, .. } if why == "IO error"));
        let since = Instant::now();
        assert!(!link.is_back_soon().await);
        assert_eq!(since.elapsed(), BACK_SOON);
        assert!(!link.is_back_soon().await, "at once");
        assert_eq!(since.elapsed(), BACK_SOON);
        let waiting = link.clone();
        let waiting = waiting.connected();
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        link.on_event(&Event::Connected);
        assert_eq!(waiting.await, 1);
        assert_eq!(link.health(), Health::Connected);
        assert!(!link.is_settled(), "others may be on their way");
        tokio::time::advance(SETTLING).await;
        assert!(link.is_settled());
    }
}
