//! What a subscription has seen, in order, as far back as fits: for those who poll,
//! who read, and who come back.

use std::{
    collections::{VecDeque, vec_deque},
    fmt,
    str::FromStr,
    sync::Arc,
};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;

use super::{ledger::SubscriptionId, listener::Change};
use crate::Event;
use crate::faults::report::Report;

/// How far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedLimits {
    /// Entries.
    pub entries_max: usize,
    /// Their bytes, serialised.
    pub bytes_max: usize,
}

/// A bounded log with numbers that are never reused.
#[derive(Debug)]
pub struct Feed {
    limits: FeedLimits,
    // A lock because one task writes and others read; held while what is new is put into
    // an outbox, so that it is told in this order.
    ring: Mutex<Ring>,
    grown: Notify,
}

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    last: u64,
}

/// One entry; a clone is the same one.
#[derive(Clone, Debug)]
pub struct Entry {
    /// From 1 on, without holes.
    pub seq: u64,
    /// What it is.
    pub item: Item,
}

/// What can be in a feed.
#[derive(Clone, Debug)]
pub enum Item {
    /// An event.
    Event(Arc<Event>),
    /// A warning about a pod, with what was found out about it.
    Fault(Arc<Event>, Arc<Report>),
    /// News of the watch itself.
    Notice(Arc<Change>),
}

/// A part of a feed.
#[derive(Clone, Debug)]
pub struct Read {
    /// In order.
    pub entries: Vec<Entry>,
    /// How many were asked for and are gone.
    pub missed: u64,
    /// Where to go on.
    pub next: u64,
    /// Whether there is more already.
    pub more: bool,
}

/// A place in the feed of one subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Whose feed.
    pub subscription: SubscriptionId,
    /// After this one.
    pub seq: u64,
}

/// A text that is no cursor, or none of this feed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StaleCursor {
    /// Not one of ours.
    #[error("`{0}` is no cursor: use one that an event or an earlier call gave you, or none")]
    Malformed(String),
    /// Of another subscription.
    #[error("the cursor `{0}` is of another subscription: use one of this one, or none")]
    Foreign(Cursor),
    /// Ahead of everything.
    #[error("the cursor `{0}` is ahead of the last event, {1}: use one that was given, or none")]
    Ahead(Cursor, u64),
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
    /// Nothing seen yet.
    pub fn new(limits: FeedLimits) -> Self {
        Self {
            limits,
            ring: Mutex::default(),
            grown: Notify::new(),
        }
    }

    /// Adds entries; the oldest go when it is too much. `then` runs before any other
    /// entry can be added, so that what is sent is sent in this order.
    pub fn push(
        &self,
        items: impl IntoIterator<Item = Item>,
        then: impl FnOnce(vec_deque::Iter<'_, Entry>),
    ) {
        let items: Vec<_> = items.into_iter().collect();
        if items.is_empty() {
            return;
        }
        let bytes: usize = items.iter().map(Item::bytes).sum();
        let mut ring = self.ring.lock();
        let before = ring.entries.len();
        for item in items {
            ring.last += 1;
            let seq = ring.last;
            ring.entries.push_back(Entry { seq, item });
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

    /// The number of the newest entry; 0 before there is one.
    pub fn last(&self) -> u64 {
        self.ring.lock().last
    }

    /// What came after `seq`, the oldest first, up to a limit.
    pub fn after(&self, seq: u64, limit: usize) -> Read {
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
        Read {
            more: next < ring.last,
            entries,
            missed,
            next,
        }
    }

    /// The newest entries, the oldest of them first.
    pub fn newest(&self, limit: usize) -> Read {
        let last = self.last();
        let from = last.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX));
        let mut read = self.after(from, limit);
        read.missed = 0;
        read
    }

    /// Waits until there is something after `seq`. Cancel-safe.
    pub async fn grown(&self, seq: u64) {
        loop {
            let grown = self.grown.notified();
            if self.last() > seq {
                return;
            }
            grown.await;
        }
    }

    /// Where a cursor points to, if it is one of this feed.
    pub fn place(&self, id: &SubscriptionId, text: &str) -> Result<u64, StaleCursor> {
        let cursor: Cursor = text.parse()?;
        if cursor.subscription != *id {
            return Err(StaleCursor::Foreign(cursor));
        }
        let last = self.last();
        if cursor.seq > last {
            return Err(StaleCursor::Ahead(cursor, last));
        }
        Ok(cursor.seq)
    }
}

// === impl Item ===

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.members().bytes_len(),
            Self::Fault(event, report) => event.members().bytes_len() + report.bytes(),
            Self::Notice(_) => 200,
        }
    }
}

// === impl Cursor ===

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.subscription, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = StaleCursor;

    fn from_str(text: &str) -> Result<Self, StaleCursor> {
        let parse = || {
            let (id, seq) = text.rsplit_once('.')?;
            let digits = !seq.is_empty() && seq.bytes().all(|b| b.is_ascii_digit());
            Some(Self {
                subscription: SubscriptionId::parse(id)?,
                seq: digits.then(|| seq.parse().ok())??,
            })
        };
        parse().ok_or_else(|| StaleCursor::Malformed(text.chars().take(80).collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::tests::event;

    fn item() -> Item {
        Item::Event(Arc::new(event("shop", "Pod", "web-0")))
    }

    fn push(feed: &Feed) {
        feed.push([item()], |_| {});
    }

    proptest! {
        /// Whoever reads on from where it was sees every number once, or is told how
        /// many it did not see.
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
        feed.grown(0).await;
        let mut waiting = tokio_test::task::spawn(feed.grown(1));
        assert!(waiting.poll().is_pending());
        push(&feed);
        assert!(waiting.is_woken() && waiting.poll().is_ready());
    }

    #[test]
    fn a_cursor_is_of_one_feed() {
        let (ours, theirs) = (SubscriptionId::random(), SubscriptionId::random());
        let feed = Feed::new(FeedLimits::default());
        (0..5).for_each(|_| push(&feed));
        let cursor = |subscription: &SubscriptionId, seq| Cursor {
            subscription: subscription.clone(),
            seq,
        };
        assert_eq!(feed.place(&ours, &cursor(&ours, 5).to_string()), Ok(5));
        let foreign = feed.place(&ours, &cursor(&theirs, 1).to_string());
        assert!(matches!(foreign, Err(StaleCursor::Foreign(_))));
        let ahead = feed.place(&ours, &cursor(&ours, 6).to_string());
        assert!(matches!(ahead, Err(StaleCursor::Ahead(_, 5))));
        for text in [
            "",
            "x",
            "5",
            "sub-1.",
            ".5",
            "sub-zz.1",
            &format!("{ours}.+5"),
        ] {
            let error = feed.place(&ours, text).unwrap_err();
            assert!(matches!(error, StaleCursor::Malformed(_)), "{text}");
        }
    }
}
