//! An Event as the API server sends it. Any client may write one, with any times: the API
//! server accepts dates that the calendar here does not have. No single event may keep the
//! others of a list or a watch from being read, so an invalid time counts as absent, and
//! fields that are not needed are not parsed.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// The fields of an Event that are needed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireEvent {
    #[serde(deserialize_with = "meta")]
    pub(crate) metadata: ObjectMeta,
    pub(super) involved_object: ObjectReference,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) count: Option<i32>,
    #[serde(deserialize_with = "time")]
    pub(super) first_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub(super) last_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub(super) event_time: Option<Timestamp>,
    pub(super) series: Option<WireSeries>,
    pub(super) source: Option<EventSource>,
    pub(super) reporting_component: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireSeries {
    pub(super) count: Option<i32>,
    #[serde(deserialize_with = "time")]
    pub(super) last_observed_time: Option<Timestamp>,
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

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
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
