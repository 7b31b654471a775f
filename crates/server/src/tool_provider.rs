//! Tools and prompts beside the built-in ones.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, GetPromptRequestParams, Prompt, Tool},
    service::RequestContext,
};

use serde_json::Value;

use super::reporter::RequestReporter;
use kubecrier_project::{ListHashes, TaskSupport};

/// A source of tools and prompts. Their lists may change at any time: they are compared
/// every few seconds and after every call, and sessions are notified of a change.
pub(super) trait ToolProvider: fmt::Debug + Send + Sync + 'static {
    /// The tools, in the order clients see. rmcp needs a definition per call, so they
    /// are shared and not made per call.
    fn tools(&self) -> Arc<[Tool]>;

    /// Calls one of them; `None` if there is none of that name.
    fn call<'a>(
        &'a self,
        request: &'a CallToolRequestParams,
        reporter: &'a RequestReporter,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<CallFuture<'a>>;

    /// Whether calls of that tool can be tasks of the protocol.
    fn task_support(&self, _tool: &str) -> Option<TaskSupport> {
        None
    }

    /// The prompts, in the order clients see.
    fn prompts(&self) -> Vec<Prompt>;

    /// Fills one of them in; `None` if there is none of that name.
    fn prompt(&self, request: &GetPromptRequestParams) -> Option<Result<FilledPrompt, ErrorData>>;

    /// The hashes of its lists, if it has them: then the lists are not made only to
    /// find out whether they changed.
    fn hashes(&self) -> Option<ListHashes> {
        None
    }

    /// Values for an argument of a prompt that begin with `given`; `None` if there is
    /// no such prompt.
    fn complete(&self, prompt: &str, argument: &str, given: &str) -> Option<Vec<String>>;
}

/// A prompt with its arguments filled in, not cleaned yet.
pub(super) struct FilledPrompt {
    /// What it is for, cleaned.
    pub(super) description: Option<String>,
    /// Messages of the protocol. Of an embedded resource there may be only the URI.
    pub(super) messages: Vec<Value>,
}

/// A running call.
pub(super) type CallFuture<'a> =
    Pin<Box<dyn Future<Output = Result<CallToolResponse, ErrorData>> + Send + 'a>>;
