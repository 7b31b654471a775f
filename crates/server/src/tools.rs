//! The built-in tools, one file each. A tool is one [`ToolEntry`] in [`TOOLS`], so its
//! definition and its code cannot drift apart.
//!
//! `definitions` makes what `tools/list` shows; `pages`, in tests, makes `docs/tools`.

mod changes_list;
mod configuration_contexts_list;
mod definitions;
mod events_list;
mod events_list_subscriptions;
mod events_poll;
mod events_subscribe;
mod events_unsubscribe;
mod faults_get;
mod faults_list;
mod faults_wait;
mod namespaces_list;
mod nodes_list;
mod nodes_top;
mod pods_get;
mod pods_list;
mod pods_log;
mod pods_top;
mod resources_get;
mod resources_graph;
mod resources_list;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use mcp_notify::Level;
use rmcp::{
    model::{Implementation, JsonObject, Tool, ToolAnnotations},
    schemars::JsonSchema,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) use self::{
    definitions::{ContextChoice, DefinitionCache},
    faults_wait::{NAME as FAULTS_WAIT, task_timeout},
};
use super::{
    incidents::Incidents,
    output::{Output, ToolError},
    reporter::RequestReporter,
    resources::Requester,
    schema,
    server::{ToolLimits, Work},
    subscriptions::Subscriptions,
    tasks::TaskRights,
    tool_filter::ToolFilter,
    waits::Waits,
};
use kubecrier_core::access::Right;
use kubecrier_history::History;
use kubecrier_k8s::{Cluster, ClusterError, Contexts, EventLists, Graphs, Name};
use kubecrier_redact::Redactor;

/// Every tool, in the order clients see.
pub(super) static TOOLS: [ToolEntry; 20] = [
    changes_list::ENTRY,
    configuration_contexts_list::ENTRY,
    events_list::ENTRY,
    events_list_subscriptions::ENTRY,
    events_poll::ENTRY,
    events_subscribe::ENTRY,
    events_unsubscribe::ENTRY,
    faults_get::ENTRY,
    faults_list::ENTRY,
    faults_wait::ENTRY,
    namespaces_list::ENTRY,
    nodes_list::ENTRY,
    nodes_top::ENTRY,
    pods_get::ENTRY,
    pods_list::ENTRY,
    pods_log::ENTRY,
    pods_top::ENTRY,
    resources_get::ENTRY,
    resources_graph::ENTRY,
    resources_list::ENTRY,
];

/// A tool: its definition, and the function that runs.
pub(super) struct ToolEntry {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    schema: fn() -> JsonObject,
    pub(super) call: for<'a> fn(ToolContext<'a>, JsonObject) -> ToolFuture<'a>,
}

/// Everything that a call works with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolContext<'a> {
    pub(super) contexts: &'a Arc<Contexts>,
    /// What happened before, if it is kept.
    pub(super) history: Option<&'a History>,
    pub(super) tool_filter: &'a ToolFilter,
    pub(super) limits: ToolLimits,
    pub(super) subscriptions: &'a Subscriptions,
    pub(super) event_lists: &'a EventLists,
    pub(super) graphs: &'a Graphs,
    pub(super) incidents: &'a Incidents,
    pub(super) waits: &'a Waits,
    pub(super) work: &'a Work,
    pub(super) client: &'a ToolClient,
    pub(super) reporter: &'a RequestReporter,
    pub(super) redactor: &'a Redactor,
    /// Cancelled when the server stops: a call that waits for events ends then.
    pub(super) draining: &'a CancellationToken,
    /// If the call is a task, whose caller does not hold a connection: the rights that its answer
    /// needs when it is read.
    pub(super) task: Option<&'a TaskRights>,
}

/// The client of a call, and how it can be reached.
#[derive(Debug)]
pub(super) struct ToolClient {
    pub(super) requester: Requester,
    /// Whether the transport can push events.
    pub(super) pushes: bool,
    /// Whether the session has an open stream.
    pub(super) stream_open: bool,
    /// The name and version that it gives itself.
    pub(super) info: Option<Implementation>,
}

/// A running call.
pub(super) type ToolFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send + 'a>>;

/// The tool of that name.
pub(super) fn find(name: &str) -> Option<&'static ToolEntry> {
    TOOLS.iter().find(|entry| entry.name == name)
}

// === impl ToolEntry ===

impl ToolEntry {
    /// The definition that clients see.
    pub(super) fn definition(&self, contexts: &ContextChoice) -> Tool {
        let mut schema = (self.schema)();
        schema::with_contexts(&mut schema, contexts);
        // No tool changes a cluster. The other hints are what clients assume anyway: the world
        // is open, and of a tool that only reads nobody asks whether it can be repeated.
        let hints = ToolAnnotations::with_title(self.title)
            .read_only(true)
            .destructive(false);
        Tool::new(self.name, self.description, schema).with_annotations(hints)
    }
}

// === impl ToolContext ===

impl ToolContext<'_> {
    /// Notes that the answer has something that was read for a user with these rights.
    fn needs(&self, rights: impl IntoIterator<Item = Arc<Right>>) {
        if let Some(task) = self.task {
            task.add(rights);
        }
    }

    /// Makes a request to a cluster on behalf of the caller, as [`Contexts::with_cluster`]
    /// does, and reports its steps to the client.
    pub(super) async fn with_cluster<T, F>(
        &self,
        context: Option<&str>,
        request: impl Fn(Cluster) -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let context = context.filter(|name| !name.is_empty());
        let began = Instant::now();
        self.reporter.step(0.0, 2.0, "connecting to the cluster");
        let attempts = AtomicU32::new(0);
        let attempt = |cluster: Cluster| {
            let repeated = attempts.fetch_add(1, Ordering::Relaxed) > 0;
            let name = cluster.context().to_owned();
            // A slow start is part of what the caller waits for.
            let answer = request(if repeated {
                cluster
            } else {
                self.reporter.step(1.0, 2.0, "asking the cluster");
                cluster.with_time_spent(began.elapsed())
            });
            async move {
                if repeated {
                    let text =
                        format!("context `{name}`: credentials were refused, fetching them anew");
                    self.reporter
                        .log(Level::Notice, "kubecrier/cluster", &text)
                        .await;
                }
                answer.await
            }
        };
        let actor = self.client.requester.actor();
        self.contexts.with_cluster(&actor, context, attempt).await
    }
}

/// Reads the arguments; an unknown or ill-typed one is an error that names it.
fn arguments<T: DeserializeOwned + JsonSchema>(given: JsonObject) -> Result<T, ToolError> {
    // Some clients send every optional argument, as null.
    let given = given
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .collect();
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let path = error.path().to_string();
        let text = error.into_inner().to_string();
        // An error at the top has no path: its text names the argument.
        let at = if path == "." {
            String::new()
        } else {
            format!(" at `{path}`")
        };
        ToolError::Arguments(format!("the arguments do not fit{at}: {text}"))
    })
}

/// The namespace of a list; none is all of them.
fn namespace(given: Option<String>) -> Result<Option<Name>, ClusterError> {
    let given = given.filter(|text| !text.is_empty());
    given
        .map(|text| Name::label("namespace", &text))
        .transpose()
}

/// Checks the limit of a list.
fn limit(asked: Option<u32>, default: usize, max: usize) -> Result<usize, ToolError> {
    match asked.map(|asked| usize::try_from(asked).unwrap_or(usize::MAX)) {
        None => Ok(default),
        Some(asked) if (1..=max).contains(&asked) => Ok(asked),
        Some(asked) => Err(ToolError::Arguments(format!(
            "`limit` is {asked}, but must be from 1 to {max}"
        ))),
    }
}

#[cfg(test)]
mod pages;
#[cfg(test)]
mod tests;
