//! What was wrong in a time: what is open and was resolved lately, and what the history has, as
//! one list.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{note_lines, row};
use crate::{
    history::incidents::{PastIncident, PastIncidents, PastState, search},
    incidents::{IncidentRead, is_at_least},
    output::{Output, ToolError, age},
    tools::{
        ToolContext,
        faults_get::{kept_incidents, may_be_kept},
    },
};
use kubecrier_core::incident;
use kubecrier_incidents::{Incident, Severity};
use kubecrier_k8s::{ClusterError, Name};
use kubecrier_redact::Redactor;

/// What a caller asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) in_context: Option<&'a str>,
    pub(super) namespace: Option<&'a Name>,
    pub(super) least: Option<Severity>,
    pub(super) since: Duration,
    pub(super) limit: usize,
}

/// The incidents of a time.
struct PastList {
    context: String,
    namespace: Option<String>,
    since: Timestamp,
    at: Timestamp,
    /// The newest first.
    lives: Vec<Life>,
    notes: Vec<String>,
}

/// An incident with its newest state.
struct Life {
    incident: Incident,
    state: PastState,
    /// Whether it is seen right now, and not only the last that is known.
    is_seen: bool,
    occurrences: usize,
}

pub(super) async fn list(
    context: ToolContext<'_>,
    asked: Asked<'_>,
    reading: Result<IncidentRead, ClusterError>,
) -> Result<Output, ToolError> {
    let name = context.contexts.resolve(asked.in_context)?;
    let since = Timestamp::now().checked_sub(asked.since);
    let since = since.unwrap_or(Timestamp::MIN);
    let history = kept_incidents(&context);
    let past = match history {
        Some(history) => search(history, context.contexts, &name, since).await,
        None if context.history.is_some() => PastIncidents {
            all: Vec::new(),
            caveats: vec![
                "only what is open and what was resolved within the last hour is known: incidents \
                 that were kept are not shown to callers that act as themselves"
                    .to_owned(),
            ],
        },
        None => PastIncidents {
            all: Vec::new(),
            caveats: vec![
                "without --history only what is open and what was resolved within the last hour \
                 is known"
                    .to_owned(),
            ],
        },
    };
    let (read, unread) = match reading {
        Ok(read) => (Some(read), None),
        Err(error) if history.is_some() && may_be_kept(&error) => (None, Some(error)),
        Err(error) => return Err(error.into()),
    };
    let list = PastList::new(name, &asked, since, past, read.as_ref());
    let Some(error) = unread else {
        return Ok(list.show(context.redactor, asked.limit, context.limits.output_bytes));
    };
    // Without anything to show, the error is the answer.
    if list.lives.is_empty() {
        return Err(error.into());
    }
    let list = list.with_note(format!("only what was kept is shown: {error}"));
    Ok(list.show(context.redactor, asked.limit, context.limits.output_bytes))
}

// === impl PastList ===

impl PastList {
    fn new(
        context: String,
        asked: &Asked<'_>,
        since: Timestamp,
        past: PastIncidents,
        read: Option<&IncidentRead>,
    ) -> Self {
        let at = read.map_or_else(Timestamp::now, IncidentRead::at);
        let mut by_id: HashMap<String, Life> = HashMap::new();
        let is_here = |one: &PastIncident| match asked.namespace {
            Some(namespace) => one.concerns(namespace.as_str()),
            None => true,
        };
        for one in past.all.into_iter().filter(is_here) {
            // The cluster does not have it any more.
            let one = match read {
                Some(_) => one.gone_by(at),
                None => one,
            };
            let life = Life {
                incident: one.incident().clone(),
                state: one.state,
                is_seen: false,
                occurrences: one.occurrences,
            };
            by_id.insert(life.incident.id.clone(), life);
        }
        for one in read.iter().flat_map(|read| read.resolved()) {
            let state = PastState::Resolved {
                at: one.at,
                after: one.after,
            };
            if one.at >= since {
                put(&mut by_id, &one.incident, state);
            }
        }
        for one in read.iter().flat_map(|read| read.open()) {
            put(&mut by_id, one, PastState::Open);
        }
        let mut lives: Vec<_> = by_id.into_values().collect();
        lives.retain(|life| is_at_least(&life.incident, asked.least));
        lives.sort_by(|a, b| b.order().cmp(&a.order()));
        let notes = read.iter().flat_map(|read| read.notes());
        let notes = notes.map(str::to_owned);
        Self {
            context,
            namespace: asked.namespace.map(|name| name.as_str().to_owned()),
            since,
            at,
            lives,
            notes: past.caveats.into_iter().chain(notes).collect(),
        }
    }

    fn with_note(mut self, note: String) -> Self {
        self.notes.insert(0, note);
        self
    }

    /// Renders as many incidents as fit, with the number of those that do not.
    fn show(&self, redactor: &Redactor, limit: usize, bytes_max: usize) -> Output {
        let (mut text, mut rows, mut bytes) = (String::new(), Vec::new(), 0);
        for life in &self.lives {
            let (line, row) = (life.line(), life.row());
            bytes += line.len() + row.to_string().len() + 2;
            // At least one: an empty answer would not say why.
            if rows.len() >= limit || (bytes > bytes_max && !rows.is_empty()) {
                break;
            }
            text.push_str(&line);
            rows.push(row);
        }
        let more = self.lives.len() - rows.len();
        if self.lives.is_empty() {
            let place = match &self.namespace {
                Some(name) => format!("namespace `{name}` of context `{}`", self.context),
                None => format!("context `{}`", self.context),
            };
            let ago = age(Some(self.since));
            text = format!("Nothing was wrong in {place} in the last {ago}, as far as is known.\n");
        }
        if more > 0 {
            text.push_str(&format!(
                "... {more} more; narrow by namespace, severity or since, or raise limit\n"
            ));
        }
        let notes: Vec<_> = self.notes.iter().map(String::as_str).collect();
        text.push_str(&note_lines(redactor, &notes));
        let mut data = Map::new();
        for (key, value) in [
            ("context", json!(self.context)),
            ("namespace", json!(self.namespace)),
            ("since", json!(self.since)),
            ("at", json!(self.at)),
            ("incidents", json!(rows)),
            ("more", json!(more)),
            ("notes", json!(self.notes)),
        ] {
            data.insert(key.to_owned(), value);
        }
        Output::new(redactor, text, data)
    }
}

/// Puts what is seen now over what is kept.
fn put(by_id: &mut HashMap<String, Life>, incident: &Incident, state: PastState) {
    let seen = |occurrences| Life {
        incident: incident.clone(),
        state,
        is_seen: true,
        occurrences,
    };
    match by_id.entry(incident.id.clone()) {
        Entry::Vacant(free) => drop(free.insert(seen(1))),
        Entry::Occupied(mut known) => {
            let known = known.get_mut();
            // What is kept may be of a time before it was there again.
            let is_next = match known.state {
                PastState::Open | PastState::GoneBy { .. } => false,
                PastState::Resolved { at, .. } => incident.since > at,
            };
            let is_older = match (known.state, state) {
                (PastState::Resolved { at: kept, .. }, PastState::Resolved { at, .. }) => at < kept,
                _ => false,
            };
            if !is_older {
                *known = seen(known.occurrences + usize::from(is_next));
            }
        }
    }
}

// === impl Life ===

impl Life {
    /// What is open comes first, then what ended last; of those, what began last.
    fn order(&self) -> (Timestamp, Timestamp, &str) {
        let ended = match self.state {
            PastState::Open => Timestamp::MAX,
            PastState::Resolved { at, .. } | PastState::GoneBy { at } => at,
        };
        (ended, self.incident.since, &self.incident.id)
    }

    fn line(&self) -> String {
        let Incident {
            headline,
            severity,
            reason,
            id,
            since,
            ..
        } = &self.incident;
        let reason = match &**reason {
            "" => String::new(),
            reason => format!(" {reason}"),
        };
        let began = age(Some(*since));
        let life = match self.state {
            PastState::Open if self.is_seen => format!("open, began {began} ago"),
            PastState::Open => format!("open when last seen, began {began} ago"),
            PastState::Resolved { at, after } => format!(
                "began {began} ago, resolved {} ago after {}",
                age(Some(at)),
                incident::length(after)
            ),
            PastState::GoneBy { at } => {
                format!("began {began} ago, over {} ago or before", age(Some(at)))
            }
        };
        let often = match self.occurrences {
            0 | 1 => String::new(),
            count => format!(", {count} times"),
        };
        format!(
            "{headline} [{}{reason} {id}; {life}{often}]\n",
            severity.as_str()
        )
    }

    fn row(&self) -> Value {
        let mut row = row(&self.incident);
        row["status"] = json!(self.state.as_str());
        self.state.describe(&mut row);
        if self.occurrences > 1 {
            row["occurrences"] = json!(self.occurrences);
        }
        row
    }
}

#[cfg(test)]
mod tests;
