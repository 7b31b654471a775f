//! The outbox: one bounded queue per session, so that publishing never waits for a
//! reader.
//!
//! ```text
//!             push (never waits)
//!                   |
//!        +----------+-----------+
//!        | critical             |   within a priority: first in, first out; a
//!        |   [m1] [gap 2] [m4]  |   notification with a key replaces a pending one
//!        +----------------------+   with that key in its place
//!        | informational        |
//!        |   [gap 7] [u:x] [m9] |   when full: the oldest informational one is
//!        +----------+-----------+   evicted, and a gap takes its place
//!                   |
//!          reader: takes everything that is pending, at once
//! ```
//!
//! Every push ends as exactly one of delivered, merged, dropped or pending, and the
//! counts of [`OutboxStats`] always add up.

mod lanes;
mod overflow;
mod reader;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use smallvec::SmallVec;

use self::lanes::Lanes;
use self::overflow::{EpisodeEnd, Overflow};
use self::reader::Lease;
pub use self::reader::{OutboxBatch, OutboxReader, ReadEnd};
use crate::failure::DroppedRecord;
use crate::metrics::{ErrorType, Metrics};
use crate::notification::{Notification, Priority};

/// The limits of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimits {
    /// Maximum number of messages.
    pub messages_max: usize,
    /// Maximum size of all messages together.
    pub bytes_max: usize,
}

/// The configuration of an outbox.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct OutboxConfig {
    limits: OutboxLimits,
    metrics: Metrics,
    owner: Option<Arc<str>>,
}

/// The pending notifications of one session. Clones share the outbox.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the outcome says whether anything was dropped"]
pub enum PushOutcome {
    /// It is pending.
    Queued {
        /// How many others were evicted to make room.
        evicted: usize,
    },
    /// It replaced a pending one with the same key.
    Merged {
        /// How many others were evicted, because it is larger than its predecessor.
        evicted: usize,
    },
    /// It was dropped itself: it is larger than the whole outbox, or it is
    /// informational and the outbox is full of critical ones.
    Refused,
    /// The outbox is closed.
    Closed,
}

/// An item that a reader takes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OutboxItem {
    /// A notification to deliver.
    Notification(Notification),
    /// Notifications were dropped here. Announce it to the client in a way that it
    /// understands.
    Gap(Gap),
}

/// A gap: notifications that were dropped at one position of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The number of dropped notifications.
    pub dropped: u64,
    /// Their priority.
    pub priority: Priority,
}

/// The statistics of an outbox. `delivered + merged + dropped + pending == pushed`
/// holds at every moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStats {
    /// All pushes.
    pub pushed: u64,
    /// Delivered, as the reader reported.
    pub delivered: u64,
    /// Replaced by a newer one with the same key.
    pub merged: u64,
    /// Refused, evicted, abandoned by the reader, or pending when the outbox was closed.
    pub dropped: u64,
    /// Queued, or held by the reader.
    pub pending: u64,
    /// Bytes queued, without those held by the reader.
    pub bytes: usize,
}

struct Shared {
    config: OutboxConfig,
    /// The epoch of the newest reader; older ones are superseded. Written under the lock, and
    /// read without it by a reader that is asked whether it is the newest.
    epoch: AtomicU64,
    state: Mutex<State>,
}

/// Guarded by a lock, because a push changes a queue, a map and four counters that
/// must agree. The lock is held for a few dozen instructions and never across an
/// await.
struct State {
    lanes: Lanes,
    closed: bool,
    /// Held by the reader: taken, and neither delivered nor put back.
    in_flight: u64,
    pushed: u64,
    delivered: u64,
    merged: u64,
    dropped: u64,
    /// The batches that readers hold, oldest first. As a rule there is one at most.
    leases: SmallVec<[Lease; 1]>,
    last_lease: u64,
    waker: Option<Waker>,
    /// The waker of a reader that waits until another one takes over.
    takeover: Option<Waker>,
    /// The current episode of drops, for its log records.
    overflow: Option<Overflow>,
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
            leases: SmallVec::new(),
            last_lease: 0,
            waker: None,
            takeover: None,
            overflow: None,
        };
        Self(Arc::new(Shared {
            config,
            epoch: AtomicU64::new(0),
            state: Mutex::new(state),
        }))
    }

    /// Pushes a notification. Never waits.
    ///
    /// A notification that cannot be sent (see [`Notification::frame`]) is queued like
    /// any other, so that delivery reports its failure like all others.
    pub fn push(&self, notification: Notification) -> PushOutcome {
        let mut outcome = PushOutcome::Closed;
        self.push_each([notification], |pushed| outcome = pushed);
        outcome
    }

    /// Pushes several notifications without another one in between, and wakes the reader
    /// once. Returns how many were taken.
    pub fn push_all(&self, notifications: Vec<Notification>) -> usize {
        let mut taken = 0;
        self.push_each(notifications, |pushed| {
            taken += usize::from(pushed.into_result().is_ok());
        });
        taken
    }

    fn push_each(
        &self,
        // Collected by the caller, so that no other code runs under the lock.
        notifications: impl IntoIterator<Item = Notification>,
        mut on_outcome: impl FnMut(PushOutcome),
    ) {
        let mut dropped = Vec::new();
        let mut state = self.0.state.lock();
        for notification in notifications {
            state.pushed += 1;
            if state.closed {
                state.dropped += 1;
                on_outcome(PushOutcome::Closed);
                continue;
            }
            let lanes::Pushed { outcome, evicted } = state.lanes.push(notification);
            if matches!(outcome, PushOutcome::Merged { .. }) {
                state.merged += 1;
            }
            state.dropped += evicted.len() as u64;
            dropped.extend(evicted);
            on_outcome(outcome);
        }
        let record = Overflow::on_dropped(&mut state.overflow, &dropped);
        let waker = if state.lanes.is_empty() {
            None
        } else {
            state.waker.take()
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.0.report(&dropped, record);
    }

    /// Takes over as the reader. An outbox has one reader: an earlier one ends with
    /// [`ReadEnd::Superseded`], and the new one starts with what the earlier one held
    /// undelivered.
    pub fn reader(&self) -> OutboxReader {
        let mut state = self.0.state.lock();
        let epoch = self.0.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        let evicted = state.reclaim();
        let record = Overflow::on_dropped(&mut state.overflow, &evicted);
        let wakers = [state.waker.take(), state.takeover.take()];
        drop(state);
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
        self.0.report(&evicted, record);
        OutboxReader::new(Arc::clone(&self.0), epoch)
    }

    /// Closes the outbox: what is queued is counted as dropped, the reader ends, and
    /// later pushes are refused.
    pub fn close(&self) {
        let mut state = self.0.state.lock();
        if state.closed {
            return;
        }
        state.closed = true;
        state.dropped += state.lanes.messages() as u64;
        let pending = std::mem::replace(&mut state.lanes, Lanes::new(self.0.config.limits));
        let record = Overflow::on_end(&mut state.overflow, EpisodeEnd::Closed);
        let waker = state.waker.take();
        drop(state);
        drop(pending);
        self.0.report(&[], record);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the outbox is closed.
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }

    /// The current statistics.
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

    /// Whether dropped notifications are counted.
    pub(crate) fn counts(&self) -> bool {
        self.0.config.metrics.is_set()
    }

    /// The capacity of the queues and of the map of keys.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.0.state.lock().lanes.capacity()
    }

    /// The number of slots: messages, gaps and vacant ones.
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
    /// Counts each dropped notification, and logs the record that is due.
    fn report(&self, dropped: &[Notification], record: Option<DroppedRecord>) {
        for notification in dropped {
            if let Some(resource_type) = notification
                .resource()
                .and_then(|resource| resource.resource_type)
            {
                self.config.metrics.failed(resource_type, ErrorType::Other);
            }
        }
        if let Some(record) = record {
            record.log(self.config.owner.as_deref().unwrap_or_default());
        }
    }
}

// === impl OutboxConfig ===

impl OutboxConfig {
    /// Sets the limits.
    pub fn limits(mut self, limits: OutboxLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets where dropped notifications are counted, as failures of type `other`.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Sets the session's name for log records.
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
