//! One bounded outbox per session: whoever publishes never waits for a reader.
//!
//! ```text
//!             push (never waits)
//!                   |
//!        +----------+-----------+
//!        | critical             |   within a tier: in the order they came;
//!        |   [m1] [gap 2] [m4]  |   one with a key stays where its first
//!        +----------------------+   waiting predecessor stood, and replaces it
//!        | informational        |
//!        |   [gap 7] [u:x] [m9] |   full: the oldest informational goes,
//!        +----------+-----------+   and a gap says so in its place
//!                   |
//!          reader: everything that waits, at once
//! ```
//!
//! Every push ends as exactly one of delivered, merged, dropped or pending;
//! [`OutboxStats`] always adds up.

mod lanes;
mod reader;

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use self::lanes::Lanes;
use self::reader::Lease;
pub use self::reader::{Batch, ReadEnd, Reader};
use crate::metrics::{ErrorType, Metrics};
use crate::notification::{Notification, Tier};

/// How much may wait in an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimits {
    /// The most messages.
    pub messages_max: usize,
    /// The most bytes of all messages together.
    pub bytes_max: usize,
}

/// Limits and counters of an outbox.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct OutboxConfig {
    limits: OutboxLimits,
    metrics: Metrics,
    owner: Option<Arc<str>>,
}

/// What waits for one session. A clone is the same outbox.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the outcome says whether anything was dropped"]
pub enum PushOutcome {
    /// It waits. `evicted` others had to go to make room.
    Queued {
        /// How many were dropped for it.
        evicted: usize,
    },
    /// It replaced an older one with the same key. `evicted` others had to go
    /// because it is larger than that one was.
    Merged {
        /// How many were dropped for it.
        evicted: usize,
    },
    /// It was dropped itself: larger than the whole outbox, or informational
    /// where only critical ones wait.
    Refused,
    /// The outbox is closed.
    Closed,
}

/// One thing a reader gets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Item {
    /// A notification to deliver.
    Notification(Notification),
    /// Here something is missing. Tell the client, in whatever way it understands.
    Gap(Gap),
}

/// So many notifications were dropped at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// How many.
    pub dropped: u64,
    /// Of which tier.
    pub tier: Tier,
}

/// The account of an outbox. `delivered + merged + dropped + pending == pushed`,
/// always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStats {
    /// Every push there was.
    pub pushed: u64,
    /// Handed over, as its reader reported.
    pub delivered: u64,
    /// Replaced by a newer one with the same key.
    pub merged: u64,
    /// Lost: refused, evicted, abandoned by the reader, or left when it closed.
    pub dropped: u64,
    /// Waiting, or with the reader.
    pub pending: u64,
    /// Bytes waiting; what is with the reader does not count.
    pub bytes: usize,
}

struct Shared {
    config: OutboxConfig,
    state: Mutex<State>,
}

/// A lock, because a push touches a queue, a map and four counters that must
/// agree; it is held for a few dozen instructions and never across an await.
struct State {
    lanes: Lanes,
    closed: bool,
    /// With the reader: taken, and neither delivered nor given back.
    in_flight: u64,
    pushed: u64,
    delivered: u64,
    merged: u64,
    dropped: u64,
    /// Which reader is the newest; an older one is superseded.
    epoch: u64,
    /// What is with the reader, batch by batch, oldest first.
    leases: Vec<Lease>,
    last_lease: u64,
    waker: Option<Waker>,
    /// The reader lets more come together: it is not woken for less than half of
    /// what there is room for.
    patient: bool,
    /// Of a reader that wants to know when another takes over.
    takeover: Option<Waker>,
    /// A gap was begun and nothing was taken since: already said in the log.
    overflow_logged: bool,
}

// === impl Outbox ===

impl Outbox {
    /// An empty outbox.
    pub fn new(config: OutboxConfig) -> Self {
        let lanes = Lanes::new(config.limits);
        let state = State {
            lanes,
            closed: false,
            in_flight: 0,
            pushed: 0,
            delivered: 0,
            merged: 0,
            dropped: 0,
            epoch: 0,
            leases: Vec::new(),
            last_lease: 0,
            waker: None,
            patient: false,
            takeover: None,
            overflow_logged: false,
        };
        Self(Arc::new(Shared {
            config,
            state: Mutex::new(state),
        }))
    }

    /// Puts a notification in. Never waits.
    ///
    /// A notification that cannot be sent (see [`Notification::frame`]) is
    /// taken like any other, so that its failure is reported where all are.
    pub fn push(&self, notification: Notification) -> PushOutcome {
        let mut outcome = PushOutcome::Closed;
        self.push_each([notification], |became| outcome = became);
        outcome
    }

    /// Puts several in, with nothing of anybody else between them, and wakes the
    /// reader once. Says how many were taken; [`push`](Self::push) says the rest.
    pub fn push_all(&self, notifications: Vec<Notification>) -> usize {
        let mut taken = 0;
        self.push_each(notifications, |became| {
            taken += usize::from(became.into_result().is_ok());
        });
        taken
    }

    fn push_each(
        &self,
        // Made before the lock is taken.
        notifications: impl IntoIterator<Item = Notification>,
        mut became: impl FnMut(PushOutcome),
    ) {
        let mut dropped = Vec::new();
        let mut state = self.0.state.lock();
        for notification in notifications {
            state.pushed += 1;
            if state.closed {
                state.dropped += 1;
                became(PushOutcome::Closed);
                continue;
            }
            let lanes::Pushed { outcome, evicted } = state.lanes.push(notification);
            if matches!(outcome, PushOutcome::Merged { .. }) {
                state.merged += 1;
            }
            state.dropped += evicted.len() as u64;
            dropped.extend(evicted);
            became(outcome);
        }
        let first_drop =
            !dropped.is_empty() && !std::mem::replace(&mut state.overflow_logged, true);
        let wake = !state.lanes.is_empty() && (!state.patient || state.lanes.half_full());
        let waker = if wake { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        if !dropped.is_empty() {
            self.0.report(&dropped, first_drop);
        }
    }

    /// Becomes the reader. There is one at a time: the reader before, if it is
    /// still there, ends with [`ReadEnd::Superseded`], and what it holds
    /// undelivered is the first thing this one reads.
    pub fn reader(&self) -> Reader {
        let mut state = self.0.state.lock();
        state.epoch += 1;
        let epoch = state.epoch;
        let evicted = state.reclaim();
        let wakers = [state.waker.take(), state.takeover.take()];
        drop(state);
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
        self.0.report(&evicted, !evicted.is_empty());
        Reader::new(Arc::clone(&self.0), epoch)
    }

    /// Closes the outbox: what waits is counted as dropped, the reader ends,
    /// and later pushes are refused.
    pub fn close(&self) {
        let mut state = self.0.state.lock();
        if state.closed {
            return;
        }
        state.closed = true;
        state.dropped += state.lanes.messages() as u64;
        let left = std::mem::replace(&mut state.lanes, Lanes::new(self.0.config.limits));
        let waker = state.waker.take();
        drop(state);
        drop(left);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }

    /// The account, as of now.
    pub fn stats(&self) -> OutboxStats {
        let state = self.0.state.lock();
        OutboxStats {
            pushed: state.pushed,
            delivered: state.delivered,
            merged: state.merged,
            dropped: state.dropped,
            pending: state.lanes.messages() as u64 + state.in_flight,
            bytes: state.lanes.bytes(),
        }
    }

    /// Whether it counts what it drops.
    pub(crate) fn counts(&self) -> bool {
        self.0.config.metrics.is_set()
    }

    /// What queues and keys have room for.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.0.state.lock().lanes.capacity()
    }

    /// Slots held for messages, gaps and holes.
    #[cfg(test)]
    fn slots(&self) -> usize {
        self.0.state.lock().lanes.slots()
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outbox").field(&self.stats()).finish()
    }
}

// === impl Shared ===

impl Shared {
    /// Counts each of the dropped, and says the first of an episode in the log.
    fn report(&self, dropped: &[Notification], first: bool) {
        for notification in dropped {
            if let Some(resource_type) = notification.about().and_then(|about| about.resource_type)
            {
                self.config.metrics.failed(resource_type, ErrorType::Other);
            }
        }
        if first {
            let session = self.config.owner.as_deref().unwrap_or_default();
            tracing::warn!(
                session,
                "an outbox is full: its oldest notifications are dropped"
            );
        }
    }
}

// === impl OutboxConfig ===

impl OutboxConfig {
    /// How much may wait.
    pub fn limits(mut self, limits: OutboxLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Where dropped notifications are counted, as failures of type `other`.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// What the log calls the outbox's session.
    pub(crate) fn owner(mut self, owner: &Arc<str>) -> Self {
        self.owner = Some(Arc::clone(owner));
        self
    }
}

impl Default for OutboxLimits {
    /// 1024 messages and 4 MiB.
    fn default() -> Self {
        Self {
            messages_max: 1024,
            bytes_max: 4 * 1024 * 1024,
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
