//! Kinds and tools that an operator excludes.

use super::ConfigError;

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

/// Kinds that cannot be read.
pub(super) fn denied(kinds: &[String]) -> Result<kubecrier_k8s::DeniedKinds, ConfigError> {
    kubecrier_k8s::DeniedKinds::new(kinds).map_err(|value| ConfigError::Value {
        origin: String::new(),
        key: "denied-kinds",
        value,
        expected: "a kind such as Secret, configmaps or certificates.cert-manager.io".to_owned(),
    })
}
