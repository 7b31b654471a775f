//! A bound on what strangers can write into the log.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// Time between two records of one kind.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets one record through per second: refusals cost a stranger nothing, and the log is
/// kept on a disk.
#[derive(Debug, Default)]
pub(super) struct LogLimit(Mutex<Option<Instant>>);

impl LogLimit {
    /// Whether a record may be written now.
    pub(super) fn allows(&self) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now.duration_since(last) >= INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_refusals_is_one_record_per_second() {
        let limit = LogLimit::default();
        let mut records = 0;
        for _ in 0..10_000 {
            records += u32::from(limit.allows());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(records, 10);
    }
}
