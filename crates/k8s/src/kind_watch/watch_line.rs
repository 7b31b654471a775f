//! A line of a watch: what happened, and to which object.

use std::{fmt, marker::PhantomData};

use kube::core::{Status, watch::Bookmark};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// A line of a watch of objects that are decoded as `T`.
///
/// The derived decoder of an enum with a tag is compiled a second time for what comes before
/// the tag, with all that an object consists of. An API server writes the tag first.
pub(super) enum WatchLine<T> {
    /// An object was added or modified.
    Applied(T),
    Deleted(T),
    Bookmark(Bookmark),
    Error(Box<Status>),
}

/// What happened to the object.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Field {
    Type,
    Object,
    #[serde(other)]
    Other,
}

struct LineVisitor<T>(PhantomData<fn() -> T>);

// === impl EventType ===

impl EventType {
    fn next_object<'de, T, A>(self, map: &mut A) -> Result<WatchLine<T>, A::Error>
    where
        T: DeserializeOwned,
        A: MapAccess<'de>,
    {
        match self {
            Self::Added | Self::Modified => map.next_value().map(WatchLine::Applied),
            Self::Deleted => map.next_value().map(WatchLine::Deleted),
            Self::Bookmark => map.next_value().map(WatchLine::Bookmark),
            Self::Error => map.next_value().map(WatchLine::Error),
        }
    }

    fn object<T: DeserializeOwned>(self, text: &str) -> serde_json::Result<WatchLine<T>> {
        match self {
            Self::Added | Self::Modified => serde_json::from_str(text).map(WatchLine::Applied),
            Self::Deleted => serde_json::from_str(text).map(WatchLine::Deleted),
            Self::Bookmark => serde_json::from_str(text).map(WatchLine::Bookmark),
            Self::Error => serde_json::from_str(text).map(WatchLine::Error),
        }
    }
}

// === impl WatchLine ===

impl<'de, T: DeserializeOwned> Deserialize<'de> for WatchLine<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(LineVisitor(PhantomData))
    }
}

// === impl LineVisitor ===

impl<'de, T: DeserializeOwned> Visitor<'de> for LineVisitor<T> {
    type Value = WatchLine<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of a watch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WatchLine<T>, A::Error> {
        let mut event_type: Option<EventType> = None;
        let mut line = None;
        let mut before_type: Option<Box<RawValue>> = None;
        while let Some(field) = map.next_key()? {
            match (field, event_type) {
                (Field::Type, _) => event_type = Some(map.next_value()?),
                (Field::Object, Some(event_type)) => {
                    line = Some(event_type.next_object(&mut map)?);
                }
                (Field::Object, None) => before_type = Some(map.next_value()?),
                (Field::Other, _) => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let event_type = event_type.ok_or_else(|| A::Error::missing_field("type"))?;
        match (line, before_type) {
            (Some(line), _) => Ok(line),
            (None, Some(text)) => event_type.object(text.get()).map_err(A::Error::custom),
            (None, None) => Err(A::Error::missing_field("object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(line: &str) -> String {
        match serde_json::from_str::<WatchLine<Value>>(line) {
            Ok(WatchLine::Applied(object)) => format!("applied {object}"),
            Ok(WatchLine::Deleted(object)) => format!("deleted {object}"),
            Ok(WatchLine::Bookmark(mark)) => format!("at {}", mark.metadata.resource_version),
            Ok(WatchLine::Error(status)) => format!("error {}", status.code),
            Err(error) if error.is_eof() => "cut".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Whatever comes first, and whatever else there is.
    #[test]
    fn every_kind_of_line_is_read_in_any_order() {
        let lines = [
            ("ADDED", json!({"a": 1}), "applied {\"a\":1}"),
            ("MODIFIED", json!({"a": [2]}), "applied {\"a\":[2]}"),
            ("DELETED", json!({}), "deleted {}"),
            (
                "BOOKMARK",
                json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}),
                "at 7",
            ),
            (
                "ERROR",
                json!({"kind": "Status", "code": 410, "reason": "Expired"}),
                "error 410",
            ),
        ];
        for (event_type, object, expected) in lines {
            for line in [
                format!(r#"{{"type":"{event_type}","object":{object}}}"#),
                format!(r#"{{"object":{object},"type":"{event_type}"}}"#),
                format!(r#"{{"x":[{{}}],"type":"{event_type}","y":null,"object":{object}}}"#),
            ] {
                assert_eq!(read(&line), expected, "{line}");
                assert_eq!(read(&line[..line.len() - 1]), "cut", "{line}");
            }
        }
    }

    #[test]
    fn what_is_no_event_of_a_watch_is_refused() {
        for line in [
            r#"{"type":"ADDED"}"#,
            r#"{"object":{}}"#,
            r#"{"type":"RENAMED","object":{}}"#,
            r#"{"kind":"Status","code":500}"#,
            "[]",
            "7",
        ] {
            let read = read(line);
            let names = ["missing field", "unknown variant", "an event of a watch"];
            assert!(
                names.iter().any(|name| read.contains(name)),
                "{line}: {read}"
            );
        }
    }
}
