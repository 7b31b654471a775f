//! Metrics of the history.

use std::sync::atomic::Ordering;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Metrics of the history, as of the last scrape. Without a history they have no series.
#[derive(Clone, Debug, Default)]
pub struct HistoryMetrics {
    records: Family<OutcomeLabel, Counter>,
    failures: Family<NoLabels, Counter>,
    waiting: Family<NoLabels, Gauge>,
    bytes: Family<NoLabels, Gauge>,
    up: Family<NoLabels, Gauge>,
}

/// The numbers of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryNumbers {
    /// Records that were written.
    pub kept: u64,
    /// Records that were there already.
    pub doubles: u64,
    /// Records that were lost.
    pub dropped: u64,
    /// Records that were removed because of their age or of the size.
    pub removed: u64,
    /// Writes that failed.
    pub failures: u64,
    /// Records that wait to be written.
    pub waiting: usize,
    /// Bytes on the disk.
    pub disk_bytes: u64,
    /// Whether what happens is being kept.
    pub is_kept: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NoLabels {}

// === impl HistoryMetrics ===

impl HistoryMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "history_records",
            "Number of records for the history, by outcome: kept, double (there already), dropped (lost) or removed (too old, or too much)",
            all.records.clone(),
        );
        registry.register(
            "history_failures",
            "Number of writes to the history that failed; they are tried again",
            all.failures.clone(),
        );
        registry.register(
            "history_waiting",
            "Number of records that wait to be written to the history",
            all.waiting.clone(),
        );
        registry.register(
            "history_bytes",
            "Size of the history on the disk in bytes",
            all.bytes.clone(),
        );
        registry.register(
            "history_up",
            "Whether what happens is being kept in the history; absent without --history",
            all.up.clone(),
        );
        all
    }

    /// Sets the numbers, before they are scraped.
    pub fn set(&self, numbers: &HistoryNumbers) {
        let HistoryNumbers {
            kept,
            doubles,
            dropped,
            removed,
            failures,
            waiting,
            disk_bytes,
            is_kept,
        } = *numbers;
        for (outcome, count) in [
            ("kept", kept),
            ("double", doubles),
            ("dropped", dropped),
            ("removed", removed),
        ] {
            let counter = self.records.get_or_create(&OutcomeLabel { outcome });
            counter.inner().store(count, Ordering::Relaxed);
        }
        let counter = self.failures.get_or_create(&NoLabels {});
        counter.inner().store(failures, Ordering::Relaxed);
        let gauges = [
            (&self.waiting, i64::try_from(waiting).unwrap_or(i64::MAX)),
            (&self.bytes, i64::try_from(disk_bytes).unwrap_or(i64::MAX)),
            (&self.up, i64::from(is_kept)),
        ];
        for (gauge, value) in gauges {
            gauge.get_or_create(&NoLabels {}).set(value);
        }
    }
}
