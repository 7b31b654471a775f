//! The feed of a subscription: its entries in order, as many as fit, for clients that poll,
//! read or reconnect.

use std::{
    collections::{VecDeque, vec_deque},
    sync::Arc,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    cursor::{Cursor, CursorError, ResumePoint, ResumeTag},
    ledger::SubscriptionId,
    listener::WatchStatus,
    place::{self, Disorder, Floor, Known, Place},
};
use crate::{Event, faults::Report, incident::IncidentNotice};

/// Limits of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedLimits {
    /// Maximum number of entries.
    pub entries_max: usize,
    /// Maximum size of the entries, serialised.
    pub bytes_max: usize,
}

/// A bounded log of entries with sequence numbers that are never reused.
#[derive(Debug)]
pub struct Feed {
    limits: FeedLimits,
    /// Set if there is a history to go on in without the feed.
    tag: Option<ResumeTag>,
    // A lock because one task writes and others read; held while new entries are put into
    // an outbox, so that they are sent in this order.
    ring: Mutex<Ring>,
    grown: Notify,
}

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<FeedEntry>,
    bytes: usize,
    last: u64,
    /// resourceVersion at which the subscription began.
    first_version: u64,
    /// resourceVersion that was delivered last.
    version: u64,
    /// From where on everything is here, if that is known.
    floor: Option<Floor>,
    has_dropped: bool,
}

/// Entry of a feed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FeedEntry {
    /// Sequence number, from 1 on, without holes.
    pub seq: u64,
    /// Content of the entry.
    pub item: FeedItem,
    /// Where to go on after it without the feed, if there is a history.
    pub resume: Option<ResumePoint>,
}

/// Content of an entry.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// An event.
    Event(Arc<Event>),
    /// A warning about a pod, with its report.
    Fault(Arc<Event>, Arc<Report>),
    /// An incident that was opened, changed or resolved.
    Incident(Arc<IncidentNotice>),
    /// A change of status of the watch.
    Notice(Arc<WatchStatus>),
}

/// A page of a feed.
#[derive(Clone, Debug)]
pub struct FeedPage {
    /// Entries, oldest first.
    pub entries: Vec<FeedEntry>,
    /// Number of entries before the page that were requested and have been dropped.
    pub missed: u64,
    /// Number of entries that are left out because they may not be read any more.
    pub withheld: u64,
    /// Sequence number to continue after.
    pub next: u64,
    /// Whether there are more entries already.
    pub more: bool,
}

// === impl FeedPage ===

impl FeedPage {
    /// One with nothing, for a reader that goes on where it was.
    pub fn empty(after: u64) -> Self {
        Self {
            entries: Vec::new(),
            missed: 0,
            withheld: 0,
            next: after,
            more: false,
        }
    }
}

// === impl FeedLimits ===

impl Default for FeedLimits {
    fn default() -> Self {
        Self {
            entries_max: 1000,
            bytes_max: 1 << 20,
        }
    }
}

// === impl Feed ===

impl Feed {
    /// An empty feed.
    pub fn new(limits: FeedLimits) -> Self {
        Self {
            limits,
            tag: None,
            ring: Mutex::default(),
            grown: Notify::new(),
        }
    }

    /// The feed, whose cursors can be resumed without it.
    #[must_use]
    pub(super) fn resumable(mut self, tag: ResumeTag) -> Self {
        self.tag = Some(tag);
        self
    }

    /// Notes the resourceVersion after which everything is delivered. A feed that goes on where
    /// another one has ended began where that one did.
    pub fn begin_after(&self, version: u64) {
        let mut ring = self.ring.lock();
        if ring.first_version == 0 {
            ring.first_version = version;
        }
        ring.version = ring.version.max(version);
        if version > 0 && ring.floor.is_none() && !ring.has_dropped {
            let time = Timestamp::now().as_millisecond();
            ring.floor = Some(Floor { version, time });
        }
    }

    /// Notes that everything after a resourceVersion is or will be delivered here, also what
    /// happened before the subscription was made here. The time, in milliseconds since 1970, is
    /// that since when also what came late is delivered.
    pub fn cover_from(&self, version: u64, time: i64) {
        self.ring.lock().floor = Some(Floor { version, time });
    }

    /// Where a reader goes on that has the cursor of this feed, or of one of another server that
    /// is for the same: `None` if it is of neither. A feed that is all there is (`is_alone`) is
    /// not asked whether it goes back so far.
    pub fn find(&self, cursor: &Cursor, disorder: Disorder, is_alone: bool) -> Option<Place> {
        let tag = self.tag?;
        let point = cursor.resume.filter(|point| point.tag == tag)?;
        let ring = self.ring.lock();
        let known = ring.entries.iter().filter_map(|entry| {
            Some(Known {
                seq: entry.seq,
                point: entry.resume?,
                is_notice: matches!(entry.item, FeedItem::Notice(_)),
            })
        });
        // Where it began is not known: it may have begun after the cursor.
        let nowhere = Floor {
            version: u64::MAX,
            time: i64::MAX,
        };
        let floor = (!is_alone).then(|| ring.floor.unwrap_or(nowhere));
        Some(place::find(
            (cursor.seq, point),
            known,
            ring.last,
            floor,
            disorder,
        ))
    }

    /// Goes on after an entry of a feed of which this one has nothing but the number.
    pub fn continue_after(&self, seq: u64) {
        let mut ring = self.ring.lock();
        if ring.entries.is_empty() {
            ring.last = ring.last.max(seq);
        }
    }

    /// resourceVersion after which everything is delivered; 0 if that is not known.
    pub fn first_version(&self) -> u64 {
        self.ring.lock().first_version
    }

    /// Whose cursors they are that can be resumed without the feed, if any can.
    pub fn tag(&self) -> Option<ResumeTag> {
        self.tag
    }

    /// The cursor of a position in the feed.
    pub fn cursor(&self, id: &SubscriptionId, seq: u64) -> Cursor {
        let resume = self.tag.map(|tag| {
            let ring = self.ring.lock();
            let oldest = ring.entries.front().map_or(ring.last + 1, |one| one.seq);
            let at = seq
                .checked_sub(oldest)
                .and_then(|at| usize::try_from(at).ok());
            let entry = at.and_then(|at| ring.entries.get(at));
            let version = match entry {
                Some(_) => ring.version,
                None if seq >= ring.last => ring.version,
                // What was dropped from the feed is in the history.
                None => ring.first_version,
            };
            entry
                .and_then(|entry| entry.resume)
                .unwrap_or_else(|| ResumePoint {
                    version,
                    time: Timestamp::now().as_millisecond(),
                    position: 0,
                    tag,
                })
        });
        Cursor {
            subscription: id.clone(),
            seq,
            resume,
        }
    }

    /// Adds entries; over the limits the oldest are dropped. `then` runs before any other
    /// entry can be added, so that entries are sent in this order.
    pub fn push(
        &self,
        items: impl IntoIterator<Item = FeedItem>,
        then: impl FnOnce(vec_deque::Iter<'_, FeedEntry>),
    ) {
        self.push_at(items.into_iter().map(|item| (item, None)), then);
    }

    /// The same for entries of which some say themselves where to go on after them.
    pub fn push_at(
        &self,
        items: impl IntoIterator<Item = (FeedItem, Option<ResumePoint>)>,
        then: impl FnOnce(vec_deque::Iter<'_, FeedEntry>),
    ) {
        let items: Vec<_> = items.into_iter().collect();
        if items.is_empty() {
            return;
        }
        let bytes: usize = items.iter().map(|(item, _)| item.bytes()).sum();
        let now = self.tag.map(|tag| (tag, Timestamp::now().as_millisecond()));
        let mut ring = self.ring.lock();
        let before = ring.entries.len();
        for (item, point) in items {
            ring.last += 1;
            let seq = ring.last;
            let resume = now.map(|(tag, time)| {
                if let Some(point) = point {
                    return point;
                }
                // Not the highest: a cluster that was made anew begins with low ones.
                if let Some(version) = item.version() {
                    ring.version = version;
                }
                ResumePoint {
                    version: ring.version,
                    time,
                    position: 0,
                    tag,
                }
            });
            ring.entries.push_back(FeedEntry { seq, item, resume });
        }
        ring.bytes += bytes;
        then(ring.entries.range(before..));
        while ring.entries.len() > self.limits.entries_max
            || (ring.bytes > self.limits.bytes_max && ring.entries.len() > 1)
        {
            let Some(oldest) = ring.entries.pop_front() else {
                break;
            };
            ring.bytes -= oldest.item.bytes();
            ring.drop_below(&oldest);
        }
        drop(ring);
        self.grown.notify_waiters();
    }

    /// Sequence number of the newest entry; 0 if there was none.
    pub fn last(&self) -> u64 {
        self.ring.lock().last
    }

    /// The entries after `seq`, oldest first, up to a limit.
    pub fn after(&self, seq: u64, limit: usize) -> FeedPage {
        let ring = self.ring.lock();
        let oldest = ring.entries.front().map_or(ring.last + 1, |one| one.seq);
        let missed = oldest.saturating_sub(seq + 1);
        let skip = usize::try_from((seq + 1).saturating_sub(oldest)).unwrap_or(usize::MAX);
        let entries: Vec<_> = ring
            .entries
            .iter()
            .skip(skip)
            .take(limit)
            .cloned()
            .collect();
        let next = entries.last().map_or(seq.max(oldest - 1), |one| one.seq);
        FeedPage {
            more: next < ring.last,
            entries,
            missed,
            withheld: 0,
            next,
        }
    }

    /// The newest entries, the oldest of them first.
    pub fn newest(&self, limit: usize) -> FeedPage {
        let last = self.last();
        let from = last.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX));
        let mut read = self.after(from, limit);
        read.missed = 0;
        read
    }

    /// Waits until there is an entry after `seq`. Cancel-safe.
    pub async fn wait_past(&self, seq: u64) {
        loop {
            let grown = self.grown.notified();
            if self.last() > seq {
                return;
            }
            grown.await;
        }
    }

    /// The sequence number of a cursor, if it is a cursor of this feed.
    pub fn resolve_cursor(&self, id: &SubscriptionId, text: &str) -> Result<u64, CursorError> {
        let cursor: Cursor = text.parse()?;
        if cursor.subscription != *id {
            return Err(CursorError::Foreign(cursor));
        }
        let last = self.last();
        if cursor.seq > last {
            return Err(CursorError::Ahead(cursor, last));
        }
        Ok(cursor.seq)
    }
}

// === impl Ring ===

impl Ring {
    /// Notes that an entry is not here any more.
    fn drop_below(&mut self, oldest: &FeedEntry) {
        self.has_dropped = true;
        if let (Some(floor), Some(point)) = (&mut self.floor, oldest.resume) {
            floor.version = floor.version.max(point.version);
            floor.time = floor.time.max(point.time);
        }
    }
}

// === impl Item ===

impl FeedItem {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.members().bytes_len(),
            Self::Fault(event, report) => event.members().bytes_len() + report.bytes(),
            Self::Incident(notice) => notice.members().bytes_len(),
            Self::Notice(_) => 200,
        }
    }

    /// Its event.
    pub(super) fn event(&self) -> Option<&Arc<Event>> {
        match self {
            Self::Event(event) | Self::Fault(event, _) => Some(event),
            Self::Incident(_) | Self::Notice(_) => None,
        }
    }

    /// resourceVersion of its event.
    fn version(&self) -> Option<u64> {
        self.event()?.version
    }
}

#[cfg(test)]
mod tests;
