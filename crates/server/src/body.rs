//! The body of a POST: one JSON object within the size limit and the deadline, and a permit
//! for the work that it asks for. Every other body is refused with an answer that gives the
//! reason.
//!
//! A permit lives as long as the work: in the parts of the request, which rmcp hands to the
//! handler, and in the answer until the client has taken it (`exchange`). A session's call
//! goes on when its client disconnects, as the protocol wants, and keeps its permit; a call
//! of the protocol without sessions is cancelled by rmcp.

mod json;

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

use std::{borrow::Cow, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;
use tokio::time::timeout;

use self::json::{INVALID_REQUEST, PARSE_ERROR, check_json, first};
use crate::{caller::Caller, sessions::Sessions, share};
use kubecrier_core::shares::{CallerShare, LimitName, LimitReached, Permit, ShareKey, SharedLimit};

/// No MCP request is longer.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What begins a session or a stream is kept for as long as that, so it has to be small.
const LASTING_BYTES_MAX: usize = 128 * 1024;

/// All messages that are being read or worked on, with what they become in memory.
const BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a value of a message takes in memory, about, besides its bytes.
const VALUE_BYTES: usize = 64;

/// No MCP request has more values.
const VALUES_MAX: usize = 100_000;

/// An honest client does not send more after its request was too large.
const DISCARDED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A body that takes longer is not on its way.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Reads messages and counts what they ask for.
#[derive(Debug)]
pub(super) struct RequestGate {
    calls: SharedLimit,
    bodies: SharedLimit,
    sessions: Arc<Sessions>,
}

/// What a request holds until its work is done and its answer is taken. An extension of the
/// request.
#[derive(Clone, Debug)]
pub(super) struct RequestPermit {
    _held: Arc<[Permit]>,
}

/// Whether a request is `initialize`, which begins a session. An extension of the
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsInitialize(pub(super) bool);

#[derive(Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Option<IgnoredAny>,
}

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    /// A session.
    Initialize,
    /// A stream of the protocol without sessions.
    Listen,
    /// Any other request.
    Call,
    /// An answer, or a notification such as that a call is cancelled.
    Reply,
}

// === impl RequestGate ===

impl RequestGate {
    pub(super) fn new(calls: SharedLimit, share: CallerShare, sessions: Arc<Sessions>) -> Self {
        let name = LimitName::new("bytes of messages", "");
        Self {
            calls,
            bodies: SharedLimit::new(name, BODIES_BYTES_MAX, share),
            sessions,
        }
    }

    /// For whom a request counts. A session that is not the caller's own is none.
    fn key(&self, headers: &HeaderMap) -> ShareKey {
        let id = headers
            .get("mcp-session-id")
            .and_then(|id| id.to_str().ok());
        let session = id.and_then(|id| self.sessions.find(id));
        let id = session.as_ref().map(|session| session.session().id());
        share::key(&Caller::current(), share::current_peer(), id)
    }
}

// === impl MessageKind ===

impl MessageKind {
    fn of(body: &[u8]) -> Self {
        // A struct is read from an array too, and `["initialize"]` is no message.
        if first(body) != Some(b'{') {
            return Self::Call;
        }
        // What cannot be read here may still be a request for rmcp.
        let Ok(head) = serde_json::from_slice::<MessageHead<'_>>(body) else {
            return Self::Call;
        };
        match (head.method.as_deref(), head.id) {
            (Some("initialize"), _) => Self::Initialize,
            (Some("subscriptions/listen"), Some(_)) => Self::Listen,
            (Some(_), Some(_)) => Self::Call,
            (None, _) | (_, None) => Self::Reply,
        }
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::Initialize | Self::Listen => LASTING_BYTES_MAX,
            Self::Call | Self::Reply => BODY_BYTES_MAX,
        }
    }
}

/// Middleware: reads and checks the body of a POST.
pub(super) async fn check(
    State(gate): State<Arc<RequestGate>>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let key = gate.key(request.headers());
    let (parts, body) = request.into_parts();
    let (body, message) = match read(body, &gate.bodies, &key).await {
        Ok(read) => read,
        Err(refused) => return refused,
    };
    let kind = MessageKind::of(&body);
    if body.len() > kind.bytes_max() {
        return too_large(kind.bytes_max());
    }
    let mut held = vec![message];
    // An answer or a cancellation makes room, so there is always room for it.
    if kind != MessageKind::Reply {
        match gate.calls.acquire(&key) {
            Ok(call) => held.push(call),
            Err(reached) => return busy(&reached),
        }
    }
    let permit = RequestPermit { _held: held.into() };
    let mut request = Request::from_parts(parts, Body::from(body));
    let extensions = request.extensions_mut();
    extensions.insert(IsInitialize(kind == MessageKind::Initialize));
    match kind {
        // What lasts counts as a session; as a call, only until it has begun.
        MessageKind::Initialize | MessageKind::Listen => {
            let begun = next.run(request).await;
            drop(permit);
            begun
        }
        MessageKind::Call | MessageKind::Reply => {
            extensions.insert(permit);
            next.run(request).await
        }
    }
}

async fn read(
    body: Body,
    bodies: &SharedLimit,
    key: &ShareKey,
) -> Result<(Bytes, Permit), Response> {
    let mut permit = bodies
        .acquire_many(key, 0)
        .map_err(|reached| busy(&reached))?;
    let collected = match timeout(BODY_WITHIN, collect(body, &mut permit)).await {
        Ok(Ok(collected)) => collected,
        Ok(Err(BodyError::TooLarge)) => return Err(too_large(BODY_BYTES_MAX)),
        Ok(Err(BodyError::Limit(reached))) => return Err(busy(&reached)),
        Ok(Err(BodyError::Transport(error))) => {
            let text = format!("the body could not be read: {error}");
            return Err(refuse(StatusCode::BAD_REQUEST, PARSE_ERROR, &text));
        }
        Err(_elapsed) => {
            return Err((StatusCode::REQUEST_TIMEOUT, "the body did not come\n").into_response());
        }
    };
    let values = check_json(&collected)
        .map_err(|(code, text)| refuse(StatusCode::BAD_REQUEST, code, &text))?;
    if values > VALUES_MAX {
        let text = format!("a request has at most {VALUES_MAX} values");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(refuse(status, INVALID_REQUEST, &text));
    }
    let grown = permit.grow(values * VALUE_BYTES);
    grown.map_err(|reached| busy(&reached))?;
    Ok((collected, permit))
}

enum BodyError {
    TooLarge,
    Limit(LimitReached),
    Transport(axum::Error),
}

/// The body. What is too much is read and thrown away: a client that is still writing when
/// the connection closes never sees why.
async fn collect(mut body: Body, permit: &mut Permit) -> Result<Bytes, BodyError> {
    let mut kept = BytesMut::new();
    let mut seen = 0;
    let mut refused = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(BodyError::Transport)?.into_data() else {
            continue;
        };
        seen += data.len();
        if seen > DISCARDED_BYTES_MAX {
            break;
        }
        if refused.is_none() {
            refused = if seen > BODY_BYTES_MAX {
                Some(BodyError::TooLarge)
            } else {
                permit.grow(data.len()).err().map(BodyError::Limit)
            };
        }
        match refused {
            None => kept.extend_from_slice(&data),
            Some(_) => kept = BytesMut::new(),
        }
    }
    match refused {
        None => Ok(kept.freeze()),
        Some(refused) => Err(refused),
    }
}

fn too_large(bytes_max: usize) -> Response {
    let text = format!("a request has at most {bytes_max} bytes");
    refuse(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &text)
}

/// A limit is reached: the caller's own, or the server's.
fn busy(reached: &LimitReached) -> Response {
    let status = if reached.is_callers() {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    tracing::debug!(%reached, caller = %Caller::current(), "request refused");
    let text = format!("{reached}; try again when some have been answered\n");
    (status, [(RETRY_AFTER, "1")], text).into_response()
}

fn refuse(status: StatusCode, code: i32, message: &str) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests;
