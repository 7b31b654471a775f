//! A project folder in the protocol's terms: a provider of resources, tools and
//! prompts.

use std::sync::Arc;

use mcp_notify::{ContentHash, Level};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, ContentBlock, GetPromptRequestParams, JsonObject,
        Prompt, Resource, ResourceContents, ResourceTemplate, Tool,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    content,
    output::{ToolError, cleaned},
    reporter::RequestReporter,
    resources::{
        FollowGuard, ReadFuture, Requester, ResourceError, ResourceProvider, UpdatePublisher,
    },
    server::Setup,
    shared_reads::SharedRead,
    tool_provider::{CallFuture, FilledPrompt, ToolProvider},
    tools::{self, DefinitionCache},
};
use kubecrier_core::metrics::Metrics;
use kubecrier_k8s::{ClusterError, Contexts};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_project::{
    self, CallError, CallTarget, ItemKind, ListHashes, ProcessEvent, Project, ReadError,
    ReservedNames, TaskSupport, ToolAnswer, ToolItem,
};
use kubecrier_redact::Redactor;

/// URI schemes that are built in.
const SCHEMES: [&str; 2] = ["k8s", "kubecrier"];

/// The metrics label of all project tools: their names are not a closed set.
const FILE_TOOL: &str = "file_tool";

/// A project as clients see it: a family of resources, and a catalog of tools and
/// prompts.
#[derive(Clone, Debug)]
pub(super) struct ProjectProvider {
    project: Project,
    contexts: Arc<Contexts>,
    lifecycle: Lifecycle,
    metrics: Metrics,
    redactor: Redactor,
    definitions: Arc<Definitions>,
}

/// The lists of the folder as clients see them, each by the hash of its content.
#[derive(Debug, Default)]
struct Definitions {
    tools: DefinitionCache<ContentHash>,
    resources: DefinitionCache<ContentHash, Resource>,
    templates: DefinitionCache<ContentHash, ResourceTemplate>,
    prompts: DefinitionCache<ContentHash, Prompt>,
}

/// Whether the protocol can express a definition. The scan asks, so that a definition
/// without a valid form is refused there, by name.
fn accepts(kind: ItemKind, definition: &Value) -> Result<(), String> {
    fn read<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
        let read = serde_json::from_value::<T>(value.clone());
        read.map(|_| ()).map_err(|error| error.to_string())
    }
    match kind {
        ItemKind::Tool => read::<Tool>(definition),
        ItemKind::Resource => read::<Resource>(definition),
        ItemKind::ResourceTemplate => read::<ResourceTemplate>(definition),
        ItemKind::Prompt => read::<Prompt>(definition),
    }
}

/// The cluster of a call: the context it names, which has to exist, else the default one.
pub(super) fn call_target(
    contexts: &Contexts,
    arguments: &JsonObject,
) -> Result<CallTarget, ClusterError> {
    let named = arguments.get("context").and_then(Value::as_str);
    let context = match named.filter(|name| !name.is_empty()) {
        Some(name) => Some(contexts.resolve(Some(name))?),
        None => default_context(contexts),
    };
    Ok(CallTarget {
        kubeconfig: contexts.kubeconfig(),
        context,
    })
}

/// The default context; none if there is no kubeconfig, which not every tool needs.
fn default_context(contexts: &Contexts) -> Option<String> {
    let all = contexts.list().ok()?;
    Some(all.into_iter().find(|one| one.default)?.name)
}

/// The result of a tool's answer, cleaned.
pub(super) fn result(redactor: &Redactor, answer: ToolAnswer) -> CallToolResult {
    let block = |mut value: Value| {
        content::clean_block(redactor, &mut value);
        content::to_block(value)
    };
    let content = answer.content.into_iter().map(block).collect();
    let mut result = if answer.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = answer.structured.map(|mut data| {
        redactor.json(&mut data);
        data
    });
    result
}

/// Why it did not.
pub(super) fn failure(error: &CallError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_string())])
}

/// Cleans on a thread of its own: an answer may have megabytes.
pub(super) async fn cleaning<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let cleaned = tokio::task::spawn_blocking(work).await;
    cleaned.map_err(|error| error.to_string())
}

// === impl ProjectProvider ===

impl ProjectProvider {
    /// The project in a folder; nothing is read yet.
    pub(super) fn new(config: kubecrier_project::Config, setup: &Setup) -> Self {
        let names = tools::TOOLS.iter().map(|entry| entry.name.to_owned());
        let reserved = ReservedNames {
            tools: names.collect(),
            schemes: SCHEMES.map(str::to_owned).to_vec(),
        };
        Self {
            project: Project::new(config, reserved, accepts, &setup.lifecycle),
            contexts: Arc::clone(&setup.contexts),
            lifecycle: setup.lifecycle.clone(),
            metrics: setup.metrics.clone(),
            redactor: setup.redactor.clone(),
            definitions: Arc::default(),
        }
    }

    pub(super) fn project(&self) -> &Project {
        &self.project
    }

    /// An accepted definition as rmcp's type, cleaned.
    fn shown<T: DeserializeOwned>(&self, definition: &Value) -> Option<T> {
        serde_json::from_value(content::clean_definition(&self.redactor, definition)).ok()
    }

    /// Runs a tool. Its stderr goes to the log and to the client, its progress to a
    /// client that asked for progress.
    async fn run(
        &self,
        tool: Arc<ToolItem>,
        arguments: &JsonObject,
        target: &CallTarget,
        reporter: &RequestReporter,
    ) -> Result<ToolAnswer, CallError> {
        let name = tool.name.clone();
        let mut call = self.project.start_call(tool, arguments, target).await?;
        let cleaners = || self.redactor.lines();
        let (mut lines, mut steps, mut messages) = (cleaners(), cleaners(), cleaners());
        while let Some(said) = call.next_event().await {
            match said {
                ProcessEvent::Log(line) => {
                    let line = lines.clean(&line).into_owned();
                    tracing::info!(tool = name, line, "tool says");
                    reporter.log(Level::Info, &name, &line).await;
                }
                ProcessEvent::Message(message) => {
                    let level = message.level.parse().unwrap_or(Level::Info);
                    let logger = message.logger.as_deref().unwrap_or(&name);
                    let logger = self.redactor.workload(logger).into_owned();
                    let data = match message.data {
                        Value::String(text) => messages.clean(&text).into_owned().into(),
                        mut other => {
                            self.redactor.json(&mut other);
                            other
                        }
                    };
                    tracing::info!(tool = name, logger, line = %data, "tool says");
                    reporter.log(level, &logger, &data).await;
                }
                ProcessEvent::Progress(far) => {
                    let text = far.message.as_deref().map(|text| steps.clean(text));
                    reporter.progress(far.progress, far.total, text.as_deref());
                }
            }
        }
        call.answer().await
    }
}

impl ToolProvider for ProjectProvider {
    fn tools(&self) -> Arc<[Tool]> {
        let now = self.project.current();
        let cache = &self.definitions.tools;
        cache.get(now.hashes.tools.clone(), |_hash| {
            let all = now.tools.iter();
            all.filter_map(|one| self.shown(&one.definition)).collect()
        })
    }

    fn call<'a>(
        &'a self,
        request: &'a CallToolRequestParams,
        reporter: &'a RequestReporter,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<CallFuture<'a>> {
        let tool = self.project.current().tool(&request.name).cloned()?;
        Some(Box::pin(async move {
            let began = Instant::now();
            let none = JsonObject::new();
            let arguments = request.arguments.as_ref().unwrap_or(&none);
            let target = match call_target(&self.contexts, arguments) {
                Ok(target) => target,
                Err(error) => {
                    let error = ToolError::from(error);
                    let seconds = began.elapsed().as_secs_f64();
                    self.metrics.called(FILE_TOOL, "invalid", seconds);
                    return Ok(error.into_result(&self.redactor).into());
                }
            };
            let outcome = tokio::select! {
                biased;
                // Dropping the call ends the process.
                () = context.ct.cancelled() => None,
                outcome = self.run(tool, arguments, &target, reporter) => Some(outcome),
            };
            let seconds = began.elapsed().as_secs_f64();
            let label = match &outcome {
                None => "cancelled",
                Some(Ok(answer)) if !answer.is_error => "ok",
                Some(Err(CallError::Arguments(_))) => "invalid",
                Some(_) => "failed",
            };
            self.metrics.called(FILE_TOOL, label, seconds);
            tracing::debug!(tool = %request.name, seconds, label, "tool of the project ended");
            match outcome {
                None => Err(ErrorData::internal_error("the call was cancelled", None)),
                Some(Ok(answer)) => {
                    let redactor = self.redactor.clone();
                    let clean = cleaning(move || result(&redactor, answer)).await;
                    let clean = clean.map_err(|error| ErrorData::internal_error(error, None))?;
                    Ok(clean.into())
                }
                Some(Err(error)) => {
                    if !matches!(error, CallError::Arguments(_)) {
                        tracing::warn!(tool = %request.name, seconds, %error, "tool of the project failed");
                    }
                    Ok(cleaned(&self.redactor, failure(&error)).into())
                }
            }
        }))
    }

    fn task_support(&self, tool: &str) -> Option<TaskSupport> {
        self.project.current().tool(tool)?.task
    }

    fn prompts(&self) -> Vec<Prompt> {
        let now = self.project.current();
        let cache = &self.definitions.prompts;
        let prompts = cache.get(now.hashes.prompts.clone(), |_hash| {
            let all = now.prompts.iter();
            all.filter_map(|one| self.shown(&one.definition)).collect()
        });
        prompts.to_vec()
    }

    fn prompt(&self, request: &GetPromptRequestParams) -> Option<Result<FilledPrompt, ErrorData>> {
        let prompt = self.project.current().prompt(&request.name).cloned()?;
        let none = JsonObject::new();
        let given = request.arguments.as_ref().unwrap_or(&none);
        let filled = kubecrier_project::render(&prompt, given)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None));
        Some(filled.map(|messages| {
            let definition = content::clean_definition(&self.redactor, &prompt.definition);
            let description = definition["description"].as_str();
            FilledPrompt {
                description: description.map(str::to_owned),
                messages,
            }
        }))
    }

    fn hashes(&self) -> Option<ListHashes> {
        Some(self.project.current().hashes.clone())
    }

    /// The values of a project prompt's arguments are not known.
    fn complete(&self, prompt: &str, _argument: &str, _given: &str) -> Option<Vec<String>> {
        self.project.current().prompt(prompt).map(|_| Vec::new())
    }
}

impl ResourceProvider for ProjectProvider {
    fn owns(&self, uri: &str) -> bool {
        self.project.has(uri)
    }

    fn shared_updates(&self) -> Option<SharedRead> {
        None
    }

    fn is_executed(&self) -> bool {
        true
    }

    fn list(&self, _requester: &Requester) -> Vec<Resource> {
        let now = self.project.current();
        let cache = &self.definitions.resources;
        let resources = cache.get(now.hashes.resources.clone(), |_hash| {
            let all = now.resources.iter();
            all.filter_map(|one| self.shown(&one.definition)).collect()
        });
        resources.to_vec()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let now = self.project.current();
        let cache = &self.definitions.templates;
        let templates = cache.get(now.hashes.resources.clone(), |_hash| {
            let all = now.templates.iter();
            all.filter_map(|one| self.shown(&one.definition)).collect()
        });
        templates.to_vec()
    }

    fn read<'a>(&'a self, uri: &'a str, _requester: &'a Requester) -> ReadFuture<'a> {
        Box::pin(async move {
            let target = CallTarget {
                kubeconfig: self.contexts.kubeconfig(),
                context: default_context(&self.contexts),
            };
            let mut lines = self.redactor.lines();
            let clean = |line: &str| lines.clean(line).into_owned();
            let body = self.project.read(uri, &target, clean).await;
            let body = body.map_err(|error| match error {
                ReadError::NotFound => ResourceError::not_found(uri),
                ReadError::Uri(why) => ResourceError::Invalid(why),
                other => ResourceError::Unavailable(format!("`{uri}`: {other}")),
            })?;
            let (redactor, name) = (self.redactor.clone(), uri.to_owned());
            let clean = move || {
                let mime_type = body.mime_type.as_deref();
                content::contents(&redactor, &name, &body.bytes, mime_type)
            };
            let contents = cleaning(clean).await.map_err(ResourceError::Unavailable)?;
            let contents: ResourceContents = serde_json::from_value(contents)
                .map_err(|error| ResourceError::Unavailable(error.to_string()))?;
            Ok(vec![contents])
        })
    }

    fn may_subscribe(&self, uri: &str, _requester: &Requester) -> Result<(), ResourceError> {
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

    fn follow(&self, uri: &str, updates: &UpdatePublisher) -> FollowGuard {
        let stop = CancellationToken::new();
        let lease = FollowGuard::new(stop.clone().drop_guard());
        let (project, updates, uri) = (self.project.clone(), updates.clone(), uri.to_owned());
        // Subscribes here and not in the task: a change before the task first runs must
        // be published, too.
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
                    updates.publish(&uri, None, None::<&Value>);
                }
                last = now;
            }
        });
        lease
    }
}
