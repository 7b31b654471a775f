//! An Event as the API server sends it. Any client may write one, with any times: the API
//! server accepts dates that the calendar here does not have. No single event may keep the
//! others of a list or a watch from being read, so an invalid time counts as absent, and
//! fields that are not needed are not parsed.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::Event,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::Visitor};

use super::convert::MESSAGE_BYTES_READ;

/// What is read of a field that should be a name or a word.
const NAME_BYTES_READ: usize = 1024;

/// The fields of an Event that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireEvent {
    #[serde(deserialize_with = "meta")]
    pub(crate) metadata: ObjectMeta,
    pub(super) involved_object: WireReference,
    #[serde(rename = "type", deserialize_with = "short")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "short")]
    pub(super) reason: Option<String>,
    #[serde(deserialize_with = "message")]
    pub(super) message: CutText,
    pub(super) count: Option<i32>,
    #[serde(deserialize_with = "time")]
    pub(super) first_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub(super) last_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub(super) event_time: Option<Timestamp>,
    pub(super) series: Option<WireSeries>,
    pub(super) source: Option<WireSource>,
    #[serde(deserialize_with = "short")]
    pub(super) reporting_component: Option<String>,
}

/// The beginning of a text: a list keeps hundreds of events, and a message may have a
/// megabyte.
#[derive(Clone, Debug, Default)]
pub(super) struct CutText {
    pub(super) text: String,
    /// Bytes that were left out.
    pub(super) left_out: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireSeries {
    pub(super) count: Option<i32>,
    #[serde(deserialize_with = "time")]
    pub(super) last_observed_time: Option<Timestamp>,
}

/// The object that an event is about, in the words of its reporter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireReference {
    #[serde(deserialize_with = "short")]
    pub(super) api_version: Option<String>,
    #[serde(deserialize_with = "short")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "short")]
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "short")]
    pub(super) namespace: Option<String>,
    #[serde(deserialize_with = "short")]
    pub(super) uid: Option<String>,
    #[serde(deserialize_with = "short")]
    pub(super) field_path: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireSource {
    #[serde(deserialize_with = "short")]
    pub(super) component: Option<String>,
}

/// Metadata without `managedFields`, whose times the writers of the object choose.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
}

/// The text of a field, or none; borrowed where it has no escapes.
#[derive(Debug, Default)]
pub(super) struct FieldText<'a>(Option<Cow<'a, str>>);

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = FieldText::deserialize(from)?;
    Ok(text.0.and_then(|text| text.parse().ok()))
}

/// A field that should be a name or a word: no name is longer.
fn short<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = FieldText::deserialize(from)?;
    Ok(text.0.map(|text| cut(text, NAME_BYTES_READ).text))
}

fn message<'de, D: Deserializer<'de>>(from: D) -> Result<CutText, D::Error> {
    let text = FieldText::deserialize(from)?;
    Ok(cut(text.0.unwrap_or_default(), MESSAGE_BYTES_READ))
}

fn cut(text: Cow<'_, str>, bytes_max: usize) -> CutText {
    let end = text.floor_char_boundary(bytes_max);
    CutText {
        left_out: text.len() - end,
        text: match text {
            Cow::Borrowed(text) => text[..end].to_owned(),
            Cow::Owned(mut text) => {
                text.truncate(end);
                text
            }
        },
    }
}

fn meta<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let meta = Meta::deserialize(from)?;
    Ok(ObjectMeta {
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        labels: meta.labels,
        creation_timestamp: meta.creation_timestamp.map(Time),
        ..ObjectMeta::default()
    })
}

// === impl FieldText ===

impl FieldText<'_> {
    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'a, 'de: 'a> Deserialize<'de> for FieldText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = FieldText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_unit<E>(self) -> Result<FieldText<'de>, E> {
        Ok(FieldText(None))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<FieldText<'de>, E> {
        Ok(FieldText(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<FieldText<'de>, E> {
        Ok(FieldText(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_string<E>(self, text: String) -> Result<FieldText<'de>, E> {
        Ok(FieldText(Some(Cow::Owned(text))))
    }
}

impl Resource for WireEvent {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        <Event as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <Event as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <Event as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <Event as Resource>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
