//! An incident as an alert of Alertmanager, for its API and as its webhook sends it.
//!
//! Alertmanager knows an alert by its labels. So what may change while an incident is open and
//! stands in a label (severity, object, detector) makes another alert: the former is resolved
//! and the new one fires.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubecrier_incidents::Incident;
use serde::Serialize;
use serde_json::{Value, json};

use crate::notice::Notice;

/// The labels or annotations of an alert.
pub(crate) type Labels = BTreeMap<String, String>;

/// The time that Alertmanager's webhook writes for an alert that fires.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Effects that an annotation names.
const EFFECTS_MAX: usize = 10;

/// An alert, as `POST /api/v2/alerts` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Alert {
    pub(crate) labels: Labels,
    pub(crate) annotations: Labels,
    pub(crate) starts_at: Timestamp,
    /// In the past if it is over.
    pub(crate) ends_at: Timestamp,
}

// === impl Alert ===

impl Alert {
    /// An alert for an incident that fires, or fired, until that time.
    pub(crate) fn new(labels: Labels, incident: &Incident, ends_at: Timestamp) -> Self {
        Self {
            labels,
            annotations: annotations(incident),
            // Alertmanager takes no alert that ends before it starts.
            starts_at: incident.since.min(ends_at),
            ends_at,
        }
    }
}

/// The labels of an incident. Those of the operator come last and win.
pub(crate) fn labels(context: &str, incident: &Incident, own: &Labels) -> Labels {
    let object = &incident.object;
    let mut labels = Labels::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            labels.insert(name.to_owned(), value.to_owned());
        }
    };
    add("alertname", &alert_name(incident.detector));
    add("severity", incident.severity.as_str());
    add("cluster", context);
    add("namespace", &object.namespace);
    add("kind", &object.kind);
    add("name", &object.name);
    add("detector", incident.detector);
    add("incident", &incident.id);
    labels.extend(own.clone());
    labels
}

/// `crash-loop` as `KubernetesCrashLoop`.
fn alert_name(detector: &str) -> String {
    let mut name = "Kubernetes".to_owned();
    for word in detector.split('-') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

fn annotations(incident: &Incident) -> Labels {
    let mut annotations = Labels::new();
    annotations.insert("summary".to_owned(), incident.headline.clone());
    if !incident.reason.is_empty() {
        annotations.insert("reason".to_owned(), incident.reason.to_string());
    }
    let mut lines = Vec::new();
    if !incident.why.is_empty() {
        lines.push(incident.why.clone());
    }
    let shown = incident.effects.iter().take(EFFECTS_MAX);
    lines.extend(shown.map(|effect| format!("{}: {}", effect.object, effect.what)));
    if let Some(omitted) = incident.effects.len().checked_sub(EFFECTS_MAX + 1) {
        lines.push(format!("and {} more", omitted + 1));
    }
    let changes = incident.changes.iter();
    lines.extend(changes.map(|one| format!("before: {} {} at {}", one.object, one.what, one.at)));
    if !lines.is_empty() {
        annotations.insert("description".to_owned(), lines.join("\n"));
    }
    annotations
}

/// The body that Alertmanager's webhook has, version 4, for one incident.
pub(crate) fn webhook(notice: &Notice, receiver: &str, own: &Labels) -> Value {
    let incident = notice.incident();
    let labels = labels(&notice.context, incident, own);
    let annotations = annotations(incident);
    let ended = notice.ended_at();
    let starts_at = ended.map_or(incident.since, |ended| ended.min(incident.since));
    let (status, ends_at) = match ended {
        Some(ended) => ("resolved", ended.to_string()),
        None => ("firing", NO_TIME.to_owned()),
    };
    let group = BTreeMap::from([("incident", &incident.id)]);
    json!({
        "version": "4",
        "groupKey": format!("{{}}:{{incident={:?}}}", incident.id),
        "truncatedAlerts": 0,
        "status": status,
        "receiver": receiver,
        "groupLabels": group,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [{
            "status": status,
            "labels": labels,
            "annotations": annotations,
            "startsAt": starts_at,
            "endsAt": ends_at,
            "generatorURL": "",
            "fingerprint": fingerprint(&labels),
        }],
    })
}

/// The fingerprint of a set of labels, as Prometheus and Alertmanager compute it: FNV-1a of
/// names and values in the order of names.
pub(crate) fn fingerprint(labels: &Labels) -> String {
    const OFFSET: u64 = 14_695_981_039_346_656_037;
    const PRIME: u64 = 1_099_511_628_211;
    let mut hash = OFFSET;
    let mut add = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    };
    for (name, value) in labels {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    format!("{hash:016x}")
}

/// Whether Alertmanager and Prometheus take the name of a label.
pub fn is_label_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    bytes.next().is_some_and(is_first)
        && bytes.all(|byte| is_first(byte) || byte.is_ascii_digit())
        && !name.starts_with("__")
}
