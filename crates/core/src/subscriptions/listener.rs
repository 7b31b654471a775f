//! The seam between a watch and its subscribers.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{Event, access::Viewer};

/// A subscriber of a watch. Its methods run on the watch's task: none may block.
pub trait Listener: Send + Sync + 'static {
    /// Whether the event may match, without its labels. Labels cost a request, which is made
    /// only if some subscriber wants the event. May be called several times for one event,
    /// so the answer depends on nothing else.
    fn wants(&self, event: &Event) -> bool;

    /// What the subscriber needs the labels of the involved object for. The same answer
    /// at any time.
    fn label_use(&self) -> LabelUse {
        LabelUse::Shown
    }

    /// Through whose eyes the subscriber sees. The same answer at any time. A user gets only
    /// what it may read, and labels of involved objects only if it may read those.
    fn viewer(&self) -> Viewer {
        Viewer::Everything
    }

    /// Delivers the wanted events, with their labels, in order.
    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]);

    /// Tells that events of this namespace may not be read any more.
    fn on_withdrawn(&self, _namespace: &str) {}

    /// Delivers a change of status of one of the subscriber's watches.
    fn on_status(&self, watch: u64, status: &WatchStatus);
}

/// What labels are needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelUse {
    /// Nothing.
    None,
    /// They are shown; labels of some minutes ago are good enough.
    Shown,
    /// They decide what is delivered, so that a change counts soon.
    Matched,
}

/// Change of status of a watch, as far as a subscriber has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchStatus {
    /// Several attempts in a row to re-establish the watch failed; it goes on trying.
    Degraded {
        /// Error of the last attempt.
        error: String,
    },
    /// The watch is established again.
    Recovered,
    /// The labels of objects of a kind cannot be read, and the subscriber selects by labels.
    Unlabelled {
        /// Kind of the objects.
        kind: String,
        /// Explanation for a person.
        detail: String,
    },
    /// The right to read events of a namespace is gone: they are not told any more, and those
    /// that waited are dropped.
    Withdrawn {
        /// The namespace.
        namespace: String,
        /// Explanation for a person.
        detail: String,
    },
    /// Events may be missing: the resourceVersion of the watch had expired.
    Gap {
        /// Start of the time from which events may be missing.
        since: Timestamp,
        /// Explanation for a person.
        detail: String,
    },
}

// === impl WatchStatus ===

impl WatchStatus {
    /// The same for who may not know of everything that the watch sees: without numbers of events,
    /// and without the words of the API server, which name namespaces.
    #[must_use]
    pub fn for_user(&self) -> Self {
        match self {
            Self::Degraded { error: _ } => Self::Degraded {
                error: "the server cannot watch the events now, and goes on trying".to_owned(),
            },
            Self::Gap { since, detail: _ } => Self::Gap {
                since: *since,
                detail: "events may be missing: see events_list with since".to_owned(),
            },
            Self::Recovered | Self::Unlabelled { .. } | Self::Withdrawn { .. } => self.clone(),
        }
    }

    /// The same as this viewer may know it.
    #[must_use]
    pub fn seen_by(self, viewer: &Viewer) -> Self {
        match viewer {
            Viewer::Everything => self,
            Viewer::User(_) => self.for_user(),
        }
    }
}
