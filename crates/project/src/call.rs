//! Calls of the project's tools.

use std::{ffi::OsString, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    arguments,
    item::{Rejection, ToolItem},
    process::{
        Environment, ProcessEvent, ProcessHandle, ProcessOutput, ProcessSpec, RunError,
        describe_exit,
    },
    project::Project,
    safety::PathChecker,
};

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
    /// The arguments do not fit the tool's schema, or cannot be passed on.
    #[error("{0}")]
    Arguments(String),
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

// === impl Project ===

impl Project {
    /// Starts a tool call. Dropping the future, or the call, ends the process.
    pub async fn start_call(
        &self,
        tool: Arc<ToolItem>,
        arguments: &Map<String, Value>,
        target: &CallTarget,
    ) -> Result<Call, CallError> {
        let variables = arguments::variables(arguments).map_err(CallError::Arguments)?;
        let given = Value::Object(arguments.clone());
        tool.input.check(&given).map_err(CallError::Arguments)?;
        let program = PathChecker::new(&tool.program.root)
            .and_then(|checker| checker.open_program(&tool.program))
            .map_err(CallError::Rejected)?;
        let input = given.to_string();
        let mut environment = self
            .environment()
            .with("MCP_TOOL_NAME", &tool.name)
            .with("MCP_TOOL_ARGS_JSON", &input);
        for (name, value) in variables {
            environment = environment.with(name, value);
        }
        let spec = ProcessSpec {
            program,
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

/// Adds the cluster that a call is about.
pub(super) fn with_target(mut environment: Environment, target: &CallTarget) -> Environment {
    if let Some(files) = &target.kubeconfig {
        environment = environment.with("KUBECONFIG", files);
    }
    if let Some(context) = &target.context {
        environment = environment.with("KUBECRIER_CONTEXT", context);
    }
    environment
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
