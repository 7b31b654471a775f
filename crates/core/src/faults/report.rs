//! Report of a fault: its evidence, serialised once for all subscribers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use tokio::time::Instant;

use super::{
    WINDOW,
    capture::Captured,
    evidence::{CaptureError, LogEntry, NOTE},
};

/// Report of a fault.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Id of the fault, the same for each of its repetitions.
    pub fault_id: String,
    note: &'static str,
    logs: Arc<RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers_omitted: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Arc<RawValue>>,
    #[serde(skip)]
    headline: Option<String>,
    #[serde(skip)]
    has_samples: bool,
    /// Whether anything in it was read from logs.
    #[serde(skip)]
    shows_logs: bool,
    #[serde(skip)]
    made: Instant,
}

/// A report as it was serialised.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptReport {
    fault_id: String,
    logs: Box<RawValue>,
    #[serde(default)]
    containers_omitted: Vec<String>,
    context: Option<Box<RawValue>>,
}

// === impl Report ===

impl Report {
    /// Serialises what was captured.
    pub fn new(captured: &Captured) -> Self {
        let evidence = &captured.evidence;
        // Strings and numbers always serialise.
        let raw = |value: Box<RawValue>| -> Arc<RawValue> { value.into() };
        let context = evidence.context.as_ref().map(to_raw_value);
        let crash = evidence.logs.iter().find_map(|log| log.signature.as_ref());
        Self {
            fault_id: captured.fault_id.clone(),
            note: evidence.note,
            logs: raw(to_raw_value(&evidence.logs).unwrap_or_default()),
            containers_omitted: evidence.containers_omitted.clone(),
            context: context.and_then(Result::ok).map(raw),
            headline: crash.map(|signature| signature.line.clone()),
            has_samples: evidence.logs.iter().any(|log| log.sample.is_some()),
            shows_logs: !evidence.logs.is_empty(),
            made: Instant::now(),
        }
    }

    /// The report that was serialised before; `None` if it is none.
    pub fn restore(serialised: &[u8]) -> Option<Self> {
        let kept: KeptReport = serde_json::from_slice(serialised).ok()?;
        let logs: Vec<LogEntry> = serde_json::from_str(kept.logs.get()).ok()?;
        let mut crashes = logs.iter().filter_map(|log| log.signature.as_ref());
        Some(Self {
            fault_id: kept.fault_id,
            note: NOTE,
            headline: crashes.next().map(|signature| signature.line.clone()),
            has_samples: logs.iter().any(|log| log.sample.is_some()),
            shows_logs: !logs.is_empty(),
            logs: kept.logs.into(),
            containers_omitted: kept.containers_omitted,
            context: kept.context.map(Into::into),
            made: Instant::now(),
        })
    }

    /// The log line that shows the crash, if there is one.
    pub fn headline(&self) -> Option<&str> {
        self.headline.as_deref()
    }

    /// The ends of the logs, as they were captured.
    pub fn logs(&self) -> Vec<LogEntry> {
        serde_json::from_str(self.logs.get()).unwrap_or_default()
    }

    /// Whether the report has a sample of any log.
    pub fn has_samples(&self) -> bool {
        self.has_samples
    }

    /// Whether a new capture would find the same evidence.
    pub fn is_fresh(&self) -> bool {
        self.has_samples && self.made.elapsed() < WINDOW
    }

    /// Approximate size.
    pub fn bytes(&self) -> usize {
        let context = self.context.as_ref().map_or(0, |raw| raw.get().len());
        self.logs.get().len() + context + 200
    }

    /// The same for a reader who may see the pod or not, and its logs or not. What is left out
    /// says so, as where the server itself may not read it.
    #[must_use]
    pub fn as_allowed(&self, sees_pod: bool, sees_logs: bool) -> Self {
        let mut seen = self.clone();
        if !sees_pod {
            seen.context = None;
            seen.containers_omitted = Vec::new();
        }
        if self.shows_logs && !sees_logs {
            let forbidden = [LogEntry::failed("", false, CaptureError::Forbidden)];
            seen.logs = to_raw_value(&forbidden).unwrap_or_default().into();
            seen.headline = None;
            seen.has_samples = false;
            seen.shows_logs = false;
        }
        seen
    }

    /// Whether anything in it was read from the pod.
    pub fn shows_pod(&self) -> bool {
        self.context.is_some() || !self.containers_omitted.is_empty()
    }

    /// Whether anything in it was read from logs.
    pub fn shows_logs(&self) -> bool {
        self.shows_logs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Evidence, PodContext};

    #[tokio::test]
    async fn a_report_is_restored_as_it_was() {
        let mut evidence = Evidence::failed("app", CaptureError::Timeout);
        evidence.logs[0].sample = Some("panic: no more disk".to_owned());
        evidence.containers_omitted = vec!["sidecar".to_owned()];
        evidence.context = Some(PodContext {
            phase: "Running".to_owned(),
            ..PodContext::default()
        });
        let report = Report::new(&Captured {
            fault_id: "f-1".to_owned(),
            evidence: Arc::new(evidence),
        });
        let kept = serde_json::to_vec(&report).unwrap();
        let again = Report::restore(&kept).unwrap();
        assert_eq!(serde_json::to_vec(&again).unwrap(), kept);
        assert!(again.has_samples() && again.shows_logs() && again.shows_pod());
        assert!(Report::restore(b"{}").is_none());
        let without = again.as_allowed(false, false);
        let without = serde_json::to_string(&without).unwrap();
        assert!(
            !without.contains("panic") && !without.contains("Running"),
            "{without}"
        );
    }
}
