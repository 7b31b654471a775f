//! Settings of sinks: `[[sink]]` in the configuration file, `--sink` for those without secrets.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// One sink: a table, or only the URL of one.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "SinkForm")]
pub struct SinkEntry(pub SinkTable);

/// As it is written, for the schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "the names of the schema")]
enum SinkForm {
    /// A URL such as `alertmanager+http://host:9093`.
    Url(String),
    /// A table.
    Table(Box<SinkTable>),
}

/// Reads a text or a table. An untagged enum would not say which key is wrong.
struct SinkVisitor;

/// A `[[sink]]`. Secrets are named by file or variable, and never written here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SinkTable {
    /// `alertmanager`, `alertmanager-webhook`, `cloudevents`, `a2a` or `exec`; may be the
    /// beginning of the URL instead
    pub kind: String,
    /// `https://host/path`, or `kind+https://host/path`
    pub url: String,
    /// File with the URL, for one that is a secret
    pub url_file: Option<PathBuf>,
    /// Variable with the URL, for one that is a secret
    pub url_env: Option<String>,
    /// Name in logs and metrics; the kind and a number if there is none
    pub name: String,
    /// Contexts to follow; the current one if there are none
    pub contexts: Vec<String>,
    /// Namespaces, names or patterns; all that may be read if there are none
    pub namespaces: Vec<String>,
    /// The least severity: `info`, `warning` or `critical`
    pub severity: String,
    /// Detectors; all if there are none
    pub detectors: Vec<String>,
    /// What is sent: `opened`, `changed`, `resolved`; opened and resolved if nothing is said
    pub transitions: Vec<String>,
    /// File with a bearer token
    pub bearer_token_file: Option<PathBuf>,
    /// Variable with a bearer token
    pub bearer_token_env: Option<String>,
    /// User of basic authentication
    pub basic_auth_user: String,
    /// File with the password
    pub basic_auth_password_file: Option<PathBuf>,
    /// Variable with the password
    pub basic_auth_password_env: Option<String>,
    /// File with the secrets of Standard Webhooks, one per line; each signs
    pub signing_secret_file: Option<PathBuf>,
    /// Variable with the secrets, apart by spaces
    pub signing_secret_env: Option<String>,
    /// Authorities to trust over TLS, instead of those of the system (PEM)
    pub ca_file: Option<PathBuf>,
    /// `structured` or `binary`, of cloudevents
    pub format: String,
    /// Labels of every alert
    pub labels: BTreeMap<String, String>,
    /// Program and arguments, of exec
    pub command: Vec<String>,
    /// Variables that the program gets, besides PATH and those of the incident
    pub pass_env: Vec<String>,
    /// How long a delivery may take, such as `10s`; 10s, and 1m for exec
    pub timeout: String,
    /// Incidents that can wait; 1000 if nothing is said
    pub queue_max: Option<u64>,
}

// === impl SinkEntry ===

impl FromStr for SinkEntry {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(SinkTable {
            url: text.to_owned(),
            ..SinkTable::default()
        }))
    }
}

impl<'de> Deserialize<'de> for SinkEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SinkVisitor)
    }
}

impl<'de> Visitor<'de> for SinkVisitor {
    type Value = SinkEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the URL of a sink or a table")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SinkEntry, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SinkEntry, A::Error> {
        SinkTable::deserialize(MapAccessDeserializer::new(map)).map(SinkEntry)
    }
}
