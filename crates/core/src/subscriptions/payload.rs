//! What a subscriber reads: the `data` of a message, and an entry of a poll, which
//! are the same.

use jiff::Timestamp;
use mcp_notify::{About, Level, LogMessage, Notification, Voice};
use serde::{Serialize, Serializer};

use super::{
    feed::{Entry, Item},
    ledger::SubscriptionId,
    listener::Change,
};
use crate::faults::report::Report;
use crate::{event::Wire, filters::Mode};

/// Who logs that a watch is not what it should be.
const TROUBLE: &str = "kubernetes/subscription_error";

/// One entry of a subscription.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload<'a> {
    #[serde(flatten)]
    first: First<'a>,
    #[serde(flatten)]
    own: Own<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Wire<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap<'a>>,
}

/// What is the same in every entry of a subscription.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct First<'a> {
    pub(super) subscription_id: &'a SubscriptionId,
    pub(super) cluster: &'a str,
}

/// What nobody else has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Own<'a> {
    seq: u64,
    cursor: Place<'a>,
    #[serde(flatten)]
    report: Option<&'a Report>,
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

fn level(mode: Mode) -> Level {
    match mode {
        Mode::Events => Level::Info,
        Mode::Faults => Level::Warning,
    }
}

// === impl Payload ===

impl<'a> Payload<'a> {
    /// An entry of that subscription of that cluster.
    pub fn new(id: &'a SubscriptionId, cluster: &'a str, entry: &'a Entry) -> Self {
        let mut payload = Self {
            first: First {
                subscription_id: id,
                cluster,
            },
            own: Own::new(id, entry.seq),
            event_id: None,
            event: None,
            error: None,
            degraded: None,
            gap: None,
        };
        match &entry.item {
            Item::Event(event) | Item::Fault(event, _) => {
                payload.event_id = Some(event.id());
                payload.event = Some(event.wire());
            }
            Item::Notice(change) => payload.tell(change),
        }
        if let Item::Fault(_, report) = &entry.item {
            payload.own.report = Some(report);
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

// === impl First ===

impl First<'_> {
    /// Says what comes in that mode.
    pub(super) fn voice(&self, mode: Mode, about: &About) -> Voice {
        Voice::new(level(mode), mode.logger(), self)
            .expect("two strings serialise")
            .about(about.clone())
    }
}

// === impl Own ===

impl<'a> Own<'a> {
    fn new(id: &'a SubscriptionId, seq: u64) -> Self {
        Self {
            seq,
            cursor: Place(id, seq),
            report: None,
        }
    }
}

impl Serialize for Place<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(id, seq) = self;
        serializer.collect_str(&format_args!("{id}.{seq}"))
    }
}

// === impl Entry ===

impl Entry {
    /// The message that says it. Most are said in the subscription's own voice, which
    /// knows by heart what is the same in all of them; `first` is for the others.
    pub(super) fn message(&self, first: First<'_>, voice: &Voice, about: &About) -> Notification {
        let mut own = Own::new(first.subscription_id, self.seq);
        match &self.item {
            Item::Event(event) => voice.say(&own, event.members().clone()),
            Item::Fault(event, report) => {
                own.report = Some(report);
                voice.say(&own, event.members().clone())
            }
            Item::Notice(_) => {
                let (level, logger) = self.item.voice();
                let payload = Payload::new(first.subscription_id, first.cluster, self);
                let message = LogMessage::new(level, &payload).logger(logger);
                message.about(about.clone()).into_notification()
            }
        }
    }
}

// === impl Item ===

impl Item {
    /// How loud it is, and who says it.
    pub(super) fn voice(&self) -> (Level, &'static str) {
        match self {
            Self::Event(_) => (level(Mode::Events), Mode::Events.logger()),
            Self::Fault(..) => (level(Mode::Faults), Mode::Faults.logger()),
            Self::Notice(change) => match &**change {
                Change::Degraded { .. } => (Level::Error, TROUBLE),
                Change::Gap { .. } => (Level::Warning, TROUBLE),
                Change::Recovered => (Level::Info, TROUBLE),
            },
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
