//! A plain event, serialised once for all subscribers.

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut, Range},
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
    /// What everybody sees of it who sees it at all.
    pub fields: Arc<EventFields>,
    /// Labels of the involved object; of the event object if the involved one is gone.
    pub labels: Labels,
    /// Whether `labels` are those of the involved object.
    pub labels_of: LabelsOf,
    /// What follows from the other fields, derived on first use.
    pub derived: Derived,
}

/// The fields of an event that need no right but to see the event. Its form without labels shares
/// them.
#[derive(Clone, Debug, Default)]
pub struct EventFields {
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
    /// Object that the event is about.
    pub involved: InvolvedObject,
    /// How often the event was seen.
    pub count: i32,
    /// When the event was first seen.
    pub first_seen: Option<Timestamp>,
    /// Component that reported the event.
    pub source: String,
}

/// Id, serialised form and form without labels of an event, computed once.
#[derive(Debug, Default)]
pub struct Derived {
    id: OnceLock<Arc<str>>,
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

impl From<EventFields> for Event {
    /// One without labels of its object.
    fn from(fields: EventFields) -> Self {
        Self {
            fields: Arc::new(fields),
            ..Self::default()
        }
    }
}

impl Deref for Event {
    type Target = EventFields;

    fn deref(&self) -> &EventFields {
        &self.fields
    }
}

impl DerefMut for Event {
    fn deref_mut(&mut self) -> &mut EventFields {
        self.derived = Derived::default();
        Arc::make_mut(&mut self.fields)
    }
}

impl Event {
    /// Id of this occurrence: the same for every subscriber, and after a reconnect.
    pub fn id(&self) -> &str {
        self.shared_id()
    }

    fn shared_id(&self) -> &Arc<str> {
        (self.derived.id).get_or_init(|| EventId(self).to_string().into())
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
    /// each of many keeps it for as long as its feed. It shares everything else with this one.
    pub fn without_labels(&self) -> &Arc<Self> {
        self.derived.without_labels.get_or_init(|| {
            let members = if self.labels.shown().is_empty() {
                Some(self.members().clone())
            } else {
                let labels = self.labels_in_members();
                labels.map(|labels| self.members().without(labels))
            };
            Arc::new(Self {
                fields: Arc::clone(&self.fields),
                labels: NO_LABELS.clone(),
                labels_of: LabelsOf::Unreadable,
                derived: Derived {
                    id: Arc::clone(self.shared_id()).into(),
                    members: members.map_or_else(OnceLock::new, OnceLock::from),
                    without_labels: OnceLock::new(),
                },
            })
        })
    }

    /// Where the labels are in the serialised members, without the braces around them.
    fn labels_in_members(&self) -> Option<Range<usize>> {
        // A brace is in the place of the first comma.
        let text = self.members().to_object();
        // In a text or a name each quote follows a backslash.
        let member = br#","labels":{"#;
        let found = (text.windows(member.len())).position(|part| part == member)?;
        let labels = serde_json::to_vec(self.labels.shown()).ok()?;
        let labels = labels.strip_prefix(b"{")?;
        let start = found + member.len();
        let has_all = text[start..].starts_with(labels);
        has_all.then(|| start..start + labels.len() - 1)
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
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn event(namespace: &str, kind: &str, name: &str) -> Event {
        Event::from(EventFields {
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
            ..EventFields::default()
        })
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

    proptest! {
        /// Whatever a text or a label says, which may look like a part of an event.
        #[test]
        fn without_labels_everything_else_is_the_same_and_kept_once(
            texts in prop::collection::vec(r#"[a"\\,:{}é]{0,4}|"?,"labels":\{"#, 4),
            labels in prop::collection::btree_map("[a-z\"{}]{0,6}", r#"[x"{}\\,]{0,6}"#, 0..4),
        ) {
            let mut whole = event("shop", "Pod", "web-0");
            whole.message.clone_from(&texts[0]);
            whole.reason.clone_from(&texts[1]);
            whole.uid.clone_from(&texts[2]);
            whole.involved.field_path.clone_from(&texts[3]);
            let mut labels = labels;
            if let Some(mut first) = labels.first_entry() {
                first.get_mut().push_str("hunter2");
            }
            whole.labels = labels.into();
            let shown = whole.without_labels();
            let mut expected: serde_json::Value = serde_json::from_slice(&whole.members().to_object()).unwrap();
            expected["event"]["labels"] = serde_json::json!({});
            let is: serde_json::Value = serde_json::from_slice(&shown.members().to_object()).unwrap();
            prop_assert_eq!(&is, &expected);
            prop_assert_eq!(&is["event"], &serde_json::to_value(shown.payload()).unwrap());
            prop_assert_eq!(shown.id(), whole.id());
            prop_assert!(Arc::ptr_eq(&shown.fields, &whole.fields));
            let printed = format!("{shown:?}");
            prop_assert!(!printed.contains("hunter2"), "{}", printed);
            let [kept, made] = [&whole, &**shown].map(|event| event.members().pieces()[0].as_ptr());
            prop_assert_eq!(kept, made, "the text is shared");
            let again = shown.without_labels();
            prop_assert_eq!(again.members().to_object(), shown.members().to_object());
        }
    }

    #[test]
    fn a_summary_is_a_line_and_bounded() {
        let mut event = event("shop", "Pod", "web-0");
        event.message = "é".repeat(500);
        let line = event.summary();
        assert!(line.starts_with("Warning BackOff pod/web-0: é") && line.len() < 210);
    }
}
