//! A message of A2A 1.0: the incident as text for an agent, and as data.

use serde_json::{Value, json};

use crate::notice::Notice;

/// The version that is sent in the header `A2A-Version`.
pub(crate) const VERSION: &str = "1.0";

/// What to do, for the agent that is told.
fn request(notice: &Notice) -> &'static str {
    if notice.is_resolved() {
        "This incident is over; nothing has to be done."
    } else {
        "Look into this incident: find the cause and say what to do."
    }
}

/// The request `SendMessage`. All messages about an incident have the same context.
pub(crate) fn send_message(notice: &Notice) -> Value {
    let id = notice.message_id();
    let context = format!("kubecrier.{}.{}", notice.context, notice.incident().id);
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "method": "SendMessage",
        "params": {
            "message": {
                "messageId": id,
                "contextId": context,
                "role": "ROLE_USER",
                "parts": [
                    {"text": format!("{}\n\n{}", notice.text(), request(notice))},
                    {"data": notice.data(), "mediaType": "application/json"},
                ],
            },
            // The sink only delivers; nobody waits for what the agent finds.
            "configuration": {"returnImmediately": true},
        },
    })
}

/// The error in the answer of an agent, which may come with status 200.
pub(crate) fn error(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let error = answer.get("error").filter(|error| !error.is_null())?;
    let message = error["message"].as_str().unwrap_or("no message");
    Some(format!("error {} of the agent: {message}", error["code"]))
}
