//! Environment variables: settings, variables that Kubernetes sets, and unknown ones.

use std::ffi::OsString;

use clap::CommandFactory;

use super::ConfigError;
use crate::cli::{Args, TOKEN_VARIABLE, URL_VARIABLE};

/// The prefix of every setting.
const PREFIX: &str = "KUBECRIER_";

/// The prefix of what `watch --exec` tells its programs, which may run this one.
const INCIDENT_PREFIX: &str = "KUBECRIER_INCIDENT_";

/// Variables that are not settings.
const OTHERS: [&str; 2] = [TOKEN_VARIABLE, URL_VARIABLE];

/// An environment variable and the id of its argument.
struct Variable {
    name: String,
    argument: String,
}

/// The command line, for an environment without unknown variables.
pub(super) fn command_for(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<clap::Command, ConfigError> {
    let mut command = Args::command();
    let known: Vec<Variable> = command
        .get_arguments()
        .filter_map(|arg| {
            Some(Variable {
                name: arg.get_env()?.to_str()?.to_owned(),
                argument: arg.get_id().to_string(),
            })
        })
        .collect();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        let setting = known.iter().find(|variable| variable.name == name);
        if value.is_empty() {
            // An empty variable counts as not set; shells and manifests make such.
            if let Some(setting) = setting {
                command = command.mut_arg(&setting.argument, |arg| arg.env(None));
            }
        } else if is_service_link(name, &value) {
            // For a Service called kubecrier, Kubernetes sets KUBECRIER_PORT and the like
            // in every pod of the namespace. They are not settings.
            if name == "KUBECRIER_PORT" {
                command = command.mut_arg("port", |arg| arg.env(None));
            }
        } else if setting.is_none() && !OTHERS.contains(&name) && !name.starts_with(INCIDENT_PREFIX)
        {
            let known: Vec<_> = known
                .iter()
                .map(|variable| variable.name.as_str())
                .chain(OTHERS)
                .collect();
            return Err(ConfigError::UnknownVariable {
                name: name.to_owned(),
                known: known.join(", "),
            });
        }
    }
    Ok(command)
}

/// Whether Kubernetes sets the variable for a Service whose name begins with `kubecrier`:
/// `..._PORT` with a URL, `..._SERVICE_HOST`, `..._SERVICE_PORT_<name>`, `..._PORT_<n>_TCP_<part>`.
fn is_service_link(name: &str, value: &OsString) -> bool {
    let rest = name.strip_prefix("KUBECRIER").unwrap_or_default();
    let numbered_port = rest.split("_PORT_").skip(1).any(|after| {
        let mut parts = after.split('_');
        parts.next().is_some_and(|port| port.parse::<u16>().is_ok())
            && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
    });
    let url = value.to_str().is_some_and(|value| value.contains("://"));
    rest.ends_with("_SERVICE_HOST")
        || rest.ends_with("_SERVICE_PORT")
        || rest.contains("_SERVICE_PORT_")
        || numbered_port
        || (rest.ends_with("_PORT") && url)
}

/// The URL for `watch` in an environment.
pub(super) fn url(environment: &[(OsString, OsString)]) -> Option<String> {
    let (_, url) = (environment.iter()).find(|(name, _)| name == URL_VARIABLE)?;
    let url = url.to_str().filter(|url| !url.is_empty());
    url.map(str::to_owned)
}
