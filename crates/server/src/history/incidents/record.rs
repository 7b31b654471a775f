//! One change of an incident as it is kept, and back.

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};

use kubecrier_history::Record;
use kubecrier_incidents::{Incident, Transition};
use kubecrier_k8s::{Contexts, StoredIncident, StoredWords, keep_incident};

/// Set if logs were switched off when it was kept.
const WITHOUT_LOGS: u8 = 1;

/// What a record says about an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// It was open when this server began to look.
    Open,
    Opened,
    Changed,
    Resolved,
    /// It was open before, and was not any more when this server looked again.
    Gone,
}

/// The record of what happened to an incident at a time.
pub(super) fn of_incident(
    incident: &Incident,
    moment: Moment,
    at: Timestamp,
    after: Option<SignedDuration>,
    words: StoredWords,
) -> Record {
    let time = at.as_millisecond();
    Record {
        time,
        version: 0,
        flags: match words {
            StoredWords::MayBeOfLogs => 0,
            StoredWords::WithoutLogs => WITHOUT_LOGS,
        },
        id: format!("{}:{}:{time}", incident.id, moment.as_str()),
        namespace: incident.object.namespace.to_string(),
        kind: moment.as_str().to_owned(),
        reason: incident.detector.to_owned(),
        object_kind: incident.object.kind.to_string(),
        object_name: incident.id.clone(),
        value: Bytes::from(keep_incident(incident, after)),
    }
}

/// The record of a transition.
pub(super) fn of_transition(transition: &Transition, at: Timestamp, words: StoredWords) -> Record {
    match transition {
        Transition::Opened(incident) => of_incident(incident, Moment::Opened, at, None, words),
        Transition::Changed(incident) => of_incident(incident, Moment::Changed, at, None, words),
        Transition::Resolved { incident, after } => {
            of_incident(incident, Moment::Resolved, at, Some(*after), words)
        }
    }
}

/// The incident of a record, unless it must not be shown now.
pub(super) fn to_incident(record: &Record, contexts: &Contexts) -> Option<StoredIncident> {
    let words = if record.flags & WITHOUT_LOGS == 0 {
        StoredWords::MayBeOfLogs
    } else {
        StoredWords::WithoutLogs
    };
    contexts.stored_incident(&record.value, words)
}

// === impl Moment ===

impl Moment {
    const ALL: [Self; 5] = [
        Self::Open,
        Self::Opened,
        Self::Changed,
        Self::Resolved,
        Self::Gone,
    ];

    /// Its name in records.
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Opened => "opened",
            Self::Changed => "changed",
            Self::Resolved => "resolved",
            Self::Gone => "gone",
        }
    }

    /// What a record says.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|moment| moment.as_str() == record.kind)
    }

    /// Whether the incident is over then.
    pub(super) fn is_end(self) -> bool {
        match self {
            Self::Open | Self::Opened | Self::Changed => false,
            Self::Resolved | Self::Gone => true,
        }
    }
}
