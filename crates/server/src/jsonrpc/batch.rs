//! Batches: protocol version 2025-03-26 has them, and no other.

use mcp_notify::ProtocolVersion;
use serde_json::Value;

use super::{INVALID_REQUEST, PARSE_ERROR, Refusal};

/// Messages of one batch run together, so there are not more than a client could have under
/// way.
const BATCH_MESSAGES_MAX: usize = 50;

/// A part of a batch.
#[derive(Debug)]
pub(crate) enum BatchItem {
    /// A message on its own.
    Message(Value),
    /// Not a message, or one that stands alone.
    Refused(Refusal),
}

/// Whether a session of this version may send batches.
pub(crate) fn batches_are_known(version: Option<&ProtocolVersion>) -> bool {
    version == Some(&ProtocolVersion::V_2025_03_26)
}

/// The answer to a batch where there is none.
pub(crate) fn not_in_this_version() -> Refusal {
    Refusal::new(
        INVALID_REQUEST,
        "only protocol version 2025-03-26 has batches: send one message at a time",
    )
}

/// The messages of a batch.
pub(crate) fn split(text: &[u8]) -> Result<Vec<BatchItem>, Refusal> {
    let Ok(items) = serde_json::from_slice::<Vec<Value>>(text) else {
        return Err(Refusal::new(PARSE_ERROR, "a number is out of range"));
    };
    if items.is_empty() {
        let text = "a batch has at least one message";
        return Err(Refusal::new(INVALID_REQUEST, text));
    }
    if items.len() > BATCH_MESSAGES_MAX {
        let text = format!("a batch has at most {BATCH_MESSAGES_MAX} messages");
        return Err(Refusal::new(INVALID_REQUEST, text));
    }
    Ok(items.into_iter().map(item).collect())
}

fn item(message: Value) -> BatchItem {
    let refused = |text: &str| BatchItem::Refused(Refusal::to(&message, INVALID_REQUEST, text));
    if !message.is_object() {
        return refused("a message is a JSON object");
    }
    match message["method"].as_str() {
        Some("initialize") => refused("`initialize` is not part of a batch"),
        // Its answer never ends, and it is of another version.
        Some("subscriptions/listen") => refused("`subscriptions/listen` is not part of a batch"),
        _ => BatchItem::Message(message),
    }
}
