//! Payload of a feed entry: the `data` of a log message and the row of a poll are the same.

use jiff::Timestamp;
use mcp_notify::{Level, LogMessage, MessageTemplate, Notification, ResourceRef};
use serde::{Serialize, Serializer};

use super::{
    cursor::{ResumableText, ResumePoint},
    feed::{FeedEntry, FeedItem},
    ledger::SubscriptionId,
    listener::WatchStatus,
};
use crate::{event::EventPayload, faults::Report, filters::Mode, incident::IncidentPayload};

/// Logger of a watch's status.
const STATUS_LOGGER: &str = "kubernetes/subscription_error";

/// Payload of one entry.
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
    event: Option<EventPayload<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incident: Option<IncidentPayload<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unlabelled: Option<Unlabelled<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawn: Option<Withdrawn<'a>>,
}

/// The members that are the same in every payload of a subscription.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct First<'a> {
    pub(super) subscription_id: &'a SubscriptionId,
    pub(super) cluster: &'a str,
}

/// The members that no other payload has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Own<'a> {
    seq: u64,
    cursor: CursorText<'a>,
    #[serde(flatten)]
    report: Option<&'a Report>,
}

/// A [`Cursor`](super::cursor::Cursor), serialised without an allocation for its id.
#[derive(Debug)]
struct CursorText<'a>(&'a SubscriptionId, u64, Option<ResumePoint>);

/// Time from which events may be missing.
#[derive(Debug, Serialize)]
struct Gap<'a> {
    since: Timestamp,
    detail: &'a str,
}

/// Kind of objects whose labels cannot be read.
#[derive(Debug, Serialize)]
struct Unlabelled<'a> {
    kind: &'a str,
    detail: &'a str,
}

/// Namespace whose events may not be read any more.
#[derive(Debug, Serialize)]
struct Withdrawn<'a> {
    namespace: &'a str,
    detail: &'a str,
}

/// The templates of a subscription's messages, one for each level that they can have.
#[derive(Debug)]
pub(super) struct Templates(Vec<(Level, MessageTemplate)>);

/// The levels of a mode's messages, the most frequent first.
fn levels(mode: Mode) -> &'static [Level] {
    match mode {
        Mode::Events => &[Level::Info],
        Mode::Faults => &[Level::Warning],
        Mode::Incidents => &[Level::Warning, Level::Critical, Level::Info],
    }
}

// === impl Payload ===

impl<'a> Payload<'a> {
    /// The payload of an entry of a subscription.
    pub fn new(id: &'a SubscriptionId, cluster: &'a str, entry: &'a FeedEntry) -> Self {
        let mut payload = Self {
            first: First {
                subscription_id: id,
                cluster,
            },
            own: Own::new(id, entry),
            event_id: None,
            event: None,
            incident: None,
            error: None,
            degraded: None,
            gap: None,
            unlabelled: None,
            withdrawn: None,
        };
        match &entry.item {
            FeedItem::Event(event) | FeedItem::Fault(event, _) => {
                payload.event_id = Some(event.id());
                payload.event = Some(event.payload());
            }
            FeedItem::Incident(notice) => payload.incident = Some(notice.payload()),
            FeedItem::Notice(status) => payload.set_status(status),
        }
        if let FeedItem::Fault(_, report) = &entry.item {
            payload.own.report = Some(report);
        }
        payload
    }

    fn set_status(&mut self, status: &'a WatchStatus) {
        match status {
            WatchStatus::Degraded { error } => {
                self.error = Some(error);
                self.degraded = Some(true);
            }
            WatchStatus::Recovered => self.degraded = Some(false),
            WatchStatus::Unlabelled { kind, detail } => {
                self.unlabelled = Some(Unlabelled { kind, detail });
            }
            WatchStatus::Withdrawn { namespace, detail } => {
                self.withdrawn = Some(Withdrawn { namespace, detail });
            }
            WatchStatus::Gap { since, detail } => {
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
    /// The templates of messages in that mode.
    pub(super) fn templates(&self, mode: Mode, resource: &ResourceRef) -> Templates {
        let template = |level: Level| {
            MessageTemplate::new(level, mode.logger(), self)
                .expect("two strings serialise")
                .resource(resource.clone())
        };
        let levels = levels(mode).iter();
        Templates(levels.map(|level| (*level, template(*level))).collect())
    }
}

// === impl Templates ===

impl Templates {
    fn at(&self, level: Level) -> &MessageTemplate {
        let found = self.0.iter().find(|(one, _)| *one == level);
        let (_, template) = found.unwrap_or(&self.0[0]);
        template
    }
}

// === impl Own ===

impl<'a> Own<'a> {
    fn new(id: &'a SubscriptionId, entry: &FeedEntry) -> Self {
        Self {
            seq: entry.seq,
            cursor: CursorText(id, entry.seq, entry.resume),
            report: None,
        }
    }
}

impl Serialize for CursorText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(id, seq, resume) = self;
        match resume {
            Some(point) => serializer.serialize_str(ResumableText::new(id, *seq, point).as_str()),
            None => serializer.collect_str(&format_args!("{id}.{seq}")),
        }
    }
}

// === impl FeedEntry ===

impl FeedEntry {
    /// The log message of the entry. Events, faults and incidents are rendered from the
    /// subscription's templates, which hold what is the same in all of them; `first` is for the
    /// others.
    pub(super) fn message(
        &self,
        first: First<'_>,
        templates: &Templates,
        resource: &ResourceRef,
    ) -> Notification {
        let mut own = Own::new(first.subscription_id, self);
        let (level, logger) = self.item.template();
        let template = templates.at(level);
        match &self.item {
            FeedItem::Event(event) => template.render(&own, event.members().clone()),
            FeedItem::Fault(event, report) => {
                own.report = Some(report);
                template.render(&own, event.members().clone())
            }
            FeedItem::Incident(notice) => template.render(&own, notice.members().clone()),
            FeedItem::Notice(_) => {
                let payload = Payload::new(first.subscription_id, first.cluster, self);
                let message = LogMessage::new(level, &payload).logger(logger);
                message.resource(resource.clone()).into_notification()
            }
        }
    }
}

// === impl Item ===

impl FeedItem {
    /// Level and logger of the message.
    pub(super) fn template(&self) -> (Level, &'static str) {
        match self {
            Self::Event(_) => (Level::Info, Mode::Events.logger()),
            Self::Fault(..) => (Level::Warning, Mode::Faults.logger()),
            Self::Incident(notice) => (notice.level(), Mode::Incidents.logger()),
            Self::Notice(status) => match &**status {
                WatchStatus::Degraded { .. } => (Level::Error, STATUS_LOGGER),
                WatchStatus::Gap { .. }
                | WatchStatus::Unlabelled { .. }
                | WatchStatus::Withdrawn { .. } => (Level::Warning, STATUS_LOGGER),
                WatchStatus::Recovered => (Level::Info, STATUS_LOGGER),
            },
        }
    }

    /// Summary in one line.
    pub fn summary(&self) -> String {
        match self {
            Self::Event(event) => event.summary(),
            Self::Fault(event, report) => match report.headline() {
                Some(line) => format!("{} | {line}", event.summary()),
                None => event.summary(),
            },
            Self::Incident(notice) => notice.summary().to_owned(),
            Self::Notice(status) => match &**status {
                WatchStatus::Degraded { error } => format!("watch degraded: {error}"),
                WatchStatus::Recovered => "watch recovered".to_owned(),
                WatchStatus::Gap { detail, .. } => format!("gap: {detail}"),
                WatchStatus::Unlabelled { detail, .. } => format!("labels not known: {detail}"),
                WatchStatus::Withdrawn { detail, .. } => format!("not told any more: {detail}"),
            },
        }
    }
}
