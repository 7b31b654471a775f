//! Whether there is a connection, and since when not.

use async_nats::{ClientError, Event};
use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

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
}

/// What is known of the connection. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: watch::Sender<State>,
}

/// Which connection there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) health: Health,
    /// How often there was another one after the first.
    pub(crate) reconnects: u64,
    /// When that was the last time.
    reconnected: Option<Instant>,
}

// === impl Link ===

impl Link {
    /// There will be a first connection.
    pub(crate) fn new() -> Self {
        let state = State {
            health: Health::Connected,
            reconnects: 0,
            reconnected: None,
        };
        Self {
            state: watch::Sender::new(state),
        }
    }

    /// Takes note of what the client tells.
    pub(crate) fn on_event(&self, event: &Event) {
        self.state.send_if_modified(|state| step(state, event));
    }

    pub(crate) fn health(&self) -> Health {
        self.state.borrow().health.clone()
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
