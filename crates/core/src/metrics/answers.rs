//! Metrics of parked answers.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::ReasonLabel;

/// Metrics of answers that are parked for clients that lost their connection. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AnswerMetrics {
    parked: Gauge,
    bytes: Gauge,
    resumed: Counter,
    lost: Family<ReasonLabel, Counter>,
}

/// A parked answer; counted until it is dropped.
#[derive(Debug)]
pub struct ParkedGuard {
    metrics: AnswerMetrics,
    bytes: i64,
}

// === impl AnswerMetrics ===

impl AnswerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self {
            parked,
            bytes,
            resumed,
            lost,
        } = metrics.clone();
        registry.register(
            "parked_answers",
            "Number of answers that are kept for a client that may resume",
            parked,
        );
        registry.register(
            "parked_answer_bytes",
            "Size of the answers that are kept for a client that may resume, in bytes",
            bytes,
        );
        registry.register(
            "answers_resumed",
            "Number of connections that resumed an answer",
            resumed,
        );
        registry.register(
            "parked_answers_lost",
            "Number of answers that could not be kept until a client resumed them, by reason",
            lost,
        );
        metrics
    }

    /// Counts an answer that is parked.
    pub fn park(&self, bytes: usize) -> ParkedGuard {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.parked.inc();
        self.bytes.inc_by(bytes);
        ParkedGuard {
            metrics: self.clone(),
            bytes,
        }
    }

    /// Counts a connection that resumes an answer.
    pub fn resumed(&self) {
        self.resumed.inc();
    }

    /// Counts answers that are no longer kept, or never were.
    pub fn lost(&self, reason: &'static str, count: u64) {
        if count > 0 {
            self.lost
                .get_or_create(&ReasonLabel { reason })
                .inc_by(count);
        }
    }
}

// === impl ParkedGuard ===

impl Drop for ParkedGuard {
    fn drop(&mut self) {
        self.metrics.parked.dec();
        self.metrics.bytes.dec_by(self.bytes);
    }
}
