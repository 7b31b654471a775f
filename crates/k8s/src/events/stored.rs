//! Events that were kept in a history: read as they were written, and shown by the settings of
//! now. What was kept under other settings may be more than those allow.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    Contexts,
    allowed::{ObjectRef, ReadScope},
    identity,
};
use kubecrier_core::{Event, EventFields, InvolvedObject, Labels, LabelsOf};

/// What is known about the labels of an event that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredLabels {
    /// They are those of the involved object, as they are.
    Known,
    /// They are not, or a value was redacted: no selector can rely on them.
    Unknown,
}

/// An event as it was kept: what clients are notified of, and its resourceVersion.
#[derive(Clone, Copy, Debug)]
pub struct StoredEvent<'a> {
    /// The members of a notification, as JSON.
    pub members: &'a [u8],
    /// The resourceVersion.
    pub version: Option<u64>,
    /// What is known about its labels.
    pub labels: StoredLabels,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members {
    event_id: String,
    event: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    namespace: String,
    timestamp: Timestamp,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    involved_object: Object,
    count: i32,
    first_timestamp: Option<Timestamp>,
    #[serde(default)]
    source: String,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Object {
    api_version: String,
    kind: String,
    name: String,
    namespace: String,
    uid: String,
    field_path: String,
}

impl Contexts {
    /// An event that was kept, redacted once more; `None` if it must not be shown now, or is
    /// not one.
    pub fn stored_event(&self, stored: StoredEvent<'_>) -> Option<Event> {
        let Members { event_id, event } = serde_json::from_slice(stored.members).ok()?;
        if is_hidden(&event, &self.scope()) {
            return None;
        }
        let redactor = self.redactor();
        let message = match identity::text(redactor, &event.message) {
            Cow::Borrowed(_) => event.message,
            Cow::Owned(clean) => clean,
        };
        let labels = super::labels(event.labels, redactor);
        let (uid, _) = event_id.rsplit_once(':')?;
        let object = event.involved_object;
        let mut shown = Event::from(EventFields {
            uid: uid.to_owned(),
            version: stored.version,
            namespace: event.namespace,
            timestamp: event.timestamp,
            kind: event.kind,
            reason: event.reason,
            message,
            involved: InvolvedObject {
                api_version: object.api_version,
                kind: object.kind,
                name: object.name,
                namespace: object.namespace,
                uid: object.uid,
                field_path: object.field_path,
            },
            count: event.count,
            first_seen: event.first_timestamp,
            source: event.source,
        });
        shown.labels_of = match stored.labels {
            StoredLabels::Known if !labels.is_redacted() => LabelsOf::Involved,
            StoredLabels::Known | StoredLabels::Unknown => LabelsOf::Unreadable,
        };
        shown.labels = match stored.labels {
            StoredLabels::Known => labels,
            // They are shown, and nothing is matched by them.
            StoredLabels::Unknown => Labels::new(BTreeMap::new(), labels.shown().clone()),
        };
        Some(shown)
    }
}

/// Whether the event, or the object that it is about, must not be shown.
fn is_hidden(event: &Payload, scope: &ReadScope) -> bool {
    let object = &event.involved_object;
    let is_outside = scope.check_namespace(&event.namespace).is_err();
    scope.hides_some()
        && (is_outside
            || scope.hides(ObjectRef {
                api_version: &object.api_version,
                kind: &object.kind,
                namespace: &object.namespace,
                name: &object.name,
            }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allowed, AllowedNames, ClusterIdentity, Config, DeniedKinds};
    use kubecrier_redact::Redactor;

    const KEPT: &str = r#"{"eventId":"uid-1:3","event":{"namespace":"shop","timestamp":"2026-11-15T10:00:00Z",
        "type":"Warning","reason":"BackOff","message":"the word is hunter2","labels":{"app":"web"},
        "involvedObject":{"apiVersion":"v1","kind":"Pod","name":"web-0","namespace":"shop"},
        "count":3,"lastTimestamp":"2026-11-15T10:00:00Z"}}"#;

    fn read(denied: &[&str], namespaces: &[&str], redact: &[&str]) -> Option<Event> {
        let texts = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let namespaces = match namespaces {
            [] => AllowedNames::default(),
            names => AllowedNames::namespaces(&texts(names)).unwrap(),
        };
        let config = Config {
            kubeconfig: None,
            context: None,
            request_timeout: std::time::Duration::from_secs(1),
            demo: None,
            redactor: Redactor::new(&texts(redact)).unwrap(),
            denied: DeniedKinds::new(&texts(denied)).unwrap(),
            allowed: Allowed {
                namespaces,
                ..Allowed::default()
            },
            identity: ClusterIdentity::default(),
        };
        Contexts::new(config).stored_event(StoredEvent {
            members: KEPT.as_bytes(),
            version: Some(12),
            labels: StoredLabels::Known,
        })
    }

    #[test]
    fn an_event_is_read_as_it_was_written() {
        let event = read(&[], &[], &[]).unwrap();
        assert_eq!(event.id(), "uid-1:3");
        assert_eq!(
            (event.version, event.labels.get("app").unwrap()),
            (Some(12), "web")
        );
        let expected: serde_json::Value = serde_json::from_str(KEPT).unwrap();
        let again = event.members().to_object();
        let again: serde_json::Value = serde_json::from_slice(&again).unwrap();
        assert_eq!(again, expected);
    }

    #[test]
    fn the_settings_of_now_decide_what_is_shown() {
        assert!(read(&["pods"], &[], &[]).is_none());
        assert!(read(&["nodes"], &["shop"], &[]).is_some());
        assert!(read(&[], &["other"], &[]).is_none());
        let event = read(&[], &[], &["hunter2"]).unwrap();
        assert!(!event.message.contains("hunter2"), "{}", event.message);
    }
}
