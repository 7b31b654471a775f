//! An event as it is kept, and back.

use bytes::Bytes;

use kubecrier_core::{Event, EventFields, InvolvedObject, LabelsOf};
use kubecrier_history::Record;
use kubecrier_k8s::{Contexts, StoredEvent, StoredLabels};

/// Set if the labels are those of the involved object, and none is redacted.
const LABELS_KNOWN: u8 = 1;

/// The record of an event. Its value is what every subscriber is notified of, which is
/// serialised once and redacted.
pub(super) fn of_event(event: &Event) -> Record {
    let is_known = event.labels_of == LabelsOf::Involved && !event.labels.is_redacted();
    Record {
        time: event.timestamp.as_millisecond(),
        version: event.version.unwrap_or_default(),
        flags: if is_known { LABELS_KNOWN } else { 0 },
        id: event.id().to_owned(),
        namespace: event.namespace.clone(),
        kind: event.kind.clone(),
        reason: event.reason.clone(),
        object_kind: event.involved.kind.clone(),
        object_name: event.involved.name.clone(),
        value: Bytes::from(event.members().to_object()),
    }
}

/// The event of a record, unless it must not be shown now.
pub(super) fn to_event(record: &Record, contexts: &Contexts) -> Option<Event> {
    contexts.stored_event(StoredEvent {
        members: &record.value,
        version: (record.version > 0).then_some(record.version),
        labels: if record.flags & LABELS_KNOWN == 0 {
            StoredLabels::Unknown
        } else {
            StoredLabels::Known
        },
    })
}

/// What filters without labels need of an event, without reading its value.
pub(super) fn head(record: &Record) -> Event {
    Event::from(EventFields {
        namespace: record.namespace.clone(),
        kind: record.kind.clone(),
        reason: record.reason.clone(),
        involved: InvolvedObject {
            kind: record.object_kind.clone(),
            name: record.object_name.clone(),
            // An event is in the namespace of its object, and that of a cluster-scoped object
            // is looked at again when the value is read.
            namespace: record.namespace.clone(),
            ..InvolvedObject::default()
        },
        ..EventFields::default()
    })
}
