//! `logging/setLevel`, of the versions that have it.

use mcp_notify::Level;
use rmcp::{ErrorData, RoleServer, model::ErrorCode, service::RequestContext};

use super::handler::{Handler, is_modern};

impl Handler {
    pub(super) fn change_level(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(context) {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "logging/setLevel",
                None,
            ));
        }
        let level = parse(name)?;
        let session = self.require_session(context)?;
        self.server.shared.logging.set_level(&session, level);
        Ok(())
    }
}

/// Parses one of the eight levels.
pub(super) fn parse(name: &str) -> Result<Level, ErrorData> {
    name.parse().map_err(|error| {
        let names = Level::ALL.map(|level| level.to_string()).join(", ");
        ErrorData::invalid_params(format!("{error}; levels are: {names}"), None)
    })
}
