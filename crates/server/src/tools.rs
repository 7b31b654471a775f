//! The tools, one file each. A tool is one [`Entry`] in [`TOOLS`]: what a client
//! sees and what runs cannot drift apart.

mod changes_list;
mod configuration_contexts_list;
mod events_list;
mod events_list_subscriptions;
mod events_poll;
mod events_subscribe;
mod events_unsubscribe;
mod faults_get;
mod faults_list;
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

use std::{future::Future, pin::Pin};

use mcp_notify::Level;
use rmcp::{
    model::{JsonObject, Tool, ToolAnnotations},
    schemars::JsonSchema,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    output::{Output, ToolError},
    resources::Who,
    running::Running,
    schema,
    server::ToolLimits,
    subscriptions::Subscriptions,
};
use kubecrier_k8s::{Cluster, ClusterError, Contexts, ErrorKind, Graphs, Name};

/// Every tool, in the order clients see.
pub(super) static TOOLS: [Entry; 19] = [
    changes_list::ENTRY,
    configuration_contexts_list::ENTRY,
    events_list::ENTRY,
    events_list_subscriptions::ENTRY,
    events_poll::ENTRY,
    events_subscribe::ENTRY,
    events_unsubscribe::ENTRY,
    faults_get::ENTRY,
    faults_list::ENTRY,
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

/// A tool: what a client sees of it, and what runs.
pub(super) struct Entry {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether the same call made twice is as good as once.
    idempotent: bool,
    schema: fn() -> JsonObject,
    pub(super) call: for<'a> fn(ToolContext<'a>, JsonObject) -> Answer<'a>,
}

/// What a tool has to work with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolContext<'a> {
    pub(super) contexts: &'a Contexts,
    pub(super) limits: ToolLimits,
    pub(super) subscriptions: &'a Subscriptions,
    pub(super) graphs: &'a Graphs,
    pub(super) client: &'a Client,
    pub(super) running: &'a Running,
    /// Ends when the server stops: nobody is to wait for long then.
    pub(super) draining: &'a CancellationToken,
}

/// Who calls, and how it can be reached.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) who: Who,
    /// Whether the transport can push events.
    pub(super) pushes: bool,
    /// Whether the session has a stream open now.
    pub(super) stream_open: bool,
}

/// A call under way.
pub(super) type Answer<'a> = Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send + 'a>>;

/// The tool of that name.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    TOOLS.iter().find(|entry| entry.name == name)
}

// === impl Entry ===

impl Entry {
    /// What clients see.
    pub(super) fn definition(&self, contexts: &[String], default: Option<&str>) -> Tool {
        let mut schema = (self.schema)();
        schema::with_contexts(&mut schema, contexts, default);
        // Nothing here changes a cluster.
        let hints = ToolAnnotations::with_title(self.title)
            .read_only(true)
            .destructive(false)
            .idempotent(self.idempotent)
            .open_world(true);
        Tool::new(self.name, self.description, schema).with_annotations(hints)
    }
}

// === impl ToolContext ===

impl ToolContext<'_> {
    /// Asks a cluster. Credentials that are no longer accepted are fetched anew,
    /// once: a token may have been renewed since the client was made.
    pub(super) async fn ask<T, F>(
        &self,
        context: Option<&str>,
        question: impl Fn(Cluster) -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let context = context.filter(|name| !name.is_empty());
        let began = Instant::now();
        self.running.step(0.0, 2.0, "connecting to the cluster");
        let cluster = self.contexts.cluster(context).await?;
        self.running.step(1.0, 2.0, "asking the cluster");
        // A slow start is part of what the caller waits for.
        let cluster = cluster.after(began.elapsed());
        let name = cluster.context().to_owned();
        match question(cluster).await {
            Err(error) if error.kind() == ErrorKind::Unauthorized => {
                self.contexts.forget(&name);
                let text =
                    format!("context `{name}`: credentials were refused, fetching them anew");
                self.running
                    .log(Level::Notice, "kubecrier/cluster", &text)
                    .await;
                question(self.contexts.cluster(context).await?).await
            }
            answer => answer,
        }
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
        // At the top there is no path: the text itself names the argument.
        let place = if path == "." {
            String::new()
        } else {
            format!(" at `{path}`")
        };
        ToolError::Arguments(format!("the arguments do not fit{place}: {text}"))
    })
}

/// The namespace of a list; none is all of them.
fn namespace(given: Option<String>) -> Result<Option<Name>, ClusterError> {
    let given = given.filter(|text| !text.is_empty());
    given
        .map(|text| Name::label("namespace", &text))
        .transpose()
}

/// The limit of a list: what was asked for, within reason.
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
