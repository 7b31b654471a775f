//! The notifications of a subscription, as far as they are shown to people.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The `data` of a log message: an event, a fault, an incident, or the state of a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Notification {
    pub(crate) cluster: String,
    pub(crate) event: Option<Event>,
    pub(crate) fault_id: Option<String>,
    pub(crate) incident: Option<Incident>,
    pub(crate) logs: Vec<LogSample>,
    pub(crate) context: Option<PodSummary>,
    pub(crate) error: Option<String>,
    pub(crate) degraded: Option<bool>,
    /// Events are missing because of a gap, or because labels cannot be read.
    #[serde(alias = "unlabelled")]
    pub(crate) gap: Option<Gap>,
}

/// An event, pushed or listed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Event {
    pub(crate) namespace: String,
    pub(crate) timestamp: Option<Timestamp>,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) count: i64,
    /// The labels of the involved object, if they are known.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) involved_object: ObjectReference,
}

/// An incident that was opened, changed or resolved, or that was open before.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Incident {
    pub(crate) id: String,
    pub(crate) transition: String,
    pub(crate) severity: String,
    pub(crate) object: String,
    pub(crate) headline: String,
    pub(crate) at: Option<Timestamp>,
    pub(crate) duration_seconds: Option<i64>,
    /// No server saw its end, which was then or before.
    pub(crate) resolved_at_or_before: bool,
}

/// The involved object of an event, or an owner of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectReference {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// The end of a log, or why there is none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogSample {
    pub(crate) container: String,
    pub(crate) previous: bool,
    pub(crate) signature: Option<CrashSignature>,
    pub(crate) sample: Option<String>,
    pub(crate) error: Option<String>,
}

/// The kind of a crash, and the line that shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CrashSignature {
    pub(crate) kind: String,
    pub(crate) line: String,
}

/// The pod of a fault.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodSummary {
    pub(crate) phase: String,
    pub(crate) node: Option<String>,
    pub(crate) containers: Vec<ContainerSummary>,
    pub(crate) owners: Vec<ObjectReference>,
}

/// A container of the pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerSummary {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) state: String,
    pub(crate) restart_count: i64,
    pub(crate) last_termination: Option<Termination>,
}

/// The last termination of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Termination {
    pub(crate) exit_code: i64,
    pub(crate) reason: Option<String>,
}

/// Events may be missing, and why.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Gap {
    pub(crate) detail: String,
}

// === impl Notification ===

impl Notification {
    /// Parses the data of a message; `None` if it is not of a subscription.
    pub(crate) fn parse(data: &Value) -> Option<Self> {
        let parsed = Self::deserialize(data).ok()?;
        let known = parsed.event.is_some()
            || parsed.incident.is_some()
            || parsed.degraded.is_some()
            || parsed.gap.is_some();
        known.then_some(parsed)
    }

    /// Whether the event is a fault, which has evidence.
    pub(crate) fn is_fault(&self) -> bool {
        self.fault_id.is_some()
    }
}

/// A row of `events_list` with the members of a notification. A listed event has no place in
/// the feed, and nobody has asked for the labels of its object: these are null.
pub(crate) fn from_history(context: &str, subscription: &Value, row: &Value) -> Value {
    let mut event = row.as_object().cloned().unwrap_or_default();
    let event_id = event.remove("eventId").unwrap_or_default();
    let seen = event.remove("lastSeen").unwrap_or_default();
    if let Some(first) = event.remove("firstSeen").filter(|first| !first.is_null()) {
        event.insert("firstTimestamp".to_owned(), first);
    }
    event.insert("timestamp".to_owned(), seen.clone());
    event.insert("lastTimestamp".to_owned(), seen);
    event.insert("labels".to_owned(), Value::Null);
    json!({
        "subscriptionId": subscription,
        "cluster": context,
        "seq": null,
        "cursor": null,
        "eventId": event_id,
        "event": event,
        "history": true,
    })
}

/// An incident of the answer of `events_subscribe` with the members of a notification.
pub(crate) fn open_incident(context: &str, subscription: &Value, incident: &Value) -> Value {
    let mut incident = incident.clone();
    incident["transition"] = json!("open");
    json!({
        "subscriptionId": subscription,
        "cluster": context,
        "seq": null,
        "cursor": null,
        "incident": incident,
        "history": true,
    })
}

/// A row of `faults_list` of an incident that is over, with the members of a notification.
pub(crate) fn past_incident(context: &str, subscription: &Value, row: &Value) -> Value {
    let mut data = open_incident(context, subscription, row);
    let incident = &mut data["incident"];
    incident["transition"] = json!("resolved");
    incident["at"] = row["resolvedAt"].clone();
    data
}

/// The identity of an occurrence, the same whether it is pushed or listed.
pub(crate) fn event_key(data: &Value) -> String {
    let event = &data["event"];
    let object = &event["involvedObject"];
    let parts = [
        &data["cluster"],
        &event["namespace"],
        &object["kind"],
        &object["name"],
        &event["reason"],
        &event["count"],
        &event["timestamp"],
    ];
    parts.map(ToString::to_string).join(" ")
}
