//! The suspicion that a session is down, before enough pings have failed (feature
//! `phi-accrual`).

use std::time::Duration;

use tokio::time::Instant;

use super::HeartbeatConfig;
use crate::phi::PhiEstimate;

pub(super) struct Suspicion {
    estimate: PhiEstimate,
    /// The last pong, if nothing else happened since: only the time between two
    /// consecutive pongs is an interval of the estimate.
    last_pong: Option<Instant>,
}

// === impl Suspicion ===

impl Suspicion {
    pub(super) fn new(config: &HeartbeatConfig) -> Self {
        let interval = config.interval.as_secs_f64();
        Self {
            estimate: PhiEstimate::new(interval, config.jitter, config.timeout.as_secs_f64()),
            last_pong: None,
        }
    }

    /// Another message came: the time to the next pong is not an interval.
    pub(super) fn interrupt(&mut self) {
        self.last_pong = None;
    }

    pub(super) fn record_pong(&mut self, now: Instant) {
        if let Some(before) = self.last_pong.replace(now) {
            self.estimate.observe((now - before).as_secs_f64());
        }
    }

    /// Records a failed ping. Returns the suspicion after this time without activity.
    pub(super) fn record_failure(&mut self, silence: Duration) -> f64 {
        // A silence is not an interval.
        self.last_pong = None;
        self.estimate.phi(silence.as_secs_f64())
    }
}
