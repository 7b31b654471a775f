//! What an operator leaves out: kinds and tools.

use super::ConfigError;
use crate::{cluster, mcp};

impl From<mcp::BadOffer> for ConfigError {
    fn from(bad: mcp::BadOffer) -> Self {
        let mcp::BadOffer {
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
pub(super) fn denied(kinds: &[String]) -> Result<cluster::DeniedKinds, ConfigError> {
    cluster::DeniedKinds::new(kinds).map_err(|value| ConfigError::Value {
        origin: String::new(),
        key: "denied-kinds",
        value,
        expected: "a kind such as Secret, configmaps or certificates.cert-manager.io".to_owned(),
    })
}
