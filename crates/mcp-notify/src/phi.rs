//! The phi-accrual failure detector: the suspicion that a peer is down, from the
//! distribution of its past intervals.
//!
//! All times here are seconds, as `f64`.

use std::collections::VecDeque;

/// The number of past intervals in the estimate.
pub(crate) const WINDOW: usize = 32;

/// The past intervals, and the estimate of the next one.
#[derive(Clone, Debug)]
pub(crate) struct PhiEstimate {
    intervals: VecDeque<f64>,
    /// Lower bounds of mean and deviation: without them, an estimate over a run of quick
    /// answers would suspect the first ordinary one.
    mean_min: f64,
    deviation_min: f64,
}

impl PhiEstimate {
    /// An estimate for a peer that is pinged every `interval` seconds, with this
    /// jitter, and may take `timeout` seconds to answer. A healthy peer is active after
    /// at most `interval * (1 + jitter) + timeout`, which with these lower bounds is two
    /// deviations from the mean.
    pub(crate) fn new(interval: f64, jitter: f64, timeout: f64) -> Self {
        Self {
            intervals: VecDeque::with_capacity(WINDOW),
            mean_min: interval,
            deviation_min: interval.mul_add(jitter, timeout) / 2.0,
        }
    }

    /// Adds an interval.
    pub(crate) fn observe(&mut self, seconds: f64) {
        if self.intervals.len() == WINDOW {
            self.intervals.pop_front();
        }
        self.intervals.push_back(seconds);
    }

    /// The suspicion after this many seconds without activity: minus the decimal
    /// logarithm of the probability that activity is still to come.
    pub(crate) fn phi(&self, silence: f64) -> f64 {
        let (mean, deviation) = self.expectation();
        let y = (silence - mean) / deviation;
        // The logistic approximation of the tail of the normal distribution.
        let e = (-y * (0.070_566 * y).mul_add(y, 1.5976)).exp();
        let tail = if silence > mean {
            e / (1.0 + e)
        } else {
            1.0 - 1.0 / (1.0 + e)
        };
        -tail.max(f64::MIN_POSITIVE).log10()
    }

    fn expectation(&self) -> (f64, f64) {
        if self.intervals.is_empty() {
            return (self.mean_min, self.deviation_min);
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 32")]
        let count = self.intervals.len() as f64;
        let mean = self.intervals.iter().sum::<f64>() / count;
        let variance = self
            .intervals
            .iter()
            .map(|i| (i - mean).powi(2))
            .sum::<f64>()
            / count;
        (
            mean.max(self.mean_min),
            variance.sqrt().max(self.deviation_min),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn suspicion_never_falls_while_the_silence_lasts(
            intervals in proptest::collection::vec(0.0_f64..60.0, 0..64),
            silences in proptest::collection::vec(0.0_f64..600.0, 2..20),
        ) {
            let mut estimate = PhiEstimate::new(5.0, 0.2, 2.0);
            for interval in &intervals {
                estimate.observe(*interval);
            }
            prop_assert!(estimate.intervals.len() <= WINDOW);
            let mut silences = silences;
            silences.sort_by(f64::total_cmp);
            let phis: Vec<_> = silences.iter().map(|s| estimate.phi(*s)).collect();
            prop_assert!(phis.iter().all(|phi| phi.is_finite() && *phi >= 0.0));
            prop_assert!(phis.windows(2).all(|p| p[0] <= p[1] + 1e-9), "{:?}", phis);
        }

        #[test]
        fn a_silence_no_longer_than_a_healthy_one_is_never_suspect(
            intervals in proptest::collection::vec(0.0_f64..8.0, 0..64),
            silence in 0.0_f64..8.0,
        ) {
            let mut estimate = PhiEstimate::new(5.0, 0.2, 2.0);
            for interval in &intervals {
                estimate.observe(*interval);
            }
            prop_assert!(estimate.phi(silence) < 2.0);
        }
    }

    #[test]
    fn a_long_silence_is_suspect_after_any_history() {
        let mut estimate = PhiEstimate::new(5.0, 0.2, 2.0);
        for n in 0..100 {
            assert!(estimate.phi(20.0) > 5.0, "after {n} intervals");
            estimate.observe(if n % 2 == 0 { 4.0 } else { 8.0 });
        }
    }
}
