//! Metrics of followed logs.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// Metrics of followed logs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FollowMetrics {
    follows: Gauge,
    opened: Counter,
    lines: Counter,
}

/// A followed log; counted until it is dropped.
#[derive(Debug)]
pub struct FollowGuard(FollowMetrics);

// === impl FollowMetrics ===

impl FollowMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self {
            follows,
            opened,
            lines,
        } = metrics.clone();
        registry.register("log_follows", "Number of logs that are followed", follows);
        registry.register(
            "log_follow_streams",
            "Number of streams that were opened for followed logs, with reopened ones",
            opened,
        );
        registry.register(
            "log_follow_lines",
            "Number of lines that were read from followed logs",
            lines,
        );
        metrics
    }

    /// Counts a log that is followed.
    pub fn begin(&self) -> FollowGuard {
        self.follows.inc();
        FollowGuard(self.clone())
    }

    /// Counts a stream that was opened.
    pub fn opened(&self) {
        self.opened.inc();
    }

    /// Counts a line.
    pub fn line(&self) {
        self.lines.inc();
    }
}

// === impl FollowGuard ===

impl Drop for FollowGuard {
    fn drop(&mut self) {
        self.0.follows.dec();
    }
}
