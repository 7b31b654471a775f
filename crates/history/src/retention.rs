//! What is removed: what is older than the age, and the oldest beyond the size.

use std::time::Duration;

/// How long and how much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Age of a record, at most.
    pub age_max: Duration,
    /// Size of the store, at most.
    pub bytes_max: u64,
}

/// A block that could be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// When its last record was appended.
    pub(crate) appended: i64,
    pub(crate) log: u32,
    pub(crate) first: u64,
    pub(crate) bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age_max: Duration::from_hours(24 * 7),
            bytes_max: 1 << 30,
        }
    }
}

impl Retention {
    /// Which blocks go: all that are too old, and the oldest of the others while they are too
    /// large together.
    pub(crate) fn expired(&self, mut blocks: Vec<Candidate>, now: i64) -> Vec<Candidate> {
        blocks.sort_unstable();
        let age = i64::try_from(self.age_max.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.saturating_sub(age);
        // Trees, free pages and what is being replaced need room as well.
        let bytes_max = self.bytes_max / 100 * 85;
        let mut bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
        let mut goes = |block: &Candidate| {
            let goes = block.appended < oldest || bytes > bytes_max;
            if goes {
                bytes -= block.bytes;
            }
            goes
        };
        blocks.into_iter().take_while(|block| goes(block)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(count: i64) -> Vec<Candidate> {
        let block = |number: i64| Candidate {
            appended: number * 1000,
            log: u32::try_from(number % 2).unwrap(),
            first: u64::try_from(number).unwrap(),
            bytes: 100,
        };
        (0..count).rev().map(block).collect()
    }

    fn gone(retention: Retention, now: i64) -> Vec<i64> {
        let gone = retention.expired(blocks(10), now);
        gone.iter().map(|block| block.appended / 1000).collect()
    }

    #[test]
    fn a_week_and_a_gibibyte_are_kept_unless_said_otherwise() {
        let Retention { age_max, bytes_max } = Retention::default();
        assert_eq!(age_max.as_secs(), 7 * 24 * 60 * 60);
        assert_eq!(bytes_max, 1024 * 1024 * 1024);
    }

    #[test]
    fn the_oldest_go_by_age_and_by_size() {
        let all = Retention {
            age_max: Duration::from_secs(1000),
            bytes_max: 10_000,
        };
        assert_eq!(gone(all, 9000), Vec::<i64>::new());
        let young = Retention {
            age_max: Duration::from_secs(6),
            ..all
        };
        assert_eq!(gone(young, 9000), [0, 1, 2]);
        let small = Retention {
            bytes_max: 800,
            ..all
        };
        // 85 % of 800 is room for six.
        assert_eq!(gone(small, 9000), [0, 1, 2, 3]);
        assert_eq!(gone(young, 1_000_000).len(), 10);
    }
}
