//! The delay between attempts.

use std::time::Duration;

/// A delay that doubles with each failure in a row, up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
}

// === impl Backoff ===

impl Backoff {
    /// A backoff with the delay after the first failure and the longest one.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// The delay after this many failures in a row; without a failure there is none.
    pub fn delay(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 2_u32.saturating_pow(doublings);
        self.first.saturating_mul(factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_doubles_up_to_the_limit() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let seconds =
            [0, 1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|count| backoff.delay(count).as_secs());
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 30, 30, 30]);
    }
}
