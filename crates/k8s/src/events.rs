//! Events: the list of the newest. `convert` is the one conversion from the API's object to a
//! plain [`Event`].
//!
//! The API server returns events in the order of their names and cannot sort, so a list has
//! to read every event that matches. Field selectors narrow it on the server; only the
//! newest events are kept and converted. Most of the time goes into the API server's own
//! work, so it has the next page to work on (`pages`) while one is read (`page`). A scope with
//! thousands of events that is asked for again is answered from memory (`kept`).

mod convert;
mod kept;
mod page;
mod pages;
mod stored;
mod wire;

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

pub(super) use self::{
    convert::{labels, latest_believed, to_event},
    wire::WireEvent,
};
pub use self::{
    kept::EventLists,
    stored::{StoredEvent, StoredLabels},
};
use self::{page::EventHead, pages::EventPages};
use super::{
    allowed::{ObjectRef, ReadScope},
    client::{Cluster, ObjectName, list_params},
    each_namespace::Answers,
    error::{ClusterError, Operation},
    list::{Page, Remaining},
    name::Name,
};
use kubecrier_core::{Event, InvolvedObject};
use kubecrier_redact::Redactor;

/// Events that one list reads; a large cluster can hold a million.
pub(super) const SCAN_MAX: usize = 20_000;

/// Which events to list.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    /// Namespace; all if none.
    pub namespace: Option<Name>,
    /// Object that the events are about.
    pub involved: Option<ObjectName>,
    /// Types of events; all if empty.
    pub types: Vec<String>,
    /// Prefix of the reason.
    pub reason_prefix: Option<String>,
    /// Age of the latest occurrence, at most.
    pub since: Option<Duration>,
    /// Only events after this resourceVersion.
    pub after: Option<u64>,
    /// Further field selectors, for the API server.
    pub field_selector: Option<String>,
    /// Maximum number of events.
    pub limit: usize,
}

/// An event as a row of a list: serialises the fields that a list shows.
#[derive(Debug)]
pub struct EventRow(pub Arc<Event>);

/// An answer to a query, and what it took.
pub(super) struct ListedEvents {
    pub(super) page: Page<EventRow>,
    /// The resourceVersion of the list, if it is a number.
    version: Option<u64>,
    pub(super) scanned: ScanSize,
}

/// What the API server sent for a list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScanSize {
    events: usize,
    bytes: usize,
    /// Whether these were all events of one scope.
    complete: bool,
}

impl Cluster {
    /// The newest events that match.
    pub async fn events(&self, query: &EventQuery) -> Result<Page<EventRow>, ClusterError> {
        Ok(self.list_events(query).await?.page)
    }

    /// The newest events that match, and the resourceVersion of the list if it is a number:
    /// a later list can continue after it.
    pub async fn events_and_version(
        &self,
        query: &EventQuery,
    ) -> Result<(Page<EventRow>, Option<u64>), ClusterError> {
        let listed = self.list_events(query).await?;
        Ok((listed.page, listed.version))
    }

    async fn list_events(&self, query: &EventQuery) -> Result<ListedEvents, ClusterError> {
        let ask = async |namespace| self.events_in(namespace, query).await;
        let Answers { mut all, caveat } =
            self.each_namespace(query.namespace.as_ref(), ask).await?;
        if all.len() == 1 && caveat.is_none() {
            return Ok(all.remove(0));
        }
        // The oldest: a list that continues after it misses nothing.
        let version = (all.iter().map(|listed| listed.version)).min().flatten();
        let pages = Answers {
            all: all.into_iter().map(|listed| listed.page).collect(),
            caveat,
        };
        let mut page = pages.into_page(usize::MAX);
        page.items
            .sort_by_key(|EventRow(event)| Reverse(event.timestamp));
        page.more = page.more.plus(page.items.len().saturating_sub(query.limit));
        page.items.truncate(query.limit);
        Ok(ListedEvents {
            page,
            version,
            scanned: ScanSize::default(),
        })
    }

    async fn events_in(
        &self,
        namespace: Option<Name>,
        query: &EventQuery,
    ) -> Result<ListedEvents, ClusterError> {
        let operation = &Operation {
            verb: "list",
            resource: "events",
            name: None,
            namespace: namespace.as_ref().map(Name::as_str),
            context: self.context(),
        };
        let selected = list_params(None, query.selector().as_deref());
        let now = Timestamp::now();
        let oldest = query.since.map(|since| now - since);
        let mut newest = Newest::new(query.limit);
        let mut pages = EventPages::new(self, namespace.as_ref(), selected);
        let mut scanned = ScanSize::default();
        let mut version = None;
        let caveat = loop {
            let page = match pages.next(operation).await {
                Ok(Some(page)) => page,
                Ok(None) => break None,
                Err(error) if scanned.events == 0 => return Err(error),
                Err(error) => break Some(early(scanned.events, &error)),
            };
            scanned.bytes += page.len();
            let on_event = |head: EventHead<'_>, text: &RawValue| {
                scanned.events += 1;
                let last_seen = head.times().believed(now).latest(now);
                if query.is_after(head.version())
                    && oldest.is_none_or(|oldest| last_seen >= oldest)
                    && query.matches(&head)
                    && !head.is_hidden(self.scope())
                {
                    let parse = || serde_json::from_str(text.get());
                    newest.offer(last_seen, &head, parse)?;
                }
                Ok(())
            };
            let seen_at = pages.read(operation, &page, on_event)?;
            version = version.or(seen_at);
            if scanned.events >= SCAN_MAX && pages.has_more() {
                break Some(early(scanned.events, &"there are more"));
            }
        };
        scanned.complete = caveat.is_none() && namespace == query.namespace;
        Ok(ListedEvents {
            page: newest.into_page(caveat, self.redactor()),
            version,
            scanned,
        })
    }
}

/// The caveat of a list that ended early: the API server returns events in the order of
/// their names, so the newest may be among those that were not read.
fn early(scanned: usize, why: &dyn std::fmt::Display) -> String {
    format!(
        "only {scanned} events were looked at, in the order of their names ({why}): newer ones may \
         be missing; name a namespace, for or types"
    )
}

// === impl EventQuery ===

impl EventQuery {
    /// The conditions that the API server can select by.
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

    /// Whether an event is after the resourceVersion of the query. One without a number is
    /// shown rather than lost.
    fn is_after(&self, version: Option<u64>) -> bool {
        let both = self.after.zip(version);
        both.is_none_or(|(after, is)| is > after)
    }

    /// Whether an event of a list matches what the API server cannot select by.
    fn matches(&self, event: &EventHead<'_>) -> bool {
        let about = |object: &ObjectName| {
            event.about_name() == object.name && object.is_kind(event.about_kind())
        };
        self.matches_words(event.kind.as_str(), event.reason.as_str())
            && self.involved.as_ref().is_none_or(about)
    }

    /// Whether an event matches everything but the time and the field selector.
    fn admits(&self, event: &Event) -> bool {
        let kind = &event.involved.kind;
        let about = |object: &ObjectName| {
            // As the API server selects.
            let is_kind = if object.exact {
                *kind == object.kind
            } else {
                object.is_kind(kind)
            };
            event.involved.name == object.name && is_kind
        };
        self.is_after(event.version)
            && self.matches_words(&event.kind, &event.reason)
            && self.involved.as_ref().is_none_or(about)
    }

    fn matches_words(&self, kind: &str, reason: &str) -> bool {
        let prefix = self.reason_prefix.as_ref();
        (self.types.is_empty() || self.types.iter().any(|one| one == kind))
            && prefix.is_none_or(|prefix| reason.starts_with(prefix))
    }
}

fn text(field: Option<&String>) -> &str {
    field.map_or("", String::as_str)
}

// === impl WireEvent ===

impl WireEvent {
    /// Whether it is about an object that must not be shown.
    pub(super) fn is_hidden(&self, scope: &ReadScope) -> bool {
        let about = &self.involved_object;
        scope.hides_some()
            && scope.hides(ObjectRef {
                api_version: text(about.api_version.as_ref()),
                kind: text(about.kind.as_ref()),
                namespace: text(about.namespace.as_ref()),
                name: text(about.name.as_ref()),
            })
    }
}

// === impl EventRow ===

impl Serialize for EventRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Row<'a> {
            event_id: &'a str,
            last_seen: Timestamp,
            namespace: &'a str,
            #[serde(rename = "type")]
            kind: &'a str,
            reason: &'a str,
            involved_object: &'a InvolvedObject,
            count: i32,
            first_seen: Option<Timestamp>,
            #[serde(skip_serializing_if = "str::is_empty")]
            source: &'a str,
            message: &'a str,
        }

        let Self(event) = self;
        let row = Row {
            event_id: event.id(),
            last_seen: event.timestamp,
            namespace: &event.namespace,
            kind: &event.kind,
            reason: &event.reason,
            involved_object: &event.involved,
            count: event.count,
            first_seen: event.first_seen,
            source: &event.source,
            message: &event.message,
        };
        row.serialize(serializer)
    }
}

/// Keeps the newest of any number of events.
struct Newest {
    limit: usize,
    offered: usize,
    kept: BinaryHeap<Reverse<ByTime>>,
}

struct ByTime {
    last_seen: Timestamp,
    // Boxed, because a heap moves its elements often.
    event: Box<WireEvent>,
}

// === impl Newest ===

impl Newest {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            offered: 0,
            kept: BinaryHeap::with_capacity(limit + 1),
        }
    }

    /// Counts an event; it is parsed only if it is among the newest so far.
    fn offer(
        &mut self,
        last_seen: Timestamp,
        head: &EventHead<'_>,
        parse: impl FnOnce() -> serde_json::Result<WireEvent>,
    ) -> serde_json::Result<()> {
        self.offered += 1;
        let key = (last_seen, head.about_name(), head.reason.as_str());
        let oldest = self.kept.peek().filter(|_| self.kept.len() >= self.limit);
        if oldest.is_some_and(|Reverse(oldest)| oldest.key() >= key) {
            return Ok(());
        }
        let mut event = Box::new(parse()?);
        // A row does not show them.
        event.metadata.labels = None;
        self.kept.push(Reverse(ByTime { last_seen, event }));
        if self.kept.len() > self.limit {
            self.kept.pop();
        }
        Ok(())
    }

    /// Converts what was kept, newest first.
    fn into_page(self, caveat: Option<String>, redactor: &Redactor) -> Page<EventRow> {
        let items: Vec<_> = self
            .kept
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(kept)| EventRow(Arc::new(to_event(*kept.event, redactor))))
            .collect();
        let left = self.offered - items.len();
        let more = if caveat.is_some() {
            Remaining::AtLeast(left)
        } else {
            Remaining::Exactly(left)
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
            self.last_seen,
            text(self.event.involved_object.name.as_ref()),
            text(self.event.reason.as_ref()),
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

#[cfg(test)]
mod tests;
