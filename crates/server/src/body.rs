//! The body of a POST: one JSON object within the size limit and the deadline. Every
//! other body is refused with an answer that gives the reason.

use std::{borrow::Cow, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;
use tokio::{sync::Semaphore, time::timeout};

/// No MCP request is longer.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An honest client does not send more after its request was too large.
const DISCARDED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A body that takes longer is not on its way.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// JSON-RPC's own codes.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// The limit on concurrent requests.
#[derive(Debug)]
pub(super) struct RequestLimit(Semaphore);

impl RequestLimit {
    pub(super) fn new(requests_max: usize) -> Self {
        Self(Semaphore::new(requests_max))
    }
}

/// Whether a request is `initialize`, which begins a session. An extension of the
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsInitialize(pub(super) bool);

#[derive(Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
}

fn is_initialize(body: &[u8]) -> IsInitialize {
    // A struct is read from an array too, and `["initialize"]` is no message.
    if first(body) != Some(b'{') {
        return IsInitialize(false);
    }
    let head = serde_json::from_slice::<MessageHead<'_>>(body);
    IsInitialize(head.is_ok_and(|head| head.method.as_deref() == Some("initialize")))
}

/// Middleware: reads and checks the body of a POST.
pub(super) async fn check(
    State(limit): State<Arc<RequestLimit>>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let Ok(_permit) = limit.0.try_acquire() else {
        let text = "too many requests at once (--max-concurrent-requests); try again\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response();
    };
    let (parts, body) = request.into_parts();
    match read(body).await {
        Ok(body) => {
            let begins = is_initialize(&body);
            let mut request = Request::from_parts(parts, Body::from(body));
            request.extensions_mut().insert(begins);
            next.run(request).await
        }
        Err(refused) => refused,
    }
}

async fn read(body: Body) -> Result<Bytes, Response> {
    let collected = match timeout(BODY_WITHIN, collect(body)).await {
        Ok(Ok(Some(collected))) => collected,
        Ok(Ok(None)) => {
            let text = format!("a request has at most {BODY_BYTES_MAX} bytes");
            return Err(refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                INVALID_REQUEST,
                &text,
            ));
        }
        Ok(Err(error)) => {
            let text = format!("the body could not be read: {error}");
            return Err(refuse(StatusCode::BAD_REQUEST, PARSE_ERROR, &text));
        }
        Err(_elapsed) => {
            return Err((StatusCode::REQUEST_TIMEOUT, "the body did not come\n").into_response());
        }
    };
    check_json(&collected).map_err(|(code, text)| refuse(StatusCode::BAD_REQUEST, code, &text))?;
    Ok(collected)
}

/// The body, or nothing if it is too large. What is too much is read and thrown
/// away: a client that is still writing when the connection closes never sees why.
async fn collect(mut body: Body) -> Result<Option<Bytes>, axum::Error> {
    let mut kept = BytesMut::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        seen += data.len();
        if seen <= BODY_BYTES_MAX {
            kept.extend_from_slice(&data);
        } else if seen > DISCARDED_BYTES_MAX {
            break;
        } else {
            kept = BytesMut::new();
        }
    }
    Ok((seen <= BODY_BYTES_MAX).then(|| kept.freeze()))
}

fn first(body: &[u8]) -> Option<u8> {
    body.iter()
        .copied()
        .find(|byte| !byte.is_ascii_whitespace())
}

/// Checks that a body is one JSON object.
fn check_json(body: &[u8]) -> Result<(), (i32, String)> {
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        return Err((PARSE_ERROR, format!("not JSON: {error}")));
    }
    match first(body) {
        Some(b'{') => Ok(()),
        Some(b'[') => Err((
            INVALID_REQUEST,
            "batches are not taken: send one message a request".to_owned(),
        )),
        _ => Err((INVALID_REQUEST, "a message is a JSON object".to_owned())),
    }
}

fn refuse(status: StatusCode, code: i32, message: &str) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_begins_a_session_is_known() {
        let begins = |body: &str| is_initialize(body.as_bytes()).0;
        assert!(begins(r#"{"id":1,"method":"initialize","params":{}}"#));
        assert!(begins(r#"{"id":1,"method":"initial\u0069ze"}"#));
        assert!(!begins(r#"{"id":1,"method":"tools/list"}"#));
        assert!(!begins(r#"{"params":{"method":"initialize"}}"#));
        assert!(!begins(r#"["initialize"]"#));
    }

    #[test]
    fn only_one_json_object_is_a_message() {
        let code = |body: &str| check_json(body.as_bytes()).err().map(|(code, _)| code);
        assert_eq!(code(r#" {"jsonrpc":"2.0"}"#), None);
        assert_eq!(code(r#"[{"jsonrpc":"2.0"}]"#), Some(INVALID_REQUEST));
        assert_eq!(code("3"), Some(INVALID_REQUEST));
        for broken in ["", "{", "{]", "{} {}", "\u{feff}{}", "nul"] {
            assert_eq!(code(broken), Some(PARSE_ERROR), "{broken}");
        }
        // Deep nesting is an error, not a crash.
        assert_eq!(code(&"[".repeat(100_000)), Some(PARSE_ERROR));
    }

    /// The quick check agrees with a full parse.
    fn check_against_a_full_parse(body: &[u8]) -> Result<(), TestCaseError> {
        let parsed = serde_json::from_slice::<serde_json::Value>(body);
        let answer = check_json(body);
        let is_object = parsed.as_ref().is_ok_and(serde_json::Value::is_object);
        // A number may be too large for the full parser and yet be JSON.
        if parsed.is_ok() || answer.is_err() {
            prop_assert_eq!(answer.is_ok(), is_object);
        }
        if let Err((_, text)) = &answer {
            prop_assert!(!text.is_empty() && text.len() < 300, "{}", text);
        }
        if is_initialize(body).0
            && let Ok(parsed) = parsed
        {
            prop_assert_eq!(&parsed["method"], "initialize");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn fuzz_any_bytes_are_answered(body in prop::collection::vec(any::<u8>(), 0..200)) {
            check_against_a_full_parse(&body)?;
        }

        #[test]
        fn fuzz_what_looks_like_a_message_is_answered(
            body in r#"[ \n]{0,2}[\[{]{0,3}("(method|id|params)":)?("initialize"|\[|\{|null|-?[0-9e.]{1,30}|"\\\\u[0-9a-f]{0,4}")?,?[}\]]{0,3}"#,
        ) {
            check_against_a_full_parse(body.as_bytes())?;
        }
    }
}
