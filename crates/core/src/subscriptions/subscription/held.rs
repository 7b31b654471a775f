//! A subscription that goes on where another one has ended: it holds what it receives until it
//! has what happened before.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::Subscription;
use crate::{
    Event,
    filters::Mode,
    subscriptions::{
        cursor::ResumePoint,
        feed::FeedItem,
        listener::{Listener as _, WatchStatus},
    },
};

/// Entries that are held while what happened before is read: more than a feed keeps, and the
/// history has them too.
pub(super) const HELD_MAX: usize = 10_000;

impl Subscription {
    /// The subscription, which holds what it receives until [`Subscription::resume`].
    #[must_use]
    pub fn holding(mut self) -> Self {
        self.held = Some(Mutex::new(Some(Vec::new())));
        self
    }

    /// Forgets what it holds, for who reads the same elsewhere.
    pub fn forget_held(&self) {
        if let Some(held) = self.held.as_ref()
            && let Some(items) = &mut *held.lock()
        {
            *items = Vec::new();
        }
    }

    /// Delivers what happened before, in order, then what was held meanwhile, each event once;
    /// those with the ids of `delivered` have been.
    pub fn resume(
        self: &Arc<Self>,
        gaps: Vec<WatchStatus>,
        before: &[Arc<Event>],
        delivered: &HashSet<String>,
    ) {
        let notices = gaps.into_iter();
        self.record_now(notices.map(|status| FeedItem::Notice(Arc::new(status))));
        let wanted = before.iter().filter(|event| self.wants(event));
        let admitted = wanted.filter(|event| self.filters.admits_labels(event));
        match self.filters.mode() {
            Mode::Events => {
                self.record_now(admitted.map(|event| FeedItem::Event(Arc::clone(event))));
            }
            // The report comes later, in order with what is held.
            Mode::Faults => admitted.for_each(|event| self.enqueue_fault(event)),
            Mode::Incidents => {}
        }
        let known: BTreeSet<&str> = before.iter().map(|event| event.id()).collect();
        let Some(held) = &self.held else {
            return;
        };
        // Held until all is delivered: what comes now follows it.
        let mut held = held.lock();
        let items = held.take().unwrap_or_default();
        if items.len() >= HELD_MAX {
            let last = items.iter().rev().find_map(FeedItem::event);
            let gap = WatchStatus::Gap {
                since: last.map_or_else(Timestamp::now, |event| event.timestamp),
                detail: "more events came than could be kept while earlier ones were read; see \
                         events_list with since"
                    .to_owned(),
            };
            self.record_now([FeedItem::Notice(Arc::new(gap))]);
        }
        self.record_now(items.into_iter().filter(|item| match item {
            FeedItem::Event(event) => {
                !known.contains(event.id()) && !delivered.contains(event.id())
            }
            FeedItem::Fault(..) | FeedItem::Incident(_) | FeedItem::Notice(_) => true,
        }));
    }

    /// Delivers what was read of the time before, while the subscription holds what it receives.
    /// Each entry says where to go on after it.
    pub fn deliver_before(&self, items: impl IntoIterator<Item = (FeedItem, ResumePoint)>) {
        let wanted = items.into_iter().filter(|(item, _)| match item {
            FeedItem::Event(event) | FeedItem::Fault(event, _) => {
                self.wants(event) && self.filters.admits_labels(event)
            }
            FeedItem::Incident(_) | FeedItem::Notice(_) => true,
        });
        self.record_at(wanted.map(|(item, point)| (item, Some(point))));
    }

    /// How much it holds.
    pub fn held_count(&self) -> usize {
        let held = self.held.as_ref();
        held.map_or(0, |held| held.lock().as_ref().map_or(0, Vec::len))
    }
}
