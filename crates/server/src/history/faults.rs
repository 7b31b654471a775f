//! The evidence of faults and of incidents as it was captured, kept by their ids.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{record, recorder::Recorder};
use crate::incidents::fault_of;
use kubecrier_core::{
    Event,
    faults::{Captured, Evidence, Fault, LogEntry, Report, ReportArchive, StoredFault},
};
use kubecrier_history::{Budget, History, Query, Record, Stream, Wanted};
use kubecrier_incidents::Incident;
use kubecrier_k8s::{Contexts, StoredWords, identity};
use kubecrier_redact::Redactor;

/// Set if there are samples of logs.
const HAS_SAMPLES: u8 = 2;

/// Set if logs were switched off when it was kept.
const WITHOUT_LOGS: u8 = 4;

/// What evidence is of.
const OF_FAULT: &str = "fault";
const OF_INCIDENT: &str = "incident";

/// Keeps the report of each fault that is captured.
#[derive(Debug)]
pub(crate) struct FaultArchive {
    pub(crate) history: History,
    pub(crate) contexts: Arc<Contexts>,
}

/// What is kept.
#[derive(Deserialize)]
struct Kept<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    report: &'a RawValue,
}

/// The evidence of an id.
#[derive(Default)]
struct Newest {
    /// The newest record, which has the newest event.
    last: Option<Record>,
    /// The newest one with samples: one without does not replace it.
    sampled: Option<Record>,
    first_seen: Option<Timestamp>,
}

// === impl FaultArchive ===

impl ReportArchive for FaultArchive {
    fn keep(&self, cluster: &str, event: &Arc<Event>, report: &Arc<Report>) {
        let (event, report) = (Arc::clone(event), Arc::clone(report));
        let words = self.contexts.stored_words();
        self.history
            .record(&Arc::from(cluster), Stream::Faults, move || {
                of_fault(&event, &report, words)
            });
    }
}

fn of_fault(event: &Event, report: &Report, words: StoredWords) -> Record {
    let of_event = record::of_event(event);
    let sampled = if report.has_samples() { ":sampled" } else { "" };
    Record {
        flags: of_event.flags | flags(report, words),
        id: format!("{}:{}{sampled}", report.fault_id, event.count),
        kind: OF_FAULT.to_owned(),
        object_name: report.fault_id.clone(),
        value: value(&of_event.value, report),
        ..of_event
    }
}

fn flags(report: &Report, words: StoredWords) -> u8 {
    let sampled = if report.has_samples() { HAS_SAMPLES } else { 0 };
    match words {
        StoredWords::MayBeOfLogs => sampled,
        StoredWords::WithoutLogs => sampled | WITHOUT_LOGS,
    }
}

fn value(event: &[u8], report: &Report) -> Bytes {
    // Texts and numbers always serialise.
    let report = serde_json::to_vec(report).unwrap_or_default();
    let parts: [&[u8]; 5] = [b"{\"event\":", event, b",\"report\":", &report, b"}"];
    Bytes::from(parts.concat())
}

/// Captures the evidence of an incident that was opened, off the caller's task, and keeps it:
/// when somebody asks, the pod may be gone. False if no pod shows it.
pub(super) fn keep_evidence(recorder: &Recorder, context: &Arc<str>, incident: &Incident) -> bool {
    let mut symptoms = incident.symptoms.iter();
    let Some(pod) = symptoms.find(|symptom| symptom.object.kind == "Pod") else {
        return false;
    };
    let fault = fault_of(context, pod);
    let (capturing, context) = (recorder.clone(), Arc::clone(context));
    let (id, since) = (incident.id.clone(), incident.since.as_millisecond());
    recorder.lifecycle.spawn("history-evidence", async move {
        let draining = capturing.lifecycle.draining().clone();
        let capture = capturing.faults.evidence(&fault);
        let Some(evidence) = draining.run_until_cancelled(capture).await else {
            return;
        };
        let words = capturing.contexts.stored_words();
        let keep = move || of_incident(id, since, &fault, evidence, words);
        capturing.history.record(&context, Stream::Faults, keep);
    });
    true
}

fn of_incident(
    id: String,
    since: i64,
    fault: &Fault,
    evidence: Arc<Evidence>,
    words: StoredWords,
) -> Record {
    let report = Report::new(&Captured {
        fault_id: id.clone(),
        evidence,
    });
    Record {
        time: Timestamp::now().as_millisecond(),
        version: 0,
        flags: flags(&report, words),
        id: format!("{id}:{since}"),
        namespace: fault.key.namespace.clone(),
        kind: OF_INCIDENT.to_owned(),
        reason: fault.key.reason.clone(),
        object_kind: "Pod".to_owned(),
        value: value(b"null", &report),
        object_name: id,
    }
}

/// A fault by its id, with the evidence that was captured then, in the first of these contexts
/// that has it. Reads from the disk, on a thread for that.
pub(crate) async fn find(
    history: &History,
    contexts: &Arc<Contexts>,
    among: Vec<String>,
    id: &str,
) -> Option<StoredFault> {
    let (history, contexts, id) = (history.clone(), Arc::clone(contexts), id.to_owned());
    let reading = tokio::task::spawn_blocking(move || {
        let mut among = among.into_iter();
        among.find_map(|context| {
            let newest = Newest::search(&history, &context, &id, OF_FAULT);
            newest.into_fault(context, &contexts)
        })
    });
    reading.await.ok()?
}

/// The evidence that was captured when an incident was opened.
pub(crate) async fn find_evidence(
    history: &History,
    contexts: &Arc<Contexts>,
    redactor: &Redactor,
    context: &str,
    id: &str,
) -> Option<Evidence> {
    let (history, contexts, redactor) = (history.clone(), Arc::clone(contexts), redactor.clone());
    let (context, id) = (context.to_owned(), id.to_owned());
    let reading = tokio::task::spawn_blocking(move || {
        let newest = Newest::search(&history, &context, &id, OF_INCIDENT);
        let record = newest.sampled?;
        let report = restored(&record, &contexts)?;
        let mut logs = report.logs();
        for log in &mut logs {
            redact(log, &redactor);
        }
        Some(Evidence::of_logs(logs))
    });
    reading.await.ok()?
}

/// The report of a record, without logs if those are switched off now.
fn restored(record: &Record, contexts: &Contexts) -> Option<Report> {
    let kept: Kept<'_> = serde_json::from_slice(&record.value).ok()?;
    let mut report: Value = serde_json::from_str(kept.report.get()).ok()?;
    hide(&mut report, &record.namespace, contexts);
    let report = Report::restore(report.to_string().as_bytes())?;
    let hides_logs = contexts.stored_words() == StoredWords::WithoutLogs;
    if hides_logs && record.flags & WITHOUT_LOGS == 0 {
        // The state of a pod has the end of a log, too.
        return Some(report.as_allowed(false, false));
    }
    Some(report)
}

/// Leaves out what the state of a pod names and must not be shown.
fn hide(report: &mut Value, namespace: &str, contexts: &Contexts) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(pod) = report.get_mut("context").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(owners) = pod.get_mut("owners").and_then(Value::as_array_mut) {
        owners.retain(|owner| {
            contexts.shows_stored(&text(&owner["kind"]), namespace, &text(&owner["name"]))
        });
    }
    let node = pod.get("node").map(text);
    if node.is_some_and(|node| !contexts.shows_stored("Node", "", &node)) {
        pod.remove("node");
    }
}

fn redact(log: &mut LogEntry, redactor: &Redactor) {
    let clean = |text: &mut String| *text = identity::text(redactor, text).into_owned();
    log.sample.iter_mut().for_each(clean);
    log.message.iter_mut().for_each(clean);
    if let Some(signature) = &mut log.signature {
        clean(&mut signature.line);
    }
}

// === impl Newest ===

impl Newest {
    fn search(history: &History, context: &str, id: &str, of: &str) -> Self {
        let query = Query {
            object_name: Some(id.to_owned()),
            kinds: vec![of.to_owned()],
            ..Query::default()
        };
        let mut newest = Self::default();
        let on_record = |_, record: Record| {
            newest.first_seen = Timestamp::from_millisecond(record.time).ok();
            if record.flags & HAS_SAMPLES != 0 && newest.sampled.is_none() {
                newest.sampled = Some(record.clone());
            }
            newest.last.get_or_insert(record);
            Wanted::All
        };
        let found = history.search(
            context,
            Stream::Faults,
            &query,
            Budget::default(),
            on_record,
        );
        if let Err(error) = found {
            tracing::warn!(%context, %error, "evidence that was kept cannot be read");
        }
        newest
    }

    /// The fault, unless it must not be shown now.
    fn into_fault(self, context: String, contexts: &Contexts) -> Option<StoredFault> {
        let last = self.last?;
        let kept: Kept<'_> = serde_json::from_slice(&last.value).ok()?;
        let members = Bytes::copy_from_slice(kept.event?.get().as_bytes());
        let of_event = Record {
            value: members,
            ..last.clone()
        };
        let event = record::to_event(&of_event, contexts)?;
        let first_seen = event.first_seen.or(self.first_seen);
        let report = restored(self.sampled.as_ref().unwrap_or(&last), contexts)?;
        Some(StoredFault {
            cluster: context,
            report: Arc::new(report),
            first_seen: first_seen.unwrap_or(event.timestamp),
            last_seen: event.timestamp,
            count: event.count,
            event: Arc::new(event),
        })
    }
}

#[cfg(test)]
mod tests;
