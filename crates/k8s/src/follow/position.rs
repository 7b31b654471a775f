//! How far a log was read, so that it is read on from there.

use std::cmp::Ordering;

use jiff::{Timestamp, Unit};

/// The last line that was seen: its time, and how many lines had that very time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPosition(Option<(Timestamp, usize)>);

/// Tells lines that were seen before from those that were not, after a log was
/// opened again.
#[derive(Debug)]
pub(super) struct Reopened {
    until: LogPosition,
    /// Lines of the very last time that were passed over.
    passed: usize,
}

// === impl LogPosition ===

impl LogPosition {
    /// From when on to ask. The API takes whole seconds, so some lines come again.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let (last, _) = self.0?;
        let round = jiff::TimestampRound::new()
            .smallest(Unit::Second)
            .mode(jiff::RoundMode::Floor);
        last.round(round).ok()
    }

    /// A line was seen.
    pub(super) fn saw(&mut self, at: Timestamp) {
        self.0 = match self.0 {
            Some((last, count)) if last == at => Some((last, count + 1)),
            // A clock that was set back does not make old lines new.
            Some((last, count)) if last > at => Some((last, count)),
            _ => Some((at, 1)),
        };
    }

    /// The log is read again, from [`since`](Self::since) on.
    pub(super) fn reopened(&self) -> Reopened {
        Reopened {
            until: *self,
            passed: 0,
        }
    }
}

// === impl Reopened ===

impl Reopened {
    /// Whether a line with that time was not seen before.
    pub(super) fn is_new(&mut self, at: Timestamp) -> bool {
        let Some((last, count)) = self.until.0 else {
            return true;
        };
        match at.cmp(&last) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => {
                self.passed += 1;
                self.passed > count
            }
        }
    }
}

/// The time that a kubelet puts before a line, and the line.
pub(super) fn dated(line: &str) -> (Option<Timestamp>, &str) {
    let Some((time, rest)) = line.split_once(' ') else {
        // An empty line is its time alone.
        return match line.parse() {
            Ok(time) => (Some(time), ""),
            Err(_) => (None, line),
        };
    };
    match time.parse() {
        Ok(time) => (Some(time), rest),
        Err(_) => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: i128) -> Timestamp {
        Timestamp::from_nanosecond(1_700_000_000_000_000_000 + nanos).unwrap()
    }

    #[test]
    fn a_line_has_its_time_before_it() {
        let (time, line) = dated("2026-11-15T10:00:00.123456789Z hello there");
        assert_eq!(
            (time.unwrap().subsec_nanosecond(), line),
            (123_456_789, "hello there")
        );
        assert_eq!(dated("2026-11-15T10:00:00Z").1, "");
        assert_eq!(dated("no time at all"), (None, "no time at all"));
    }

    proptest! {
        /// Whenever the stream breaks, and however many lines have the same time, each
        /// line is told once.
        #[test]
        fn every_line_is_told_once_wherever_the_log_breaks(
            steps in prop::collection::vec(0..900_000_000_i128, 1..30),
            breaks in prop::collection::vec(0..30_usize, 0..5),
        ) {
            let mut now = 0;
            let log: Vec<_> = steps.iter().map(|step| {
                // Many at the very same time.
                now += if step % 3 == 0 { 0 } else { *step };
                at(now)
            }).collect();
            let mut place = LogPosition::default();
            let mut told = Vec::new();
            for broken in breaks.into_iter().chain([usize::MAX]) {
                let since = place.since();
                let from = log.iter().position(|time| since.is_none_or(|since| *time >= since));
                let mut reopened = place.reopened();
                for (number, time) in log.iter().enumerate().skip(from.unwrap_or(log.len())) {
                    if number >= broken.max(told.len()) {
                        break;
                    }
                    if reopened.is_new(*time) {
                        place.saw(*time);
                        told.push(number);
                    }
                }
            }
            prop_assert_eq!(told, (0..log.len()).collect::<Vec<_>>());
        }
    }
}
