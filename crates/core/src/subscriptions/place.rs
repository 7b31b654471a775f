//! Where a reader goes on in a feed that did not give it its cursor: another server has a feed of
//! the same subscription, or of another one with the same filters, with other numbers.
//!
//! Nothing is left out; what is near the cursor may be delivered again, with the same `eventId`.

use super::cursor::ResumePoint;

/// How late a status may have been told that concerns what is after a cursor.
const NOTICE_MILLISECONDS: i64 = 10_000;

/// What is delivered so long after the cursor was given is no double of what came before it,
/// whatever its version: a cluster that was made anew begins with low ones.
const ANEW_MILLISECONDS: i64 = 60_000;

/// How the feeds of one subscription may differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disorder {
    /// Whether entries have versions at all.
    pub has_versions: bool,
    /// How much later than another entry one may come that has a lower version.
    pub milliseconds: i64,
}

/// Where a reader goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// After this entry. If it is the last one, the reader waits.
    After(u64),
    /// With what happened before everything that the feed has.
    Before,
}

/// From where on a feed has everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Floor {
    pub(super) version: u64,
    pub(super) time: i64,
}

/// What matters of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) seq: u64,
    pub(super) point: ResumePoint,
    /// A status of the watch, which is each server's own.
    pub(super) is_notice: bool,
}

/// Finds the place of a cursor, which is `seq` and `point`, among the entries of a feed whose last
/// one had the number `last`. Without a floor it is not asked whether the feed goes back so far.
pub(super) fn find(
    (seq, point): (u64, ResumePoint),
    entries: impl IntoIterator<Item = Known>,
    last: u64,
    floor: Option<Floor>,
    disorder: Disorder,
) -> Place {
    let is_there = |floor: Floor| {
        let is_late = disorder.milliseconds > 0 && point.time - disorder.milliseconds < floor.time;
        !disorder.has_versions || (point.version >= floor.version && !is_late)
    };
    let mut place = None;
    for entry in entries {
        if entry.seq == seq && entry.point == point {
            return Place::After(seq);
        }
        if place.is_none() && !was_delivered(&entry, point, disorder) {
            place = Some(entry.seq.saturating_sub(1));
        }
    }
    if floor.is_some_and(|floor| !is_there(floor)) {
        return Place::Before;
    }
    Place::After(place.unwrap_or(last))
}

/// Whether whoever gave the cursor has certainly delivered an entry before it.
fn was_delivered(entry: &Known, point: ResumePoint, disorder: Disorder) -> bool {
    let Known {
        point: here,
        is_notice,
        ..
    } = entry;
    if *is_notice {
        return here.time <= point.time - NOTICE_MILLISECONDS;
    }
    let is_old = disorder.milliseconds == 0 || here.time < point.time - disorder.milliseconds;
    if !disorder.has_versions {
        return is_old;
    }
    let is_of_then = here.time <= point.time.saturating_add(ANEW_MILLISECONDS);
    is_old && here.version <= point.version && is_of_then
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use proptest::prelude::*;

    use super::*;
    use crate::subscriptions::{
        SubscriptionId,
        cursor::{Cursor, NUMBER_MAX},
    };

    const WINDOW: i64 = 10_000;

    /// A feed as one server has it.
    struct Model {
        entries: VecDeque<Known>,
        floor: Floor,
        last: u64,
        kept: usize,
        version: u64,
        /// Events that come one by one, with the time when they do.
        coming: VecDeque<(u64, i64)>,
    }

    impl Model {
        /// One whose watch began after a number of events, and that gets each up to `lag` late.
        fn new(began: u64, lags: &[i64], kept: usize, is_ordered: bool) -> Self {
            let mut coming: Vec<_> = (1_u64..)
                .zip(lags)
                .filter(|(version, _)| *version > began)
                .map(|(version, lag)| (version, happened(version) + lag))
                .collect();
            if is_ordered {
                let mut latest = 0;
                for (_, at) in &mut coming {
                    latest = latest.max(*at);
                    *at = latest;
                }
            }
            coming.sort_by_key(|(_, at)| *at);
            // Numbers of a server say nothing to another one.
            let last = began * 7;
            Self {
                entries: VecDeque::new(),
                floor: Floor {
                    version: began,
                    time: happened(began),
                },
                last,
                kept,
                version: began,
                coming: coming.into(),
            }
        }

        fn run_until(&mut self, now: i64) {
            while self.coming.front().is_some_and(|(_, at)| *at <= now) {
                let Some((version, time)) = self.coming.pop_front() else {
                    return;
                };
                self.last += 1;
                self.version = version;
                let (seq, point) = (self.last, point(version, time));
                self.entries.push_back(Known {
                    seq,
                    point,
                    is_notice: false,
                });
                if self.entries.len() > self.kept
                    && let Some(dropped) = self.entries.pop_front()
                {
                    self.floor.version = self.floor.version.max(dropped.point.version);
                    self.floor.time = self.floor.time.max(dropped.point.time);
                }
            }
        }
    }

    fn happened(version: u64) -> i64 {
        1_000_000 + i64::try_from(version).unwrap() * 500
    }

    fn point(version: u64, time: i64) -> ResumePoint {
        ResumePoint {
            version,
            time,
            position: 0,
            tag: [1; 8],
        }
    }

    proptest! {
        /// A reader whose requests come to either of two servers, in any order, gets everything,
        /// from a feed or from the history.
        #[test]
        fn nothing_is_lost_between_two_servers(
            events in prop::collection::vec((0..4_000_i64, 0..4_000_i64), 1..60),
            polls in prop::collection::vec((any::<bool>(), 0..8_000_i64, 1..6_usize), 1..60),
            (began, kept, is_ordered) in (0..10_u64, 1..20_usize, any::<bool>()),
        ) {
            let all = events.len() as u64;
            let (here, there): (Vec<_>, Vec<_>) = events.into_iter().unzip();
            let mut feeds = [
                Model::new(0, &here, kept, is_ordered),
                Model::new(began.min(all), &there, kept, is_ordered),
            ];
            let milliseconds = if is_ordered { 0 } else { WINDOW };
            let disorder = Disorder { has_versions: true, milliseconds };
            let mut seen = BTreeSet::new();
            let mut now = happened(0);
            let mut cursor = (0, point(0, now));
            let end = (0..200).flat_map(|_| [(true, 30_000, 50), (false, 30_000, 50)]);
            for (which, pause, limit) in polls.into_iter().chain(end) {
                now += pause;
                for feed in &mut feeds {
                    feed.run_until(now);
                }
                let feed = &feeds[usize::from(which)];
                let known = || feed.entries.iter().copied();
                let mut found = find(cursor, known(), feed.last, Some(feed.floor), disorder);
                if found == Place::Before {
                    // What this server has received, by version.
                    let is_late = |time: i64| milliseconds > 0 && time >= cursor.1.time - milliseconds;
                    let mut kept: Vec<_> = (1..=all)
                        .filter(|version| feed.coming.iter().all(|(other, _)| other != version))
                        .filter(|version| *version > cursor.1.version || is_late(happened(*version)))
                        .collect();
                    kept.sort_unstable();
                    if !kept.is_empty() {
                        let last = kept.last().copied().unwrap_or_default();
                        seen.extend(kept);
                        cursor = (0, point(last.max(cursor.1.version), now));
                        continue;
                    }
                    found = find(cursor, known(), feed.last, None, disorder);
                }
                let Place::After(seq) = found else { unreachable!() };
                let page: Vec<_> = known().filter(|one| one.seq > seq).take(limit).collect();
                seen.extend(page.iter().map(|one| one.point.version));
                if let Some(last) = page.last() {
                    cursor = (last.seq, last.point);
                }
            }
            prop_assert_eq!(seen.len() as u64, all, "{:?}", seen);
        }
    }

    proptest! {
        /// What a client says that it has seen may be anything.
        #[test]
        fn fuzz_any_cursor_has_a_place_or_is_refused(
            (seq, version, position) in (number(), number(), number()),
            (time, milliseconds) in (number(), 0..60_000_i64),
            entries in prop::collection::vec((1..100_u64, 1..100_u64, any::<bool>()), 0..5),
        ) {
            let known = entries.iter().map(|&(seq, version, is_notice)| Known {
                seq,
                point: point(version, happened(version)),
                is_notice,
            });
            let floor = Floor { version: 5, time: happened(5) };
            let disorder = Disorder { has_versions: true, milliseconds };
            let time = i64::try_from(time).unwrap_or(i64::MAX);
            let resume = ResumePoint { version, time, position, tag: [1; 8] };
            let subscription = SubscriptionId::random();
            let cursor = Cursor { subscription, seq, resume: Some(resume) };
            let is_ours = [seq, version, position, time.unsigned_abs()]
                .iter()
                .all(|number| *number <= NUMBER_MAX);
            let parsed = cursor.to_string().parse::<Cursor>();
            prop_assert_eq!(parsed.is_ok(), is_ours);
            let mark = resume.mark(&cursor.subscription, seq);
            let (seq, point) = ResumePoint::from_mark(&mark, [1; 8]);
            prop_assert!(seq <= NUMBER_MAX && point.time.unsigned_abs() <= NUMBER_MAX);
            // Also if it was not read from a text.
            for point in [point, resume] {
                let _place = find((seq, point), known.clone(), 100, Some(floor), disorder);
            }
        }
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..100_u64,
            any::<u64>(),
            Just(u64::MAX),
            Just(u64::MAX / 2),
            Just(NUMBER_MAX)
        ]
    }

    #[test]
    fn an_entry_is_found_by_its_number_or_its_version() {
        let known = |seq, version, time| Known {
            seq,
            point: point(version, time),
            is_notice: false,
        };
        let entries = [known(4, 10, 1000), known(5, 12, 2000), known(6, 15, 3000)];
        let ordered = Disorder {
            has_versions: true,
            milliseconds: 0,
        };
        let floor = Floor {
            version: 8,
            time: 500,
        };
        let at = |seq, version, time| {
            let cursor = (seq, point(version, time));
            find(cursor, entries, 6, Some(floor), ordered)
        };
        assert_eq!(at(5, 12, 2000), Place::After(5), "its own");
        assert_eq!(at(900, 12, 2100), Place::After(5), "of another server");
        assert_eq!(at(5, 10, 1100), Place::After(4), "with another's number");
        assert_eq!(at(1, 9, 900), Place::After(3));
        assert_eq!(at(900, 40, 4000), Place::After(6), "ahead: it waits");
        assert_eq!(at(5, 7, 2000), Place::Before);
        let anew = at(900, 5000, 3000 - ANEW_MILLISECONDS - 500);
        assert_eq!(anew, Place::After(5), "the cluster was made anew");
    }

    #[test]
    fn a_gap_of_this_server_is_told_to_a_reader_of_another_one() {
        let gap = Known {
            seq: 2,
            point: point(10, 50_000),
            is_notice: true,
        };
        let ordered = Disorder {
            has_versions: true,
            milliseconds: 0,
        };
        let find = |time| find((9, point(20, time)), [gap], 2, None, ordered);
        assert_eq!(find(45_000), Place::After(1));
        assert_eq!(find(65_000), Place::After(2));
    }
}
