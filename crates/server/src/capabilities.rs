//! The capabilities that the server declares.

use mcp_notify::ProtocolVersion;
use rmcp::model::{ServerCapabilities, TASKS_EXTENSION_ID};

/// Features whose declaration depends on what is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedFeatures {
    /// There are resources to subscribe to.
    pub(super) subscribe: bool,
    /// There is something that takes arguments.
    pub(super) completions: bool,
    /// There is a call that can be a task.
    pub(super) tasks: bool,
}

/// The capabilities at a protocol version: only what is served is declared.
pub(super) fn at(version: &ProtocolVersion, offered: ServedFeatures) -> ServerCapabilities {
    let mut all = ServerCapabilities::builder()
        .enable_tools()
        .enable_tool_list_changed()
        .enable_resources()
        .enable_resources_list_changed()
        .enable_prompts()
        .enable_prompts_list_changed()
        .build();
    if !version.allows_list_changed() {
        all = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
    }
    if let Some(resources) = all.resources.as_mut().filter(|_| offered.subscribe) {
        resources.subscribe = Some(true);
    }
    // The first version has completion, and no way to declare it.
    if offered.completions && *version > ProtocolVersion::V_2024_11_05 {
        all.completions = Some(serde_json::Map::new());
    }
    // The newest protocol has log messages only inside of a request, and the server's
    // own messages belong to none.
    if *version < ProtocolVersion::V_2026_07_28 {
        all.logging = Some(serde_json::Map::new());
    } else if offered.tasks {
        all.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new())].into());
    }
    all
}
