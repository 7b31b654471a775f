//! Tools and prompts that do not stand in our own table.

use std::{fmt, future::Future, pin::Pin};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResult, Prompt,
        Tool,
    },
    service::RequestContext,
};

use super::running::Running;
use kubecrier_project::Hashes;

/// A source of tools and prompts. Their lists may change at any time: they are asked
/// for every few seconds and after every call, and whoever listens is told.
pub(super) trait Catalog: fmt::Debug + Send + Sync + 'static {
    /// In the order clients see.
    fn tools(&self) -> Vec<Tool>;

    /// Calls one of them; `None` if there is none of that name.
    fn call<'a>(
        &'a self,
        request: &'a CallToolRequestParams,
        running: &'a Running,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<Called<'a>>;

    /// In the order clients see.
    fn prompts(&self) -> Vec<Prompt>;

    /// Fills one of them in; `None` if there is none of that name.
    fn prompt(
        &self,
        request: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResult, ErrorData>>;

    /// What its lists amount to, if it knows: then they are not made only to find out
    /// whether they changed.
    fn hashes(&self) -> Option<Hashes> {
        None
    }

    /// Values for an argument of a prompt that begin with `given`; `None` if there is
    /// no such prompt.
    fn complete(&self, prompt: &str, argument: &str, given: &str) -> Option<Vec<String>>;
}

/// A call under way.
pub(super) type Called<'a> =
    Pin<Box<dyn Future<Output = Result<CallToolResponse, ErrorData>> + Send + 'a>>;
