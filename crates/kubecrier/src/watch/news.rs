//! What a subscription tells, as far as a person reads it.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The data of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct News {
    pub(crate) cluster: String,
    pub(crate) event: Option<Event>,
    pub(crate) fault_id: Option<String>,
    pub(crate) logs: Vec<Log>,
    pub(crate) context: Option<Pod>,
    pub(crate) error: Option<String>,
    pub(crate) degraded: Option<bool>,
    pub(crate) gap: Option<Gap>,
}

/// An event, pushed or listed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Event {
    pub(crate) namespace: String,
    #[serde(alias = "lastSeen")]
    pub(crate) timestamp: Option<Timestamp>,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) count: i64,
    pub(crate) involved_object: Object,
}

/// What it is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// The end of a log, or why there is none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Log {
    pub(crate) container: String,
    pub(crate) previous: bool,
    pub(crate) signature: Option<Signature>,
    pub(crate) sample: Option<String>,
    pub(crate) error: Option<String>,
}

/// What crashed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Signature {
    pub(crate) kind: String,
    pub(crate) line: String,
}

/// The pod of a fault.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) node: Option<String>,
    pub(crate) containers: Vec<Container>,
    pub(crate) owners: Vec<Object>,
}

/// A container of it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) state: String,
    pub(crate) restart_count: i64,
    pub(crate) last_termination: Option<Termination>,
}

/// How it ended.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Termination {
    pub(crate) exit_code: i64,
    pub(crate) reason: Option<String>,
}

/// Where something may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Gap {
    pub(crate) detail: String,
}

// === impl News ===

impl News {
    /// Reads the data of a message; a stranger's is nothing.
    pub(crate) fn read(data: &Value) -> Option<Self> {
        let news = Self::deserialize(data).ok()?;
        let says_something = news.event.is_some() || news.degraded.is_some() || news.gap.is_some();
        says_something.then_some(news)
    }

    /// Whether it comes with evidence.
    pub(crate) fn is_fault(&self) -> bool {
        self.fault_id.is_some()
    }
}

/// A row of `events_list` in the form of a message.
pub(crate) fn history(context: &str, row: &Value) -> Value {
    json!({"cluster": context, "event": row, "history": true})
}

/// What tells one occurrence from another, pushed or listed.
pub(crate) fn key(data: &Value) -> String {
    let event = &data["event"];
    let seen = event.get("timestamp").or_else(|| event.get("lastSeen"));
    let object = &event["involvedObject"];
    let parts = [
        &data["cluster"],
        &event["namespace"],
        &object["kind"],
        &object["name"],
        &event["reason"],
        &event["count"],
        seen.unwrap_or(&Value::Null),
    ];
    parts.map(ToString::to_string).join(" ")
}
