//! The time of a run.

use jiff::Timestamp;
use tokio::time::Instant;

/// Counts from the beginning of a run. A copy is the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    at: Timestamp,
}

// === impl Clock ===

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            began: Instant::now(),
            at: Timestamp::now(),
        }
    }

    /// Milliseconds since the beginning.
    pub(crate) fn now(self) -> u32 {
        u32::try_from(self.began.elapsed().as_millis()).unwrap_or(u32::MAX)
    }

    /// The milliseconds of a time of day; 0 if it is before the beginning.
    pub(crate) fn millis_of(self, time: Timestamp) -> u32 {
        let since = time.as_millisecond() - self.at.as_millisecond();
        u32::try_from(since.max(0)).unwrap_or(u32::MAX)
    }
}
