//! A subscription that goes on where another one has ended: it holds what it receives until it
//! has what happened before.

use std::{collections::BTreeSet, sync::Arc};

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

    /// Delivers what happened before, in order, then what was held meanwhile, each event once.
    pub fn resume(self: &Arc<Self>, gaps: Vec<WatchStatus>, before: &[Arc<Event>]) {
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
            let gap = WatchStatus::Gap {
                since: Timestamp::now(),
                detail: "more events came than could be kept while earlier ones were read; see \
                         events_list with since"
                    .to_owned(),
            };
            self.record_now([FeedItem::Notice(Arc::new(gap))]);
        }
        self.record_now(items.into_iter().filter(|item| match item {
            FeedItem::Event(event) => !known.contains(event.id()),
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

    /// Whether it still holds what it receives.
    pub fn is_holding(&self) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.lock().is_some())
    }
}
