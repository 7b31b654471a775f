//! What a transport checks of a message before rmcp reads it, and the answer to what is no
//! message: JSON-RPC's own codes, and what is wrong.
//!
//! - `values`: whether text is JSON, and of how many values;
//! - `initialize`: what a client may leave out of it;
//! - `task_ids`: what a listen asks for and rmcp does not read;
//! - `batch`: several messages in one array, which one protocol version has.

mod batch;
mod initialize;
mod task_ids;
mod values;

use serde_json::{Value, json};

pub(crate) use self::{
    batch::{BatchItem, batches_are_known, not_in_this_version, split},
    initialize::complete,
    task_ids::TaskIds,
    values::{Checked, Shape, check, first},
};

/// JSON-RPC's own codes.
pub(crate) const PARSE_ERROR: i32 = -32700;
pub(crate) const INVALID_REQUEST: i32 = -32600;
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// No MCP request is longer.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The answer to something that is no message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    /// The id of the request, or `null` if it has none that can be told.
    pub(crate) id: Value,
    pub(crate) code: i32,
    pub(crate) message: String,
}

// === impl Refusal ===

impl Refusal {
    /// The answer to text whose id is not known.
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            id: Value::Null,
            code,
            message: message.into(),
        }
    }

    /// The answer to a request.
    fn to(message: &Value, code: i32, text: impl Into<String>) -> Self {
        Self {
            id: id_of(message),
            ..Self::new(code, text)
        }
    }

    /// The answer to a message that is too long.
    pub(crate) fn too_large(bytes_max: usize) -> Self {
        Self::new(
            INVALID_REQUEST,
            format!("a request has at most {bytes_max} bytes"),
        )
    }

    /// The message that is sent.
    pub(crate) fn to_json(&self) -> Value {
        let Self { id, code, message } = self;
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
    }
}

/// What is wrong with JSON that rmcp does not take for a message.
pub(crate) fn explain(text: &[u8]) -> Refusal {
    let Ok(message) = serde_json::from_slice::<Value>(text) else {
        // A number that is JSON, and too large for every type.
        return Refusal::new(PARSE_ERROR, "a number is out of range");
    };
    let is_kind = |key: &str, is: fn(&Value) -> bool| message.get(key).is_none_or(is);
    let wrong = if message.get("jsonrpc") != Some(&json!("2.0")) {
        "`jsonrpc` must be \"2.0\""
    } else if !is_kind("id", is_id) {
        "`id` must be a string or an integer"
    } else if !is_kind("method", Value::is_string) {
        "`method` must be a string"
    } else if !is_kind("params", Value::is_object) {
        "`params` must be an object"
    } else if ["method", "result", "error"]
        .iter()
        .all(|key| message.get(key).is_none())
    {
        "a message has a `method`, a `result` or an `error`"
    } else {
        "not a JSON-RPC 2.0 message of MCP"
    };
    Refusal::to(&message, INVALID_REQUEST, wrong)
}

/// The id of a message, where it has one.
fn id_of(message: &Value) -> Value {
    let id = message.get("id").filter(|id| is_id(id));
    id.cloned().unwrap_or_default()
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

#[cfg(test)]
mod tests;
