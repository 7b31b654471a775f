//! What time it is in the cluster: tokio's, so that tests can pause it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Runs with tokio's clock from a given moment on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    at: Timestamp,
}

// === impl Clock ===

impl Clock {
    pub(crate) fn starting(at: Timestamp) -> Self {
        Self {
            began: Instant::now(),
            at,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.at
            .checked_add(self.began.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn ago(&self, age: Duration) -> Timestamp {
        self.now().checked_sub(age).unwrap_or(Timestamp::MIN)
    }
}

/// `2026-01-01T00:00:00Z`, as most times of Kubernetes are written.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-01-01T00:00:00.000000Z`, as the times of events are.
pub(crate) fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
