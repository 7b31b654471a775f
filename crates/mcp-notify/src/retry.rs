//! Retry policy: exponential backoff of 100, 200 and 400 ms.

use std::time::Duration;

use thiserror::Error;

/// Maximum number of retries of a policy. Failure records number attempts 1 to 3.
pub const RETRIES_MAX: usize = 3;

/// The delays before each retry, validated at construction.
///
/// The default is one send and up to three retries after 100, 200 and 400 ms: at most
/// four sends and 700 ms of backoff. It is deliberately not configurable by
/// environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    delays: [Option<Duration>; RETRIES_MAX],
}

/// Why the delays are not a valid policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RetryPolicyError {
    /// More than [`RETRIES_MAX`].
    #[error("{0} retries are more than {RETRIES_MAX}")]
    TooMany(usize),
    /// A delay is zero, which would overload a peer that is already failing.
    #[error("a delay is zero")]
    Zero,
    /// A delay is less than twice the one before: fixed intervals amplify an outage.
    #[error("{after:?} after {before:?} is not exponential")]
    NotExponential {
        /// The earlier delay.
        before: Duration,
        /// The later delay.
        after: Duration,
    },
}

impl RetryPolicy {
    /// A policy with these delays.
    ///
    /// # Errors
    /// [`RetryPolicyError`] if there are more than three, one is zero, or one
    /// is less than twice the one before.
    pub fn new(delays: impl IntoIterator<Item = Duration>) -> Result<Self, RetryPolicyError> {
        let delays: Vec<_> = delays.into_iter().collect();
        if delays.len() > RETRIES_MAX {
            return Err(RetryPolicyError::TooMany(delays.len()));
        }
        if delays.iter().any(Duration::is_zero) {
            return Err(RetryPolicyError::Zero);
        }
        for pair in delays.windows(2) {
            if pair[1] < pair[0].saturating_mul(2) {
                return Err(RetryPolicyError::NotExponential {
                    before: pair[0],
                    after: pair[1],
                });
            }
        }
        let mut policy = Self::none();
        for (slot, delay) in policy.delays.iter_mut().zip(delays) {
            *slot = Some(delay);
        }
        Ok(policy)
    }

    /// A policy without retries: the first failure is final.
    pub const fn none() -> Self {
        Self {
            delays: [None; RETRIES_MAX],
        }
    }

    /// The delay before the next retry after this many retries; `None` if there is no
    /// next one.
    pub fn delay_after(&self, retries_done: u32) -> Option<Duration> {
        *self.delays.get(usize::try_from(retries_done).ok()?)?
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            delays: [100, 200, 400].map(|millis| Some(Duration::from_millis(millis))),
        }
    }
}

/// The `attempt_number` of failure records: `max(1, retries_done)`.
///
/// It is 1 for a failure that is not retried, and 3 if every retry failed.
pub fn attempt_number(retries_done: u32) -> u32 {
    retries_done.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_waits_100_200_and_400_ms_and_700_in_all() {
        let policy = RetryPolicy::default();
        let delays: Vec<_> = (0..).map_while(|done| policy.delay_after(done)).collect();
        assert_eq!(delays, [100, 200, 400].map(Duration::from_millis));
        assert_eq!(delays.iter().sum::<Duration>(), Duration::from_millis(700));
    }

    #[test]
    fn a_policy_is_exponential_and_has_at_most_three_retries() {
        let check =
            |millis: &[u64]| RetryPolicy::new(millis.iter().copied().map(Duration::from_millis));
        assert_eq!(check(&[100, 200, 400]), Ok(RetryPolicy::default()));
        assert_eq!(check(&[]), Ok(RetryPolicy::none()));
        assert_eq!(check(&[1, 2, 4, 8]), Err(RetryPolicyError::TooMany(4)));
        assert_eq!(check(&[0, 1]), Err(RetryPolicyError::Zero));
        assert!(matches!(
            check(&[100, 100]),
            Err(RetryPolicyError::NotExponential { .. })
        ));
        assert!(matches!(
            check(&[400, 200]),
            Err(RetryPolicyError::NotExponential { .. })
        ));
    }

    #[test]
    fn attempt_numbers_run_from_1_to_3() {
        assert_eq!([0, 1, 2, 3].map(attempt_number), [1, 1, 2, 3]);
    }
}
