//! What faults there are: for those who ask later.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::report::Report;
use crate::Event;

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
            one.last_seen = seen;
            // What could not be had now does not replace what was.
            if report.has_samples() || !one.report.has_samples() {
                one.report = Arc::clone(report);
            }
        }
        one.first_seen = one.first_seen.min(event.first_seen.unwrap_or(seen));
        one.count = one.count.max(event.count);
        let weigh = |one: &Known| one.report.bytes();
        let mut bytes: usize = known.values().map(weigh).sum();
        while known.len() > 1 && (known.len() > FAULTS_MAX || bytes > BYTES_MAX) {
            let others = known.iter().filter(|(id, _)| **id != report.fault_id);
            let oldest = others.min_by_key(|(_, one)| one.last_seen);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            bytes -= known.remove(&id).as_ref().map_or(0, weigh);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{
        captures::Captured,
        evidence::{CaptureError, Evidence, LogEntry, NOTE},
    };

    fn report(id: &str, sample: Option<String>) -> Arc<Report> {
        let mut log = LogEntry::failed("app", false, CaptureError::Throttled);
        log.sample = sample;
        let evidence = Evidence {
            note: NOTE,
            logs: vec![log],
            containers_omitted: Vec::new(),
            context: None,
        };
        Arc::new(Report::new(&Captured {
            fault_id: id.to_owned(),
            evidence: Arc::new(evidence),
        }))
    }

    fn event(second: i64) -> Arc<Event> {
        Arc::new(Event {
            timestamp: Timestamp::from_second(second).unwrap(),
            ..Event::default()
        })
    }

    #[tokio::test]
    async fn nothing_found_does_not_replace_what_was_found() {
        let board = Board::default();
        board.post("dev", &event(1), &report("a", Some("x".to_owned())));
        board.post("dev", &event(2), &report("a", None));
        let known = board.get("a").unwrap();
        assert!(known.report.has_samples());
        assert_eq!(known.last_seen.as_second(), 2);
    }

    #[tokio::test]
    async fn the_board_is_bounded_and_keeps_what_was_just_posted() {
        let board = Board::default();
        for number in 0..600 {
            board.post(
                "dev",
                &event(1000 + number),
                &report(&number.to_string(), None),
            );
        }
        assert_eq!(board.len(), FAULTS_MAX);
        board.post("dev", &event(1), &report("older", None));
        assert!(board.get("older").is_some());
        for number in 0..600 {
            let big = Some("x".repeat(100_000));
            board.post(
                "dev",
                &event(2000 + number),
                &report(&number.to_string(), big),
            );
            let bytes: usize = board
                .known
                .lock()
                .values()
                .map(|one| one.report.bytes())
                .sum();
            assert!(bytes <= BYTES_MAX, "{bytes}");
        }
    }
}
