//! What is counted about logs that are followed.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// The counters of followed logs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FollowMetrics {
    follows: Gauge,
    opened: Counter,
    lines: Counter,
}

/// A log that is followed; counted until it is dropped.
#[derive(Debug)]
pub struct Followed(FollowMetrics);

// === impl FollowMetrics ===

impl FollowMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self {
            follows,
            opened,
            lines,
        } = metrics.clone();
        registry.register("log_follows", "Logs that are followed", follows);
        registry.register(
            "log_follow_streams",
            "Streams of followed logs that were opened, also again",
            opened,
        );
        registry.register(
            "log_follow_lines",
            "Lines that followed logs have grown by",
            lines,
        );
        metrics
    }

    /// One more is followed.
    pub fn begin(&self) -> Followed {
        self.follows.inc();
        Followed(self.clone())
    }

    /// A stream was opened.
    pub fn opened(&self) {
        self.opened.inc();
    }

    /// A line came.
    pub fn line(&self) {
        self.lines.inc();
    }
}

// === impl Followed ===

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.follows.dec();
    }
}
