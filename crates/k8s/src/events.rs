//! Events, newest first.
//!
//! The API server keeps events in the order of their names and cannot sort, so
//! every matching one has to be looked at. What can be matched by the server is
//! (field selectors); what is kept here is only the newest.

mod wire;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::Api;
use serde::Serialize;

pub(super) use self::wire::WireEvent;
use super::{
    error::{ClusterError, Operation},
    list::{More, PAGE, Page, page},
    name::Name,
    target::{Cluster, ObjectName, list_params},
};
use kubecrier_core::{Event, InvolvedObject as EventObject, Labels};
use kubecrier_redact::Redactor;

/// A large cluster can hold a million events; a call looks at this many.
pub(super) const SCAN_MAX: usize = 20_000;

/// Which events.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    /// One namespace; all if none.
    pub namespace: Option<Name>,
    /// Only events about this object.
    pub involved: Option<ObjectName>,
    /// Only these types; all if empty.
    pub types: Vec<String>,
    /// Only reasons that begin so.
    pub reason_prefix: Option<String>,
    /// Only what was seen in that time.
    pub since: Option<Duration>,
    /// Only what has happened after that version of the cluster.
    pub after: Option<u64>,
    /// Further selectors, for the API server.
    pub field_selector: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// Where the event lives.
    pub namespace: String,
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub kind: String,
    /// One word.
    pub reason: String,
    /// What it is about.
    pub involved_object: InvolvedObject,
    /// How often it was seen.
    pub count: i32,
    /// When it was first seen.
    pub first_seen: Option<Timestamp>,
    /// A sentence.
    pub message: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvolvedObject {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if it has one.
    pub namespace: String,
}

impl Cluster {
    /// The newest events that match.
    pub async fn events(&self, query: &EventQuery) -> Result<Page<EventRow>, ClusterError> {
        Ok(self.events_and_version(query).await?.0)
    }

    /// The newest events that match, and the version of the cluster that they were
    /// seen at: to go on from, if it is a number.
    pub async fn events_and_version(
        &self,
        query: &EventQuery,
    ) -> Result<(Page<EventRow>, Option<u64>), ClusterError> {
        let operation = Operation {
            verb: "list",
            resource: "events",
            name: None,
            namespace: query.namespace.as_ref().map(Name::as_str),
            context: self.context(),
        };
        let api: Api<WireEvent> = match &query.namespace {
            Some(namespace) => Api::namespaced(self.client(), namespace.as_str()),
            None => Api::all(self.client()),
        };
        let selected = list_params(None, query.selector().as_deref());
        let oldest = query.since.map(|since| Timestamp::now() - since);
        let mut newest = Newest::new(query.limit);
        let mut scanned = 0;
        let mut from = None;
        let mut version = None;
        loop {
            let params = page(&selected, PAGE, from.take());
            let answer = match self.ask(&operation, api.list(&params)).await {
                Ok(answer) => answer,
                Err(error) if scanned == 0 => return Err(error),
                Err(error) => {
                    let page = newest.into_page(Some(early(scanned, &error)));
                    return Ok((page, version));
                }
            };
            scanned += answer.items.len();
            let seen_at = answer.metadata.resource_version.as_deref();
            version = version.or_else(|| seen_at?.parse().ok());
            answer
                .items
                .into_iter()
                .filter(|event| query.is_after(event))
                .map(row)
                .filter(|row| query.matches(row, oldest))
                .for_each(|row| newest.offer(row));
            match answer.metadata.continue_.filter(|token| !token.is_empty()) {
                None => return Ok((newest.into_page(None), version)),
                Some(_) if scanned >= SCAN_MAX => {
                    let page = newest.into_page(Some(early(scanned, &"there are more")));
                    return Ok((page, version));
                }
                Some(next) => from = Some(next),
            }
        }
    }
}

/// The API server hands events out in the order of their names, so a look that
/// ends early says nothing about which are the newest.
fn early(scanned: usize, why: &dyn std::fmt::Display) -> String {
    format!(
        "only {scanned} events were looked at, in the order of their names ({why}): newer ones may \
         be missing; name a namespace, for or types"
    )
}

// === impl EventQuery ===

impl EventQuery {
    /// What the API server can match for us.
    fn selector(&self) -> Option<String> {
        let mut terms: Vec<String> = self.field_selector.clone().into_iter().collect();
        if let [kind] = self.types.as_slice() {
            terms.push(format!("type={kind}"));
        }
        if let Some(object) = &self.involved {
            terms.push(format!("involvedObject.name={}", object.name));
            if object.exact {
                terms.push(format!("involvedObject.kind={}", object.kind));
            }
        }
        (!terms.is_empty()).then(|| terms.join(","))
    }

    /// Whether it has happened after the version that was named. What has no number
    /// is shown rather than lost.
    fn is_after(&self, event: &WireEvent) -> bool {
        let version = event.metadata.resource_version.as_deref();
        let version: Option<u64> = version.and_then(|text| text.parse().ok());
        let both = self.after.zip(version);
        both.is_none_or(|(after, is)| is > after)
    }

    /// What the API server cannot.
    fn matches(&self, row: &EventRow, oldest: Option<Timestamp>) -> bool {
        let about = |object: &ObjectName| {
            row.involved_object.name == object.name && object.is_kind(&row.involved_object.kind)
        };
        (self.types.is_empty() || self.types.contains(&row.kind))
            && self
                .reason_prefix
                .as_ref()
                .is_none_or(|prefix| row.reason.starts_with(prefix))
            && self.involved.as_ref().is_none_or(about)
            && oldest.is_none_or(|oldest| row.last_seen >= oldest)
    }
}

/// Keeps the newest of any number of events.
struct Newest {
    limit: usize,
    offered: usize,
    kept: BinaryHeap<Reverse<ByTime>>,
}

struct ByTime(EventRow);

// === impl Newest ===

impl Newest {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            offered: 0,
            kept: BinaryHeap::with_capacity(limit + 1),
        }
    }

    fn offer(&mut self, row: EventRow) {
        self.offered += 1;
        self.kept.push(Reverse(ByTime(row)));
        if self.kept.len() > self.limit {
            self.kept.pop();
        }
    }

    fn into_page(self, caveat: Option<String>) -> Page<EventRow> {
        let items: Vec<_> = self
            .kept
            .into_sorted_vec()
            .into_iter()
            .map(|kept| kept.0.0)
            .collect();
        let left = self.offered - items.len();
        let more = if caveat.is_some() {
            More::AtLeast(left)
        } else {
            More::Exactly(left)
        };
        Page {
            items,
            more,
            caveat,
        }
    }
}

// === impl ByTime ===

impl ByTime {
    fn key(&self) -> (Timestamp, &str, &str) {
        (
            self.0.last_seen,
            &self.0.involved_object.name,
            &self.0.reason,
        )
    }
}

impl Ord for ByTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for ByTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByTime {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByTime {}

fn row(event: WireEvent) -> EventRow {
    let times = Times::of(&event);
    let object = event.involved_object;
    EventRow {
        last_seen: times.last,
        namespace: event.metadata.namespace.unwrap_or_default(),
        kind: event.kind.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        involved_object: InvolvedObject {
            api_version: object.api_version.unwrap_or_default(),
            kind: object.kind.unwrap_or_default(),
            name: object.name.unwrap_or_default(),
            namespace: object.namespace.unwrap_or_default(),
        },
        count: times.count,
        first_seen: times.first,
        message: event.message.unwrap_or_default(),
    }
}

/// An event as subscribers see it; its labels are its own until better ones are
/// known.
pub(super) fn plain(event: WireEvent, redactor: &Redactor) -> Event {
    let times = Times::of(&event);
    let clean_text =
        |text: Option<String>| redactor.workload(&text.unwrap_or_default()).into_owned();
    let object = event.involved_object;
    let reporter = event.source.and_then(|source| source.component);
    let source = clean_text(reporter.or(event.reporting_component));
    Event {
        uid: event.metadata.uid.unwrap_or_default(),
        version: (event.metadata.resource_version).and_then(|text| text.parse().ok()),
        namespace: event.metadata.namespace.unwrap_or_default(),
        timestamp: times.last,
        kind: event.kind.unwrap_or_default(),
        reason: clean_text(event.reason),
        message: clean_text(event.message),
        labels: clean(event.metadata.labels.unwrap_or_default(), redactor),
        involved: EventObject {
            api_version: clean_text(object.api_version),
            kind: clean_text(object.kind),
            name: clean_text(object.name),
            namespace: clean_text(object.namespace),
            uid: object.uid.unwrap_or_default(),
            field_path: clean_text(object.field_path),
        },
        count: times.count,
        first_seen: times.first,
        source,
        ..Event::default()
    }
}

/// A label can hold a secret, too.
pub(super) fn clean(labels: BTreeMap<String, String>, redactor: &Redactor) -> Labels {
    let each = |(key, value): (String, String)| {
        let clean = |text: &str| redactor.workload(text).into_owned();
        (clean(&key), clean(&value))
    };
    Arc::new(labels.into_iter().map(each).collect())
}

/// When and how often an event was seen: two generations of its API say so in
/// different fields.
struct Times {
    first: Option<Timestamp>,
    last: Timestamp,
    count: i32,
}

// === impl Times ===

impl Times {
    fn of(event: &WireEvent) -> Self {
        let (first, began) = (event.first_timestamp, event.event_time);
        let created = (event.metadata.creation_timestamp.as_ref()).map(|time| time.0);
        let series = event.series.as_ref();
        // The latest sign of it: a series goes on after its first time, and eventTime
        // is the first.
        let last = series
            .and_then(|series| series.last_observed_time)
            .or(event.last_timestamp)
            .or(began)
            .or(first)
            .or(created)
            .unwrap_or(Timestamp::UNIX_EPOCH);
        Self {
            first: first.or(began).or(created),
            last,
            count: (series.and_then(|series| series.count))
                .or(event.count)
                .unwrap_or(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn parsed(mut event: Value) -> EventRow {
        event["involvedObject"] = json!({"kind": "Pod", "name": "web"});
        event["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z".into();
        row(serde_json::from_value(event).unwrap())
    }

    fn check_last_seen(event: Value, second: i64) {
        let expected: Timestamp = format!("2026-01-01T00:00:0{second}Z").parse().unwrap();
        assert_eq!(parsed(event).last_seen, expected);
    }

    #[test]
    fn the_latest_sign_of_an_event_is_its_time() {
        let (two, three) = ("2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z");
        let (four, five) = ("2026-01-01T00:00:04.000000Z", "2026-01-01T00:00:05.000000Z");
        check_last_seen(json!({}), 1);
        check_last_seen(json!({"firstTimestamp": two}), 2);
        check_last_seen(json!({"firstTimestamp": two, "eventTime": four}), 4);
        check_last_seen(json!({"lastTimestamp": three, "eventTime": four}), 3);
        let series = json!({"count": 7, "lastObservedTime": five});
        check_last_seen(json!({"lastTimestamp": three, "series": series}), 5);
    }

    /// What somebody writes into one event must not cost the others.
    #[test]
    fn a_time_that_is_none_counts_as_not_said() {
        let far = "9999-12-31T23:59:59Z";
        check_last_seen(json!({"lastTimestamp": far}), 1);
        let two = "2026-01-01T00:00:02Z";
        check_last_seen(json!({"lastTimestamp": far, "firstTimestamp": two}), 2);
        let micro = "9999-12-31T23:59:59.999999Z";
        check_last_seen(json!({"eventTime": micro, "lastTimestamp": two}), 2);
        check_last_seen(json!({"series": {"lastObservedTime": micro}}), 1);
        check_last_seen(json!({"lastTimestamp": null, "eventTime": null}), 1);
        let written = json!([{"manager": "somebody", "time": far}]);
        check_last_seen(json!({"metadata": {"managedFields": written}}), 1);
    }

    #[test]
    fn a_series_counts_for_itself() {
        let series = json!({"count": 7, "lastObservedTime": "2026-01-01T00:00:05.000000Z"});
        assert_eq!(parsed(json!({"series": series, "count": 2})).count, 7);
        assert_eq!(parsed(json!({"count": 2})).count, 2);
        assert_eq!(parsed(json!({})).count, 1);
    }

    #[test]
    fn the_api_server_matches_what_it_can() {
        let query = EventQuery {
            types: vec!["Warning".to_owned()],
            involved: Some(ObjectName::parse("deploy/web").unwrap()),
            ..EventQuery::default()
        };
        let expected = "type=Warning,involvedObject.name=web,involvedObject.kind=Deployment";
        assert_eq!(query.selector().unwrap(), expected);
        assert_eq!(EventQuery::default().selector(), None);
        let both = vec!["Normal".to_owned(), "Warning".to_owned()];
        assert_eq!(
            EventQuery {
                types: both,
                ..EventQuery::default()
            }
            .selector(),
            None
        );
    }

    proptest! {
        #[test]
        fn the_newest_come_first_and_the_rest_is_counted(
            seconds in prop::collection::vec(0..1000_i64, 0..60), limit in 1..20_usize,
        ) {
            let mut newest = Newest::new(limit);
            for second in &seconds {
                let mut row = parsed(json!({}));
                row.last_seen = Timestamp::from_second(*second).unwrap();
                newest.offer(row);
            }
            let page = newest.into_page(None);
            let shown: Vec<_> = page.items.iter().map(|row| row.last_seen.as_second()).collect();
            let mut expected = seconds.clone();
            expected.sort_unstable_by_key(|second| Reverse(*second));
            expected.truncate(limit);
            prop_assert_eq!(shown, expected);
            prop_assert_eq!(page.more, More::Exactly(seconds.len().saturating_sub(limit)));
        }
    }
}
