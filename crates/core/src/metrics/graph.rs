//! Metrics of graphs.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Duration;

/// Buckets from a change of a pod to one of a service in a namespace of thousands.
const SECONDS: [f64; 6] = [0.000_05, 0.000_2, 0.001, 0.005, 0.02, 0.1];

/// Metrics of graphs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GraphMetrics {
    graphs: Gauge,
    objects: Gauge,
    seconds: Histogram,
    updates: Counter,
}

// === impl GraphMetrics ===

impl GraphMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self {
            graphs: Gauge::default(),
            objects: Gauge::default(),
            seconds: Histogram::new(SECONDS),
            updates: Counter::default(),
        };
        registry.register("graphs", "Number of graphs", all.graphs.clone());
        registry.register(
            "graph_objects",
            "Number of objects in all graphs",
            all.objects.clone(),
        );
        registry.register(
            "graph_change_seconds",
            "Duration of applying the change of one object to a graph, in seconds",
            all.seconds.clone(),
        );
        registry.register(
            "graph_updates",
            "Number of update notifications that were sent for graphs",
            all.updates.clone(),
        );
        all
    }

    /// Counts a graph that is started.
    pub fn began(&self) {
        self.graphs.inc();
    }

    /// Counts a graph that is ended.
    pub fn ended(&self) {
        self.graphs.dec();
    }

    /// Replaces the number of objects of one graph.
    pub fn objects(&self, before: usize, now: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.objects.inc_by(number(now) - number(before));
    }

    /// Counts the change of one object, and how long its graph took for it.
    pub fn changed(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts an update that followers were notified of.
    pub fn notified(&self) {
        self.updates.inc();
    }
}
