//! The format of log records.

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
