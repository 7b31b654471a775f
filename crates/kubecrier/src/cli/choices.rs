//! Settings with a closed set of values.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

/// The format of log records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Plain,
    /// One JSON object per line.
    Json,
}

/// As whom callers act in clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IdentityChoice {
    /// As the server: whoever may call reads what the server may read.
    Shared,
    /// As their own Kubernetes user: each caller reads what Kubernetes lets this user read.
    Impersonate,
}
