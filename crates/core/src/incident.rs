//! Incidents as clients are notified of them: serialised once for all subscribers.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kubecrier_incidents::{Change, Effect, Incident, Severity, Transition, objects::ObjectRef};
use mcp_notify::{Level, SharedMembers};
use serde::Serialize;

use crate::{access::Gate, duration};

/// Objects that are named as hurt; the rest is a number.
pub const EFFECTS_MAX: usize = 20;

/// Changes that are named; the nearest come first.
const CHANGES_MAX: usize = 5;

/// What happened to an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IncidentTransition {
    /// It has held for long enough.
    Opened,
    /// Its severity, its cause or its extent is another.
    Changed,
    /// It is over.
    Resolved,
}

/// An incident that was opened, changed or resolved.
#[derive(Clone, Debug)]
pub struct IncidentNotice {
    transition: IncidentTransition,
    incident: Incident,
    at: Timestamp,
    duration: Option<SignedDuration>,
    summary: String,
    members: SharedMembers,
    gate: Option<Arc<Gate>>,
}

/// The payload of a notice.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IncidentPayload<'a> {
    transition: IncidentTransition,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_seconds: Option<i64>,
    #[serde(flatten)]
    incident: IncidentSummary<'a>,
}

/// An incident as every answer shows it: as many effects and changes as a reader takes in.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IncidentSummary<'a> {
    id: &'a str,
    severity: Severity,
    object: &'a ObjectRef,
    headline: &'a str,
    since: Timestamp,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    why: &'a str,
    detector: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    effects: &'a [Effect],
    #[serde(skip_serializing_if = "is_zero")]
    effects_omitted: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [Change],
}

/// The members of a message.
#[derive(Serialize)]
struct Members<'a> {
    incident: IncidentPayload<'a>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The level of messages about an incident. Its end has the level of its beginning, so that
/// who was woken by the one is told of the other.
pub fn level(severity: Severity) -> Level {
    match severity {
        Severity::Info => Level::Info,
        Severity::Warning => Level::Warning,
        Severity::Critical => Level::Critical,
    }
}

/// A length of time in one or two units, such as `4m12s`.
pub fn length(time: SignedDuration) -> String {
    duration::short(time.try_into().unwrap_or_default())
}

// === impl IncidentNotice ===

impl IncidentNotice {
    /// The notice of a transition that was seen at that time.
    pub fn new(transition: &Transition, at: Timestamp) -> Self {
        let (transition, incident, duration) = match transition {
            Transition::Opened(incident) => (IncidentTransition::Opened, incident, None),
            Transition::Changed(incident) => (IncidentTransition::Changed, incident, None),
            Transition::Resolved { incident, after } => {
                (IncidentTransition::Resolved, incident, Some(*after))
            }
        };
        let mut notice = Self {
            transition,
            incident: incident.clone(),
            at,
            duration,
            summary: String::new(),
            members: SharedMembers::default(),
            gate: None,
        };
        notice.summary = notice.summarise();
        let members = Members {
            incident: notice.payload(),
        };
        // Texts, numbers and times always serialise.
        notice.members = SharedMembers::new(&members).unwrap_or_default();
        notice
    }

    /// The same for a user, who has to have these rights when it is sent or read.
    #[must_use]
    pub fn gated(mut self, gate: Gate) -> Self {
        self.gate = Some(Arc::new(gate));
        self
    }

    /// What its reader has to be allowed; none if it was not made for a user.
    pub fn gate(&self) -> Option<&Arc<Gate>> {
        self.gate.as_ref()
    }

    /// What happened.
    pub fn transition(&self) -> IncidentTransition {
        self.transition
    }

    /// The incident, as it was then.
    pub fn incident(&self) -> &Incident {
        &self.incident
    }

    /// When it happened.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// How long it took, if it is over.
    pub fn duration(&self) -> Option<SignedDuration> {
        self.duration
    }

    /// The object of the incident, and those that are hurt by it.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        let effects = self.incident.effects.iter();
        std::iter::once(&self.incident.object).chain(effects.map(|effect| &effect.object))
    }

    /// The level of the message.
    pub fn level(&self) -> Level {
        level(self.incident.severity)
    }

    /// The notice in one line.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The payload of the message.
    pub fn payload(&self) -> IncidentPayload<'_> {
        IncidentPayload {
            transition: self.transition,
            at: self.at,
            duration_seconds: self.duration.map(|time| time.as_secs()),
            incident: IncidentSummary::new(&self.incident),
        }
    }

    /// The members of the message, serialised.
    pub fn members(&self) -> &SharedMembers {
        &self.members
    }

    fn summarise(&self) -> String {
        let Incident {
            id,
            severity,
            headline,
            ..
        } = &self.incident;
        let word = severity.as_str();
        match (self.transition, self.duration) {
            (IncidentTransition::Resolved, after) => {
                let after = after.map(|after| format!(" after {}", length(after)));
                format!("resolved{} {id} {headline}", after.unwrap_or_default())
            }
            (IncidentTransition::Opened, _) => format!("opened {word} {id} {headline}"),
            (IncidentTransition::Changed, _) => format!("changed {word} {id} {headline}"),
        }
    }
}

// === impl IncidentSummary ===

impl<'a> IncidentSummary<'a> {
    /// The summary of an incident.
    pub fn new(incident: &'a Incident) -> Self {
        let shown = incident.effects.len().min(EFFECTS_MAX);
        Self {
            id: &incident.id,
            severity: incident.severity,
            object: &incident.object,
            headline: &incident.headline,
            since: incident.since,
            reason: &incident.reason,
            why: &incident.why,
            detector: incident.detector,
            effects: &incident.effects[..shown],
            effects_omitted: incident.effects.len() - shown,
            changes: &incident.changes[..incident.changes.len().min(CHANGES_MAX)],
        }
    }

    /// The same with fewer effects.
    #[must_use]
    pub fn with_effects(self, incident: &'a Incident, effects_max: usize) -> Self {
        let shown = incident.effects.len().min(effects_max);
        Self {
            effects: &incident.effects[..shown],
            effects_omitted: incident.effects.len() - shown,
            ..self
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
