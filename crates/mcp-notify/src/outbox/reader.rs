//! Reading an outbox: everything that waits, at once, and an account of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

use super::{Gap, Item, Shared};
use crate::notification::Notification;

/// The one reader of an outbox. Made by [`Outbox::reader`](super::Outbox::reader).
///
/// Dropping it leaves what waits in the outbox, for the next reader.
pub struct Reader {
    shared: Arc<Shared>,
    epoch: u64,
}

/// What a reader took: deliver it from the front, and say of each what became
/// of it.
///
/// Dropping a batch puts back what is left in it, before everything that came
/// since: a stream that ends in the middle loses nothing that it did not take.
pub struct Batch {
    shared: Arc<Shared>,
    items: VecDeque<Item>,
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

    /// Whether no newer reader took over. Ask it between the items of a long
    /// batch, and drop the batch if it is not: the newer one gets the rest.
    pub fn is_current(&self) -> bool {
        self.shared.state.lock().epoch == self.epoch
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
            let old = state.waker.replace(cx.waker().clone());
            drop(state);
            drop(old);
            return Poll::Pending;
        }
        let mut items = VecDeque::with_capacity(state.lanes.slots());
        state.in_flight += state.lanes.messages() as u64;
        state.lanes.take(&mut items);
        state.overflow_logged = false;
        drop(state);
        Poll::Ready(Ok(Batch {
            shared: Arc::clone(&self.shared),
            items,
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
        self.items.front()
    }

    /// How many items are left, gaps included.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Removes the front one and counts it as delivered: the stream took it.
    pub fn deliver(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        if matches!(item, Item::Notification(_)) {
            let mut state = self.shared.state.lock();
            state.in_flight -= 1;
            state.delivered += 1;
        }
        Some(item)
    }

    /// All that is left, counted as delivered at once: for a stream that takes
    /// everything in one write.
    pub fn deliver_all(&mut self) -> impl Iterator<Item = Item> + use<> {
        let items = std::mem::take(&mut self.items);
        let count = notifications(&items);
        let mut state = self.shared.state.lock();
        state.in_flight -= count;
        state.delivered += count;
        drop(state);
        items.into_iter()
    }

    /// Gives the front one up and counts it as dropped; a gap takes its place,
    /// joined with the one that follows, so that the reader comes to it next.
    /// Reporting the failure is the caller's. A gap at the front is removed:
    /// what it stands for was counted when it arose.
    pub fn abandon(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        if let Item::Notification(notification) = &item {
            let mut state = self.shared.state.lock();
            state.in_flight -= 1;
            state.dropped += 1;
            drop(state);
            let tier = notification.tier();
            match self.items.front_mut() {
                Some(Item::Gap(gap)) if gap.tier == tier => gap.dropped += 1,
                _ => self.items.push_front(Item::Gap(Gap { dropped: 1, tier })),
            }
        }
        Some(item)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let items = std::mem::take(&mut self.items);
        let count = notifications(&items);
        let mut state = self.shared.state.lock();
        state.in_flight -= count;
        if state.closed {
            state.dropped += count;
            return;
        }
        let (merged, evicted): (u64, Vec<Notification>) = state.lanes.put_back(items);
        state.merged += merged;
        state.dropped += evicted.len() as u64;
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
        f.debug_list().entries(&self.items).finish()
    }
}

fn notifications(items: &VecDeque<Item>) -> u64 {
    items
        .iter()
        .filter(|item| matches!(item, Item::Notification(_)))
        .count() as u64
}
