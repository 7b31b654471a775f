//! What a subscriber reads: the `data` of a message, and an entry of a poll, which
//! are the same.

use std::sync::Arc;

use jiff::Timestamp;
use mcp_notify::{Level, SharedMembers};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    feed::{Entry, Item},
    filter::Mode,
    ledger::SubscriptionId,
    listener::Change,
};
use crate::faults::report::Report;

/// Who logs that a watch is not what it should be.
const TROUBLE: &str = "kubernetes/subscription_error";

/// One entry of a subscription.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload<'a> {
    subscription_id: &'a SubscriptionId,
    cluster: &'a str,
    seq: u64,
    cursor: Place<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a Arc<RawValue>>,
    #[serde(flatten)]
    report: Option<&'a Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap<'a>>,
}

/// A [`Cursor`](super::feed::Cursor), written without being made.
#[derive(Debug)]
struct Place<'a>(&'a SubscriptionId, u64);

/// Where something may be missing.
#[derive(Debug, Serialize)]
struct Gap<'a> {
    since: Timestamp,
    detail: &'a str,
}

// === impl Payload ===

impl<'a> Payload<'a> {
    /// An entry of that subscription of that cluster.
    pub fn new(id: &'a SubscriptionId, cluster: &'a str, entry: &'a Entry) -> Self {
        let mut payload = Self::own(id, cluster, entry);
        if let Item::Event(event) | Item::Fault(event, _) = &entry.item {
            payload.event_id = Some(event.id());
            payload.event = Some(event.json());
        }
        payload
    }

    /// The same without what is the same for everybody who gets the event.
    pub(super) fn own(id: &'a SubscriptionId, cluster: &'a str, entry: &'a Entry) -> Self {
        let mut payload = Self {
            subscription_id: id,
            cluster,
            seq: entry.seq,
            cursor: Place(id, entry.seq),
            event_id: None,
            event: None,
            report: None,
            error: None,
            degraded: None,
            gap: None,
        };
        match &entry.item {
            Item::Event(_) => {}
            Item::Fault(_, report) => payload.report = Some(report),
            Item::Notice(change) => payload.tell(change),
        }
        payload
    }

    fn tell(&mut self, change: &'a Change) {
        match change {
            Change::Degraded { error } => {
                self.error = Some(error);
                self.degraded = Some(true);
            }
            Change::Recovered => self.degraded = Some(false),
            Change::Gap { since, detail } => {
                self.gap = Some(Gap {
                    since: *since,
                    detail,
                });
            }
        }
    }
}

impl Serialize for Place<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(id, seq) = self;
        serializer.collect_str(&format_args!("{id}.{seq}"))
    }
}

// === impl Item ===

impl Item {
    /// How loud it is, and who says it.
    pub(super) fn voice(&self) -> (Level, &'static str) {
        match self {
            Self::Event(_) => (Level::Info, Mode::Events.logger()),
            Self::Fault(..) => (Level::Warning, Mode::Faults.logger()),
            Self::Notice(change) => match &**change {
                Change::Degraded { .. } => (Level::Error, TROUBLE),
                Change::Gap { .. } => (Level::Warning, TROUBLE),
                Change::Recovered => (Level::Info, TROUBLE),
            },
        }
    }

    /// What is the same for everybody who gets it.
    pub(super) fn members(&self) -> Option<&SharedMembers> {
        match self {
            Self::Event(event) | Self::Fault(event, _) => Some(event.members()),
            Self::Notice(_) => None,
        }
    }

    /// One line for a person.
    pub fn summary(&self) -> String {
        match self {
            Self::Event(event) => event.summary(),
            Self::Fault(event, report) => match report.headline() {
                Some(line) => format!("{} | {line}", event.summary()),
                None => event.summary(),
            },
            Self::Notice(change) => match &**change {
                Change::Degraded { error } => format!("watch degraded: {error}"),
                Change::Recovered => "watch recovered".to_owned(),
                Change::Gap { detail, .. } => format!("gap: {detail}"),
            },
        }
    }
}
