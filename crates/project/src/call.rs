//! Calling a tool of the project, and reading a resource of it.

use std::{
    collections::BTreeMap, ffi::OsString, fs::File, io::Read, os::unix::fs::MetadataExt,
    path::Path, sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    file_of,
    item::{Backing, Program, Refusal, Snapshot, ToolItem},
    process::{Ended, Environment, Job, RunError, Running, Said, describe},
    project::Project,
    safety::Guard,
    template,
};

/// What may be read of a file.
const READ_MAX: u64 = 10 << 20;
/// How long a provider may take.
const PROVIDER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// What a provider says with its exit code.
const NOT_FOUND: i32 = 3;
/// The kinds of content that the protocol has.
const CONTENT: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Where a call is about.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The kubeconfig files, as `KUBECONFIG` has them.
    pub kubeconfig: Option<OsString>,
    /// The context that is meant.
    pub context: Option<String>,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// Content in the protocol's own words.
    pub content: Vec<Value>,
    /// The same as data, if it is.
    pub structured: Option<Value>,
    /// Whether it is a failure.
    pub is_error: bool,
}

/// A tool that runs.
#[derive(Debug)]
pub struct Call {
    tool: Arc<ToolItem>,
    running: Running,
}

/// Why a tool did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The arguments do not fit.
    #[error("the argument `{0}` is missing")]
    Missing(String),
    /// It is no longer safe to run.
    #[error("`{}` is not run: {}", .0.path, .0.reason)]
    Refused(Refusal),
    /// It did not run to its end.
    #[error("the tool `{tool}` gave no answer: {error}{}", hint.as_deref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
    Run {
        /// Which.
        tool: String,
        /// Why.
        error: RunError,
        /// What its author says to do.
        hint: Option<String>,
    },
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceBody {
    /// The bytes; text if they are UTF-8.
    pub bytes: Vec<u8>,
    /// Their type, if the resource says.
    pub mime_type: Option<String>,
}

/// Why a resource cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is none, or no longer, or not for a caller.
    #[error("there is no such resource")]
    NotFound,
    /// It is there and cannot be had.
    #[error("the resource cannot be read: {0}")]
    Failed(String),
}

// === impl Project ===

impl Project {
    /// Starts a tool. Dropping the future, or the call, ends its process.
    pub async fn begin(
        &self,
        tool: Arc<ToolItem>,
        arguments: &Map<String, Value>,
        place: &Place,
    ) -> Result<Call, CallError> {
        let required = tool.definition["inputSchema"]["required"].as_array();
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if arguments.get(name).is_none_or(Value::is_null) {
                return Err(CallError::Missing(name.to_owned()));
            }
        }
        self.check(&tool.program).map_err(CallError::Refused)?;
        let given = Value::Object(arguments.clone()).to_string();
        let mut environment = self
            .environment()
            .with("MCP_TOOL_NAME", &tool.name)
            .with("MCP_TOOL_ARGS_JSON", &given);
        for (name, value) in arguments {
            environment = environment.with(variable(name), plain(value));
        }
        let job = Job {
            program: tool.program.path.clone(),
            folder: tool.program.folder.clone(),
            arguments: Vec::new(),
            stdin: Bytes::from(given),
            environment: at(environment, place).into_vec(),
            timeout: tool.timeout,
        };
        match self.runner().start(job).await {
            Ok(running) => Ok(Call { tool, running }),
            Err(error) => Err(no_answer(&tool, error)),
        }
    }

    /// Looks once more, right before it is run: rights may have changed since.
    fn check(&self, program: &Program) -> Result<(), Refusal> {
        let user = rustix::process::geteuid().as_raw();
        let guard = Guard::new(&self.config().root, user)?;
        guard.look(&program.folder)?;
        guard.look(&program.path)?;
        Ok(())
    }

    /// Whether some resource of the project has this address.
    pub fn has(&self, uri: &str) -> bool {
        find(&self.current(), uri).is_some()
    }

    /// Tells one content of a file-backed resource from another; `None` for what a
    /// command makes.
    pub fn stamp(&self, uri: &str) -> Option<String> {
        let now = self.current();
        let (backing, _, variables) = find(&now, uri)?;
        let Backing::File(path) = backing else {
            return None;
        };
        let root = &self.config().root;
        let path = match path {
            Some(path) => template::fill(path, &variables),
            None => file_of(root, uri)?,
        };
        let meta = std::fs::metadata(root.join(path)).ok();
        let stamp = meta.map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        Some(format!("{stamp:?}"))
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str, place: &Place) -> Result<ResourceBody, ReadError> {
        let now = self.current();
        let (backing, mime_type, variables) = find(&now, uri).ok_or(ReadError::NotFound)?;
        let bytes = match backing {
            Backing::Command(program) => self.provide(program, uri, &variables, place).await?,
            Backing::File(path) => {
                let root = self.config().root.clone();
                let path = match path {
                    Some(path) => template::fill(path, &variables),
                    None => file_of(&root, uri).ok_or(ReadError::NotFound)?,
                };
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

    async fn provide(
        &self,
        program: &Program,
        uri: &str,
        variables: &BTreeMap<String, String>,
        place: &Place,
    ) -> Result<Vec<u8>, ReadError> {
        self.check(program)
            .map_err(|refusal| ReadError::Failed(refusal.reason))?;
        let mut environment = self.environment();
        for (name, value) in variables {
            environment = environment.with(variable(name), value);
        }
        let job = Job {
            program: program.path.clone(),
            folder: program.folder.clone(),
            arguments: vec![uri.into()],
            stdin: Bytes::new(),
            environment: at(environment, place).into_vec(),
            timeout: PROVIDER_TIMEOUT,
        };
        let failed = |error: RunError| ReadError::Failed(format!("`{}`: {error}", program.file));
        let log = |said| {
            if let Said::Line(line) = said {
                tracing::info!(provider = program.file, line, "provider says");
            }
        };
        let running = self.runner().start(job).await.map_err(failed)?;
        let ended = running.finish(log).await.map_err(failed)?;
        match ended.status.code() {
            Some(0) => Ok(ended.stdout),
            Some(NOT_FOUND) => Err(ReadError::NotFound),
            _ => Err(ReadError::Failed(format!(
                "`{}`: {}: {}",
                program.file,
                describe(ended.status),
                ended.complaints.join("; ")
            ))),
        }
    }
}

// === impl Call ===

impl Call {
    /// What it says next; `None` when it has ended and said everything.
    pub async fn said(&mut self) -> Option<Said> {
        self.running.said().await
    }

    /// What it answers.
    pub async fn answer(self) -> Result<ToolAnswer, CallError> {
        match self.running.ended().await {
            Ok(ended) => Ok(answer(&self.tool, &ended)),
            Err(error) => Err(no_answer(&self.tool, error)),
        }
    }
}

fn no_answer(tool: &ToolItem, error: RunError) -> CallError {
    let hint = tool.timeout_hint.clone();
    CallError::Run {
        tool: tool.name.clone(),
        hint: hint.filter(|_| matches!(error, RunError::Timeout(_))),
        error,
    }
}

type Match<'a> = (&'a Backing, Option<&'a String>, BTreeMap<String, String>);

fn find<'a>(now: &'a Arc<Snapshot>, uri: &str) -> Option<Match<'a>> {
    if let Some(one) = now.resource(uri) {
        return Some((&one.backing, one.mime_type.as_ref(), BTreeMap::new()));
    }
    now.templates.iter().find_map(|one| {
        let variables = one.template.variables(uri)?;
        Some((&one.backing, one.mime_type.as_ref(), variables))
    })
}

fn read_file(root: &Path, path: &str) -> Result<Vec<u8>, ReadError> {
    let user = rustix::process::geteuid().as_raw();
    let refused = |refusal: Refusal| {
        tracing::debug!(path = refusal.path, reason = refusal.reason, "not read");
        ReadError::NotFound
    };
    let guard = Guard::new(root, user).map_err(refused)?;
    let real = guard.inside(&root.join(path)).map_err(refused)?;
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

fn at(mut environment: Environment, place: &Place) -> Environment {
    if let Some(files) = &place.kubeconfig {
        environment = environment.with("KUBECONFIG", files);
    }
    if let Some(context) = &place.context {
        environment = environment.with("KUBECRIER_CONTEXT", context);
    }
    environment
}

/// `podName` is `KUBECRIER_ARG_PODNAME`, `dry-run` is `KUBECRIER_ARG_DRY_RUN`.
fn variable(name: &str) -> String {
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

/// A text as it is, everything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a tool printed is its answer: content in the protocol's words, or text.
fn answer(tool: &ToolItem, ended: &Ended) -> ToolAnswer {
    let failed = !ended.status.success();
    let text = String::from_utf8_lossy(&ended.stdout);
    let data = serde_json::from_str::<Value>(text.trim()).ok();
    if let Some(Value::Object(result)) = &data
        && let Some(Value::Array(content)) = result.get("content")
        && content.iter().all(is_content)
    {
        return ToolAnswer {
            content: content.clone(),
            structured: result.get("structuredContent").cloned(),
            is_error: failed || result.get("isError") == Some(&Value::Bool(true)),
        };
    }
    if let Some(Value::Array(content)) = &data
        && !content.is_empty()
        && content.iter().all(is_content)
    {
        return ToolAnswer {
            content: content.clone(),
            structured: None,
            is_error: failed,
        };
    }
    let mut text = text.trim_end().to_owned();
    if failed {
        let said = ended.complaints.join("\n");
        let parts = [text, describe(ended.status), said];
        text = parts
            .iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join("\n");
    }
    // A tool that promises data must give some, and data is an object.
    let promised = tool.definition.get("outputSchema").is_some();
    ToolAnswer {
        content: vec![json!({"type": "text", "text": text})],
        structured: data.filter(|data| promised && data.is_object()),
        is_error: failed,
    }
}

fn is_content(value: &Value) -> bool {
    value["type"]
        .as_str()
        .is_some_and(|kind| CONTENT.contains(&kind))
}

#[cfg(test)]
mod tests;
