//! What an operator excludes: tools, kinds, contexts, namespaces and detectors.

use std::str::FromStr;

use super::ConfigError;
use kubecrier_incidents::{Options, OptionsError};
use kubecrier_k8s::{Allowed, AllowedNames, ClusterIdentity, DeniedKinds, IncidentSettings};
use kubecrier_server::ToolFilter;

/// The settings that exclude something.
pub(super) struct Exclusions {
    pub(super) toolsets: Option<Vec<String>>,
    pub(super) disabled_tools: Option<Vec<String>>,
    pub(super) denied_kinds: Option<Vec<String>>,
    pub(super) allowed_contexts: Option<Vec<String>>,
    pub(super) allowed_namespaces: Option<Vec<String>>,
}

// === impl Exclusions ===

impl Exclusions {
    /// What they leave to tools, and to requests to clusters.
    pub(super) fn read(
        self,
        context: Option<&str>,
        has_project: bool,
        identity: ClusterIdentity,
    ) -> Result<(ToolFilter, DeniedKinds, Allowed), ConfigError> {
        let disabled = self.disabled_tools.unwrap_or_default();
        let tool_filter = ToolFilter::new(self.toolsets, disabled, has_project)?;
        let denied = denied(&self.denied_kinds.unwrap_or_default())?;
        let contexts = match self.allowed_contexts {
            None => AllowedNames::default(),
            Some(entries) => AllowedNames::contexts(&entries).map_err(|value| {
                invalid(
                    "allowed-contexts",
                    value,
                    "names or patterns such as dev,stage-*",
                )
            })?,
        };
        if let Some(context) = context.filter(|name| !contexts.allows(name)) {
            let expected = "one of those that --allowed-contexts names";
            return Err(invalid("context", context.to_owned(), expected));
        }
        let namespaces = match self.allowed_namespaces {
            None => AllowedNames::default(),
            Some(entries) => AllowedNames::namespaces(&entries).map_err(|value| {
                invalid(
                    "allowed-namespaces",
                    value,
                    "names or patterns such as shop,team-a-*",
                )
            })?,
        };
        let tool_filter = tool_filter
            .within(&denied, namespaces.is_restricted())
            .for_identity(identity);
        let allowed = Allowed {
            contexts,
            namespaces,
            hides_contexts: !tool_filter.shows_contexts(),
            hides_logs: !tool_filter.shows_logs(),
        };
        Ok((tool_filter, denied, allowed))
    }
}

fn invalid(key: &'static str, value: String, expected: &str) -> ConfigError {
    ConfigError::Value {
        origin: String::new(),
        key,
        value,
        expected: expected.to_owned(),
    }
}

impl From<kubecrier_server::InvalidToolFilter> for ConfigError {
    fn from(bad: kubecrier_server::InvalidToolFilter) -> Self {
        let kubecrier_server::InvalidToolFilter {
            key,
            value,
            expected,
        } = bad;
        Self::Value {
            origin: String::new(),
            key,
            value,
            expected,
        }
    }
}

/// Detectors that are off, and holds that are others than those of the table.
pub(super) fn incidents(
    disabled: Option<Vec<String>>,
    holds: Option<Vec<String>>,
) -> Result<IncidentSettings, ConfigError> {
    let disabled = parsed("incidents.disable", disabled, "the name of a detector")?;
    let expected = "a detector and its times, such as not-ready=5m/1m";
    let holds = parsed("incidents.hold", holds, expected)?;
    Ok(IncidentSettings {
        options: Options::new(disabled, holds),
    })
}

fn parsed<T: FromStr<Err = OptionsError>>(
    key: &'static str,
    given: Option<Vec<String>>,
    expected: &str,
) -> Result<Vec<T>, ConfigError> {
    let each = given.into_iter().flatten().map(|text| {
        let parsed = text.parse();
        parsed.map_err(|error: OptionsError| invalid(key, text, &format!("{expected} ({error})")))
    });
    each.collect()
}

/// Kinds that cannot be read.
fn denied(kinds: &[String]) -> Result<DeniedKinds, ConfigError> {
    DeniedKinds::new(kinds).map_err(|value| {
        let expected = "a kind such as Secret, configmaps or certificates.cert-manager.io";
        invalid("denied-kinds", value, expected)
    })
}
