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

    /// resourceVersion of its event.
    fn version(&self) -> Option<u64> {
        match self {
            Self::Event(event) | Self::Fault(event, _) => event.version,
            Self::Incident(_) | Self::Notice(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::tests::event;

    fn item() -> FeedItem {
        FeedItem::Event(Arc::new(event("shop", "Pod", "web-0")))
    }

    fn push(feed: &Feed) {
        feed.push([item()], |_| {});
    }

    proptest! {
        /// A reader that continues sees every number once, or learns how many it missed.
        #[test]
        fn nothing_is_missed_in_silence(
            steps in prop::collection::vec((0..8_usize, 1..6_usize), 1..40), kept in 1..12_usize,
        ) {
            let feed = Feed::new(FeedLimits { entries_max: kept, bytes_max: usize::MAX });
            let (mut at, mut seen) = (0, 0);
            for (pushed, limit) in steps {
                (0..pushed).for_each(|_| push(&feed));
                let read = feed.after(at, limit);
                for (expected, entry) in (at + read.missed + 1..).zip(&read.entries) {
                    prop_assert_eq!(entry.seq, expected);
                }
                prop_assert!(read.entries.len() <= limit);
                seen += read.missed + read.entries.len() as u64;
                at = read.next;
                prop_assert_eq!(at, seen);
                prop_assert_eq!(read.more, at < feed.last());
            }
        }
    }

    #[test]
    fn bytes_are_bounded_but_the_newest_stays() {
        let one = item().bytes();
        let feed = Feed::new(FeedLimits {
            entries_max: 100,
            bytes_max: one * 3,
        });
        (0..10).for_each(|_| push(&feed));
        let read = feed.after(0, 100);
        assert_eq!((read.missed, read.entries.len()), (7, 3));
        let tiny = Feed::new(FeedLimits {
            entries_max: 100,
            bytes_max: 1,
        });
        (0..3).for_each(|_| push(&tiny));
        assert_eq!(tiny.after(0, 10).entries[0].seq, 3);
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken_by_the_next_entry() {
        let feed = Feed::new(FeedLimits::default());
        push(&feed);
        feed.wait_past(0).await;
        let mut waiting = tokio_test::task::spawn(feed.wait_past(1));
        assert!(waiting.poll().is_pending());
        push(&feed);
        assert!(waiting.is_woken() && waiting.poll().is_ready());
    }

    #[test]
    fn a_cursor_says_up_to_where_everything_was_delivered() {
        let id = SubscriptionId::random();
        let feed = Feed::new(FeedLimits {
            entries_max: 2,
            bytes_max: usize::MAX,
        });
        assert_eq!(feed.cursor(&id, 0).resume, None, "there is no history");
        let feed = feed.resumable([7; 8]);
        let at = |seq| feed.cursor(&id, seq).resume.unwrap().version;
        feed.begin_after(100);
        assert_eq!(at(0), 100);
        for version in [105, 103, 110] {
            let event = Event {
                version: Some(version),
                ..event("shop", "Pod", "web-0")
            };
            feed.push([FeedItem::Event(Arc::new(event))], |_| {});
        }
        assert_eq!((at(2), at(3)), (103, 110));
        assert_eq!(
            at(1),
            100,
            "an entry that was dropped is read from the history again"
        );
        assert_eq!(feed.cursor(&id, 3).resume.unwrap().tag, [7; 8]);
    }

    #[test]
    fn a_cursor_is_of_one_feed() {
        let (ours, theirs) = (SubscriptionId::random(), SubscriptionId::random());
        let feed = Feed::new(FeedLimits::default());
        (0..5).for_each(|_| push(&feed));
        let cursor = |subscription: &SubscriptionId, seq| Cursor {
            subscription: subscription.clone(),
            seq,
            resume: None,
        };
        assert_eq!(
            feed.resolve_cursor(&ours, &cursor(&ours, 5).to_string()),
            Ok(5)
        );
        let foreign = feed.resolve_cursor(&ours, &cursor(&theirs, 1).to_string());
        assert!(matches!(foreign, Err(CursorError::Foreign(_))));
        let ahead = feed.resolve_cursor(&ours, &cursor(&ours, 6).to_string());
        assert!(matches!(ahead, Err(CursorError::Ahead(_, 5))));
        for text in [
            "",
            "x",
            "5",
            "sub-1.",
            ".5",
            "sub-zz.1",
            &format!("{ours}.+5"),
        ] {
            let error = feed.resolve_cursor(&ours, text).unwrap_err();
            assert!(matches!(error, CursorError::Malformed(_)), "{text}");
        }
    }
}
