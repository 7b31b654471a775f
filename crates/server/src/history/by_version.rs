//! A backlog in the order of versions: the positions in a history are of one server, so where
//! several share their subscriptions, a reader that is behind goes on after a version.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::resume::BacklogItem;
use kubecrier_core::{
    Event,
    subscriptions::{FeedLimits, ResumePoint},
};
use kubecrier_history::{Edge, Position, VersionOrder};

/// Which part of a backlog is read, if it does not all fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOrder {
    /// The first part, in the order in which it was kept.
    Log,
    /// That with the lowest versions.
    Oldest,
    /// That with the highest versions.
    Newest,
}

/// The items of a page, found in any order.
#[derive(Debug)]
pub(super) struct VersionPage {
    order: VersionOrder,
    room: FeedLimits,
    bytes: usize,
    after: u64,
    by_version: BTreeMap<(u64, Position), (usize, BacklogItem)>,
    /// What may not have been delivered before the cursor though its version is lower.
    late: Vec<(Position, BacklogItem)>,
    /// Those without a version, with their times.
    gaps: Vec<(i64, Position, BacklogItem)>,
    /// Whether something did not fit.
    is_cut: bool,
}

// === impl VersionPage ===

impl VersionPage {
    /// A page for the order, unless that is the order of the log.
    pub(super) fn new(order: ReadOrder, point: ResumePoint, room: FeedLimits) -> Option<Self> {
        let order = match order {
            ReadOrder::Log => return None,
            ReadOrder::Oldest => VersionOrder::Lowest,
            ReadOrder::Newest => VersionOrder::Highest,
        };
        Some(Self {
            order,
            room,
            bytes: 0,
            after: point.version,
            by_version: BTreeMap::new(),
            late: Vec::new(),
            gaps: Vec::new(),
            is_cut: false,
        })
    }

    /// The order in which it is filled.
    pub(super) fn order(&self) -> VersionOrder {
        self.order
    }

    /// Whether nothing from this edge on can be on the page: it is full.
    pub(super) fn ends_before(&mut self, edge: Edge) -> bool {
        let is_full = self.is_cut || self.by_version.len() >= self.room.entries_max;
        let is_beyond = match self.order {
            VersionOrder::Lowest => self.last().is_some_and(|last| last < edge.version),
            VersionOrder::Highest => self.first().is_some_and(|first| first > edge.version),
        };
        self.is_cut |= is_full && is_beyond;
        is_full && is_beyond
    }

    /// Whether the next page can begin at this edge: it has to go on.
    pub(super) fn can_end_at(&self, edge: Edge) -> bool {
        match self.order {
            VersionOrder::Lowest => edge.version > self.after.saturating_add(1),
            VersionOrder::Highest => true,
        }
    }

    fn first(&self) -> Option<u64> {
        self.by_version
            .first_key_value()
            .map(|((first, _), _)| *first)
    }

    fn last(&self) -> Option<u64> {
        self.by_version.last_key_value().map(|((last, _), _)| *last)
    }

    /// Whether an event with this version would be on the page, as far as is known.
    pub(super) fn has_room_for(&mut self, version: u64) -> bool {
        let is_full = self.by_version.len() >= self.room.entries_max;
        let last = self.last();
        let fits = version <= self.after
            || self.order == VersionOrder::Highest
            || !is_full
            || last.is_none_or(|last| version < last);
        self.is_cut |= !fits;
        fits
    }

    pub(super) fn add(
        &mut self,
        position: Position,
        (version, time): (u64, i64),
        bytes: usize,
        item: BacklogItem,
    ) {
        if version == 0 {
            self.gaps.push((time, position, item));
            return;
        }
        if version <= self.after {
            // What is left out of these is not lost: who gave the cursor has most likely told it.
            if self.late.len() < self.room.entries_max {
                self.late.push((position, item));
            }
            return;
        }
        self.bytes += bytes;
        self.by_version.insert((version, position), (bytes, item));
        let (entries_max, bytes_max) = (self.room.entries_max, self.room.bytes_max);
        while self.by_version.len() > entries_max
            || (self.bytes > bytes_max && self.by_version.len() > 1)
        {
            let dropped = match self.order {
                VersionOrder::Lowest => self.by_version.pop_last(),
                VersionOrder::Highest => self.by_version.pop_first(),
            };
            let Some((_, (bytes, _))) = dropped else {
                break;
            };
            self.bytes -= bytes;
            self.is_cut = true;
        }
    }

    /// The items, whether they are all there are, and the point after them; of the newest, that
    /// before them. Nothing from `unread` on was looked at.
    pub(super) fn end(
        mut self,
        point: ResumePoint,
        unread: Option<Edge>,
    ) -> (Vec<(Position, BacklogItem)>, bool, ResumePoint) {
        let is_whole = unread.is_none() && !self.is_cut;
        if let Some(edge) = unread {
            self.leave(edge);
        }
        let is_newest = self.order == VersionOrder::Highest;
        let last = self.by_version.last_key_value();
        let time = match last {
            _ if is_whole => Timestamp::now().as_millisecond(),
            Some((_, (_, item))) => item.time().unwrap_or(point.time),
            None => point.time,
        };
        let (version, time) = match unread {
            // Everything before the edge was looked at; what did not fit is behind it.
            Some(edge) if !self.is_cut && is_newest => (edge.version, time),
            Some(edge) if !self.is_cut => (edge.version - 1, time.max(edge.time)),
            _ if is_newest => (self.first().map_or(point.version, |first| first - 1), time),
            _ => (self.last().unwrap_or(point.version), time),
        };
        let next = ResumePoint {
            version,
            time,
            position: 0,
            ..point
        };
        // Of a page that goes on, a later gap is for a later page.
        let is_now = |time: i64| is_whole || is_newest || time <= next.time;
        let gaps = (self.gaps.into_iter())
            .filter(|(time, ..)| is_now(*time))
            .map(|(_, position, item)| (position, item));
        let late = self.late.into_iter().filter(|_| is_whole);
        let events = self.by_version.into_iter();
        let events = events.map(|((_, position), (_, item))| (position, item));
        (gaps.chain(late).chain(events).collect(), is_whole, next)
    }

    /// Leaves what is behind an edge to the next page: others there were not looked at.
    fn leave(&mut self, edge: Edge) {
        let at = (edge.version, Position::default());
        let left = match self.order {
            VersionOrder::Lowest => self.by_version.split_off(&at),
            VersionOrder::Highest => {
                let above = (edge.version.saturating_add(1), Position::default());
                let kept = self.by_version.split_off(&above);
                std::mem::replace(&mut self.by_version, kept)
            }
        };
        // What did not fit is even further away than these.
        self.is_cut &= left.is_empty();
    }
}

// === impl BacklogItem ===

impl BacklogItem {
    /// The event, if it is one.
    pub(crate) fn event(&self) -> Option<&Arc<Event>> {
        match self {
            Self::Event(event) => Some(event),
            Self::Gap(_) => None,
        }
    }

    /// resourceVersion of the event, if it is one.
    pub(crate) fn version(&self) -> Option<u64> {
        self.event()?.version
    }

    /// When it happened, if it is an event.
    fn time(&self) -> Option<i64> {
        Some(self.event()?.timestamp.as_millisecond())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use kubecrier_core::{Event, EventFields};

    fn point(version: u64) -> ResumePoint {
        ResumePoint {
            version,
            time: 0,
            position: 7,
            tag: [1; 8],
        }
    }

    fn event(version: u64) -> BacklogItem {
        let timestamp = Timestamp::from_millisecond(i64::try_from(version).unwrap() * 1000);
        BacklogItem::Event(Arc::new(Event::from(EventFields {
            version: Some(version),
            timestamp: timestamp.unwrap(),
            ..EventFields::default()
        })))
    }

    fn versions(items: &[(Position, BacklogItem)]) -> Vec<u64> {
        let events = items.iter().filter_map(|(_, item)| match item {
            BacklogItem::Event(event) => event.version,
            BacklogItem::Gap(_) => None,
        });
        events.collect()
    }

    proptest! {
        /// Page by page, each read from a log in another order, everything is read once.
        #[test]
        fn pages_of_several_logs_have_everything(
            logs in prop::collection::vec(Just((1..40_u64).collect::<Vec<_>>()).prop_shuffle(), 1..4),
            entries_max in 1..9_usize,
        ) {
            let room = FeedLimits { entries_max, bytes_max: usize::MAX };
            let (mut at, mut seen) = (point(0), Vec::new());
            for round in 0_usize.. {
                let mut page = VersionPage::new(ReadOrder::Oldest, at, room).unwrap();
                for (position, version) in (1_u64..).zip(&logs[round % logs.len()]) {
                    if *version > at.version && page.has_room_for(*version) {
                        page.add(Position::from(position), (*version, 0), 1, event(*version));
                    }
                }
                let (items, is_whole, next) = page.end(at, None);
                prop_assert!(items.len() <= entries_max);
                prop_assert_eq!(next.position, 0);
                seen.extend(versions(&items));
                at = next;
                if is_whole {
                    break;
                }
            }
            prop_assert_eq!(seen, (1..40).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_newest_are_those_with_the_highest_versions() {
        let room = FeedLimits {
            entries_max: 2,
            bytes_max: usize::MAX,
        };
        let mut page = VersionPage::new(ReadOrder::Newest, point(0), room).unwrap();
        for version in [4, 9, 2, 7] {
            assert!(page.has_room_for(version));
            page.add(Position::from(version), (version, 0), 1, event(version));
        }
        let (items, is_whole, next) = page.end(point(0), None);
        assert_eq!(versions(&items), [7, 9]);
        assert!(!is_whole);
        assert_eq!(next.version, 6);
    }
}
