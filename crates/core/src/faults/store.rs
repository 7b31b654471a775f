//! The latest report of each fault, for tools that ask later.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::report::Report;
use crate::Event;

/// Number of faults that are kept.
const FAULTS_MAX: usize = 500;

/// Size of all reports that are kept.
const BYTES_MAX: usize = 16 << 20;

/// Faults by id, each with its latest report. Its size is bounded: the fault that was seen
/// longest ago is displaced first.
#[derive(Debug, Default)]
pub struct FaultStore {
    // A lock because reports come from many tasks; held for map operations.
    faults: Mutex<HashMap<String, StoredFault>>,
}

/// One fault with its latest report.
#[derive(Clone, Debug)]
pub struct StoredFault {
    /// Context of the kubeconfig.
    pub cluster: String,
    /// The latest event.
    pub event: Arc<Event>,
    /// The latest report, or the latest that has samples of logs.
    pub report: Arc<Report>,
    /// When the fault was first seen.
    pub first_seen: Timestamp,
    /// When the fault was last seen.
    pub last_seen: Timestamp,
    /// How often the fault was seen, as far as its events say.
    pub count: i32,
}

// === impl FaultStore ===

impl FaultStore {
    /// Records that a fault was seen, with the report of it.
    pub fn record(&self, cluster: &str, event: &Arc<Event>, report: &Arc<Report>) {
        let mut faults = self.faults.lock();
        let seen = event.timestamp;
        let entry = faults.entry(report.fault_id.clone());
        let fault = entry.or_insert_with(|| StoredFault {
            cluster: cluster.to_owned(),
            event: Arc::clone(event),
            report: Arc::clone(report),
            first_seen: event.first_seen.unwrap_or(seen),
            last_seen: seen,
            count: event.count,
        });
        if seen >= fault.last_seen {
            fault.event = Arc::clone(event);
            fault.last_seen = seen;
            // A report without samples does not replace one that has some.
            if report.has_samples() || !fault.report.has_samples() {
                fault.report = Arc::clone(report);
            }
        }
        fault.first_seen = fault.first_seen.min(event.first_seen.unwrap_or(seen));
        fault.count = fault.count.max(event.count);
        let size = |fault: &StoredFault| fault.report.bytes();
        let mut bytes: usize = faults.values().map(size).sum();
        while faults.len() > 1 && (faults.len() > FAULTS_MAX || bytes > BYTES_MAX) {
            let others = faults.iter().filter(|(id, _)| **id != report.fault_id);
            let oldest = others.min_by_key(|(_, fault)| fault.last_seen);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            bytes -= faults.remove(&id).as_ref().map_or(0, size);
        }
    }

    /// A fault by its id.
    pub fn get(&self, fault_id: &str) -> Option<StoredFault> {
        self.faults.lock().get(fault_id).cloned()
    }

    /// Number of faults.
    pub fn len(&self) -> usize {
        self.faults.lock().len()
    }

    /// Whether there is no fault.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EventFields,
        faults::{CaptureError, Captured, Evidence},
    };

    fn report(id: &str, sample: Option<String>) -> Arc<Report> {
        let mut evidence = Evidence::failed("app", CaptureError::Throttled);
        evidence.logs[0].sample = sample;
        Arc::new(Report::new(&Captured {
            fault_id: id.to_owned(),
            evidence: Arc::new(evidence),
        }))
    }

    fn event(second: i64) -> Arc<Event> {
        Arc::new(Event::from(EventFields {
            timestamp: Timestamp::from_second(second).unwrap(),
            ..EventFields::default()
        }))
    }

    #[tokio::test]
    async fn nothing_found_does_not_replace_what_was_found() {
        let store = FaultStore::default();
        store.record("dev", &event(1), &report("a", Some("x".to_owned())));
        store.record("dev", &event(2), &report("a", None));
        let known = store.get("a").unwrap();
        assert!(known.report.has_samples());
        assert_eq!(known.last_seen.as_second(), 2);
    }

    #[tokio::test]
    async fn the_store_is_bounded_and_keeps_what_was_just_recorded() {
        let store = FaultStore::default();
        for number in 0..600 {
            store.record(
                "dev",
                &event(1000 + number),
                &report(&number.to_string(), None),
            );
        }
        assert_eq!(store.len(), FAULTS_MAX);
        store.record("dev", &event(1), &report("older", None));
        assert!(store.get("older").is_some());
        for number in 0..600 {
            let big = Some("x".repeat(100_000));
            store.record(
                "dev",
                &event(2000 + number),
                &report(&number.to_string(), big),
            );
            let bytes: usize = store
                .faults
                .lock()
                .values()
                .map(|one| one.report.bytes())
                .sum();
            assert!(bytes <= BYTES_MAX, "{bytes}");
        }
    }
}
