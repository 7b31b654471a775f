//! A plain event, serialised once for all subscribers.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, OnceLock},
};

use jiff::Timestamp;
use mcp_notify::SharedMembers;
use serde::{Serialize, Serializer};

/// Labels of an object: as they are, for selectors, and as they may be shown. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    raw: Arc<BTreeMap<String, String>>,
    /// The same map, unless a value had to be redacted.
    shown: Arc<BTreeMap<String, String>>,
}

/// Of all events whose labels are not shown.
static NO_LABELS: LazyLock<Labels> = LazyLock::new(Labels::default);

/// Whose labels an event has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelsOf {
    /// Those of the involved object.
    #[default]
    Involved,
    /// Those of the event object alone: the involved one is gone.
    Gone,
    /// Those of the event object alone: the involved one cannot be read.
    Unreadable,
}

/// One occurrence of a Kubernetes event.
#[derive(Debug, Default)]
pub struct Event {
    /// Uid of the event object.
    pub uid: String,
    /// resourceVersion, if it is a number, as it is everywhere so far.
    pub version: Option<u64>,
    /// Namespace of the event object.
    pub namespace: String,
    /// When the event was last seen.
    pub timestamp: Timestamp,
    /// `Normal` or `Warning`.
    pub kind: String,
    /// Reason in one word.
    pub reason: String,
    /// Message for a person, written by the reporter.
    pub message: String,
    /// Labels of the involved object; of the event object if the involved one is gone.
    pub labels: Labels,
    /// Whether `labels` are those of the involved object.
    pub labels_of: LabelsOf,
    /// Object that the event is about.
    pub involved: InvolvedObject,
    /// How often the event was seen.
    pub count: i32,
    /// When the event was first seen.
    pub first_seen: Option<Timestamp>,
    /// Component that reported the event.
    pub source: String,
    /// What follows from the other fields, derived on first use.
    pub derived: Derived,
}

/// Id, serialised form and form without labels of an event, computed once.
#[derive(Debug, Default)]
pub struct Derived {
    id: OnceLock<String>,
    members: OnceLock<SharedMembers>,
    without_labels: OnceLock<Arc<Event>>,
}

/// Object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvolvedObject {
    /// API version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Part of the object, e.g. a container of a pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Members<'a> {
    event_id: EventId<'a>,
    event: EventPayload<'a>,
}

/// The id of an event, written without being kept: most are asked for by nobody.
struct EventId<'a>(&'a Event);

/// An event as clients read it: the member `event` of a payload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventPayload<'a> {
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

// === impl Labels ===

impl Labels {
    /// Labels that are shown in another form than they have.
    pub fn new(raw: BTreeMap<String, String>, shown: BTreeMap<String, String>) -> Self {
        if raw == shown {
            return raw.into();
        }
        Self {
            raw: Arc::new(raw),
            shown: Arc::new(shown),
        }
    }

    /// The value of a label as it is, to be compared and never shown.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.raw.get(key).map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Whether a value is shown in another form than it has.
    pub fn is_redacted(&self) -> bool {
        !Arc::ptr_eq(&self.raw, &self.shown)
    }

    /// The labels as they may be shown.
    pub fn shown(&self) -> &BTreeMap<String, String> {
        &self.shown
    }
}

impl From<BTreeMap<String, String>> for Labels {
    /// Labels without anything to redact.
    fn from(labels: BTreeMap<String, String>) -> Self {
        let raw = Arc::new(labels);
        Self {
            shown: Arc::clone(&raw),
            raw,
        }
    }
}

// === impl EventId ===

impl fmt::Display for EventId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.uid, self.0.count)
    }
}

impl Serialize for EventId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl Event ===

impl Event {
    /// Id of this occurrence: the same for every subscriber, and after a reconnect.
    pub fn id(&self) -> &str {
        (self.derived.id).get_or_init(|| EventId(self).to_string())
    }

    /// The members that are the same in every subscriber's notification, serialised on first
    /// use.
    pub fn members(&self) -> &SharedMembers {
        self.derived.members.get_or_init(|| {
            let members = Members {
                event_id: EventId(self),
                event: self.payload(),
            };
            // Strings and numbers always serialise.
            SharedMembers::new(&members).unwrap_or_default()
        })
    }

    /// The same for all readers who may not see the labels of the involved object, made once:
    /// each of many keeps it for as long as its feed.
    pub fn without_labels(&self) -> &Arc<Self> {
        self.derived.without_labels.get_or_init(|| {
            Arc::new(Self {
                uid: self.uid.clone(),
                version: self.version,
                namespace: self.namespace.clone(),
                timestamp: self.timestamp,
                kind: self.kind.clone(),
                reason: self.reason.clone(),
                message: self.message.clone(),
                labels: NO_LABELS.clone(),
                labels_of: LabelsOf::Unreadable,
                involved: self.involved.clone(),
                count: self.count,
                first_seen: self.first_seen,
                source: self.source.clone(),
                derived: Derived::default(),
            })
        })
    }

    /// The event as clients read it.
    pub fn payload(&self) -> EventPayload<'_> {
        EventPayload {
            namespace: &self.namespace,
            timestamp: self.timestamp,
            kind: &self.kind,
            reason: &self.reason,
            message: &self.message,
            labels: self.labels.shown(),
            involved_object: &self.involved,
            count: self.count,
            first_timestamp: self.first_seen,
            last_timestamp: self.timestamp,
            source: &self.source,
        }
    }

    /// Summary in one line.
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

/// Length of a summary, at most.
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
    fn the_payload_has_every_field_that_was_promised() {
        let mut event = event("shop", "ConfigMap", "settings");
        let raw = BTreeMap::from([("app".to_owned(), "the secret".to_owned())]);
        let shown = BTreeMap::from([("app".to_owned(), "shop".to_owned())]);
        event.labels = Labels::new(raw, shown);
        assert_eq!(event.labels.get("app"), Some("the secret"));
        let json = serde_json::to_value(event.payload()).unwrap();
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
