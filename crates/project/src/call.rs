//! Calls of the project's tools, and reads of its resources.

use std::{
    collections::BTreeMap, ffi::OsString, fs::File, io::Read, os::unix::fs::MetadataExt,
    path::Path, sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    file_of,
    item::{ContentSource, Program, Rejection, Snapshot, ToolItem},
    process::{
        Environment, ProcessEvent, ProcessHandle, ProcessOutput, ProcessSpec, RunError,
        describe_exit,
    },
    project::Project,
    safety::PathChecker,
    template,
};

/// The size of a file that is read.
const READ_MAX: u64 = 10 << 20;
/// The time that a provider has.
const PROVIDER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// The exit code with which a provider says that there is no such resource.
const NOT_FOUND_EXIT: i32 = 3;
/// The types of content blocks in MCP.
const CONTENT_TYPES: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Names the cluster that a call is about.
#[derive(Clone, Debug, Default)]
pub struct CallTarget {
    /// The kubeconfig files, in the format of `KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    /// The kubeconfig context.
    pub context: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// The content blocks of `tools/call`.
    pub content: Vec<Value>,
    /// The structured content, if the tool gave any.
    pub structured: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A running tool call. Dropping it ends the process.
#[derive(Debug)]
pub struct Call {
    tool: Arc<ToolItem>,
    process: ProcessHandle,
}

/// Says why a tool call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A required argument is missing.
    #[error("the argument `{0}` is missing")]
    Missing(String),
    /// The executable is no longer safe to run.
    #[error("`{}` is not run: {}", .0.path, .0.reason)]
    Rejected(Rejection),
    /// The process did not run to its end.
    #[error("the tool `{tool}` gave no answer: {error}{}", hint.as_deref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
    Run {
        /// The name of the tool.
        tool: String,
        /// The cause.
        error: RunError,
        /// The author's advice.
        hint: Option<String>,
    },
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceBody {
    /// Text if they are UTF-8.
    pub bytes: Vec<u8>,
    /// The type, if the resource has one.
    pub mime_type: Option<String>,
}

/// Says why a resource cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no such resource, or its file may not be read by clients.
    #[error("there is no such resource")]
    NotFound,
    /// The resource exists and reading it failed.
    #[error("the resource cannot be read: {0}")]
    Failed(String),
}

// === impl Project ===

impl Project {
    /// Starts a tool call. Dropping the future, or the call, ends the process.
    pub async fn start_call(
        &self,
        tool: Arc<ToolItem>,
        arguments: &Map<String, Value>,
        target: &CallTarget,
    ) -> Result<Call, CallError> {
        let required = tool.definition["inputSchema"]["required"].as_array();
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if arguments.get(name).is_none_or(Value::is_null) {
                return Err(CallError::Missing(name.to_owned()));
            }
        }
        self.check(&tool.program).map_err(CallError::Rejected)?;
        let input = Value::Object(arguments.clone()).to_string();
        let mut environment = self
            .environment()
            .with("MCP_TOOL_NAME", &tool.name)
            .with("MCP_TOOL_ARGS_JSON", &input);
        for (name, value) in arguments {
            environment = environment.with(variable_name(name), variable_value(value));
        }
        let spec = ProcessSpec {
            program: tool.program.path.clone(),
            working_dir: tool.program.folder.clone(),
            arguments: Vec::new(),
            stdin: Bytes::from(input),
            environment: with_target(environment, target),
            timeout: tool.timeout,
        };
        match self.runner().start(spec).await {
            Ok(process) => Ok(Call { tool, process }),
            Err(error) => Err(call_error(&tool, error)),
        }
    }

    /// Checks an executable right before it runs: its permissions may have changed since
    /// the scan.
    fn check(&self, program: &Program) -> Result<(), Rejection> {
        let checker = PathChecker::new(&self.config().root)?;
        checker.check(&program.folder)?;
        checker.check(&program.path)?;
        Ok(())
    }

    /// Whether a URI is that of a resource of the project.
    pub fn has(&self, uri: &str) -> bool {
        find(&self.current(), uri).is_some()
    }

    /// A stamp that changes with the content of a resource; `None` if the content comes
    /// from a command.
    pub fn stamp(&self, uri: &str) -> Option<String> {
        let now = self.current();
        let (source, _, variables) = find(&now, uri)?;
        let ContentSource::File(path) = source else {
            return None;
        };
        let root = &self.config().root;
        let path = file_path(root, uri, path.as_deref(), &variables)?;
        let meta = std::fs::metadata(root.join(path)).ok();
        let stamp = meta.map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        Some(format!("{stamp:?}"))
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str, target: &CallTarget) -> Result<ResourceBody, ReadError> {
        let now = self.current();
        let (source, mime_type, variables) = find(&now, uri).ok_or(ReadError::NotFound)?;
        let bytes = match source {
            ContentSource::Command(program) => {
                let run = self.run_provider(program, uri, &variables, target);
                run.await?
            }
            ContentSource::File(path) => {
                let root = self.config().root.clone();
                let path = file_path(&root, uri, path.as_deref(), &variables);
                let path = path.ok_or(ReadError::NotFound)?;
                let read = tokio::task::spawn_blocking(move || read_file(&root, &path));
                read.await
                    .map_err(|error| ReadError::Failed(error.to_string()))??
            }
        };
        Ok(ResourceBody {
            bytes,
            mime_type: mime_type.cloned(),
        })
    }

    async fn run_provider(
        &self,
        program: &Program,
        uri: &str,
        variables: &BTreeMap<String, String>,
        target: &CallTarget,
    ) -> Result<Vec<u8>, ReadError> {
        self.check(program)
            .map_err(|rejection| ReadError::Failed(rejection.reason))?;
        let mut environment = self.environment();
        for (name, value) in variables {
            environment = environment.with(variable_name(name), value);
        }
        let spec = ProcessSpec {
            program: program.path.clone(),
            working_dir: program.folder.clone(),
            arguments: vec![uri.into()],
            stdin: Bytes::new(),
            environment: with_target(environment, target),
            timeout: PROVIDER_TIMEOUT,
        };
        let failed = |error: RunError| ReadError::Failed(format!("`{}`: {error}", program.file));
        let log = |event| {
            if let ProcessEvent::Log(line) = event {
                tracing::info!(provider = program.file, line, "provider says");
            }
        };
        let process = self.runner().start(spec).await.map_err(failed)?;
        let output = process.wait_with(log).await.map_err(failed)?;
        match output.status.code() {
            Some(0) => Ok(output.stdout),
            Some(NOT_FOUND_EXIT) => Err(ReadError::NotFound),
            _ => Err(ReadError::Failed(format!(
                "`{}`: {}: {}",
                program.file,
                describe_exit(output.status),
                output.stderr_tail.join("; ")
            ))),
        }
    }
}

// === impl Call ===

impl Call {
    /// The next event; `None` when the process has exited and all events were returned.
    pub async fn next_event(&mut self) -> Option<ProcessEvent> {
        self.process.next_event().await
    }

    /// Waits for the process and returns the result of the call.
    pub async fn answer(self) -> Result<ToolAnswer, CallError> {
        match self.process.wait().await {
            Ok(output) => Ok(answer(&self.tool, &output)),
            Err(error) => Err(call_error(&self.tool, error)),
        }
    }
}

fn call_error(tool: &ToolItem, error: RunError) -> CallError {
    let hint = tool.timeout_hint.clone();
    CallError::Run {
        tool: tool.name.clone(),
        hint: hint.filter(|_| matches!(error, RunError::Timeout(_))),
        error,
    }
}

type Match<'a> = (
    &'a ContentSource,
    Option<&'a String>,
    BTreeMap<String, String>,
);

/// Finds the resource or template of a URI.
fn find<'a>(now: &'a Arc<Snapshot>, uri: &str) -> Option<Match<'a>> {
    if let Some(one) = now.resource(uri) {
        return Some((&one.backing, one.mime_type.as_ref(), BTreeMap::new()));
    }
    now.templates.iter().find_map(|one| {
        let variables = one.template.variables(uri)?;
        Some((&one.backing, one.mime_type.as_ref(), variables))
    })
}

/// The path, relative to the root, behind a URI: that of the item with its variables filled
/// in, or the one that the URI names.
fn file_path(
    root: &Path,
    uri: &str,
    path: Option<&str>,
    variables: &BTreeMap<String, String>,
) -> Option<String> {
    match path {
        Some(path) => Some(template::fill(path, variables)),
        None => file_of(root, uri),
    }
}

fn read_file(root: &Path, path: &str) -> Result<Vec<u8>, ReadError> {
    let rejected = |rejection: Rejection| {
        tracing::debug!(path = rejection.path, reason = rejection.reason, "not read");
        ReadError::NotFound
    };
    let checker = PathChecker::new(root).map_err(rejected)?;
    let real = checker.resolve_inside(&root.join(path)).map_err(rejected)?;
    let failed = |error: std::io::Error| ReadError::Failed(error.to_string());
    let file = File::open(real).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(ReadError::NotFound);
    }
    let mut bytes = Vec::new();
    file.take(READ_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > READ_MAX {
        return Err(ReadError::Failed(format!(
            "it has more than {READ_MAX} bytes"
        )));
    }
    Ok(bytes)
}

fn with_target(mut environment: Environment, target: &CallTarget) -> Environment {
    if let Some(files) = &target.kubeconfig {
        environment = environment.with("KUBECONFIG", files);
    }
    if let Some(context) = &target.context {
        environment = environment.with("KUBECRIER_CONTEXT", context);
    }
    environment
}

/// The variable of an argument: `podName` is `KUBECRIER_ARG_PODNAME`, `dry-run` is
/// `KUBECRIER_ARG_DRY_RUN`.
fn variable_name(name: &str) -> String {
    let plain = |one: char| {
        if one.is_ascii_alphanumeric() {
            one.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!(
        "KUBECRIER_ARG_{}",
        name.chars().map(plain).collect::<String>()
    )
}

/// A string as it is, any other value as JSON.
fn variable_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Makes the result of what a tool printed: MCP content if it is that, else text.
fn answer(tool: &ToolItem, output: &ProcessOutput) -> ToolAnswer {
    let failed = !output.status.success();
    let text = String::from_utf8_lossy(&output.stdout);
    let data = serde_json::from_str::<Value>(text.trim()).ok();
    let content = match &data {
        Some(Value::Object(result)) => result.get("content").and_then(Value::as_array),
        Some(Value::Array(list)) if !list.is_empty() => Some(list),
        _ => None,
    };
    if let (Some(result), Some(content)) = (&data, content)
        && content.iter().all(is_content)
    {
        return ToolAnswer {
            content: content.clone(),
            structured: result.get("structuredContent").cloned(),
            is_error: failed || result.get("isError") == Some(&Value::Bool(true)),
        };
    }
    let mut text = text.trim_end().to_owned();
    if failed {
        let stderr = output.stderr_tail.join("\n");
        let parts = [text, describe_exit(output.status), stderr];
        text = parts
            .iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join("\n");
    }
    // A tool that declares an output schema has to return data, and data is an object.
    let declared = tool.definition.get("outputSchema").is_some();
    ToolAnswer {
        content: vec![json!({"type": "text", "text": text})],
        structured: data.filter(|data| declared && data.is_object()),
        is_error: failed,
    }
}

fn is_content(value: &Value) -> bool {
    value["type"]
        .as_str()
        .is_some_and(|kind| CONTENT_TYPES.contains(&kind))
}

#[cfg(test)]
mod tests;
