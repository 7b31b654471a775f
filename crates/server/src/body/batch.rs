//! A batch over HTTP: each message is handed on as if it had come alone, and their answers
//! are one array.
//!
//! What is sent before an answer, such as its progress, has no place in that array and is
//! left out: a client that wants it sends the request alone.

use axum::{
    Json,
    body::{Body, Bytes},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::future::join_all;
use http::{StatusCode, header, request::Parts};
use http_body_util::BodyExt;
use kubecrier_core::shares::ShareKey;
use serde_json::{Value, json};

use super::{ReadBody, RequestGate, forward, refuse};
use crate::jsonrpc::{self, BatchItem, batches_are_known, not_in_this_version};

/// The code of an error that is not the message's.
const INTERNAL_ERROR: i32 = -32603;

pub(super) async fn run(
    gate: &RequestGate,
    key: &ShareKey,
    parts: &Parts,
    body: &ReadBody,
    next: &Next,
) -> Response {
    let id = parts.headers.get("mcp-session-id");
    let session = id
        .and_then(|id| id.to_str().ok())
        .and_then(|id| gate.sessions.find(id));
    let version = session.and_then(|session| session.session().protocol_version());
    if !batches_are_known(version.as_ref()) {
        return refuse(StatusCode::BAD_REQUEST, &not_in_this_version());
    }
    let items = match jsonrpc::split(&body.text) {
        Ok(items) => items,
        Err(refusal) => return refuse(StatusCode::BAD_REQUEST, &refusal),
    };
    let answers = join_all(items.into_iter().map(async |item| match item {
        BatchItem::Message(message) => {
            let mut parts = parts.clone();
            parts.headers.remove(header::CONTENT_LENGTH);
            let id = message.get("id").cloned();
            let text = Bytes::from(message.to_string());
            // The permit for the bytes is the whole batch's, and lives as long.
            let answer = forward(gate, key, parts, text, Vec::new(), next.clone()).await;
            answer_of(id, answer).await
        }
        BatchItem::Refused(refusal) => Some(refusal.to_json()),
    }));
    let answers: Vec<_> = answers.await.into_iter().flatten().collect();
    if answers.is_empty() {
        // Notifications and answers have none.
        return StatusCode::ACCEPTED.into_response();
    }
    Json(answers).into_response()
}

/// The answer to one message, out of the answer to its request; `None` if there is none.
async fn answer_of(id: Option<Value>, answer: Response) -> Option<Value> {
    let status = answer.status();
    if status == StatusCode::ACCEPTED {
        return None;
    }
    let text = collected(answer.into_body()).await;
    let found = match serde_json::from_slice::<Value>(&text) {
        Ok(message) if message.is_object() => Some(message),
        _ => in_events(&text),
    };
    // A request that was cancelled has no answer.
    if found.is_some() || status.is_success() {
        return found;
    }
    let message = String::from_utf8_lossy(&text);
    let error = json!({"code": INTERNAL_ERROR, "message": message.trim_end()});
    Some(json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

async fn collected(body: Body) -> Bytes {
    // A body breaks off when its session ends; then there is no answer in it.
    match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    }
}

/// The response among the events of a stream.
fn in_events(text: &[u8]) -> Option<Value> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data:"))
        .filter_map(|data| serde_json::from_slice::<Value>(data).ok())
        .find(|message| message.get("id").is_some() && message.get("method").is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(status: u16, body: &'static str, expected: Option<Value>) {
        let answer = Response::builder()
            .status(status)
            .body(body.into())
            .unwrap();
        assert_eq!(answer_of(Some(json!(7)), answer).await, expected, "{body}");
    }

    #[tokio::test]
    async fn the_answer_to_a_message_is_found_in_json_and_in_events() {
        let answer = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
        check(
            200,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            Some(answer.clone()),
        )
        .await;
        let events = ": alive\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
                      data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n";
        check(200, events, Some(answer)).await;
        // A notification, and a request that was cancelled.
        check(202, "", None).await;
        check(200, ": alive\n\n", None).await;
        let error = json!({"code": INTERNAL_ERROR, "message": "too many"});
        let error = json!({"jsonrpc": "2.0", "id": 7, "error": error});
        check(429, "too many\n", Some(error)).await;
    }
}
