//! An event as a subscriber sees it: plain, and serialised once for all who are pushed to.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use mcp_notify::SharedMembers;
use serde::Serialize;

/// Labels of an object.
pub type Labels = Arc<BTreeMap<String, String>>;

/// One occurrence of a Kubernetes event.
#[derive(Debug, Default)]
pub struct Event {
    /// The uid of the event object.
    pub uid: String,
    /// Its version in the cluster, if that is a number, as it is everywhere so far.
    pub version: Option<u64>,
    /// Where the event lives.
    pub namespace: String,
    /// The latest sign of it.
    pub timestamp: Timestamp,
    /// Normal or Warning.
    pub kind: String,
    /// One word.
    pub reason: String,
    /// A sentence, written by whoever reported it.
    pub message: String,
    /// Labels of the involved object; of the event itself if that is gone.
    pub labels: Labels,
    /// What it is about.
    pub involved: InvolvedObject,
    /// How often it was seen.
    pub count: i32,
    /// When it was first seen.
    pub first_seen: Option<Timestamp>,
    /// Who reported it.
    pub source: String,
    /// What is derived from the other fields, when first asked for.
    pub derived: Derived,
}

/// What an event keeps of what was made of it: its id and its serialised form.
#[derive(Debug, Default)]
pub struct Derived {
    id: OnceLock<String>,
    members: OnceLock<SharedMembers>,
}

/// What an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvolvedObject {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if it has one.
    pub namespace: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Which part of it, e.g. a container of a pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Members<'a> {
    event_id: &'a str,
    event: Wire<'a>,
}

/// An event as it is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wire<'a> {
    namespace: &'a str,
    timestamp: Timestamp,
    #[serde(rename = "type")]
    kind: &'a str,
    reason: &'a str,
    message: &'a str,
    labels: &'a BTreeMap<String, String>,
    involved_object: &'a InvolvedObject,
    count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_timestamp: Option<Timestamp>,
    last_timestamp: Timestamp,
    #[serde(skip_serializing_if = "str::is_empty")]
    source: &'a str,
}

// === impl Event ===

impl Event {
    /// Names this occurrence: the same for everybody, and after a reconnect.
    pub fn id(&self) -> &str {
        (self.derived.id).get_or_init(|| format!("{}:{}", self.uid, self.count))
    }

    /// What is the same in everybody's notification, serialised when first asked for.
    pub fn members(&self) -> &SharedMembers {
        self.derived.members.get_or_init(|| {
            let members = Members {
                event_id: self.id(),
                event: self.wire(),
            };
            // Strings and numbers always serialise.
            SharedMembers::new(&members).unwrap_or_default()
        })
    }

    /// The `event` of an answer.
    pub fn wire(&self) -> Wire<'_> {
        Wire {
            namespace: &self.namespace,
            timestamp: self.timestamp,
            kind: &self.kind,
            reason: &self.reason,
            message: &self.message,
            labels: &self.labels,
            involved_object: &self.involved,
            count: self.count,
            first_timestamp: self.first_seen,
            last_timestamp: self.timestamp,
            source: &self.source,
        }
    }

    /// One line for a person.
    pub fn summary(&self) -> String {
        let kind = self.involved.kind.to_lowercase();
        let mut line = format!(
            "{} {} {kind}/{}: {}",
            self.kind, self.reason, self.involved.name, self.message
        );
        if line.len() > SUMMARY_BYTES {
            let end = (0..=SUMMARY_BYTES)
                .rev()
                .find(|at| line.is_char_boundary(*at))
                .unwrap_or_default();
            line.truncate(end);
            line.push('…');
        }
        line
    }
}

/// As much as one looks at.
const SUMMARY_BYTES: usize = 200;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn event(namespace: &str, kind: &str, name: &str) -> Event {
        Event {
            uid: format!("uid-{namespace}-{name}"),
            version: Some(10),
            namespace: namespace.to_owned(),
            timestamp: "2026-11-15T10:00:00Z".parse().unwrap(),
            kind: "Warning".to_owned(),
            reason: "BackOff".to_owned(),
            message: "back-off restarting failed container".to_owned(),
            involved: InvolvedObject {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                ..InvolvedObject::default()
            },
            count: 3,
            ..Event::default()
        }
    }

    #[test]
    fn the_wire_has_every_field_that_was_promised() {
        let mut event = event("shop", "ConfigMap", "settings");
        event.labels = Arc::new([("app".to_owned(), "shop".to_owned())].into());
        let json = serde_json::to_value(event.wire()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "namespace": "shop",
                "timestamp": "2026-11-15T10:00:00Z",
                "type": "Warning",
                "reason": "BackOff",
                "message": "back-off restarting failed container",
                "labels": {"app": "shop"},
                "involvedObject": {
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "namespace": "shop",
                },
                "count": 3,
                "lastTimestamp": "2026-11-15T10:00:00Z",
            })
        );
        assert!(
            std::ptr::eq(event.members(), event.members()),
            "serialised once"
        );
    }

    #[test]
    fn a_summary_is_a_line_and_bounded() {
        let mut event = event("shop", "Pod", "web-0");
        event.message = "é".repeat(500);
        let line = event.summary();
        assert!(line.starts_with("Warning BackOff pod/web-0: é") && line.len() < 210);
    }
}
