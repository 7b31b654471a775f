//! Metrics of callers that wait for an incident.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

/// Metrics of waits. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WaitMetrics {
    open: Gauge,
}

/// A wait; counted until it is dropped.
#[derive(Debug)]
pub struct WaitGuard(WaitMetrics);

// === impl WaitMetrics ===

impl WaitMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "waits",
            "Number of callers that wait for an incident (faults_wait)",
            all.open.clone(),
        );
        all
    }

    /// Counts a wait until the guard is dropped.
    pub fn begin(&self) -> WaitGuard {
        self.open.inc();
        WaitGuard(self.clone())
    }

    /// Those that wait now.
    pub fn open(&self) -> i64 {
        self.open.get()
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.open.dec();
    }
}
