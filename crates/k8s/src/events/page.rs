//! A page of events, read as it is needed: of a namespace full of events a list shows fifty,
//! so of the others only what decides about them is parsed, and nothing of them is copied.

use std::fmt;

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    convert::SeenTimes,
    wire::{FieldText, time},
};
use crate::allowed::{ObjectRef, ReadScope};

/// The metadata of a list, which comes before its items.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageMeta {
    pub(super) resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

/// What of an event decides whether a list shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct EventHead<'a> {
    #[serde(borrow)]
    metadata: HeadMeta<'a>,
    #[serde(borrow)]
    involved_object: HeadReference<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: FieldText<'a>,
    #[serde(borrow)]
    pub(super) reason: FieldText<'a>,
    #[serde(deserialize_with = "time")]
    first_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    last_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    event_time: Option<Timestamp>,
    series: Option<HeadSeries>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadMeta<'a> {
    #[serde(borrow)]
    resource_version: FieldText<'a>,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadReference<'a> {
    #[serde(borrow)]
    api_version: FieldText<'a>,
    #[serde(borrow)]
    kind: FieldText<'a>,
    #[serde(borrow)]
    name: FieldText<'a>,
    #[serde(borrow)]
    namespace: FieldText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadSeries {
    #[serde(deserialize_with = "time")]
    last_observed_time: Option<Timestamp>,
}

/// Reads a page: first its metadata, then each event with its text. Returns the metadata.
pub(super) fn read<'a>(
    page: &'a [u8],
    on_meta: impl FnOnce(&PageMeta),
    on_event: impl FnMut(EventHead<'a>, &'a RawValue) -> serde_json::Result<()>,
) -> serde_json::Result<PageMeta> {
    let mut reader = serde_json::Deserializer::from_slice(page);
    let meta = reader.deserialize_map(PageVisitor { on_meta, on_event })?;
    reader.end()?;
    Ok(meta)
}

struct PageVisitor<M, E> {
    on_meta: M,
    on_event: E,
}

struct Items<E>(E);

// === impl PageMeta ===

impl PageMeta {
    /// The token of the next page.
    pub(super) fn next(&self) -> Option<&str> {
        let token = self.continue_token.as_deref();
        token.filter(|token| !token.is_empty())
    }
}

// === impl EventHead ===

impl EventHead<'_> {
    pub(super) fn times(&self) -> SeenTimes {
        SeenTimes {
            created: self.metadata.creation_timestamp,
            first: self.first_timestamp,
            last: self.last_timestamp,
            event_time: self.event_time,
            observed: (self.series.as_ref()).and_then(|series| series.last_observed_time),
        }
    }

    pub(super) fn version(&self) -> Option<u64> {
        self.metadata.resource_version.as_str().parse().ok()
    }

    pub(super) fn about_kind(&self) -> &str {
        self.involved_object.kind.as_str()
    }

    pub(super) fn about_name(&self) -> &str {
        self.involved_object.name.as_str()
    }

    /// Whether it is about an object that must not be shown.
    pub(super) fn is_hidden(&self, scope: &ReadScope) -> bool {
        let about = &self.involved_object;
        scope.hides_some()
            && scope.hides(ObjectRef {
                api_version: about.api_version.as_str(),
                kind: about.kind.as_str(),
                namespace: about.namespace.as_str(),
                name: about.name.as_str(),
            })
    }
}

// === impl PageVisitor ===

impl<'de, M, E> Visitor<'de> for PageVisitor<M, E>
where
    M: FnOnce(&PageMeta),
    E: FnMut(EventHead<'de>, &'de RawValue) -> serde_json::Result<()>,
{
    type Value = PageMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PageMeta, A::Error> {
        let Self {
            on_meta,
            mut on_event,
        } = self;
        let mut on_meta = Some(on_meta);
        let mut meta = PageMeta::default();
        while let Some(key) = map.next_key::<FieldText<'de>>()? {
            match key.as_str() {
                "metadata" => {
                    meta = map.next_value()?;
                    if let Some(on_meta) = on_meta.take() {
                        on_meta(&meta);
                    }
                }
                "items" => map.next_value_seed(Items(&mut on_event))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(meta)
    }
}

// === impl Items ===

impl<'de, E> DeserializeSeed<'de> for Items<E>
where
    E: FnMut(EventHead<'de>, &'de RawValue) -> serde_json::Result<()>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, E> Visitor<'de> for Items<E>
where
    E: FnMut(EventHead<'de>, &'de RawValue) -> serde_json::Result<()>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("events")
    }

    /// A list without items may say `null`.
    fn visit_unit<R>(self) -> Result<(), R> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        use serde::de::Error;
        while let Some(text) = items.next_element::<&'de RawValue>()? {
            let head = serde_json::from_str(text.get()).map_err(A::Error::custom)?;
            (self.0)(head, text).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}
