//! `initialize` with less than the protocol demands.
//!
//! Clients that are a few lines of shell send `"params": {}`. Nothing that they leave out
//! is needed to serve them, so it gets a default, as in several SDKs. What is there must
//! be of its kind.

use bytes::Bytes;
use rmcp::model::InitializeRequestParams;
use serde_json::{Value, json};

use super::{INVALID_PARAMS, INVALID_REQUEST, Refusal, explain, is_id};

/// The version that is meant if none is named.
const VERSION: &str = "2025-11-25";

/// Adds what an `initialize` leaves out; `version` is the one that the client has named
/// elsewhere.
pub(crate) fn complete(text: &Bytes, version: Option<&str>) -> Result<Bytes, Refusal> {
    let Ok(mut message) = serde_json::from_slice::<Value>(text) else {
        return Err(explain(text));
    };
    if message["jsonrpc"] != "2.0" || message.get("id").is_some_and(|id| !is_id(id)) {
        return Err(explain(text));
    }
    if message.get("id").is_none() {
        let text = "`initialize` is a request: give it an `id`";
        return Err(Refusal::new(INVALID_REQUEST, text));
    }
    let given = message["params"].take();
    let params = match completed(given, version.unwrap_or(VERSION)) {
        Ok(params) => params,
        Err(wrong) => return Err(Refusal::to(&message, INVALID_PARAMS, wrong)),
    };
    message["params"] = params;
    Ok(message.to_string().into())
}

fn completed(given: Value, version: &str) -> Result<Value, String> {
    let mut params = object("params", given)?;
    let info = object("params.clientInfo", params["clientInfo"].take())?;
    params["clientInfo"] = info;
    for (key, default) in [("name", "unknown"), ("version", "unknown")] {
        fill(&mut params["clientInfo"], key, json!(default));
    }
    fill(&mut params, "protocolVersion", json!(version));
    fill(&mut params, "capabilities", json!({}));
    for (path, value) in [
        ("protocolVersion", &params["protocolVersion"]),
        ("clientInfo.name", &params["clientInfo"]["name"]),
        ("clientInfo.version", &params["clientInfo"]["version"]),
    ] {
        if !value.is_string() {
            return Err(format!("`params.{path}` must be a string"));
        }
    }
    if !params["capabilities"].is_object() {
        return Err("`params.capabilities` must be an object".to_owned());
    }
    match serde_json::from_value::<InitializeRequestParams>(params.clone()) {
        Ok(_) => Ok(params),
        Err(error) => Err(format!("`params`: {error}")),
    }
}

/// An object, which is empty if it was left out.
fn object(name: &str, value: Value) -> Result<Value, String> {
    match value {
        Value::Null => Ok(json!({})),
        Value::Object(_) => Ok(value),
        _ => Err(format!("`{name}` must be an object")),
    }
}

fn fill(object: &mut Value, key: &str, default: Value) {
    if object[key].is_null() {
        object[key] = default;
    }
}
