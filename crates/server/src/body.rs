//! The body of a POST: one message within the size limit and the deadline, or a `batch` of
//! them, and a permit for the work that it asks for. Every other body is refused with an
//! answer that gives the reason.
//!
//! A permit lives as long as the work: in the parts of the request, which rmcp hands to the
//! handler, and in the answer until the client has taken it (`exchange`). A session's call
//! goes on when its client disconnects, as the protocol wants, and keeps its permit; a call
//! of the protocol without sessions is cancelled by rmcp.

mod batch;
mod listened;

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
use http::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
    request::Parts,
};
use http_body_util::BodyExt;
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::timeout;

use crate::{
    audit::{Audit, PendingRecord, RecordedThere},
    caller::Caller,
    jsonrpc::{
        self, Checked, INVALID_REQUEST, MESSAGE_BYTES_MAX, PARSE_ERROR, Refusal, Shape, TaskIds,
        first,
    },
    oauth::gate::ScopeGate,
    server::Work,
    sessions::Sessions,
    share,
    subscriptions::Subscriptions,
    tools::FAULTS_WAIT,
};
use kubecrier_core::shares::{CallerShare, LimitName, LimitReached, Permit, ShareKey, SharedLimit};

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
    waits: SharedLimit,
    bodies: SharedLimit,
    sessions: Arc<Sessions>,
    subscriptions: Subscriptions,
    /// What access tokens have to permit.
    scopes: Option<ScopeGate>,
    audit: Option<Audit>,
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

/// The tool that a message calls.
#[derive(Deserialize)]
struct CallHead<'a> {
    #[serde(borrow)]
    params: CalledTool<'a>,
}

#[derive(Deserialize)]
struct CalledTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    /// A session.
    Initialize,
    /// A stream of the protocol without sessions.
    Listen,
    /// A call that waits for an incident.
    Wait,
    /// Any other request.
    Call,
    /// An answer, or a notification such as that a call is cancelled.
    Reply,
}

// === impl RequestGate ===

impl RequestGate {
    pub(super) fn new(
        work: &Work,
        share: CallerShare,
        sessions: Arc<Sessions>,
        subscriptions: Subscriptions,
        scopes: Option<ScopeGate>,
        audit: Option<Audit>,
    ) -> Self {
        let name = LimitName::new("bytes of messages", "");
        Self {
            calls: work.calls().clone(),
            waits: work.waits().clone(),
            bodies: SharedLimit::new(name, BODIES_BYTES_MAX, share),
            sessions,
            subscriptions,
            scopes,
            audit,
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
            (Some("tools/call"), Some(_)) if is_wait(body) => Self::Wait,
            (Some(_), Some(_)) => Self::Call,
            (None, _) | (_, None) => Self::Reply,
        }
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::Initialize | Self::Listen | Self::Wait => LASTING_BYTES_MAX,
            Self::Call | Self::Reply => MESSAGE_BYTES_MAX,
        }
    }
}

/// Whether a call waits for an incident.
fn is_wait(body: &[u8]) -> bool {
    serde_json::from_slice::<CallHead<'_>>(body).is_ok_and(|head| head.params.name == FAULTS_WAIT)
}

/// Middleware: reads and checks the body of a POST.
pub(super) async fn check(
    State(gate): State<Arc<RequestGate>>,
    request: Request,
    next: Next,
) -> Response {
    // rmcp refuses what is not said to be JSON, and does not read it.
    if request.method() != Method::POST || !is_json(request.headers()) {
        if let Some(refused) = gate.scopes.as_ref().and_then(ScopeGate::check_base) {
            return refused;
        }
        return next.run(request).await;
    }
    let key = gate.key(request.headers());
    let (parts, body) = request.into_parts();
    let body = match read(body, &gate.bodies, &key).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    if let Some(scopes) = &gate.scopes
        && let Some(refused) = scopes
            .check_body(&body.text, body.shape, &gate.subscriptions)
            .await
    {
        if let Some(audit) = &gate.audit {
            audit.begin(&body.text).answered(refused.status());
        }
        return refused;
    }
    match body.shape {
        Shape::Message => {
            let permits = vec![body.permit];
            forward(&gate, &key, parts, body.text, permits, next).await
        }
        Shape::Batch => batch::run(&gate, &key, &parts, &body, &next).await,
    }
}

/// Hands a message on with its permits.
async fn forward(
    gate: &RequestGate,
    key: &ShareKey,
    parts: Parts,
    text: Bytes,
    held: Vec<Permit>,
    next: Next,
) -> Response {
    let record = gate.audit.as_ref().map(|audit| audit.begin(&text));
    let answer = forward_recorded(gate, key, parts, text, held, next, record.as_ref()).await;
    if let Some(record) = record {
        record.answered(answer.status());
        if answer.extensions().get::<RecordedThere>().is_some() {
            record.is_recorded_elsewhere();
        }
    }
    answer
}

async fn forward_recorded(
    gate: &RequestGate,
    key: &ShareKey,
    parts: Parts,
    mut text: Bytes,
    mut held: Vec<Permit>,
    next: Next,
    record: Option<&PendingRecord>,
) -> Response {
    let kind = MessageKind::of(&text);
    if text.len() > kind.bytes_max() {
        let refusal = Refusal::too_large(kind.bytes_max());
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, &refusal);
    }
    let version = parts.headers.get("mcp-protocol-version");
    let version = version.and_then(|version| version.to_str().ok());
    // The newest protocol has no such method, whatever its parameters are.
    let is_modern = version.is_some_and(|version| version >= "2026-07-28");
    if kind == MessageKind::Initialize && !is_modern {
        text = match jsonrpc::complete(&text, version) {
            Ok(text) => text,
            Err(refusal) => return refuse(StatusCode::BAD_REQUEST, &refusal),
        };
    }
    let limit = match kind {
        // An answer or a cancellation makes room, so there is always room for it.
        MessageKind::Reply => None,
        // For hours maybe: it must not take the place of a call.
        MessageKind::Wait => Some(&gate.waits),
        MessageKind::Initialize | MessageKind::Listen | MessageKind::Call => Some(&gate.calls),
    };
    match limit.map(|limit| limit.acquire(key)) {
        None => {}
        Some(Ok(permit)) => held.push(permit),
        Some(Err(reached)) => return busy(&reached),
    }
    let permit = RequestPermit { _held: held.into() };
    if kind == MessageKind::Listen
        && let Err(refused) = listened::bring(&gate.subscriptions, &text).await
    {
        return refused;
    }
    let mut request = Request::from_parts(parts, Body::from(text.clone()));
    let extensions = request.extensions_mut();
    extensions.insert(IsInitialize(kind == MessageKind::Initialize));
    if kind == MessageKind::Listen {
        extensions.insert(TaskIds::read(&text));
    }
    // What lasts is recorded when it begins, which the handler knows; a call when it ends.
    if let Some(record) = record.filter(|_| kind != MessageKind::Initialize) {
        extensions.insert(record.clone());
    }
    let answer = match kind {
        // What lasts counts as a session; as a call, only until it has begun.
        MessageKind::Initialize | MessageKind::Listen => {
            let begun = next.run(request).await;
            drop(permit);
            begun
        }
        MessageKind::Call | MessageKind::Wait | MessageKind::Reply => {
            extensions.insert(permit);
            next.run(request).await
        }
    };
    // rmcp's answer to JSON that is no message has the status of another media type.
    if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return refuse(StatusCode::BAD_REQUEST, &jsonrpc::explain(&text));
    }
    answer
}

/// A body that was read.
#[derive(Debug)]
struct ReadBody {
    text: Bytes,
    shape: Shape,
    permit: Permit,
}

/// Whether the body is said to be JSON, by rmcp's rule.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

async fn read(body: Body, bodies: &SharedLimit, key: &ShareKey) -> Result<ReadBody, Response> {
    let mut permit = bodies
        .acquire_many(key, 0)
        .map_err(|reached| busy(&reached))?;
    let collected = match timeout(BODY_WITHIN, collect(body, &mut permit)).await {
        Ok(Ok(collected)) => collected,
        Ok(Err(BodyError::TooLarge)) => {
            let refusal = Refusal::too_large(MESSAGE_BYTES_MAX);
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &refusal));
        }
        Ok(Err(BodyError::Limit(reached))) => return Err(busy(&reached)),
        Ok(Err(BodyError::Transport(error))) => {
            let text = format!("the body could not be read: {error}");
            let refusal = Refusal::new(PARSE_ERROR, text);
            return Err(refuse(StatusCode::BAD_REQUEST, &refusal));
        }
        Err(_elapsed) => {
            return Err((StatusCode::REQUEST_TIMEOUT, "the body did not come\n").into_response());
        }
    };
    let Checked { values, shape } =
        jsonrpc::check(&collected).map_err(|refusal| refuse(StatusCode::BAD_REQUEST, &refusal))?;
    if values > VALUES_MAX {
        let text = format!("a request has at most {VALUES_MAX} values");
        let refusal = Refusal::new(INVALID_REQUEST, text);
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &refusal));
    }
    let grown = permit.grow(values * VALUE_BYTES);
    grown.map_err(|reached| busy(&reached))?;
    Ok(ReadBody {
        text: collected,
        shape,
        permit,
    })
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
            refused = if seen > MESSAGE_BYTES_MAX {
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

fn refuse(status: StatusCode, refusal: &Refusal) -> Response {
    (status, Json(refusal.to_json())).into_response()
}

#[cfg(test)]
mod tests;
