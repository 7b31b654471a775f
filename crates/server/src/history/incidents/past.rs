//! The incidents of a time, each once with its newest state.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    super::search::{Gaps, caveats},
    record::{self, Moment},
};
use kubecrier_history::{Budget, History, Query, Record, Stream, Wanted};
use kubecrier_incidents::Incident;
use kubecrier_k8s::{Contexts, StoredIncident};

/// An incident as the history knows it last.
#[derive(Clone, Debug)]
pub(crate) struct PastIncident {
    stored: StoredIncident,
    pub(crate) state: PastState,
    /// How often it was there in the time that was asked for.
    pub(crate) occurrences: usize,
}

/// Whether an incident was over when it was last kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastState {
    /// It was not.
    Open,
    /// It was resolved then, after so long.
    Resolved {
        at: Timestamp,
        after: SignedDuration,
    },
    /// No server saw its end, which was then or before.
    GoneBy { at: Timestamp },
}

/// Incidents of a time.
#[derive(Debug, Default)]
pub(crate) struct PastIncidents {
    pub(crate) all: Vec<PastIncident>,
    /// What a reader should know: what is not kept any more, and what is missing.
    pub(crate) caveats: Vec<String>,
}

/// The newest record of an incident, and how many ends of it were seen.
struct Newest {
    record: Record,
    moment: Moment,
    ends: usize,
}

/// The incidents of a context that were open at any moment since then. Reads from the disk, on a
/// thread for that.
pub(crate) async fn search(
    history: &History,
    contexts: &Arc<Contexts>,
    context: &str,
    since: Timestamp,
) -> PastIncidents {
    let (history, contexts) = (history.clone(), Arc::clone(contexts));
    let context = context.to_owned();
    let reading =
        tokio::task::spawn_blocking(move || read(&history, &contexts, &context, since, None));
    reading.await.unwrap_or_default()
}

/// One incident by its id, as it was last.
pub(crate) async fn find(
    history: &History,
    contexts: &Arc<Contexts>,
    context: &str,
    id: &str,
) -> Option<PastIncident> {
    let (history, contexts) = (history.clone(), Arc::clone(contexts));
    let (context, id) = (context.to_owned(), id.to_owned());
    let reading = tokio::task::spawn_blocking(move || {
        read(&history, &contexts, &context, Timestamp::MIN, Some(id))
    });
    reading.await.ok()?.all.pop()
}

/// What is open as far as the history knows, by id.
pub(super) async fn open(
    history: &History,
    contexts: &Arc<Contexts>,
    context: &str,
) -> HashMap<String, Incident> {
    let past = search(history, contexts, context, Timestamp::now()).await;
    let open = past.all.into_iter();
    open.filter(|one| one.state == PastState::Open)
        .map(|one| (one.incident().id.clone(), one.stored.incident))
        .collect()
}

fn read(
    history: &History,
    contexts: &Contexts,
    context: &str,
    since: Timestamp,
    id: Option<String>,
) -> PastIncidents {
    // An incident may be open since long before: all that is kept is looked at, and few records
    // are incidents.
    let query = Query {
        with_gaps: id.is_none(),
        object_name: id,
        ..Query::default()
    };
    let mut newest: HashMap<String, Newest> = HashMap::new();
    let mut gaps = Gaps::default();
    let floor = since.as_millisecond();
    let on_record = |_, record: Record| {
        if record.is_gap() {
            if record.time >= floor {
                gaps.add(&record);
            }
        } else if let Some(moment) = Moment::of(&record) {
            let is_end = moment.is_end() && record.time >= floor;
            match newest.entry(record.object_name.clone()) {
                Entry::Occupied(mut known) => known.get_mut().ends += usize::from(is_end),
                Entry::Vacant(free) => drop(free.insert(Newest {
                    record,
                    moment,
                    ends: usize::from(is_end),
                })),
            }
        }
        Wanted::All
    };
    let found = history.search(
        context,
        Stream::Incidents,
        &query,
        Budget::default(),
        on_record,
    );
    let mut past = PastIncidents {
        all: (newest.into_values())
            .filter(|one| !one.moment.is_end() || one.record.time >= floor)
            .filter_map(|one| one.into_past(contexts))
            .collect(),
        caveats: Vec::new(),
    };
    match found {
        Err(error) => past.caveats.push(error.to_string()),
        Ok(found) => past.caveats = caveats(&found, Some(floor)),
    }
    past.caveats.extend(gaps.into_caveats());
    past
}

// === impl PastState ===

impl PastState {
    /// As data has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved { .. } | Self::GoneBy { .. } => "resolved",
        }
    }

    /// Adds when and after how long it was over to the row of an incident.
    pub(crate) fn describe(self, row: &mut Value) {
        match self {
            Self::Open => {}
            Self::Resolved { at, after } => {
                row["resolvedAt"] = json!(at);
                row["durationSeconds"] = json!(after.as_secs());
            }
            Self::GoneBy { at } => {
                row["resolvedAt"] = json!(at);
                row["resolvedAtOrBefore"] = json!(true);
            }
        }
    }
}

// === impl Newest ===

impl Newest {
    fn into_past(self, contexts: &Contexts) -> Option<PastIncident> {
        let stored = record::to_incident(&self.record, contexts)?;
        let at = Timestamp::from_millisecond(self.record.time).ok()?;
        let state = match self.moment {
            Moment::Open | Moment::Opened | Moment::Changed => PastState::Open,
            Moment::Resolved => PastState::Resolved {
                at,
                after: stored.after.unwrap_or_default(),
            },
            Moment::Gone => PastState::GoneBy { at },
        };
        Some(PastIncident {
            occurrences: self.ends + usize::from(!self.moment.is_end()),
            stored,
            state,
        })
    }
}

// === impl PastIncident ===

impl PastIncident {
    /// As it was then.
    pub(crate) fn incident(&self) -> &Incident {
        &self.stored.incident
    }

    /// The same, known to be over now, though nobody saw its end.
    pub(crate) fn gone_by(mut self, at: Timestamp) -> Self {
        if self.state == PastState::Open {
            self.state = PastState::GoneBy { at };
        }
        self
    }

    /// Whether it is one of a namespace.
    pub(crate) fn concerns(&self, namespace: &str) -> bool {
        self.stored.concerns(namespace)
    }
}

#[cfg(test)]
mod tests;
