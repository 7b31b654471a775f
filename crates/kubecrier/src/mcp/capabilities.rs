//! What the server declares.

use mcp_notify::ProtocolVersion;
use rmcp::model::ServerCapabilities;

/// What is declared is what is there, at that version; `subscribe` if there are
/// resources to subscribe to.
pub(super) fn at(version: &ProtocolVersion, subscribe: bool) -> ServerCapabilities {
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
    if let Some(resources) = all.resources.as_mut().filter(|_| subscribe) {
        resources.subscribe = Some(true);
    }
    // The newest protocol has log messages only inside of a request, and ours are
    // not about one.
    if *version < ProtocolVersion::V_2026_07_28 {
        all.logging = Some(serde_json::Map::new());
    }
    all
}
