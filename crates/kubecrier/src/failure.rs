//! What the process says of a failure, and its exit code.

use kubecrier_client::{ClientError, ViewError};

use crate::install::InstallError;

/// Failed while running.
const FAILURE: u8 = 1;

/// Bad usage or configuration, as in sysexits.h.
pub const USAGE: u8 = 64;

/// The exit code of an error: a name or a file that the user gave and that is not there is bad
/// usage, whenever it is noticed.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let is_usage = error.is::<kubecrier_server::TokenFileError>()
        || error.is::<crate::watch::TokenFileError>()
        || (error.downcast_ref::<InstallError>()).is_some_and(InstallError::is_usage)
        || error.is::<kubecrier_history::OpenError>()
        || error.is::<crate::init::UnfitUrl>()
        || matches!(error.downcast_ref(), Some(ClientError::InvalidUrl(_)))
        || matches!(
            error.downcast_ref::<ViewError>(),
            Some(ViewError::Client(ClientError::UnknownContext { .. }) | ViewError::ToldFile(_))
        );
    if is_usage { USAGE } else { FAILURE }
}

/// The text of an error, with each cause that is not in the text above it already.
pub fn describe(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// What a person who has started the server in a terminal has to know.
pub const IN_A_TERMINAL: &str = "\
this is a terminal, and kubecrier speaks MCP on stdin and stdout

An MCP client starts it like this. In a terminal:

  kubecrier demo             try it on a demo cluster, without configuration
  kubecrier watch -A         follow the events of your cluster here
  kubecrier install CLIENT   connect an MCP client to it
  kubecrier doctor           check clusters, permissions and MCP clients
  kubecrier --port 8080      serve MCP over HTTP, at http://127.0.0.1:8080/mcp
  kubecrier help             all commands and settings

To type messages yourself: cat | kubecrier";

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = std::io::Error::other("it is full");
        let said = anyhow::Error::new(cause).context("cannot write: it is full");
        assert_eq!(describe(&said), "cannot write: it is full");
        let cause = Err::<(), _>(anyhow!("it is full"));
        let unsaid = cause.context("cannot write").unwrap_err();
        assert_eq!(describe(&unsaid), "cannot write: it is full");
        assert_eq!(exit_code(&unsaid), FAILURE);
    }
}
