//! The reader of an outbox: takes everything that is pending, and reports what was
//! delivered.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use thiserror::Error;

use super::lanes::Taken;
use super::overflow::{EpisodeEnd, Overflow};
use super::{Gap, OutboxItem, Shared, State};
use crate::failure::FailureReport;
use crate::gate::Admission;
use crate::notification::{Notification, Priority};
use crate::session::Session;
use crate::sink::SendError;

/// The one reader of an outbox. Made by [`Outbox::reader`](super::Outbox::reader).
///
/// Dropping it leaves pending notifications in the outbox, for the next reader.
///
/// A newer reader immediately gets everything that this one took and did not report as
/// delivered or abandoned, before all later notifications: order is kept across the
/// takeover. What this reader is writing at that moment may therefore be written by
/// both.
pub struct OutboxReader {
    shared: Arc<Shared>,
    epoch: u64,
}

/// The items that a reader took, to be reported as delivered or abandoned from the
/// front.
///
/// Dropping a batch puts the remaining items back before all later ones, so that a
/// stream that breaks loses nothing that it did not take.
///
/// When a newer reader takes over, it gets the remaining items. The batch is empty from
/// then on, and its methods have no effect.
pub struct OutboxBatch {
    shared: Arc<Shared>,
    lease: u64,
    /// A copy of the lease's state, so that [`front`](Self::front) can return a
    /// reference.
    remaining: Remaining,
}

/// What one batch holds, kept in the outbox so that it can be reclaimed.
pub(super) struct Lease {
    id: u64,
    remaining: Remaining,
}

/// The remaining items of a batch. A batch and its lease share the items, so that
/// taking many items copies none of them.
#[derive(Clone)]
struct Remaining {
    items: Items,
    /// The number of items that were removed.
    removed: usize,
    /// Precedes the items: what was abandoned.
    gap: Option<Taken>,
}

/// What was taken. Most batches have one item, which takes no allocation.
#[derive(Clone)]
enum Items {
    One(Taken),
    Several(Arc<Vec<Taken>>),
}

/// Why a reader has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadEnd {
    /// The outbox was closed.
    #[error("the outbox is closed")]
    Closed,
    /// A newer reader took over.
    #[error("a newer reader took over")]
    Superseded,
    /// The sink pushes to the outbox that it would be fed from;
    /// see [`NotificationSink::queues`](crate::NotificationSink::queues).
    #[error("the sink puts notifications back into the outbox")]
    Circular,
}

// === impl OutboxReader ===

impl OutboxReader {
    pub(super) fn new(shared: Arc<Shared>, epoch: u64) -> Self {
        Self { shared, epoch }
    }

    /// Whether no newer reader has taken over.
    pub fn is_current(&self) -> bool {
        self.shared.epoch.load(Ordering::Acquire) == self.epoch
    }

    /// Waits until a newer reader takes over. Cancel-safe.
    pub(crate) async fn superseded(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.shared.state.lock();
            if !self.is_current() {
                return Poll::Ready(());
            }
            let old = state.takeover.replace(cx.waker().clone());
            drop(state);
            drop(old);
            Poll::Pending
        })
        .await;
    }

    /// Waits until something is pending, and takes all of it.
    ///
    /// Cancel-safe: nothing is taken before the future is ready.
    ///
    /// # Errors
    /// [`ReadEnd`], which is final.
    pub async fn next(&mut self) -> Result<OutboxBatch, ReadEnd> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for a hand-written stream or body.
    ///
    /// # Errors
    /// [`ReadEnd`], which is final.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<OutboxBatch, ReadEnd>> {
        let mut state = self.shared.state.lock();
        if state.closed {
            return Poll::Ready(Err(ReadEnd::Closed));
        }
        if !self.is_current() {
            return Poll::Ready(Err(ReadEnd::Superseded));
        }
        if state.lanes.is_empty() {
            // The old waker is dropped outside of the lock, because its code is not of
            // this crate.
            let old = state.waker.replace(cx.waker().clone());
            // A reader that asks for more and holds nothing has caught up.
            let caught_up = state.in_flight == 0;
            let record = caught_up
                .then(|| Overflow::on_end(&mut state.overflow, EpisodeEnd::CaughtUp))
                .flatten();
            drop(state);
            drop(old);
            self.shared.report(&[], record);
            return Poll::Pending;
        }
        let mut items = SmallVec::with_capacity(state.lanes.slots());
        state.in_flight += state.lanes.messages() as u64;
        state.lanes.take(&mut items);
        state.last_lease += 1;
        let id = state.last_lease;
        let remaining = Remaining {
            items: items.into(),
            removed: 0,
            gap: None,
        };
        state.leases.push(Lease {
            id,
            remaining: remaining.clone(),
        });
        drop(state);
        Poll::Ready(Ok(OutboxBatch {
            shared: Arc::clone(&self.shared),
            lease: id,
            remaining,
        }))
    }
}

impl fmt::Debug for OutboxReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxReader")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

// === impl OutboxBatch ===

impl OutboxBatch {
    /// The next item.
    pub fn front(&self) -> Option<&OutboxItem> {
        self.iter().next()
    }

    /// The remaining items from the front, gaps included.
    pub fn iter(&self) -> impl Iterator<Item = &OutboxItem> + Clone {
        let held = self.is_held();
        let remaining = self.remaining.iter().filter(move |_| held);
        remaining.map(|taken| &taken.item)
    }

    /// The number of remaining items, gaps included.
    pub fn len(&self) -> usize {
        if self.is_held() {
            self.remaining.len()
        } else {
            0
        }
    }

    /// Whether no item remains.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the front item and counts it as delivered.
    pub fn deliver(&mut self) -> Option<OutboxItem> {
        let front = self.remaining.iter().next()?.item.clone();
        (self.deliver_first(1) == 1).then_some(front)
    }

    /// Removes that many items from the front and counts them as delivered, for a stream
    /// that takes several in one write. Returns how many there were.
    pub fn deliver_first(&mut self, count: usize) -> usize {
        let mut state = self.shared.state.lock();
        let Some(lease) = state.lease(self.lease) else {
            return 0;
        };
        let (mut removed, mut notifications) = (0, 0);
        for taken in self.remaining.iter().take(count) {
            removed += 1;
            notifications += u64::from(taken.is_notification());
        }
        lease.remaining.skip(removed);
        self.remaining.skip(removed);
        state.in_flight -= notifications;
        state.delivered += notifications;
        if self.remaining.len() == 0 {
            state.end_lease(self.lease);
        }
        removed
    }

    /// Removes all remaining items and counts them as delivered, for a stream that takes
    /// everything in one write.
    pub fn deliver_all(&mut self) -> impl Iterator<Item = OutboxItem> + use<> {
        let remaining = self.remaining.clone();
        let count = self.deliver_first(usize::MAX);
        let mut at = 0;
        std::iter::from_fn(move || {
            let next = remaining
                .iter()
                .nth(at)
                .filter(|_| at < count)?
                .item
                .clone();
            at += 1;
            Some(next)
        })
    }

    /// Abandons the front item because of this error, for a stream of your own that cannot
    /// write it: as [`abandon`](Self::abandon), and reported as [`Delivery`](crate::Delivery)
    /// reports, in one record and one count of the outbox's metrics. `session` is the
    /// outbox's.
    pub fn abandon_failed(&mut self, session: &Session, error: &SendError) -> Option<OutboxItem> {
        let item = self.abandon();
        if let Some(OutboxItem::Notification(notification)) = &item {
            let report = FailureReport::new(self.shared.config.metrics.clone());
            report.abandoned(session, notification, error, 0);
        }
        item
    }

    /// Abandons the front item and counts it as dropped. A gap takes its place, merged
    /// with a gap that follows, and is the next item. The caller has to report the
    /// failure. A gap at the front is removed: its drops are counted already.
    pub fn abandon(&mut self) -> Option<OutboxItem> {
        let mut state = self.shared.state.lock();
        let lease = state.lease(self.lease)?;
        let Taken { item, priority } = self.remaining.iter().next()?.clone();
        for remaining in [&mut lease.remaining, &mut self.remaining] {
            remaining.skip(1);
            if matches!(item, OutboxItem::Notification(_)) {
                remaining.leave_gap(priority);
            }
        }
        if matches!(item, OutboxItem::Notification(_)) {
            state.in_flight -= 1;
            state.dropped += 1;
        }
        if self.remaining.len() == 0 {
            state.end_lease(self.lease);
        }
        Some(item)
    }

    /// Abandons the notifications at the front, or behind a gap there, that their
    /// [gates](crate::Gate) do not admit now: one gap stands for all of them. Returns how many.
    pub fn abandon_shut(&mut self) -> usize {
        let mut abandoned = 0;
        loop {
            let mut items = self.remaining.iter();
            let front = items.next();
            let (gap, next) = match front.map(|taken| &taken.item) {
                Some(OutboxItem::Gap(gap)) => (Some(*gap), items.next()),
                _ => (None, front),
            };
            let Some(Taken {
                item: OutboxItem::Notification(notification),
                priority,
            }) = next
            else {
                break;
            };
            let priority = *priority;
            let is_of_gap = gap.is_none_or(|gap| gap.priority == priority);
            if !is_of_gap || !matches!(notification.admit(), Admission::Shut) {
                break;
            }
            drop(items);
            let mut state = self.shared.state.lock();
            let Some(lease) = state.lease(self.lease) else {
                break;
            };
            for remaining in [&mut lease.remaining, &mut self.remaining] {
                remaining.skip(1 + usize::from(gap.is_some()));
                let dropped = 1 + gap.map_or(0, |gap| gap.dropped);
                let item = OutboxItem::Gap(Gap { dropped, priority });
                remaining.gap = Some(Taken { item, priority });
            }
            state.in_flight -= 1;
            state.dropped += 1;
            abandoned += 1;
        }
        abandoned
    }

    /// Whether no newer reader has reclaimed the items.
    fn is_held(&self) -> bool {
        self.remaining.len() > 0 && self.shared.state.lock().lease(self.lease).is_some()
    }
}

impl Drop for OutboxBatch {
    fn drop(&mut self) {
        // One without items has ended already.
        if self.remaining.len() == 0 {
            return;
        }
        let mut state = self.shared.state.lock();
        let Some(remaining) = state.end_lease(self.lease) else {
            return;
        };
        let evicted = state.put_back(&remaining);
        let record = Overflow::on_dropped(&mut state.overflow, &evicted);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.shared.report(&evicted, record);
    }
}

impl fmt::Debug for OutboxBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

// === impl State ===

impl State {
    fn lease(&mut self, id: u64) -> Option<&mut Lease> {
        // A reader holds one batch, or a few.
        self.leases.iter_mut().find(|lease| lease.id == id)
    }

    fn end_lease(&mut self, id: u64) -> Option<Remaining> {
        let at = self.leases.iter().position(|lease| lease.id == id)?;
        Some(self.leases.remove(at).remaining)
    }

    /// Reclaims what readers hold. Returns the notifications that no longer fit.
    pub(super) fn reclaim(&mut self) -> Vec<Notification> {
        let mut evicted = Vec::new();
        while let Some(lease) = self.leases.pop() {
            evicted.append(&mut self.put_back(&lease.remaining));
        }
        evicted
    }

    fn put_back(&mut self, remaining: &Remaining) -> Vec<Notification> {
        let items: VecDeque<Taken> = remaining.iter().cloned().collect();
        let count = items.iter().filter(|taken| taken.is_notification()).count() as u64;
        self.in_flight -= count;
        if self.closed {
            self.dropped += count;
            return Vec::new();
        }
        let (merged, evicted) = self.lanes.put_back(items);
        self.merged += merged;
        self.dropped += evicted.len() as u64;
        evicted
    }
}

// === impl Remaining ===

impl Remaining {
    fn iter(&self) -> impl Iterator<Item = &Taken> + Clone {
        self.gap.iter().chain(&self.items[self.removed..])
    }

    fn len(&self) -> usize {
        self.items.len() - self.removed + usize::from(self.gap.is_some())
    }

    /// Removes from the front.
    fn skip(&mut self, mut count: usize) {
        if count > 0 && self.gap.take().is_some() {
            count -= 1;
        }
        self.removed = (self.removed + count).min(self.items.len());
    }

    /// Puts a gap of one before the remaining items, or extends the one at the front.
    fn leave_gap(&mut self, priority: Priority) {
        let follows = self.iter().next().map(|taken| &taken.item);
        let dropped = match follows {
            Some(OutboxItem::Gap(gap)) if gap.priority == priority => 1 + gap.dropped,
            _ => 1,
        };
        if dropped > 1 {
            self.skip(1);
        }
        let item = OutboxItem::Gap(Gap { dropped, priority });
        self.gap = Some(Taken { item, priority });
    }
}

// === impl Items ===

impl Deref for Items {
    type Target = [Taken];

    fn deref(&self) -> &[Taken] {
        match self {
            Self::One(item) => slice::from_ref(item),
            Self::Several(items) => items,
        }
    }
}

impl From<SmallVec<[Taken; 1]>> for Items {
    fn from(items: SmallVec<[Taken; 1]>) -> Self {
        match items.into_inner() {
            Ok([item]) => Self::One(item),
            Err(items) => Self::Several(Arc::new(items.into_vec())),
        }
    }
}
