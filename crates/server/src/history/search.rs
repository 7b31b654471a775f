//! What the API server has and what is kept, as one list: each event object once, with its
//! newest occurrence, newest first.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    eyes::{self, SeenEvents},
    fields::FieldSelector,
    record,
    resume::KeptGap,
};
use crate::output::age;
use kubecrier_core::{Event, access::Viewer};
use kubecrier_history::{Budget, Found, History, LogError, Query, Record, Stream, Wanted};
use kubecrier_k8s::{
    ClusterError, Contexts, ErrorKind, EventQuery, EventRow, ObjectName, Page, Remaining,
};

/// Gaps that are told one by one.
const GAPS_MAX: usize = 3;

/// What was found in the history.
#[derive(Debug, Default)]
struct StoredPage {
    events: Vec<Arc<Event>>,
    /// Whether there are more than the limit.
    is_cut: bool,
    caveats: Vec<String>,
}

/// The newest of any number of records, one for each event object, and the gaps among them.
struct Newest {
    limit: usize,
    gaps: Gaps,
    by_uid: HashMap<String, Event>,
    order: BTreeSet<(i64, String)>,
    is_cut: bool,
}

/// Adds what is kept to what the API server answered. A cluster that cannot be reached has a
/// history, too; one that refuses has none for this server.
pub(crate) async fn with_stored(
    (history, viewer): (&History, &Viewer),
    contexts: &Arc<Contexts>,
    context: &str,
    query: &EventQuery,
    listed: Result<Page<EventRow>, ClusterError>,
) -> Result<Page<EventRow>, ClusterError> {
    let (mut page, unreached) = match listed {
        Ok(page) => (page, None),
        // Of a user, a cluster that does not answer says nothing either.
        Err(error)
            if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout)
                && viewer.user().is_none() =>
        {
            let page = Page::new(Vec::new(), Remaining::Exactly(0));
            (page, Some(error))
        }
        Err(error) => return Err(error),
    };
    let mut stored = stored(history, contexts, context, query).await;
    let SeenEvents { events, undecided } = eyes::seen(viewer, context, stored.events).await;
    stored.events = events.into_iter().flatten().collect();
    if undecided > 0 {
        let caveat = "some of what was kept is left out: the cluster did not say in time whether you \
                      may read it";
        stored.caveats.push(caveat.to_owned());
    }
    if let Some(error) = unreached {
        // Without anything to show, the error is the answer.
        if stored.events.is_empty() {
            return Err(error);
        }
        page.caveat = Some(format!("only what was kept is shown: {error}"));
    }
    Ok(merge(page, stored, query.limit))
}

fn merge(page: Page<EventRow>, stored: StoredPage, limit: usize) -> Page<EventRow> {
    let Page {
        items,
        more,
        caveat,
    } = page;
    let mut by_uid: HashMap<String, Arc<Event>> = HashMap::with_capacity(items.len());
    let listed = items.into_iter().map(|EventRow(event)| event);
    for event in listed.chain(stored.events) {
        match by_uid.get(&event.uid) {
            Some(other) if other.timestamp >= event.timestamp => {}
            _ => drop(by_uid.insert(event.uid.clone(), event)),
        }
    }
    let mut events: Vec<_> = by_uid.into_values().collect();
    let key = |event: &Event| (event.timestamp, event.version);
    events.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.uid.cmp(&b.uid)));
    let over = events.len().saturating_sub(limit);
    events.truncate(limit);
    // What both have left out may be the same.
    let more = match more {
        Remaining::Exactly(0) if !stored.is_cut => Remaining::Exactly(over),
        Remaining::Exactly(left) | Remaining::AtLeast(left) => {
            Remaining::AtLeast(over.max(left).max(1))
        }
    };
    let caveats: Vec<_> = caveat.into_iter().chain(stored.caveats).collect();
    Page {
        items: events.into_iter().map(EventRow).collect(),
        more,
        caveat: (!caveats.is_empty()).then(|| caveats.join("; ")),
    }
}

async fn stored(
    history: &History,
    contexts: &Arc<Contexts>,
    context: &str,
    query: &EventQuery,
) -> StoredPage {
    let fields = query.field_selector.as_deref().map(FieldSelector::parse);
    let fields = match fields {
        Some(None) => {
            return StoredPage {
                caveats: vec![
                    "the history was not searched: it has not all fields of the fieldSelector"
                        .to_owned(),
                ],
                ..StoredPage::default()
            };
        }
        Some(fields) => fields,
        None => None,
    };
    let since = query
        .since
        .map(|since| (Timestamp::now() - since).as_millisecond());
    let involved = query.involved.clone();
    let search = Query {
        namespaces: query
            .namespace
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect(),
        kinds: query.types.clone(),
        reason_prefix: query.reason_prefix.clone(),
        object_kind: (involved.iter())
            .find(|object| object.exact)
            .map(|object| object.kind.clone()),
        object_name: involved.as_ref().map(|object| object.name.clone()),
        since,
        after_version: query.after,
        with_gaps: true,
    };
    let (history, contexts) = (history.clone(), Arc::clone(contexts));
    let (context, limit) = (context.to_owned(), query.limit);
    // Reads from the disk.
    let searching = tokio::task::spawn_blocking(move || {
        let mut newest = Newest::new(limit);
        let about = |event: &Event| {
            let is_kind = |object: &ObjectName| object.is_kind(&event.involved.kind);
            involved.as_ref().is_none_or(is_kind)
                && fields.as_ref().is_none_or(|fields| fields.selects(event))
        };
        let on_record = |_, record: Record| newest.offer(&record, &contexts, about);
        let found = history.search(
            &context,
            Stream::Events,
            &search,
            Budget::default(),
            on_record,
        );
        newest.into_page(found, since)
    });
    searching.await.unwrap_or_default()
}

// === impl Newest ===

impl Newest {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            gaps: Gaps::default(),
            by_uid: HashMap::new(),
            order: BTreeSet::new(),
            is_cut: false,
        }
    }

    /// Keeps the record if it is one of the newest; its value is read only then.
    fn offer(
        &mut self,
        record: &Record,
        contexts: &Contexts,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Wanted {
        if record.is_gap() {
            self.gaps.add(record);
            return self.wanted();
        }
        let (uid, _) = record.id.rsplit_once(':').unwrap_or((&record.id, ""));
        let before = self
            .by_uid
            .get(uid)
            .map(|event| event.timestamp.as_millisecond());
        if before.is_none_or(|before| before < record.time)
            && let Some(event) = record::to_event(record, contexts)
            && is_wanted(&event)
        {
            if let Some(before) = before {
                self.order.remove(&(before, uid.to_owned()));
            }
            self.order
                .insert((event.timestamp.as_millisecond(), uid.to_owned()));
            self.by_uid.insert(uid.to_owned(), event);
            if self.order.len() > self.limit
                && let Some((_, oldest)) = self.order.pop_first()
            {
                self.by_uid.remove(&oldest);
                self.is_cut = true;
            }
        }
        self.wanted()
    }

    fn wanted(&self) -> Wanted {
        match self.order.first() {
            Some((oldest, _)) if self.order.len() >= self.limit => Wanted::NotBefore(*oldest),
            _ => Wanted::All,
        }
    }

    fn into_page(self, found: Result<Found, LogError>, since: Option<i64>) -> StoredPage {
        // A search that has enough does not look further.
        let mut page = StoredPage {
            is_cut: self.is_cut || self.by_uid.len() >= self.limit,
            events: self.by_uid.into_values().map(Arc::new).collect(),
            caveats: Vec::new(),
        };
        match found {
            Err(error) => page.caveats.push(error.to_string()),
            Ok(found) => page.caveats = caveats(&found, since),
        }
        page.caveats.extend(self.gaps.into_caveats());
        page
    }
}

/// Gaps that were found, as they are told: the newest one by one.
#[derive(Default)]
pub(super) struct Gaps {
    told: Vec<String>,
    more: usize,
}

// === impl Gaps ===

impl Gaps {
    pub(super) fn add(&mut self, gap: &Record) {
        if self.told.len() == GAPS_MAX {
            self.more += 1;
        } else {
            self.told.extend(gap_text(gap));
        }
    }

    pub(super) fn into_caveats(self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("{} more gaps", self.more));
        self.told.into_iter().chain(more)
    }
}

/// A gap in a sentence.
fn gap_text(gap: &Record) -> Option<String> {
    let KeptGap {
        since,
        until,
        count,
        why,
    } = serde_json::from_slice(&gap.value).ok()?;
    let what = match count {
        Some(count) => format!("{count} records are missing"),
        None => "records may be missing".to_owned(),
    };
    Some(format!("from {since} to {until} {what}: {why}"))
}

/// What a reader should know about a search.
pub(super) fn caveats(found: &Found, since: Option<i64>) -> Vec<String> {
    let ago = |time: i64| age(Timestamp::from_millisecond(time).ok());
    let mut caveats = Vec::new();
    if let Some(time) = found.stopped_at {
        caveats.push(format!(
            "the history was searched back to {} ago: narrow by namespace, for, reason or since to see \
             what was before",
            ago(time)
        ));
    }
    match found.oldest {
        Some(oldest) if since.is_some_and(|since| since < oldest) => {
            caveats.push(format!("the history begins {} ago", ago(oldest)));
        }
        Some(_) | None => {}
    }
    if found.unreadable > 0 {
        caveats.push(format!(
            "{} blocks of the history are damaged and were left out",
            found.unreadable
        ));
    }
    caveats
}

#[cfg(test)]
mod tests;
