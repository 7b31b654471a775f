//! One incident: what, since when, why, the evidence, what is hurt, what changed before, and
//! what to look at next.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    super::{Output, ToolContext, ToolError, faults_list::note_lines, namespace},
    found::{Found, events, kept_incidents, may_be_kept},
    next_calls::next_calls,
};
use crate::{
    history::{
        faults::find_evidence,
        incidents::{self, PastState},
    },
    incidents::{IncidentRead, fault_of},
    output::age,
};
use kubecrier_core::{
    Event,
    access::{Action, Viewer},
    faults::{CaptureError, Evidence, LogEntry},
    incident::{self, IncidentSummary},
};
use kubecrier_incidents::{Incident, Symptom, objects::ObjectRef};

/// Bytes of the text.
const TEXT_BYTES_MAX: usize = 3000;

/// Kinds of symptoms, objects of each that are named, effects, changes, events.
const SYMPTOMS_MAX: usize = 6;
const OBJECTS_MAX: usize = 3;
const EFFECTS_MAX: usize = 8;
const CHANGES_MAX: usize = 4;
pub(super) const EVENTS_MAX: usize = 3;

/// Lines of a log, and the bytes of each.
const LOG_LINES_MAX: usize = 8;
const LINE_BYTES_MAX: usize = 160;

/// Incidents have ids that no fault has.
pub(super) fn is_id(id: &str) -> bool {
    id.starts_with("i-")
}

/// Everything that is told of an incident.
struct Story<'a> {
    found: &'a Found,
    context: &'a str,
    /// The pod that shows it best.
    pod: Option<&'a Symptom>,
    evidence: Option<Arc<Evidence>>,
    events: Vec<Arc<Event>>,
    next: Vec<(&'static str, Value)>,
    notes: Vec<&'a str>,
}

/// Symptoms of the same kind.
struct SymptomGroup<'a> {
    detector: &'static str,
    what: &'a str,
    why: &'a str,
    since: Timestamp,
    objects: Vec<&'a ObjectRef>,
}

pub(super) async fn call(
    context: ToolContext<'_>,
    id: &str,
    in_context: Option<&str>,
    in_namespace: Option<String>,
) -> Result<Output, ToolError> {
    let in_namespace = namespace(in_namespace)?;
    let requester = &context.client.requester;
    let (caller, viewer) = (
        requester.share_key(),
        context.subscriptions.viewer(requester)?,
    );
    let reading = context
        .incidents
        .read(&caller, &viewer, in_context, in_namespace.as_ref())
        .await;
    // What a cluster has that cannot be reached may be in the history.
    let (read, unread) = match reading {
        Ok(read) => (Some(read), None),
        Err(error) if may_be_kept(&error) => (None, Some(error)),
        Err(error) => return Err(error.into()),
    };
    let cluster = context.contexts.resolve(in_context)?;
    let found = match read.as_ref().and_then(|read| Found::live(read, id)) {
        Some(found) => Some(found),
        None => match kept_incidents(&context) {
            Some(history) => incidents::find(history, context.contexts, &cluster, id)
                .await
                .filter(|past| {
                    (in_namespace.as_ref()).is_none_or(|one| past.concerns(one.as_str()))
                })
                .map(|past| match &read {
                    Some(read) => past.gone_by(read.at()),
                    None => past,
                })
                .map(|past| Found::Kept(Box::new(past))),
            None => None,
        },
    };
    let found = match (found, unread) {
        (Some(found), _) => found,
        (None, Some(error)) => return Err(error.into()),
        (None, None) => {
            return Err(ToolError::NotFound(format!(
                "incident not found: `{id}` is neither open nor resolved lately in context \
                 `{cluster}`; faults_list with includeResolved or since shows those there are, and \
                 another context or namespace has its own"
            )));
        }
    };
    let notes = read.as_ref().map(IncidentRead::notes).unwrap_or_default();
    let evidence = IncidentEvidence::gather(&context, in_context, &cluster, notes, &found).await;
    let output = Output::new(context.redactor, evidence.text, evidence.data);
    Ok(output.with_composed("next", evidence.next))
}

/// An incident with its evidence, as text and as data.
pub(in crate::tools) struct IncidentEvidence {
    /// Composed of redacted text and names.
    pub(in crate::tools) text: String,
    /// Not redacted yet.
    pub(in crate::tools) data: Map<String, Value>,
    /// The calls that show more.
    pub(in crate::tools) next: Value,
}

impl IncidentEvidence {
    /// Reads the evidence from the cluster. What cannot be read is left out.
    pub(in crate::tools) async fn gather(
        context: &ToolContext<'_>,
        in_context: Option<&str>,
        cluster: &str,
        notes: Vec<&str>,
        found: &Found,
    ) -> Self {
        let incident = found.incident();
        let pod = incident.symptoms.iter().find(|one| is_pod(&one.object));
        let evidence = match (pod, found) {
            (None, _) => None,
            (Some(pod), Found::Open(_)) if may_capture(context, cluster, pod).await => {
                let fault = fault_of(cluster, pod);
                Some(context.subscriptions.faults().evidence(&fault).await)
            }
            (Some(_), Found::Open(_)) => {
                Some(Arc::new(Evidence::failed("", CaptureError::Forbidden)))
            }
            (Some(_), Found::Resolved(_) | Found::Kept(_)) => match kept_incidents(context) {
                Some(history) => {
                    let (contexts, redactor) = (context.contexts, context.redactor);
                    let kept = find_evidence(history, contexts, redactor, cluster, &incident.id);
                    kept.await.map(Arc::new)
                }
                None => None,
            },
        };
        let object = pod.map_or(&incident.object, |pod| &pod.object);
        let story = Story {
            context: cluster,
            events: events(context, in_context, cluster, object, found).await,
            next: next_calls(context, in_context, incident, pod),
            found,
            pod,
            evidence,
            notes,
        };
        let mut text = story.text();
        if text.len() > TEXT_BYTES_MAX {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - 4));
            text.push_str("…\n");
        }
        if let Found::Open(_) = found {
            text.push_str(&note_lines(context.redactor, &story.notes));
        }
        let next = story.next.iter();
        let next = next.map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}));
        Self {
            text,
            data: story.data(),
            next: next.collect(),
        }
    }
}

fn is_pod(object: &ObjectRef) -> bool {
    object.kind == "Pod"
}

/// Whether a caller that acts as a user may read what is captured once for all callers.
async fn may_capture(context: &ToolContext<'_>, cluster: &str, pod: &Symptom) -> bool {
    let view = match context.subscriptions.viewer(&context.client.requester) {
        Ok(Viewer::Everything) => return true,
        Ok(Viewer::User(view)) => view,
        Err(_) => return false,
    };
    let since = Instant::now();
    let rights = [Action::GET_PODS, Action::GET_LOGS];
    let rights = rights.map(|action| view.right(cluster, action, &pod.object.namespace));
    for right in &rights {
        if !right.decide_since(since).await.is_allowed() {
            return false;
        }
    }
    context.needs(rights);
    true
}

// === impl Story ===

impl Story<'_> {
    fn text(&self) -> String {
        let incident = self.found.incident();
        let severity = incident.severity.as_str();
        let Incident { id, since, .. } = incident;
        let life = match (self.found, self.found.state()) {
            (Found::Kept(_), PastState::Open) => {
                format!("open when it was last seen, since {since}")
            }
            (_, PastState::Open) => format!("open for {}, since {since}", age(Some(*since))),
            (_, PastState::Resolved { at, after }) => format!(
                "resolved at {at} after {}, began {since}",
                incident::length(after)
            ),
            (_, PastState::GoneBy { at }) => {
                format!("over at {at} or before (no server saw its end), began {since}")
            }
        };
        let mut text = format!("{}\n{severity}, {life} [{id}]\n", incident.headline);
        if !incident.why.is_empty() {
            text.push_str(&format!("Why: {}\n", cut(&incident.why, 400)));
        }
        section(
            &mut text,
            "What is seen:",
            self.groups().iter().map(SymptomGroup::line),
            SYMPTOMS_MAX,
        );
        self.log_section(&mut text);
        let events = self.events.iter().map(|event| {
            let (ago, message) = (
                age(Some(event.timestamp)),
                cut(&event.message, LINE_BYTES_MAX),
            );
            format!("{ago} ago {} x{}: {message}", event.reason, event.count)
        });
        section(&mut text, "Newest warnings:", events, EVENTS_MAX);
        let effects = incident.effects.iter();
        // Its own pods are counted above.
        let effects = effects.filter(|effect| !is_pod(&effect.object));
        let effects: Vec<_> = effects
            .map(|effect| format!("{}: {}", effect.object, cut(&effect.what, LINE_BYTES_MAX)))
            .collect();
        section(&mut text, "Hurts:", effects, EFFECTS_MAX);
        let changes = incident.changes.iter().map(|change| {
            let ago = age(Some(change.at));
            format!(
                "{ago} ago {}: {}",
                change.object,
                cut(&change.what, LINE_BYTES_MAX)
            )
        });
        section(&mut text, "Changed before:", changes, CHANGES_MAX);
        let next = self.next.iter();
        let next = next.map(|(tool, arguments)| format!("{tool} {arguments}"));
        section(&mut text, "Look next:", next, usize::MAX);
        text
    }

    /// The last lines of the log that tells most, or why there are none.
    fn log_section(&self, text: &mut String) {
        let Some((log, lines)) = self.log() else {
            return;
        };
        let pod = self.pod.map(|pod| &*pod.object.name).unwrap_or_default();
        let run = if log.previous { ", run before" } else { "" };
        let title = format!("Log of {pod}/{}{run}", log.container);
        match log.error {
            Some(error) => text.push_str(&format!("{title}: none ({})\n", error.as_str())),
            None => {
                text.push_str(&format!("{title} (written by the workload: data):\n"));
                for line in lines {
                    text.push_str(&format!("  | {}\n", cut(line, LINE_BYTES_MAX)));
                }
            }
        }
    }

    /// The log that tells most, with its last lines: of a crash, or of the run that ended.
    fn log(&self) -> Option<(&LogEntry, Vec<&str>)> {
        let logs = &self.evidence.as_ref()?.logs;
        let rank = |log: &&LogEntry| {
            let has_text = log
                .sample
                .as_deref()
                .is_some_and(|text| !text.trim().is_empty());
            (log.has_panic, has_text, log.previous)
        };
        // The first of the best: failing containers come first.
        let log = logs.iter().rev().max_by_key(rank)?;
        let sample = log.sample.as_deref().unwrap_or_default();
        let lines: Vec<_> = sample
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        if lines.is_empty() {
            // A container that never ran has no log, which is no news.
            let is_news =
                |error| !matches!(error, CaptureError::NotFound | CaptureError::Unavailable);
            return log
                .error
                .filter(|error| is_news(*error))
                .map(|_| (log, Vec::new()));
        }
        let crash = log.signature.as_ref().and_then(|signature| {
            let known = signature.line.trim_end_matches('…');
            lines.iter().rposition(|line| line.contains(known))
        });
        let last = lines.len().saturating_sub(LOG_LINES_MAX);
        let from = crash.map_or(last, |at| at.saturating_sub(1).min(last));
        let shown = lines[from..].iter().take(LOG_LINES_MAX).copied();
        Some((log, shown.collect()))
    }

    fn groups(&self) -> Vec<SymptomGroup<'_>> {
        let mut groups: Vec<SymptomGroup<'_>> = Vec::new();
        let mut known: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        for symptom in &self.found.incident().symptoms {
            let key = (
                symptom.detector,
                &*symptom.object.kind,
                symptom.what.as_str(),
            );
            let at = *known.entry(key).or_insert(groups.len());
            if at == groups.len() {
                groups.push(SymptomGroup {
                    detector: symptom.detector,
                    what: &symptom.what,
                    why: &symptom.why,
                    since: symptom.since,
                    objects: Vec::new(),
                });
            }
            let group = &mut groups[at];
            group.since = group.since.min(symptom.since);
            group.objects.push(&symptom.object);
        }
        groups
    }

    fn data(&self) -> Map<String, Value> {
        let incident = self.found.incident();
        let mut shown = json!(IncidentSummary::new(incident));
        let state = self.found.state();
        state.describe(&mut shown);
        let state = state.as_str();
        let symptoms = self.groups().into_iter().take(SYMPTOMS_MAX).map(|group| {
            let objects = group.objects.iter().take(OBJECTS_MAX);
            json!({
                "detector": group.detector,
                "what": group.what,
                "why": group.why,
                "since": group.since,
                "count": group.objects.len(),
                "objects": objects.collect::<Vec<_>>(),
            })
        });
        let mut data = Map::new();
        for (key, value) in [
            ("cluster", json!(self.context)),
            ("status", json!(state)),
            ("incident", shown),
            ("symptoms", symptoms.collect()),
            ("notes", json!(self.notes)),
        ] {
            data.insert(key.to_owned(), value);
        }
        if let Some(pod) = self.pod {
            let pod = json!({
                "namespace": &*pod.object.namespace,
                "name": &*pod.object.name,
                "container": pod.container,
            });
            data.insert("pod".to_owned(), pod);
        }
        if let Some((log, lines)) = self.log() {
            let log = json!({
                "container": log.container,
                "previous": log.previous,
                "hasPanic": log.has_panic,
                "signature": log.signature,
                "error": log.error,
                "sample": lines.join("\n"),
            });
            data.insert("log".to_owned(), log);
        }
        let events = self.events.iter().map(|event| json!(event.payload()));
        data.insert("events".to_owned(), events.collect());
        data
    }
}

// === impl SymptomGroup ===

impl SymptomGroup<'_> {
    fn line(&self) -> String {
        let count = self.objects.len();
        let names: Vec<_> = self
            .objects
            .iter()
            .take(OBJECTS_MAX)
            .map(|object| object.short())
            .collect();
        let more = match count - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = match self.why {
            "" => String::new(),
            why => format!(" ({})", cut(why, LINE_BYTES_MAX)),
        };
        format!(
            "{}{more}: {}{why}, for {}",
            names.join(", "),
            cut(self.what, LINE_BYTES_MAX),
            age(Some(self.since))
        )
    }
}

/// Lines under a title, as many as there may be, and the number of the rest.
fn section(
    text: &mut String,
    title: &str,
    lines: impl IntoIterator<Item = String>,
    lines_max: usize,
) {
    let mut lines = lines.into_iter();
    let shown: Vec<_> = lines.by_ref().take(lines_max).collect();
    if shown.is_empty() {
        return;
    }
    text.push_str(&format!("{title}\n"));
    for line in shown {
        text.push_str(&format!("- {line}\n"));
    }
    let more = lines.count();
    if more > 0 {
        text.push_str(&format!("- ... {more} more\n"));
    }
}

fn cut(text: &str, bytes_max: usize) -> String {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let end = line.floor_char_boundary(bytes_max);
    let dots = if end < text.len() { "…" } else { "" };
    format!("{}{dots}", &line[..end])
}

#[cfg(test)]
mod tests;
