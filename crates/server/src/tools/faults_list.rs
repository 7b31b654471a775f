//! `faults_list`: what is wrong now, one line for each incident.

mod past;

use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Output, ToolContext, ToolEntry, ToolError, arguments, limit, namespace, schema};
use crate::{
    incidents::{IncidentRead, is_at_least},
    output::age,
};
use kubecrier_core::{
    duration,
    incident::{self, IncidentSummary},
};
use kubecrier_incidents::{Incident, Severity};
use kubecrier_k8s::{Name, ResolvedIncident, identity};
use kubecrier_redact::Redactor;

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "faults_list",
    title: "Faults: list",
    description: "List what is wrong now, the worst first: one line per incident (workloads, pods, \
                  nodes, volumes, services, quotas) with its cause, age, severity and id. Call this \
                  first.",
    schema: schema::of::<FaultsListArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
struct FaultsListArgs {
    /// Kubeconfig context
    context: Option<String>,
    /// Namespace (default: all)
    namespace: Option<String>,
    /// Only this severity and worse (default: info)
    severity: Option<SeverityArg>,
    /// Also those that were resolved lately
    include_resolved: Option<bool>,
    /// What was wrong in this time, e.g. 2d
    since: Option<String>,
    /// Maximum number of incidents (1-200, default 50)
    limit: Option<u32>,
}

#[derive(Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(crate = "rmcp::schemars")]
enum SeverityArg {
    Info,
    Warning,
    Critical,
}

/// Objects that a row names as hurt; faults_get has more.
const EFFECTS_MAX: usize = 5;

/// Notes that are shown, and the bytes of each.
const NOTES_MAX: usize = 3;
const NOTE_BYTES_MAX: usize = 160;

async fn call(context: ToolContext<'_>, args: FaultsListArgs) -> Result<Output, ToolError> {
    let in_namespace = namespace(args.namespace)?;
    let limit = limit(args.limit, 50, 200)?;
    let least = args.severity.map(Severity::from);
    let requester = &context.client.requester;
    let (caller, viewer) = (
        requester.share_key(),
        context.subscriptions.viewer(requester)?,
    );
    let in_context = args.context.as_deref().filter(|name| !name.is_empty());
    let since = args.since.as_deref().map(duration::parse).transpose()?;
    let reading = context
        .incidents
        .read(&caller, &viewer, in_context, in_namespace.as_ref());
    if let Some(since) = since {
        let asked = past::Asked {
            in_context,
            namespace: in_namespace.as_ref(),
            least,
            since,
            limit,
        };
        return past::list(context, asked, reading.await).await;
    }
    let read = reading.await?;
    let list = IncidentList {
        read: &read,
        namespace: in_namespace.as_ref(),
        least,
        resolved: args.include_resolved.unwrap_or_default(),
    };
    Ok(list.show(context.redactor, limit, context.limits.output_bytes))
}

/// Incidents that are to be shown.
struct IncidentList<'a> {
    read: &'a IncidentRead,
    namespace: Option<&'a Name>,
    least: Option<Severity>,
    /// Whether those that are over are shown too.
    resolved: bool,
}

// === impl IncidentList ===

impl IncidentList<'_> {
    /// Renders as many incidents as fit, with the number of those that do not.
    fn show(&self, redactor: &Redactor, limit: usize, bytes_max: usize) -> Output {
        let mut open = self.read.open();
        open.retain(|one| is_at_least(one, self.least));
        let mut resolved = if self.resolved {
            self.read.resolved()
        } else {
            Vec::new()
        };
        resolved.retain(|one| is_at_least(&one.incident, self.least));
        let mut bytes = 0;
        // At least one: an empty answer would not say why.
        let mut fits = |line: &str, row: &Value, shown: usize| {
            bytes += line.len() + row.to_string().len() + 2;
            shown < limit && (bytes <= bytes_max || shown == 0)
        };
        let (mut text, mut rows, mut over) = (String::new(), Vec::new(), Vec::new());
        for incident in &open {
            let (line, row) = (open_line(incident), row(incident));
            if !fits(&line, &row, rows.len()) {
                break;
            }
            text.push_str(&line);
            rows.push(row);
        }
        let more = open.len() - rows.len();
        if open.is_empty() {
            text = self.nothing();
        }
        if more > 0 {
            text.push_str(&format!(
                "... {more} more; narrow by namespace or severity, or raise limit\n"
            ));
        }
        if !resolved.is_empty() {
            text.push_str("Resolved lately:\n");
        }
        for one in resolved {
            let (line, row) = (resolved_line(one), resolved_row(one));
            if !fits(&line, &row, rows.len() + over.len()) {
                break;
            }
            text.push_str(&line);
            over.push(row);
        }
        let notes = self.read.notes();
        text.push_str(&note_lines(redactor, &notes));
        let mut data = Map::new();
        for (key, value) in [
            ("context", json!(self.read.context)),
            ("namespace", json!(self.namespace.map(Name::as_str))),
            ("at", json!(self.read.at())),
            ("incidents", json!(rows)),
            ("more", json!(more)),
            ("notes", json!(notes)),
        ] {
            data.insert(key.to_owned(), value);
        }
        if self.resolved {
            data.insert("resolved".to_owned(), json!(over));
        }
        Output::new(redactor, text, data)
    }

    fn nothing(&self) -> String {
        let place = match self.namespace {
            Some(name) => format!("namespace `{name}` of context `{}`", self.read.context),
            None => format!("context `{}`", self.read.context),
        };
        let what = match self.least {
            None | Some(Severity::Info) => "Nothing is wrong".to_owned(),
            Some(least) => format!("Nothing is {} or worse", least.as_str()),
        };
        format!("{what} in {place}: no incident is open now.\n")
    }
}

/// The object comes first: it is what a reader looks for.
fn open_line(incident: &Incident) -> String {
    format!("{}\n", incident.listed())
}

fn resolved_line(one: &ResolvedIncident) -> String {
    let (ago, after) = (age(Some(one.at)), incident::length(one.after));
    let ResolvedIncident { incident, .. } = one;
    format!(
        "{} [resolved {ago} ago after {after}, {}]\n",
        incident.headline, incident.id
    )
}

fn row(incident: &Incident) -> Value {
    let summary = IncidentSummary::new(incident).with_effects(incident, EFFECTS_MAX);
    serde_json::to_value(summary).unwrap_or_default()
}

fn resolved_row(one: &ResolvedIncident) -> Value {
    let mut row = row(&one.incident);
    row["resolvedAt"] = json!(one.at);
    row["durationSeconds"] = json!(one.after.as_secs());
    row
}

/// A few short notes; the data has them whole.
pub(super) fn note_lines(redactor: &Redactor, notes: &[&str]) -> String {
    let mut text = String::new();
    for note in notes.iter().take(NOTES_MAX) {
        let note = identity::sentence(redactor, note);
        let end = note.floor_char_boundary(NOTE_BYTES_MAX);
        let dots = if end < note.len() { "…" } else { "" };
        text.push_str(&format!("NOTE: {}{dots}\n", &note[..end]));
    }
    if notes.len() > NOTES_MAX {
        let more = notes.len() - NOTES_MAX;
        text.push_str(&format!("NOTE: {more} more kinds are left out\n"));
    }
    text
}

// === impl SeverityArg ===

impl From<SeverityArg> for Severity {
    fn from(argument: SeverityArg) -> Self {
        match argument {
            SeverityArg::Info => Self::Info,
            SeverityArg::Warning => Self::Warning,
            SeverityArg::Critical => Self::Critical,
        }
    }
}

#[cfg(test)]
mod tests;
