//! How much is parked, for whom and for how long.

use kubecrier_core::{
    metrics::{AnswerMetrics, ParkedGuard},
    shares::{LimitName, LimitReached, Permit, ShareKey, SharedLimit},
};
use tokio::time::Duration;

use super::manager::SessionLimits;

/// The words of the limit.
const BYTES: LimitName = LimitName::new("bytes of parked answers", "--max-parked-answer-bytes");

/// What all sessions share of parked answers.
#[derive(Debug)]
pub(super) struct Parking {
    bytes: SharedLimit,
    park_for: Duration,
    poll_after: Option<Duration>,
    metrics: AnswerMetrics,
}

/// The bytes of one parked answer, until it is dropped.
#[derive(Debug)]
pub(super) struct ParkedPermit {
    _permit: Permit,
    _counted: ParkedGuard,
}

// === impl Parking ===

impl Parking {
    pub(super) fn new(limits: &SessionLimits, metrics: AnswerMetrics) -> Self {
        Self {
            bytes: SharedLimit::new(BYTES, limits.parked_bytes_max, limits.share),
            park_for: limits.park_for,
            poll_after: limits.poll_after,
            metrics,
        }
    }

    /// Whether answers are parked at all.
    pub(super) fn is_on(&self) -> bool {
        !self.park_for.is_zero()
    }

    /// How long an answer stays parked.
    pub(super) fn park_for(&self) -> Duration {
        self.park_for
    }

    /// After what time a connection that waits for an answer is closed, if ever.
    pub(super) fn poll_after(&self) -> Option<Duration> {
        self.poll_after
    }

    pub(super) fn metrics(&self) -> &AnswerMetrics {
        &self.metrics
    }

    /// Takes the bytes of an answer, or nothing.
    pub(super) fn acquire(
        &self,
        key: &ShareKey,
        bytes: usize,
    ) -> Result<ParkedPermit, LimitReached> {
        let permit = self.bytes.acquire_many(key, bytes)?;
        Ok(ParkedPermit {
            _permit: permit,
            _counted: self.metrics.park(bytes),
        })
    }

    /// The bytes of all parked answers.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.used()
    }
}
