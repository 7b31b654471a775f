//! The cluster's clock, which is tokio's, so that tests can pause it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock that starts at a given time and advances with tokio's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    start: Timestamp,
}

// === impl Clock ===

impl Clock {
    pub(crate) fn starting_at(start: Timestamp) -> Self {
        Self {
            started: Instant::now(),
            start,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.start
            .checked_add(self.started.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn ago(&self, age: Duration) -> Timestamp {
        self.now().checked_sub(age).unwrap_or(Timestamp::MIN)
    }
}

/// `2026-01-01T00:00:00Z`: the format of `metav1.Time`.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-01-01T00:00:00.000000Z`: the format of `metav1.MicroTime`, as in `eventTime`.
pub(crate) fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
