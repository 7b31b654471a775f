//! What an operator leaves out: kinds and tools.

use super::ConfigError;

impl From<kubecrier_server::BadOffer> for ConfigError {
    fn from(bad: kubecrier_server::BadOffer) -> Self {
        let kubecrier_server::BadOffer {
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

/// Kinds that nobody may read.
pub(super) fn denied(kinds: &[String]) -> Result<kubecrier_k8s::DeniedKinds, ConfigError> {
    kubecrier_k8s::DeniedKinds::new(kinds).map_err(|value| ConfigError::Value {
        origin: String::new(),
        key: "denied-kinds",
        value,
        expected: "a kind such as Secret, configmaps or certificates.cert-manager.io".to_owned(),
    })
}
