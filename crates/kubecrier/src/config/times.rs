//! The times of sessions, of their answers, and of what is kept.

use std::{ops::RangeInclusive, time::Duration};

use kubecrier_core::duration;

use super::ConfigError;

/// A week; a session that was silent for longer is an oversight.
const IDLE_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24 * 7);
const HEARTBEAT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
/// A client that comes back later has given its request up.
const PARK_FOR: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
const POLL_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
const PROJECT_TTL: Duration = Duration::from_secs(5);

/// An hour is what clusters keep themselves.
const HISTORY_AGE: RangeInclusive<Duration> =
    Duration::from_hours(1)..=Duration::from_hours(24 * 3650);

pub(super) fn history_age(text: String) -> Result<Duration, ConfigError> {
    let expected = "a time from 1h to 3650d, such as 12h or 7d";
    let time = duration::parse(&text).ok();
    (time.filter(|time| HISTORY_AGE.contains(time)))
        .ok_or_else(|| wrong("history-max-age", text, expected))
}

pub(super) fn idle_timeout(text: String) -> Result<Duration, ConfigError> {
    let expected = "a time from 1s to 7d, such as 90s or 5m";
    let time = duration::parse(&text).ok();
    (time.filter(|time| IDLE_TIMEOUT.contains(time)))
        .ok_or_else(|| wrong("session-idle-timeout", text, expected))
}

/// The interval of pings; `None` disables them.
pub(super) fn heartbeat(text: String) -> Result<Option<Duration>, ConfigError> {
    let expected = "a time from 1s to 1h, such as 5s or 1m, or 0s for never";
    or_never("heartbeat-interval", text, &HEARTBEAT, expected)
}

/// How long an answer is parked; zero is never.
pub(super) fn park_for(text: String) -> Result<Duration, ConfigError> {
    let expected = "a time from 1s to 1h, such as 30s or 2m, or 0s for never";
    let time = or_never("parked-answer-timeout", text, &PARK_FOR, expected)?;
    Ok(time.unwrap_or_default())
}

/// After what time a client polls for its answer; `None` is never.
pub(super) fn poll_after(text: String) -> Result<Option<Duration>, ConfigError> {
    let expected = "a time from 1s to 1h, such as 20s or 1m, or 0s for never";
    or_never("poll-answers-after", text, &POLL_AFTER, expected)
}

/// A time in a range, or none for a time of zero.
fn or_never(
    key: &'static str,
    text: String,
    allowed: &RangeInclusive<Duration>,
    expected: &str,
) -> Result<Option<Duration>, ConfigError> {
    match duration::parse(&text) {
        Ok(Duration::ZERO) => Ok(None),
        Ok(time) if allowed.contains(&time) => Ok(Some(time)),
        _ => Err(wrong(key, text, expected)),
    }
}

fn wrong(key: &'static str, value: String, expected: &str) -> ConfigError {
    ConfigError::Value {
        origin: String::new(),
        key,
        value,
        expected: expected.to_owned(),
    }
}
/// How long a scan of the project is valid.
pub(super) fn ttl(key: &'static str, text: Option<String>) -> Result<Duration, ConfigError> {
    let allowed = Duration::from_secs(1)..=Duration::from_hours(1);
    let Some(text) = text else {
        return Ok(PROJECT_TTL);
    };
    match duration::parse(&text) {
        Ok(time) if allowed.contains(&time) => Ok(time),
        _ => Err(ConfigError::Value {
            origin: String::new(),
            key,
            value: text,
            expected: "a time from 1s to 1h, such as 5s".to_owned(),
        }),
    }
}
