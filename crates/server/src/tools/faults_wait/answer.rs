//! The answer of a wait: what was missed first, then the incident with its evidence, then the
//! cursor.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::{
    Output, ToolContext,
    faults_get::{Found, IncidentEvidence},
};
use crate::{
    output::age,
    waits::{WaitGap, WaitOutcome, WaitRequest, WaitUntil},
};
use kubecrier_core::incident::{IncidentNotice, IncidentTransition};
use kubecrier_incidents::Incident;
use kubecrier_k8s::ResolvedIncident;

/// Announcements that are told beside the one that ended the wait; the rest is a number.
const MISSED_MAX: usize = 20;

/// Open incidents that are named after a gap.
const OPEN_MAX: usize = 10;

/// Renders what a wait found.
pub(super) async fn show(
    context: &ToolContext<'_>,
    request: &WaitRequest,
    outcome: &WaitOutcome,
) -> Output {
    let open = open(request, outcome);
    let found = found(outcome, request.until);
    let missed: Vec<_> = outcome
        .notices
        .iter()
        .filter(|notice| !found.is_some_and(|found| Arc::ptr_eq(found, notice)))
        .collect();
    let mut text = String::new();
    let mut data = Map::new();
    if let Some(gap) = outcome.gap {
        text.push_str(&gap_lines(gap, &open));
    } else if request.cursor.is_none() {
        text.push_str(&open_line(&open));
    }
    text.push_str(&missed_lines(request, &missed));
    let mut next = None;
    match found {
        Some(notice) => {
            let evidence = evidence(context, request, outcome, notice).await;
            let (word, ago) = (word(notice.transition()), age(Some(notice.at())));
            text.push_str(&format!("{word} {ago} ago: {}", evidence.text));
            data = evidence.data;
            next = Some(evidence.next);
            data.insert("transition".to_owned(), json!(notice.transition()));
            data.insert("at".to_owned(), json!(notice.at()));
        }
        None => {
            if outcome.gap.is_none() {
                text.push_str(&nothing_line(request, outcome));
            }
            data.insert("cluster".to_owned(), json!(outcome.read.context));
            data.insert("transition".to_owned(), Value::Null);
        }
    }
    text.push_str(&format!(
        "cursor: {}\nTo be told of the next, call faults_wait with this cursor; what happens until \
         then is in its answer.\n",
        outcome.cursor
    ));
    let payloads = missed.iter().take(MISSED_MAX).map(|one| one.payload());
    for (key, value) in [
        ("cursor", json!(outcome.cursor)),
        ("waitedSeconds", json!(outcome.waited.as_secs())),
        ("missed", json!(payloads.collect::<Vec<_>>())),
        (
            "missedOmitted",
            json!(missed.len().saturating_sub(MISSED_MAX)),
        ),
        ("gap", json!(outcome.gap.map(gap_word))),
        ("open", json!(open.len())),
    ] {
        data.insert(key.to_owned(), value);
    }
    let output = Output::new(context.redactor, text, data);
    match next {
        Some(next) => output.with_composed("next", next),
        None => output,
    }
}

/// What the filters admit of what is open now, the worst first.
fn open<'a>(request: &WaitRequest, outcome: &'a WaitOutcome) -> Vec<&'a Arc<Incident>> {
    let mut open = outcome.read.open();
    open.retain(|incident| {
        let effects = incident.effects.iter().map(|effect| &effect.object);
        let objects = std::iter::once(&incident.object).chain(effects);
        request.filters.admits_incident(objects)
    });
    open
}

/// Of what ends the wait, the one to look at first: still open, then the worst, then the oldest.
fn found(outcome: &WaitOutcome, until: WaitUntil) -> Option<&Arc<IncidentNotice>> {
    let open = outcome.read.open();
    let is_open = |notice: &IncidentNotice| {
        let id = &notice.incident().id;
        open.iter().any(|incident| incident.id == *id)
    };
    let due = outcome.notices.iter().rev();
    due.filter(|notice| until.admits(notice.transition()))
        .max_by_key(|notice| (is_open(notice), notice.incident().severity))
}

async fn evidence(
    context: &ToolContext<'_>,
    request: &WaitRequest,
    outcome: &WaitOutcome,
    notice: &IncidentNotice,
) -> IncidentEvidence {
    let id = &notice.incident().id;
    let found = match notice.transition() {
        IncidentTransition::Resolved => Found::Resolved(Arc::new(ResolvedIncident {
            incident: notice.incident().clone(),
            at: notice.at(),
            after: notice.duration().unwrap_or_default(),
        })),
        IncidentTransition::Opened | IncidentTransition::Changed => {
            let open = outcome.read.open().into_iter().find(|one| one.id == *id);
            let mut resolved = outcome.read.resolved().into_iter();
            match (open, resolved.find(|one| one.incident.id == *id)) {
                (Some(open), _) => Found::Open(Arc::clone(open)),
                (None, Some(resolved)) => Found::Resolved(Arc::clone(resolved)),
                (None, None) => Found::Open(Arc::new(notice.incident().clone())),
            }
        }
    };
    if context.tool_filter.check_tool("faults_get").is_err() {
        return without_evidence(&outcome.read.context, notice);
    }
    // Only now: a wait holds nothing that other calls need.
    let _read = context.work.read_permit(&context.client.requester).await;
    let in_context = request.context.as_deref();
    let read = &outcome.read;
    IncidentEvidence::gather(context, in_context, &read.context, read.notes(), &found).await
}

/// As a list shows it, where faults_get is off.
fn without_evidence(cluster: &str, notice: &IncidentNotice) -> IncidentEvidence {
    let mut data = Map::new();
    data.insert("cluster".to_owned(), json!(cluster));
    data.insert("incident".to_owned(), json!(notice.payload()));
    IncidentEvidence {
        text: format!("{}\n", notice.incident().listed()),
        data,
        next: json!([]),
    }
}

fn word(transition: IncidentTransition) -> &'static str {
    match transition {
        IncidentTransition::Opened => "Opened",
        IncidentTransition::Changed => "Changed",
        IncidentTransition::Resolved => "Resolved",
    }
}

fn gap_word(gap: WaitGap) -> &'static str {
    match gap {
        WaitGap::Restarted => "restarted",
        WaitGap::Unwatched => "unwatched",
    }
}

/// What may have been missed, and what is there now.
fn gap_lines(gap: WaitGap, open: &[&Arc<Incident>]) -> String {
    let why = match gap {
        WaitGap::Restarted => {
            "this cursor is of another process of the server, or of before its start"
        }
        WaitGap::Unwatched => {
            "nobody waited for some minutes, or too much happened since this cursor"
        }
    };
    let mut text = format!(
        "GAP: {why}, so incidents may have been opened and resolved that nobody knows of. \
         Open now: {}.\n",
        open.len()
    );
    for incident in open.iter().take(OPEN_MAX) {
        text.push_str(&format!("- {}\n", incident.listed()));
    }
    if open.len() > OPEN_MAX {
        let more = open.len() - OPEN_MAX;
        text.push_str(&format!("- ... {more} more; faults_list shows them\n"));
    }
    text
}

/// What is open and was not waited for.
fn open_line(open: &[&Arc<Incident>]) -> String {
    match open {
        [] => String::new(),
        [worst, ..] => format!(
            "{} open in all (faults_list); the worst: {}\n",
            open.len(),
            worst.headline
        ),
    }
}

fn missed_lines(request: &WaitRequest, missed: &[&Arc<IncidentNotice>]) -> String {
    if missed.is_empty() {
        return String::new();
    }
    let mut text = match request.cursor {
        Some(_) => "Since the last wait:\n".to_owned(),
        None => "Meanwhile:\n".to_owned(),
    };
    for notice in missed.iter().take(MISSED_MAX) {
        let ago = age(Some(notice.at()));
        text.push_str(&format!("- {ago} ago: {}\n", notice.summary()));
    }
    if missed.len() > MISSED_MAX {
        let more = missed.len() - MISSED_MAX;
        text.push_str(&format!("- ... {more} more\n"));
    }
    text
}

fn nothing_line(request: &WaitRequest, outcome: &WaitOutcome) -> String {
    let why = if outcome.draining {
        "the server stops".to_owned()
    } else {
        format!("waited {} s", outcome.waited.as_secs())
    };
    format!(
        "Nothing yet: no incident was {} in context `{}` ({why}).\n",
        request.until.as_str(),
        outcome.read.context
    )
}
