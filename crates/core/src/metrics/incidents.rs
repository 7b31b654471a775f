//! Metrics of incidents.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Duration;

/// Buckets from a namespace to a cluster of ten thousand pods.
const SECONDS: [f64; 7] = [0.000_2, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0];

const SEVERITIES: [&str; 3] = ["critical", "warning", "info"];

/// Metrics of incidents. Cheap to clone.
#[derive(Clone, Debug)]
pub struct IncidentMetrics {
    open: Family<SeverityLabel, Gauge>,
    watchers: Gauge,
    seconds: Histogram,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SeverityLabel {
    severity: &'static str,
}

// === impl IncidentMetrics ===

impl Default for IncidentMetrics {
    fn default() -> Self {
        Self {
            open: Family::default(),
            watchers: Gauge::default(),
            seconds: Histogram::new(SECONDS),
        }
    }
}

impl IncidentMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        for severity in SEVERITIES {
            // A severity without an incident is a zero, not an absent series.
            let _zero = all.open.get_or_create(&SeverityLabel { severity });
        }
        registry.register(
            "incidents",
            "Number of open incidents in all lists of incidents, by severity",
            all.open.clone(),
        );
        registry.register(
            "incident_lists",
            "Number of lists of incidents that are kept up to date",
            all.watchers.clone(),
        );
        registry.register(
            "incident_evaluation_seconds",
            "Duration of deriving the incidents of a cluster from its state, in seconds",
            all.seconds.clone(),
        );
        all
    }

    /// Counts a list that is started.
    pub fn began(&self) {
        self.watchers.inc();
    }

    /// Counts a list that is ended.
    pub fn ended(&self) {
        self.watchers.dec();
    }

    /// Replaces the severities of the open incidents of one list.
    pub fn opened(&self, before: &[&'static str], now: &[&'static str]) {
        for severity in before {
            self.open.get_or_create(&SeverityLabel { severity }).dec();
        }
        for severity in now {
            self.open.get_or_create(&SeverityLabel { severity }).inc();
        }
    }

    /// Counts an evaluation, and how long it took.
    pub fn evaluated(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }
}
