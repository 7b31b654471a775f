//! How fast something may be asked: so many a second, and a burst.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::turns::TurnLimits;

/// A pace that is kept by waiting. Whoever takes knows the limits: each user has a pace.
#[derive(Debug)]
pub(super) struct Pace {
    /// When what has been taken so far is paid for.
    paid: Mutex<Instant>,
}

// === impl Pace ===

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            paid: Mutex::new(Instant::now()),
        }
    }

    /// Takes one, to be used after the time that is returned. `None` if that is longer than
    /// `patience`; then none is taken.
    pub(super) fn take(&self, limits: &TurnLimits, patience: Duration) -> Option<Duration> {
        let interval = Duration::from_secs(1) / limits.per_second;
        let now = Instant::now();
        let mut paid = self.paid.lock();
        let next = (*paid).max(now) + interval;
        let wait = next
            .duration_since(now)
            .saturating_sub(interval * limits.burst);
        if wait > patience {
            return None;
        }
        *paid = next;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_then_the_pace_holds() {
        let limits = TurnLimits {
            running_max: 1,
            per_second: 10,
            burst: 5,
        };
        let pace = Pace::new();
        let patience = Duration::from_millis(250);
        let waits: Vec<_> = (0..8).map(|_| pace.take(&limits, patience)).collect();
        let millis = |wait| Some(Duration::from_millis(wait));
        assert_eq!(waits[..5], [millis(0); 5]);
        assert_eq!(waits[5..], [millis(100), millis(200), None]);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(pace.take(&limits, patience), millis(0));
    }
}
