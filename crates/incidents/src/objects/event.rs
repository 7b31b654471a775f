//! Events, as far as they explain a state.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use super::{Meta, nullable, time};

/// Something that was reported about an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    /// What every object has.
    pub metadata: Meta,
    /// What it is about.
    #[serde(deserialize_with = "nullable")]
    pub involved_object: Involved,
    /// `Normal` or `Warning`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: Box<str>,
    /// One word for programs.
    #[serde(deserialize_with = "nullable")]
    pub reason: Box<str>,
    /// A sentence for people.
    #[serde(deserialize_with = "nullable")]
    pub message: Box<str>,
    /// How often.
    #[serde(deserialize_with = "nullable")]
    pub count: i64,
    /// Since when.
    #[serde(deserialize_with = "time")]
    pub first_timestamp: Option<Timestamp>,
    /// The last time.
    #[serde(deserialize_with = "time")]
    pub last_timestamp: Option<Timestamp>,
    /// When newer reporters saw it first.
    #[serde(deserialize_with = "time")]
    pub event_time: Option<Timestamp>,
    /// How often newer reporters saw it.
    #[serde(deserialize_with = "nullable")]
    pub series: Series,
}

/// What an event is about.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Involved {
    /// As objects spell it.
    #[serde(deserialize_with = "nullable")]
    pub kind: Box<str>,
    /// Empty for objects of the whole cluster.
    #[serde(deserialize_with = "nullable")]
    pub namespace: Arc<str>,
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// Tells an object from a later one of the same name.
    #[serde(deserialize_with = "nullable")]
    pub uid: Box<str>,
}

/// How often an event was seen.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Series {
    /// How often.
    #[serde(deserialize_with = "nullable")]
    pub count: i64,
    /// The last time.
    #[serde(deserialize_with = "time")]
    pub last_observed_time: Option<Timestamp>,
}

// === impl Event ===

impl Event {
    /// Whether it is a warning.
    pub fn is_warning(&self) -> bool {
        &*self.kind == "Warning"
    }

    /// When it was seen first.
    pub fn first_seen(&self) -> Option<Timestamp> {
        let times = [self.first_timestamp, self.event_time];
        let first = times.into_iter().flatten().min();
        first.or(self.metadata.creation_timestamp)
    }

    /// How often it was seen.
    pub fn times_seen(&self) -> i64 {
        self.count.max(self.series.count).max(1)
    }

    /// When it was seen last.
    pub fn last_seen(&self) -> Option<Timestamp> {
        let times = [
            self.last_timestamp,
            self.series.last_observed_time,
            self.event_time,
        ];
        let last = times.into_iter().flatten().max();
        last.or(self.metadata.creation_timestamp)
    }
}
