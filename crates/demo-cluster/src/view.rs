//! In which form an object is answered.

use serde_json::{Map, Value, json};

use crate::{
    resource::{Resource, Storage},
    status::Refusal,
};

/// The form a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// As it is.
    Whole,
    /// Its metadata alone.
    Metadata,
}

/// What the form is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Object,
    List,
    Watch,
}

const ONE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                        application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

// === impl View ===

impl View {
    /// The first of the accepted forms that this cluster has.
    pub(crate) fn negotiate(
        accept: &str,
        resource: &Resource,
        answer: Answer,
    ) -> Result<Self, Refusal> {
        if accept.trim().is_empty() {
            return Ok(Self::Whole);
        }
        for form in accept.split(',') {
            let mut parts = form.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "application/json" | "application/*" | "*/*") {
                continue;
            }
            let wanted = parts.find_map(|part| part.strip_prefix("as="));
            match (wanted, answer) {
                (None, _) => return Ok(Self::Whole),
                (Some("PartialObjectMetadataList"), Answer::List)
                | (Some("PartialObjectMetadata"), Answer::Object | Answer::Watch) => {
                    return Ok(Self::Metadata);
                }
                (Some("PartialObjectMetadata"), Answer::List) => {
                    let internal = internal(resource);
                    return Err(Refusal::not_acceptable(format!(
                        "you requested PartialObjectMetadata, but the requested object is a list \
                         ({internal}List)"
                    )));
                }
                (Some("PartialObjectMetadataList"), Answer::Object) => {
                    let internal = internal(resource);
                    return Err(Refusal::not_acceptable(format!(
                        "you requested PartialObjectMetadataList, but the requested object is not \
                         a list ({internal})"
                    )));
                }
                (Some(_), _) => {}
            }
        }
        Err(Refusal::no_representation(match answer {
            Answer::Object => ONE,
            Answer::List | Answer::Watch => STREAMED,
        }))
    }

    /// An object as `get` and `watch` answer it.
    pub(crate) fn object(self, resource: &Resource, stored: &Value) -> Value {
        match self {
            Self::Whole => {
                let mut object = seen_as(resource, stored);
                object["kind"] = resource.kind.into();
                object["apiVersion"] = resource.api_version().into();
                object
            }
            Self::Metadata => metadata_of(stored),
        }
    }

    /// An object as a list holds it.
    pub(crate) fn item(self, resource: &Resource, stored: &Value) -> Value {
        match self {
            Self::Whole => {
                let mut object = seen_as(resource, stored);
                if let Some(fields) = object.as_object_mut() {
                    // The list says it for all.
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                object
            }
            Self::Metadata => metadata_of(stored),
        }
    }

    pub(crate) fn list(self, resource: &Resource, metadata: Value, items: Vec<Value>) -> Value {
        let (kind, api_version) = match self {
            Self::Whole => (format!("{}List", resource.kind), resource.api_version()),
            Self::Metadata => {
                let kind = "PartialObjectMetadataList".to_owned();
                (kind, "meta.k8s.io/v1".to_owned())
            }
        };
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
    }
}

/// The type the API server keeps, which its complaints name.
fn internal(resource: &Resource) -> String {
    let package = match resource.group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("*{package}.{}", resource.kind)
}

fn metadata_of(stored: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored["metadata"],
    })
}

fn seen_as(resource: &Resource, stored: &Value) -> Value {
    match resource.storage {
        Storage::EventsView => new_event(stored),
        Storage::Cached | Storage::Direct | Storage::Review => stored.clone(),
    }
}

/// A core event as `events.k8s.io/v1` shows it: the same under other names.
fn new_event(stored: &Value) -> Value {
    const NAMES: [(&str, &str); 13] = [
        ("metadata", "metadata"),
        ("eventTime", "eventTime"),
        ("series", "series"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
        ("involvedObject", "regarding"),
        ("related", "related"),
        ("message", "note"),
        ("type", "type"),
        ("source", "deprecatedSource"),
        ("count", "deprecatedCount"),
    ];
    let mut event = Map::new();
    for (old, new) in NAMES {
        let empty = |value: &Value| value == "" || *value == json!(0);
        if let Some(value) = stored.get(old).filter(|value| !empty(value)) {
            event.insert(new.to_owned(), value.clone());
        }
    }
    for (name, new) in [
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
    ] {
        event.insert(new.to_owned(), stored[name].clone());
    }
    event.entry("eventTime").or_insert(Value::Null);
    event.entry("deprecatedSource").or_insert_with(|| json!({}));
    Value::Object(event)
}
