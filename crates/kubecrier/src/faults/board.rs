//! What faults there are: for those who ask later.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::report::Report;
use crate::subscriptions::Event;

/// Faults that are remembered.
const FAULTS_MAX: usize = 500;

/// What their evidence may weigh.
const BYTES_MAX: usize = 16 << 20;

/// What is known of faults, by their id.
#[derive(Debug, Default)]
pub struct Board {
    // A lock because reports come from many tasks; held for map operations.
    known: Mutex<HashMap<String, Known>>,
}

/// One fault, as it was last seen.
#[derive(Clone, Debug)]
pub struct Known {
    /// The context.
    pub cluster: String,
    /// The latest event of it.
    pub event: Arc<Event>,
    /// The latest evidence.
    pub report: Arc<Report>,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// How often it was seen, as far as its events say.
    pub count: i32,
}

// === impl Board ===

impl Board {
    /// A fault was seen.
    pub fn post(&self, cluster: &str, event: &Arc<Event>, report: &Arc<Report>) {
        let mut known = self.known.lock();
        let seen = event.timestamp;
        let entry = known.entry(report.fault_id.clone());
        let one = entry.or_insert_with(|| Known {
            cluster: cluster.to_owned(),
            event: Arc::clone(event),
            report: Arc::clone(report),
            first_seen: event.first_seen.unwrap_or(seen),
            last_seen: seen,
            count: event.count,
        });
        if seen >= one.last_seen {
            one.event = Arc::clone(event);
            one.report = Arc::clone(report);
            one.last_seen = seen;
        }
        one.first_seen = one.first_seen.min(event.first_seen.unwrap_or(seen));
        one.count = one.count.max(event.count);
        let bytes: usize = known.values().map(|one| one.report.bytes()).sum();
        if known.len() > FAULTS_MAX || bytes > BYTES_MAX {
            let oldest = known.iter().min_by_key(|(_, one)| one.last_seen);
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                known.remove(&id);
            }
        }
    }

    /// One fault.
    pub fn get(&self, fault_id: &str) -> Option<Known> {
        self.known.lock().get(fault_id).cloned()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
