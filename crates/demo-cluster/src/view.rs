//! The representation of objects in responses, as content negotiation chooses it.

use serde_json::{Map, Value, json};

use crate::{
    resource::{Resource, Storage},
    status::StatusError,
};

/// A representation of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The whole object.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// What a response holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Object,
    List,
    Watch,
}

const OBJECT_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                        application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

// === impl View ===

impl View {
    /// The first accepted media type that this cluster can produce.
    pub(crate) fn negotiate(
        accept: &str,
        resource: &Resource,
        response: ResponseKind,
    ) -> Result<Self, StatusError> {
        if accept.trim().is_empty() {
            return Ok(Self::Whole);
        }
        for accepted in accept.split(',') {
            let mut parts = accepted.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "application/json" | "application/*" | "*/*") {
                continue;
            }
            let requested = parts.find_map(|part| part.strip_prefix("as="));
            match (requested, response) {
                (None, _) => return Ok(Self::Whole),
                (Some("PartialObjectMetadataList"), ResponseKind::List)
                | (Some("PartialObjectMetadata"), ResponseKind::Object | ResponseKind::Watch) => {
                    return Ok(Self::Metadata);
                }
                (Some("PartialObjectMetadata"), ResponseKind::List) => {
                    let go_type = internal_type(resource);
                    return Err(StatusError::not_acceptable(format!(
                        "you requested PartialObjectMetadata, but the requested object is a list \
                         ({go_type}List)"
                    )));
                }
                (Some("PartialObjectMetadataList"), ResponseKind::Object) => {
                    let go_type = internal_type(resource);
                    return Err(StatusError::not_acceptable(format!(
                        "you requested PartialObjectMetadataList, but the requested object is not \
                         a list ({go_type})"
                    )));
                }
                (Some(_), _) => {}
            }
        }
        Err(StatusError::no_representation(match response {
            ResponseKind::Object => OBJECT_TYPES,
            ResponseKind::List | ResponseKind::Watch => STREAM_TYPES,
        }))
    }

    /// An object in a response to `get` or `watch`.
    pub(crate) fn object(self, resource: &Resource, stored: &Value) -> Value {
        match self {
            Self::Whole => {
                let mut object = stored_as(resource, stored);
                object["kind"] = resource.api.kind.into();
                object["apiVersion"] = resource.api.api_version().into();
                object
            }
            Self::Metadata => metadata_of(stored),
        }
    }

    /// An object as an item of a list.
    pub(crate) fn item(self, resource: &Resource, stored: &Value) -> Value {
        match self {
            Self::Whole => {
                let mut object = stored_as(resource, stored);
                if let Some(fields) = object.as_object_mut() {
                    // The list's own kind implies these.
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
            Self::Whole => (resource.api.list_kind(), resource.api.api_version()),
            Self::Metadata => {
                let kind = "PartialObjectMetadataList".to_owned();
                (kind, "meta.k8s.io/v1".to_owned())
            }
        };
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
    }
}

/// The API server's internal Go type, which its errors name.
fn internal_type(resource: &Resource) -> String {
    let package = match resource.api.group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("*{package}.{}", resource.api.kind)
}

fn metadata_of(stored: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored["metadata"],
    })
}

fn stored_as(resource: &Resource, stored: &Value) -> Value {
    match resource.storage {
        Storage::EventsView => events_k8s_io(stored),
        Storage::Cached | Storage::Direct | Storage::Review => stored.clone(),
    }
}

/// A core event in the fields of `events.k8s.io/v1`.
fn events_k8s_io(stored: &Value) -> Value {
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
