//! What happened before a subscription gets what happens, read from the history.
//!
//! ```text
//!  history   ──page──▶ ──page──▶ …        ──last page──▶ in order, each event once ──▶ live
//!  watch               joined beside the history ──held──────────▲
//! ```
//!
//! The history gets its events from a watch. A subscription that joins that watch gets what is
//! received from then on, and the history has everything that was received before: nothing is
//! asked of the cluster, and nothing falls between.

use std::{collections::HashSet, sync::Arc};

use kubecrier_history::LogError;
use mcp_notify::Session;
use tokio::time::{Duration, sleep};

use super::{
    Subscriptions,
    polls::{RESUMED_FAULTS_MAX, sorted},
    revived::WakeFrom,
};
use crate::history::{
    eyes,
    resume::{Backlog, BacklogItem, ReadOrder, Resumption, missing_since},
};
use kubecrier_core::{
    Event,
    access::Viewer,
    filters::Mode,
    subscriptions::{FeedItem, FeedLimits, ResumePoint, Subscription, WatchStatus},
};
use kubecrier_k8s::WatchLease;

/// Entries of one page of what happened before, and their bytes: a part of an outbox.
const PAGE: FeedLimits = FeedLimits {
    entries_max: 200,
    bytes_max: 512 * 1024,
};

/// The next page is delivered when fewer messages than this wait.
const ROOM_BELOW: u64 = 200;

/// How often it is looked whether there is room.
const ROOM_CHECK: Duration = Duration::from_millis(20);

/// What comes while the last page is read and is delivered with it: all of that has to fit into an
/// outbox.
const HELD_MAX: usize = 400;

/// How much of the time before is delivered.
#[derive(Clone, Copy)]
pub(super) enum Pages<'a> {
    /// All of it, as fast as the stream of the session takes it that a subscription is pushed to.
    All(&'a Arc<Subscription>, &'a Session),
    /// The first page, and what is left out is said.
    First,
}

/// Reads what happened before for a subscription, which holds what it receives meanwhile.
pub(super) struct Before<'a> {
    pub(super) viewer: &'a Viewer,
    pub(super) resumption: Resumption<'a>,
    pub(super) pages: Pages<'a>,
    /// How much a page may have.
    pub(super) room: FeedLimits,
    /// How much earlier than the cursor something may have happened that was not delivered.
    pub(super) late: i64,
}

/// The last of what happened before: what may be missing, and events in order.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) gaps: Vec<WatchStatus>,
    pub(super) events: Vec<Arc<Event>>,
    /// The ids of what was delivered from the history and may have been received since.
    pub(super) delivered: HashSet<String>,
}

impl Subscriptions {
    /// How much a page may have.
    pub(super) fn page_room(&self, mode: Mode, pages: Pages<'_>) -> FeedLimits {
        match (mode, pages) {
            (Mode::Events, Pages::All(..)) => PAGE,
            // What comes meanwhile has to fit into the feed as well.
            (Mode::Events, Pages::First) => FeedLimits {
                entries_max: self.inner.feed.entries_max.div_ceil(2),
                bytes_max: self.inner.feed.bytes_max / 2,
            },
            (Mode::Faults | Mode::Incidents, _) => FeedLimits {
                entries_max: RESUMED_FAULTS_MAX,
                ..PAGE
            },
        }
    }
}

// === impl Rest ===

impl Rest {
    /// Nothing but what may be missing.
    pub(super) fn of_gaps(gaps: Vec<WatchStatus>) -> Self {
        Self {
            gaps,
            ..Self::default()
        }
    }

    /// Adds what was read after it.
    pub(super) fn extend(&mut self, other: Self) {
        self.gaps.extend(other.gaps);
        self.events.extend(other.events);
        self.delivered.extend(other.delivered);
    }
}

// === impl Before ===

impl Before<'_> {
    /// The watches that the history gets its events from, if it has everything that was received
    /// before and the subscription may join them.
    pub(super) fn watches(&self) -> Option<Arc<WatchLease>> {
        let Resumption {
            caught_up, context, ..
        } = self.resumption;
        caught_up.watches(context)
    }

    /// How far a subscription has got what happened before.
    pub(super) fn position(&self, one: &Subscription) -> WakeFrom {
        let mark = self.resumption.point.mark(one.id(), one.feed().last());
        WakeFrom::Entry(mark)
    }

    /// What is told if nothing can be read.
    pub(super) fn unread(&self, error: &LogError) -> WatchStatus {
        WatchStatus::Gap {
            since: missing_since(self.resumption.point),
            detail: error.to_string(),
        }
    }

    /// Delivers page after page until the last one, which it returns. The ids of what it
    /// delivers are added.
    pub(super) async fn last_page(
        &mut self,
        mut delivered: Option<&mut HashSet<String>>,
    ) -> Result<Backlog, LogError> {
        loop {
            let mut backlog = self.resumption.read(self.room).await?;
            let Resumption {
                context,
                filters,
                point,
                order,
                ..
            } = self.resumption;
            eyes::narrow(self.viewer, context, filters, &mut backlog).await;
            let Pages::All(one, session) = self.pages else {
                return Ok(backlog);
            };
            if backlog.is_whole || filters.mode() != Mode::Events {
                return Ok(backlog);
            }
            if let Some(delivered) = &mut delivered {
                let events = backlog.items.iter().filter_map(|(_, item)| item.event());
                delivered.extend(events.map(|event| event.id().to_owned()));
            }
            let position = backlog.position.to_number();
            // In the order of versions the next page is after one of them.
            let next = backlog.next.filter(|_| order != ReadOrder::Log);
            let items = backlog.items.into_iter().map(|(position, item)| {
                let mut at = next.unwrap_or(point);
                if next.is_some() {
                    at.version = item.version().unwrap_or(point.version);
                } else {
                    at.position = position.to_number();
                }
                (entry(item), at)
            });
            one.deliver_before(items);
            self.resumption.point = next.unwrap_or(ResumePoint { position, ..point });
            while session.outbox().stats().pending >= ROOM_BELOW {
                sleep(ROOM_CHECK).await;
            }
        }
    }

    /// What happened until a subscription joined a watch beside the history. If all of it fitted
    /// into a page before, it has to fit now: a reader that comes again gets it page by page, as
    /// it always does in the order of versions.
    pub(super) async fn until_joined(
        &mut self,
        one: &Subscription,
        was_whole: bool,
    ) -> Result<Rest, LogError> {
        let mut delivered = HashSet::new();
        loop {
            let backlog = self.last_page(Some(&mut delivered)).await?;
            let Resumption { filters, order, .. } = self.resumption;
            let has_all = backlog.is_whole || order == ReadOrder::Newest;
            let has_to_fit = was_whole || order == ReadOrder::Oldest;
            if has_to_fit && !has_all && filters.mode() == Mode::Events {
                return Err(LogError::Behind("more happened meanwhile than fits"));
            }
            if one.held_count() <= HELD_MAX || filters.mode() != Mode::Events {
                let rest = self.end(one, backlog, Vec::new());
                return Ok(Rest { delivered, ..rest });
            }
            // Those events are in the history as well, and are read there.
            one.forget_held();
        }
    }

    /// What happened until a subscription joined a watch of its own, after the last page.
    pub(super) async fn until_listed(&self, one: &Subscription, backlog: Backlog) -> Rest {
        let Resumption {
            context, filters, ..
        } = self.resumption;
        let newest = self.resumption.list_newest(&backlog).await;
        let newest = eyes::narrow_items(self.viewer, context, filters, newest).await;
        self.end(one, backlog, newest)
    }

    /// Says what a last page leaves out, and from where on the feed has everything.
    fn end(
        &self,
        one: &Subscription,
        mut backlog: Backlog,
        newest: Vec<Option<BacklogItem>>,
    ) -> Rest {
        let Resumption {
            point,
            order,
            filters,
            ..
        } = self.resumption;
        let is_newest = order == ReadOrder::Newest;
        let covered = match backlog.next {
            Some(next) if is_newest && !backlog.is_whole => next.version,
            _ => point.version,
        };
        if !backlog.is_whole && !is_newest {
            backlog.cut(point, self.room.entries_max, filters.mode());
        }
        one.feed().cover_from(covered, point.time - self.late);
        let (gaps, events) = sorted(backlog, newest);
        Rest {
            gaps,
            events,
            delivered: HashSet::new(),
        }
    }
}

fn entry(item: BacklogItem) -> FeedItem {
    match item {
        BacklogItem::Event(event) => FeedItem::Event(event),
        BacklogItem::Gap(gap) => FeedItem::Notice(Arc::new(gap)),
    }
}

#[cfg(test)]
mod tests;
