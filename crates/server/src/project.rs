//! A project folder in the protocol's words: its resources are a family, its tools
//! and prompts are shown as they say.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use mcp_notify::Level;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, ContentBlock, GetPromptRequestParams,
        GetPromptResult, JsonObject, Prompt, Resource, ResourceContents, ResourceTemplate, Tool,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    catalog::{Called, Catalog},
    output::cleaned,
    resources::{Family, Lease, Reading, ResourceError, Updates, Who},
    running::Running,
    server::Setup,
    tools,
};
use kubecrier_core::metrics::Metrics;
use kubecrier_k8s::Contexts;
use kubecrier_lifecycle::Lifecycle;
use kubecrier_project::{
    self, CallError, Hashes, Kind, Place, Project, ReadError, Reserved, Said, ToolAnswer, ToolItem,
};
use kubecrier_redact::Redactor;

/// Schemes of URIs that are ours.
const SCHEMES: [&str; 2] = ["k8s", "kubecrier"];

/// What the calls of the site's own tools are counted under: their names are not a
/// closed set.
const FILE_TOOL: &str = "file_tool";

/// A project as clients see it: a family of resources, and a catalog of tools and
/// prompts.
#[derive(Clone, Debug)]
pub(super) struct Served {
    project: Project,
    contexts: Arc<Contexts>,
    lifecycle: Lifecycle,
    metrics: Metrics,
    redactor: Redactor,
}

/// Whether the protocol has words for it: asked when the folder is read, so that
/// what has none is refused there, by name.
fn accepts(kind: Kind, definition: &Value) -> Result<(), String> {
    fn read<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
        let read = serde_json::from_value::<T>(value.clone());
        read.map(|_| ()).map_err(|error| error.to_string())
    }
    match kind {
        Kind::Tool => read::<Tool>(definition),
        Kind::Resource => read::<Resource>(definition),
        Kind::ResourceTemplate => read::<ResourceTemplate>(definition),
        Kind::Prompt => read::<Prompt>(definition),
    }
}

/// What was accepted, as rmcp has it.
pub(super) fn shown<T: DeserializeOwned>(definition: &Value) -> Option<T> {
    serde_json::from_value(definition.clone()).ok()
}

/// Which cluster a call is about: the context it names, else the usual one.
pub(super) fn place(contexts: &Contexts, arguments: &JsonObject) -> Place {
    let named = arguments.get("context").and_then(Value::as_str);
    let usual = || {
        let all = contexts.list().ok()?;
        Some(all.into_iter().find(|one| one.default)?.name)
    };
    Place {
        kubeconfig: contexts.kubeconfig(),
        context: named
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .or_else(usual),
    }
}

/// What a tool answered.
pub(super) fn result(answer: ToolAnswer) -> CallToolResult {
    let block = |value: Value| {
        // What looks like content and is none is shown as it is.
        serde_json::from_value(value.clone())
            .unwrap_or_else(|_| ContentBlock::text(value.to_string()))
    };
    let content = answer.content.into_iter().map(block).collect();
    let mut result = if answer.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = answer.structured;
    result
}

/// Why it did not.
pub(super) fn failure(error: &CallError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_string())])
}

// === impl Served ===

impl Served {
    /// The project in a folder; nothing is read yet.
    pub(super) fn new(config: kubecrier_project::Config, setup: &Setup) -> Self {
        let names = tools::TOOLS.iter().map(|entry| entry.name.to_owned());
        let reserved = Reserved {
            tools: names.collect(),
            schemes: SCHEMES.map(str::to_owned).to_vec(),
        };
        Self {
            project: Project::new(config, reserved, accepts, &setup.lifecycle),
            contexts: Arc::clone(&setup.contexts),
            lifecycle: setup.lifecycle.clone(),
            metrics: setup.metrics.clone(),
            redactor: setup.redactor.clone(),
        }
    }

    pub(super) fn project(&self) -> &Project {
        &self.project
    }

    /// Runs a tool. What it complains about goes to the log and to the client, its
    /// progress to whoever asked for it.
    async fn run(
        &self,
        tool: Arc<ToolItem>,
        arguments: &JsonObject,
        running: &Running,
    ) -> Result<ToolAnswer, CallError> {
        let place = place(&self.contexts, arguments);
        let name = tool.name.clone();
        let mut call = self.project.begin(tool, arguments, &place).await?;
        let mut lines = self.redactor.lines();
        while let Some(said) = call.said().await {
            match said {
                Said::Line(line) => {
                    let line = lines.clean(&line).into_owned();
                    tracing::info!(tool = name, line, "tool says");
                    running.log(Level::Info, &name, &line).await;
                }
                Said::Progress(far) => {
                    running.reached(far.progress, far.total, far.message.as_deref());
                }
            }
        }
        call.answer().await
    }
}

impl Catalog for Served {
    fn tools(&self) -> Vec<Tool> {
        let now = self.project.current();
        let all = now.tools.iter();
        all.filter_map(|one| shown(&one.definition)).collect()
    }

    fn call<'a>(
        &'a self,
        request: &'a CallToolRequestParams,
        running: &'a Running,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<Called<'a>> {
        let tool = self.project.current().tool(&request.name).cloned()?;
        Some(Box::pin(async move {
            let began = Instant::now();
            let none = JsonObject::new();
            let arguments = request.arguments.as_ref().unwrap_or(&none);
            let outcome = tokio::select! {
                biased;
                // Dropping the call ends the process.
                () = context.ct.cancelled() => None,
                outcome = self.run(tool, arguments, running) => Some(outcome),
            };
            let seconds = began.elapsed().as_secs_f64();
            let label = match &outcome {
                None => "cancelled",
                Some(Ok(answer)) if !answer.is_error => "ok",
                Some(Err(CallError::Missing(_))) => "invalid",
                Some(_) => "failed",
            };
            self.metrics.called(FILE_TOOL, label, seconds);
            tracing::debug!(tool = %request.name, seconds, label, "tool of the project ended");
            match outcome {
                None => Err(ErrorData::internal_error("the call was cancelled", None)),
                Some(Ok(answer)) => Ok(cleaned(&self.redactor, result(answer)).into()),
                Some(Err(error)) => {
                    if !matches!(error, CallError::Missing(_)) {
                        tracing::warn!(tool = %request.name, seconds, %error, "tool of the project failed");
                    }
                    Ok(cleaned(&self.redactor, failure(&error)).into())
                }
            }
        }))
    }

    fn prompts(&self) -> Vec<Prompt> {
        let now = self.project.current();
        let all = now.prompts.iter();
        all.filter_map(|one| shown(&one.definition)).collect()
    }

    fn prompt(
        &self,
        request: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResult, ErrorData>> {
        let prompt = self.project.current().prompt(&request.name).cloned()?;
        let none = JsonObject::new();
        let given = request.arguments.as_ref().unwrap_or(&none);
        let filled = kubecrier_project::render(&prompt, given)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None));
        Some(filled.and_then(|text| {
            let result = json!({
                "description": prompt.definition.get("description"),
                "messages": [{"role": prompt.role, "content": {"type": "text", "text": text}}],
            });
            serde_json::from_value(result)
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))
        }))
    }

    fn hashes(&self) -> Option<Hashes> {
        Some(self.project.current().hashes.clone())
    }

    /// What a prompt of the folder takes, nobody knows the values of.
    fn complete(&self, prompt: &str, _argument: &str, _given: &str) -> Option<Vec<String>> {
        self.project.current().prompt(prompt).map(|_| Vec::new())
    }
}

impl Family for Served {
    fn owns(&self, uri: &str) -> bool {
        self.project.has(uri)
    }

    fn entries(&self, _who: &Who) -> Vec<Resource> {
        let now = self.project.current();
        let all = now.resources.iter();
        all.filter_map(|one| shown(&one.definition)).collect()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let now = self.project.current();
        let all = now.templates.iter();
        all.filter_map(|one| shown(&one.definition)).collect()
    }

    fn read<'a>(&'a self, uri: &'a str, _who: &'a Who) -> Reading<'a> {
        Box::pin(async move {
            let place = place(&self.contexts, &JsonObject::new());
            let body = self.project.read(uri, &place).await;
            let body = body.map_err(|error| match error {
                ReadError::NotFound => ResourceError::not_found(uri),
                other => ResourceError::Unavailable(format!("`{uri}`: {other}")),
            })?;
            let content = match String::from_utf8(body.bytes) {
                Ok(text) => ("text", self.redactor.workload(&text).into_owned()),
                Err(not_text) => ("blob", STANDARD.encode(not_text.into_bytes())),
            };
            let mut contents = json!({"uri": uri, content.0: content.1});
            if let Some(mime_type) = body.mime_type {
                contents["mimeType"] = mime_type.into();
            }
            let contents: ResourceContents = serde_json::from_value(contents)
                .map_err(|error| ResourceError::Unavailable(error.to_string()))?;
            Ok(vec![contents])
        })
    }

    fn may_subscribe(&self, uri: &str, _who: &Who) -> Result<(), ResourceError> {
        if !self.project.has(uri) {
            return Err(ResourceError::not_found(uri));
        }
        if self.project.stamp(uri).is_none() {
            return Err(ResourceError::Invalid(format!(
                "`{uri}` is made when it is read, so nobody can tell when it changes; read it again"
            )));
        }
        Ok(())
    }

    fn follow(&self, uri: &str, updates: &Updates) -> Lease {
        let stop = CancellationToken::new();
        let lease = Lease::new(stop.clone().drop_guard());
        let (project, updates, uri) = (self.project.clone(), updates.clone(), uri.to_owned());
        // Now, not when the task gets its turn: what changes from here on is told.
        let mut passes = project.subscribe();
        let mut last = project.stamp(&uri);
        self.lifecycle.spawn("resource of the project", async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    pass = passes.changed() => if pass.is_err() { return },
                }
                let now = project.stamp(&uri);
                if now != last {
                    updates.updated(&uri, None, None::<&Value>);
                }
                last = now;
            }
        });
        lease
    }
}
