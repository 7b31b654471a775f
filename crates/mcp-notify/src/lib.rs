//! Notifications for MCP servers.
