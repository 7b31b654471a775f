//! The conversion of an Event. Whoever may create events writes them, so its times, sizes and
//! texts are checked here, once, before anything is sorted, filtered or delivered by them.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::{SignedDuration, Timestamp};
use kubecrier_core::{Event, EventFields, InvolvedObject, Labels};
use kubecrier_redact::Redactor;

use super::wire::{CutText, WireEvent};
use crate::identity;

/// The longest message. The newer Events API has a limit of 1 KiB, the older one has none.
const MESSAGE_BYTES_MAX: usize = 4096;

/// What is read of a message: more than is shown, so that no secret is split at the end of what
/// is shown.
pub(super) const MESSAGE_BYTES_READ: usize = 2 * MESSAGE_BYTES_MAX;

/// Labels that selectors match, and that are shown: an object may have a megabyte of them.
const LABELS_MAX: usize = 512;
const LABELS_SHOWN_MAX: usize = 64;

/// How far the clocks of reporters may be ahead.
const SKEW_MAX: SignedDuration = SignedDuration::from_mins(5);

/// Redacts one field.
type Convert = for<'a> fn(&Redactor, &'a str) -> Cow<'a, str>;

/// Converts an event of the API. Names stay as they are, free text is redacted and cut. Its
/// labels are those of the event object until the labels of the involved object are known.
pub(crate) fn to_event(event: WireEvent, redactor: &Redactor) -> Event {
    let times = Times::of(&event, Timestamp::now());
    let shown = |convert: Convert, text: Option<String>| {
        let text = text.unwrap_or_default();
        match convert(redactor, &text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    };
    let object = event.involved_object;
    let reporter = event.source.and_then(|source| source.component);
    let labels = labels(event.metadata.labels.unwrap_or_default(), redactor);
    let fields = EventFields {
        uid: event.metadata.uid.unwrap_or_default(),
        version: (event.metadata.resource_version).and_then(|text| text.parse().ok()),
        namespace: shown(identity::name, event.metadata.namespace),
        timestamp: times.last,
        kind: shown(identity::word, event.kind),
        reason: shown(identity::word, event.reason),
        message: message(redactor, event.message),
        involved: InvolvedObject {
            api_version: shown(identity::api_version, object.api_version),
            kind: shown(identity::word, object.kind),
            name: shown(identity::name, object.name),
            namespace: shown(identity::name, object.namespace),
            uid: shown(identity::name, object.uid),
            field_path: shown(identity::field_path, object.field_path),
        },
        count: times.count,
        first_seen: times.first,
        source: shown(identity::name, reporter.or(event.reporting_component)),
    };
    Event {
        labels,
        ..fields.into()
    }
}

fn message(redactor: &Redactor, CutText { text, left_out }: CutText) -> String {
    match identity::bounded_part(redactor, &text, left_out, MESSAGE_BYTES_MAX) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    }
}

/// Labels, with a form to show: the keys are names, and a value may be a secret.
pub(crate) fn labels(raw: BTreeMap<String, String>, redactor: &Redactor) -> Labels {
    if raw.is_empty() {
        return Labels::default();
    }
    let raw: BTreeMap<_, _> = raw.into_iter().take(LABELS_MAX).collect();
    let shown = identity::labels(redactor, raw.iter().take(LABELS_SHOWN_MAX));
    Labels::new(raw, shown)
}

/// The latest time that is believed of an object that was created then. Later times count as
/// absent: an event of the year 2099 would be the newest for ever. The API server itself sets
/// the time of creation, so a cluster whose clock is ahead keeps its order.
pub(crate) fn latest_believed(created: Option<Timestamp>, now: Timestamp) -> Timestamp {
    created.unwrap_or(now).max(now) + SKEW_MAX
}

/// When and how often an event was seen: two generations of the API have different fields
/// for it.
pub(super) struct Times {
    pub(super) first: Option<Timestamp>,
    pub(super) last: Timestamp,
    pub(super) count: i32,
}

/// The times that an event has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenTimes {
    pub(super) created: Option<Timestamp>,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    pub(super) event_time: Option<Timestamp>,
    /// The latest of a series.
    pub(super) observed: Option<Timestamp>,
}

// === impl Times ===

impl Times {
    /// The times of an event that is received `now`.
    pub(super) fn of(event: &WireEvent, now: Timestamp) -> Self {
        let series = event.series.as_ref();
        let times = SeenTimes {
            created: (event.metadata.creation_timestamp.as_ref()).map(|time| time.0),
            first: event.first_timestamp,
            last: event.last_timestamp,
            event_time: event.event_time,
            observed: series.and_then(|series| series.last_observed_time),
        };
        let times = times.believed(now);
        Self {
            first: times.first.or(times.event_time).or(times.created),
            last: times.latest(now),
            count: (series.and_then(|series| series.count))
                .or(event.count)
                .unwrap_or(1),
        }
    }
}

// === impl SeenTimes ===

impl SeenTimes {
    /// Without those that are yet to come.
    pub(super) fn believed(self, now: Timestamp) -> Self {
        let latest = latest_believed(self.created, now);
        let believed = |time: Option<Timestamp>| time.filter(|time| *time <= latest);
        Self {
            created: self.created,
            first: believed(self.first),
            last: believed(self.last),
            event_time: believed(self.event_time),
            observed: believed(self.observed),
        }
    }

    /// The latest occurrence: a series goes on after eventTime, which is its first.
    pub(super) fn latest(self, now: Timestamp) -> Timestamp {
        (self.observed)
            .or(self.last)
            .or(self.event_time)
            .or(self.first)
            .or(self.created)
            .unwrap_or(now)
    }
}
