//! The position in a log, from which reading resumes.

use std::cmp::Ordering;

use jiff::{Timestamp, Unit};

/// The timestamp of the last line, and the number of lines with that timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPosition(Option<(Timestamp, usize)>);

/// Filters out the lines that were read before, after a log was opened again.
#[derive(Debug)]
pub(super) struct ReplayFilter {
    position: LogPosition,
    /// Number of lines with the last timestamp that were skipped.
    skipped: usize,
}

// === impl LogPosition ===

impl LogPosition {
    /// The `sinceTime` of the next request. The API takes whole seconds, so some lines are
    /// sent again.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let (last, _) = self.0?;
        let round = jiff::TimestampRound::new()
            .smallest(Unit::Second)
            .mode(jiff::RoundMode::Floor);
        last.round(round).ok()
    }

    /// Moves behind a line with this timestamp.
    pub(super) fn advance(&mut self, at: Timestamp) {
        self.0 = match self.0 {
            Some((last, count)) if last == at => Some((last, count + 1)),
            // Old lines are not new because a clock was set back.
            Some((last, count)) if last > at => Some((last, count)),
            _ => Some((at, 1)),
        };
    }

    /// The filter for a log that is read again, from [`since`](Self::since) on.
    pub(super) fn replay_filter(&self) -> ReplayFilter {
        ReplayFilter {
            position: *self,
            skipped: 0,
        }
    }
}

// === impl ReplayFilter ===

impl ReplayFilter {
    /// Whether a line with this timestamp was not read before.
    pub(super) fn is_new(&mut self, at: Timestamp) -> bool {
        let Some((last, count)) = self.position.0 else {
            return true;
        };
        match at.cmp(&last) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => {
                self.skipped += 1;
                self.skipped > count
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: i128) -> Timestamp {
        Timestamp::from_nanosecond(1_700_000_000_000_000_000 + nanos).unwrap()
    }

    proptest! {
        /// Each line is delivered once, wherever the stream breaks and however many lines have
        /// the same timestamp.
        #[test]
        fn every_line_is_told_once_wherever_the_log_breaks(
            steps in prop::collection::vec(0..900_000_000_i128, 1..30),
            breaks in prop::collection::vec(0..30_usize, 0..5),
        ) {
            let mut now = 0;
            let log: Vec<_> = steps.iter().map(|step| {
                // Many lines have the same timestamp.
                now += if step % 3 == 0 { 0 } else { *step };
                at(now)
            }).collect();
            let mut position = LogPosition::default();
            let mut delivered = Vec::new();
            for broken in breaks.into_iter().chain([usize::MAX]) {
                let since = position.since();
                let from = log.iter().position(|time| since.is_none_or(|since| *time >= since));
                let mut replay_filter = position.replay_filter();
                for (number, time) in log.iter().enumerate().skip(from.unwrap_or(log.len())) {
                    if number >= broken.max(delivered.len()) {
                        break;
                    }
                    if replay_filter.is_new(*time) {
                        position.advance(*time);
                        delivered.push(number);
                    }
                }
            }
            prop_assert_eq!(delivered, (0..log.len()).collect::<Vec<_>>());
        }
    }
}
