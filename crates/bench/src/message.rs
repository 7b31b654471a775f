//! The message that is pushed: one log message of about 600 bytes, with its number and the
//! time it was published.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Pads a message to the size of a typical Kubernetes event.
const PADDING: usize = 440;

/// The text before the number of a message.
pub(crate) const NUMBER: &[u8] = b"\"number\":";
/// The text before the time of a message.
pub(crate) const PUBLISHED: &[u8] = b"\"published\":";
/// The text before the number of missing messages, in the announcement of a gap.
pub(crate) const MISSING: &[u8] = b"\"missing\":";

/// The parameters of `notifications/message`.
pub(crate) fn params(number: u64) -> Value {
    json!({"level": "warning", "logger": "bench", "data": data(number)})
}

/// The data alone.
pub(crate) fn data(number: u64) -> Value {
    json!({
        "number": number,
        "published": now_micros(),
        "reason": "BackOff",
        "text": "x".repeat(PADDING),
    })
}

/// The system clock, which all processes of the machine share.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
