//! Reading an outbox: everything that waits, at once, and an account of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

use super::lanes::Taken;
use super::{Gap, Item, Shared, State};
use crate::notification::{Notification, Tier};

/// The one reader of an outbox. Made by [`Outbox::reader`](super::Outbox::reader).
///
/// Dropping it leaves what waits in the outbox, for the next reader.
///
/// A newer reader gets everything this one took and did not report as
/// delivered or given up, at once and before all that came since: order holds
/// across the change. What this one was just writing may therefore be written
/// by both.
pub struct Reader {
    shared: Arc<Shared>,
    epoch: u64,
}

/// What a reader took: deliver it from the front, and say of each what became
/// of it.
///
/// Dropping a batch puts back what is left in it, before everything that came
/// since: a stream that ends in the middle loses nothing that it did not take.
///
/// When a newer reader takes over, it gets what is left. The batch is empty
/// from then on, and nothing done with it counts.
pub struct Batch {
    shared: Arc<Shared>,
    lease: u64,
    /// As the lease has it, so that a look at the front can be a reference.
    left: Left,
}

/// What one batch holds, kept with the outbox so that it can be taken back.
pub(super) struct Lease {
    id: u64,
    left: Left,
}

/// What is left of what was taken. A batch and its lease share the items, so that
/// taking many touches none of them.
#[derive(Clone)]
struct Left {
    items: Arc<Vec<Taken>>,
    /// How many of the items are gone.
    gone: usize,
    /// Stands before the items: what was given up.
    gap: Option<Taken>,
}

/// Why there is nothing more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadEnd {
    /// The outbox was closed.
    #[error("the outbox is closed")]
    Closed,
    /// A newer reader took over.
    #[error("a newer reader took over")]
    Superseded,
    /// The sink puts everything back into the outbox it would be read from;
    /// see [`NotificationSink::queues`](crate::NotificationSink::queues).
    #[error("the sink puts notifications back into the outbox")]
    Circular,
}

// === impl Reader ===

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, epoch: u64) -> Self {
        Self { shared, epoch }
    }

    /// Whether no newer reader took over.
    pub fn is_current(&self) -> bool {
        self.shared.state.lock().epoch == self.epoch
    }

    /// Waits until a newer reader takes over. Cancel-safe.
    pub(crate) async fn superseded(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.shared.state.lock();
            if state.epoch != self.epoch {
                return Poll::Ready(());
            }
            let old = state.takeover.replace(cx.waker().clone());
            drop(state);
            drop(old);
            Poll::Pending
        })
        .await;
    }

    /// Waits until something waits, and takes all of it.
    ///
    /// Cancel-safe: nothing is taken before the future is ready.
    ///
    /// # Errors
    /// [`ReadEnd`], and then for ever.
    pub async fn next(&mut self) -> Result<Batch, ReadEnd> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Whether there is anything to take, an end included. Wakes nobody.
    pub fn is_ready(&self) -> bool {
        let state = self.shared.state.lock();
        state.closed || state.epoch != self.epoch || !state.lanes.is_empty()
    }

    /// Ready when half of what there is room for waits, or at an end: for a
    /// hand-written body that has just written, and lets what comes next come
    /// together. Until then the reader is woken by nothing else in the outbox; a
    /// timer of its own says when it has waited enough.
    pub fn poll_half_full(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.lock();
        if state.closed || state.epoch != self.epoch || state.lanes.half_full() {
            return Poll::Ready(());
        }
        state.patient = true;
        let old = state.waker.replace(cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// As [`next`](Self::next), for a hand-written stream or body.
    ///
    /// # Errors
    /// [`ReadEnd`], and then for ever.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Batch, ReadEnd>> {
        let mut state = self.shared.state.lock();
        if state.closed {
            return Poll::Ready(Err(ReadEnd::Closed));
        }
        if state.epoch != self.epoch {
            return Poll::Ready(Err(ReadEnd::Superseded));
        }
        if state.lanes.is_empty() {
            // Replacing drops the old waker, whose code is not ours: outside the lock.
            state.patient = false;
            let old = state.waker.replace(cx.waker().clone());
            drop(state);
            drop(old);
            return Poll::Pending;
        }
        let mut items = Vec::with_capacity(state.lanes.slots());
        state.in_flight += state.lanes.messages() as u64;
        state.lanes.take(&mut items);
        state.overflow_logged = false;
        state.last_lease += 1;
        let id = state.last_lease;
        let left = Left {
            items: Arc::new(items),
            gone: 0,
            gap: None,
        };
        state.leases.push(Lease {
            id,
            left: left.clone(),
        });
        drop(state);
        Poll::Ready(Ok(Batch {
            shared: Arc::clone(&self.shared),
            lease: id,
            left,
        }))
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

// === impl Batch ===

impl Batch {
    /// What comes next.
    pub fn front(&self) -> Option<&Item> {
        self.iter().next()
    }

    /// All that is left, from the front, gaps included.
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        let held = self.is_held();
        let left = self.left.iter().filter(move |_| held);
        left.map(|taken| &taken.item)
    }

    /// How many items are left, gaps included.
    pub fn len(&self) -> usize {
        if self.is_held() { self.left.len() } else { 0 }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the front one and counts it as delivered: the stream took it.
    pub fn deliver(&mut self) -> Option<Item> {
        let front = self.left.iter().next()?.item.clone();
        (self.deliver_first(1) == 1).then_some(front)
    }

    /// Removes that many from the front and counts them as delivered, at once: for
    /// a stream that takes several in one write. How many there were.
    pub fn deliver_first(&mut self, count: usize) -> usize {
        let mut state = self.shared.state.lock();
        let Some(lease) = state.lease(self.lease) else {
            return 0;
        };
        let (mut removed, mut notifications) = (0, 0);
        for taken in self.left.iter().take(count) {
            removed += 1;
            notifications += u64::from(taken.is_notification());
        }
        lease.left.skip(removed);
        self.left.skip(removed);
        state.in_flight -= notifications;
        state.delivered += notifications;
        removed
    }

    /// All that is left, counted as delivered at once: for a stream that takes
    /// everything in one write.
    pub fn deliver_all(&mut self) -> impl Iterator<Item = Item> + use<> {
        let left = self.left.clone();
        let count = self.deliver_first(usize::MAX);
        let mut at = 0;
        std::iter::from_fn(move || {
            let next = left.iter().nth(at).filter(|_| at < count)?.item.clone();
            at += 1;
            Some(next)
        })
    }

    /// Gives the front one up and counts it as dropped; a gap takes its place,
    /// joined with the one that follows, so that the reader comes to it next.
    /// Reporting the failure is the caller's. A gap at the front is removed:
    /// what it stands for was counted when it arose.
    pub fn abandon(&mut self) -> Option<Item> {
        let mut state = self.shared.state.lock();
        let lease = state.lease(self.lease)?;
        let Taken { item, tier } = self.left.iter().next()?.clone();
        for left in [&mut lease.left, &mut self.left] {
            left.skip(1);
            if matches!(item, Item::Notification(_)) {
                left.leave_gap(tier);
            }
        }
        if matches!(item, Item::Notification(_)) {
            state.in_flight -= 1;
            state.dropped += 1;
        }
        Some(item)
    }

    /// Whether no newer reader has got what is in it.
    fn is_held(&self) -> bool {
        self.shared.state.lock().lease(self.lease).is_some()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let Some(left) = state.end_lease(self.lease).filter(|left| left.len() > 0) else {
            return;
        };
        let evicted = state.put_back(&left);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.shared.report(&evicted, !evicted.is_empty());
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

// === impl State ===

impl State {
    fn lease(&mut self, id: u64) -> Option<&mut Lease> {
        // As many as a reader holds batches: one, or a few.
        self.leases.iter_mut().find(|lease| lease.id == id)
    }

    fn end_lease(&mut self, id: u64) -> Option<Left> {
        let at = self.leases.iter().position(|lease| lease.id == id)?;
        Some(self.leases.remove(at).left)
    }

    /// Takes back all that is with the reader. Returns what no longer fits.
    pub(super) fn reclaim(&mut self) -> Vec<Notification> {
        let mut evicted = Vec::new();
        while let Some(lease) = self.leases.pop() {
            evicted.append(&mut self.put_back(&lease.left));
        }
        evicted
    }

    fn put_back(&mut self, left: &Left) -> Vec<Notification> {
        let items: VecDeque<Taken> = left.iter().cloned().collect();
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

// === impl Left ===

impl Left {
    fn iter(&self) -> impl Iterator<Item = &Taken> {
        self.gap.iter().chain(&self.items[self.gone..])
    }

    fn len(&self) -> usize {
        self.items.len() - self.gone + usize::from(self.gap.is_some())
    }

    /// Removes from the front.
    fn skip(&mut self, mut count: usize) {
        if count > 0 && self.gap.take().is_some() {
            count -= 1;
        }
        self.gone = (self.gone + count).min(self.items.len());
    }

    /// Puts a gap of one before the rest, or makes the one that is there longer.
    fn leave_gap(&mut self, tier: Tier) {
        let follows = self.iter().next().map(|taken| &taken.item);
        let dropped = match follows {
            Some(Item::Gap(gap)) if gap.tier == tier => 1 + gap.dropped,
            _ => 1,
        };
        if dropped > 1 {
            self.skip(1);
        }
        let item = Item::Gap(Gap { dropped, tier });
        self.gap = Some(Taken { item, tier });
    }
}
