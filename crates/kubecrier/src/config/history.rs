//! Where and how much of what happens is kept.

use std::path::PathBuf;

use kubecrier_history::{HistoryConfig, Retention};

use super::{ConfigError, times};

/// The history; the other settings are useless without a folder.
pub(super) fn read(
    folder: Option<PathBuf>,
    max_age: Option<String>,
    max_bytes: Option<u64>,
) -> Result<Option<HistoryConfig>, ConfigError> {
    let given = [
        ("history-max-age", max_age.is_some()),
        ("history-max-bytes", max_bytes.is_some()),
    ];
    let Some(folder) = folder else {
        return match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((given, _)) => Err(ConfigError::Incomplete {
                given,
                missing: "history",
            }),
        };
    };
    let defaults = Retention::default();
    Ok(Some(HistoryConfig {
        folder: std::path::absolute(&folder).unwrap_or(folder),
        retention: Retention {
            age_max: match max_age {
                None => defaults.age_max,
                Some(text) => times::history_age(text)?,
            },
            bytes_max: max_bytes.unwrap_or(defaults.bytes_max),
        },
    }))
}
