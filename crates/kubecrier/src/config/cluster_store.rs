//! The store of servers that work together.

use std::path::PathBuf;

use kubecrier_nats::NatsConfig;

use super::ConfigError;

/// The settings of the store, as they were given.
pub(super) struct StoreSettings {
    pub(super) servers: Option<Vec<String>>,
    pub(super) fleet: Option<String>,
    pub(super) credentials_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) has_port: bool,
}

// === impl StoreSettings ===

impl StoreSettings {
    /// The store; the other settings are useless without an address of it.
    pub(super) fn read(self) -> Result<Option<NatsConfig>, ConfigError> {
        let Self {
            servers,
            fleet,
            credentials_file,
            ca_file,
            has_port,
        } = self;
        let given = [
            ("cluster-store-fleet", fleet.is_some()),
            ("cluster-store-credentials", credentials_file.is_some()),
            ("cluster-store-ca-file", ca_file.is_some()),
        ];
        let servers = servers.unwrap_or_default();
        if servers.is_empty() {
            let useless = given.into_iter().find(|(_, is_given)| *is_given);
            return useless.map_or(Ok(None), |(given, _)| {
                Err(ConfigError::Incomplete {
                    given,
                    missing: "cluster-store",
                })
            });
        }
        if !has_port {
            // A server on stdio has one client, which no other server can serve.
            return Err(ConfigError::Incomplete {
                given: "cluster-store",
                missing: "port",
            });
        }
        let defaults = NatsConfig::default();
        let config = NatsConfig {
            servers,
            fleet: fleet.unwrap_or(defaults.fleet),
            credentials_file,
            ca_file,
            log_max_age: defaults.log_max_age,
            log_max_bytes: defaults.log_max_bytes,
            replicas: defaults.replicas,
        };
        config.check().map_err(|error| ConfigError::ClusterStore {
            why: error.to_string(),
        })?;
        Ok(Some(config))
    }
}
