//! Requests of a session that another server has: they are sent there whole, and the answer comes
//! back part by part.
//!
//! ```text
//!  client ──POST──▶ body ▶ forward ══▶ Peers ══▶ PeerRequests ▶ the routes of this server's sessions
//!         ◀────────────────── parts ◀══════════════════════════ answer
//! ```
//!
//! The server that asks has authenticated the caller and counted the request. The one that answers
//! takes the caller that opened the session, if it is the same.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt as _;
use kubecrier_history::{PeerAnswer, PeerError, PeerFuture, PeerHandler, Peers};
use kubecrier_lifecycle::Lifecycle;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    time::{Duration, sleep},
};
use tower_service::Service as _;

use super::{manager::Sessions, record, revival::Revival};
use crate::{audit::RecordedThere, caller::Caller, jsonrpc::MESSAGE_BYTES_MAX, share};

/// Parts of an answer that wait for the one who reads them.
const PARTS_MAX: usize = 16;

/// How long a server may take to make a session anew whose record it has claimed, until it is asked
/// again.
const MAKING: Duration = Duration::from_millis(300);

/// Headers of a request that mean something to a session.
const REQUEST_HEADERS: [&str; 7] = [
    "accept",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
];

/// The server that has the session of a request. An extension of the request.
#[derive(Clone, Debug)]
pub(super) struct Elsewhere {
    pub(super) session: String,
    pub(super) home: String,
}

/// What servers ask of each other, before a line end and the body.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
enum Asked {
    /// To answer a request of a session.
    Answer {
        session: String,
        caller: String,
        method: String,
        headers: Vec<(String, String)>,
    },
    /// To let go of a session that goes on elsewhere.
    Release { session: String },
}

/// The first part of an answer.
#[derive(Debug, Serialize, Deserialize)]
struct AnswerHead {
    status: u16,
    headers: Vec<(String, String)>,
    /// The session is not here any more.
    #[serde(default)]
    moved: bool,
    /// The audit log of this server has the request.
    #[serde(default)]
    recorded: bool,
}

/// Answers the requests of other servers. A clone is the same.
#[derive(Clone)]
pub(crate) struct PeerRequests(Arc<Answering>);

struct Answering {
    sessions: Arc<Sessions>,
    lifecycle: Lifecycle,
    /// What serves the requests of sessions, behind everything that is checked before.
    routes: Router,
}

/// How a request that was sent to another server ended.
enum Forwarded {
    Answered(Response),
    /// The session is not there any more.
    Moved,
}

// === impl PeerRequests ===

impl PeerRequests {
    pub(crate) fn new(sessions: Arc<Sessions>, lifecycle: Lifecycle, routes: Router) -> Self {
        Self(Arc::new(Answering {
            sessions,
            lifecycle,
            routes,
        }))
    }
}

impl Answering {
    async fn answer_request(
        &self,
        session: &str,
        caller: &str,
        request: http::Request<Body>,
        parts: mpsc::Sender<Result<Bytes, PeerError>>,
    ) {
        let entry = self.sessions.get(session);
        let entry = entry.filter(|entry| record::digest(entry.caller()) == caller);
        let Some(entry) = entry else {
            let _gone = parts.send(Ok(AnswerHead::moved().to_bytes())).await;
            return;
        };
        let mut routes = self.routes.clone();
        let (owner, peer) = (entry.caller().clone(), entry.peer());
        // It keeps no session alive.
        drop(entry);
        let answering = owner.scope(share::with_peer(peer, routes.call(request)));
        let Ok(response) = answering.await;
        // It may have moved since it was looked up.
        let has_moved =
            response.status() == StatusCode::NOT_FOUND && self.sessions.get(session).is_none();
        let head = if has_moved {
            AnswerHead::moved()
        } else {
            AnswerHead::of(&response)
        };
        if parts.send(Ok(head.to_bytes())).await.is_err() {
            return;
        }
        let mut body = response.into_body();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = parts.closed() => return,
            };
            let part = match frame {
                None => return,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Ok(data),
                    Err(_trailers) => continue,
                },
                Some(Err(error)) => Err(PeerError::Lost(error.to_string())),
            };
            if parts.send(part).await.is_err() {
                return;
            }
        }
    }
}

impl PeerHandler for PeerRequests {
    fn answer(&self, request: Bytes) -> PeerFuture<'static, PeerAnswer> {
        let this = Arc::clone(&self.0);
        Box::pin(async move {
            let (parts, answer) = mpsc::channel(PARTS_MAX);
            let Some((asked, body)) = decode(&request) else {
                let error = PeerError::Lost("the request cannot be read".to_owned());
                let _first = parts.try_send(Err(error));
                return answer;
            };
            match asked {
                Asked::Release { session } => this.sessions.leave(&session),
                Asked::Answer {
                    session,
                    caller,
                    method,
                    headers,
                } => {
                    let mut request = http::Request::new(Body::from(body));
                    *request.method_mut() = method.parse().unwrap_or(Method::POST);
                    *request.uri_mut() = http::Uri::from_static("/mcp");
                    *request.headers_mut() = to_headers(&headers);
                    let lifecycle = this.lifecycle.clone();
                    lifecycle.spawn("peer-request", async move {
                        let answered = this.answer_request(&session, &caller, request, parts);
                        answered.await;
                    });
                }
            }
            answer
        })
    }
}

/// Has another server let go of a session, if it is still there.
pub(super) async fn release(peers: &dyn Peers, home: &str, session: &str) {
    let session = session.to_owned();
    let request = encode(&Asked::Release { session }, &[]);
    if let Ok(mut answer) = peers.send(home, request).await {
        // It is over when the answer is.
        while answer.recv().await.is_some() {}
    }
}

/// Middleware: sends a request to the server that has its session. If that one is gone, the
/// session goes on here.
pub(crate) async fn forward(
    State(revival): State<Arc<Revival>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(Elsewhere { session, mut home }) = request.extensions_mut().remove::<Elsewhere>()
    else {
        return next.run(request).await;
    };
    let Some(peers) = revival.peers() else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = http_body_util::Limited::new(body, MESSAGE_BYTES_MAX)
        .collect()
        .await
    else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let body = body.to_bytes();
    let asked = Asked::Answer {
        session: session.clone(),
        caller: record::digest(&Caller::current()),
        method: parts.method.to_string(),
        headers: from_headers(&parts.headers, &REQUEST_HEADERS),
    };
    let asked = encode(&asked, &body);
    // The session may move while it is looked for.
    let mut without: Option<String> = None;
    for _ in 0..4 {
        let gone = match send(peers, &home, asked.clone()).await {
            Ok(Forwarded::Answered(response)) => return response,
            // A server whose claim was written without its hearing of it has the record and not the
            // session, and so it does for a moment while it makes the session anew.
            Ok(Forwarded::Moved) if without.as_ref() == Some(&home) => true,
            Ok(Forwarded::Moved) => {
                without = Some(home.clone());
                sleep(MAKING).await;
                false
            }
            Err(PeerError::Gone(_)) => true,
            Err(error) => {
                tracing::debug!(%error, session, home, "a request could not be forwarded");
                return cannot_be_reached();
            }
        };
        match revival
            .find_home(&session, gone.then_some(home.as_str()))
            .await
        {
            Ok(Some(other)) => home = other,
            Ok(None) => {
                let request = Request::from_parts(parts, Body::from(body));
                return next.run(request).await;
            }
            Err(refused) => return refused.into_response(),
        }
    }
    // It is somewhere: a client that is told that there is no session would give it up.
    cannot_be_reached()
}

fn cannot_be_reached() -> Response {
    let wait = [(RETRY_AFTER, "1")];
    let text = "the server that has this session cannot be reached; try again\n";
    (StatusCode::SERVICE_UNAVAILABLE, wait, text).into_response()
}

async fn send(peers: &dyn Peers, home: &str, request: Bytes) -> Result<Forwarded, PeerError> {
    let mut answer = peers.send(home, request).await?;
    let lost = || PeerError::Lost("it has no beginning".to_owned());
    let first = answer.recv().await.ok_or_else(lost)??;
    let head: AnswerHead = serde_json::from_slice(&first).map_err(|_| lost())?;
    if head.moved {
        return Ok(Forwarded::Moved);
    }
    let parts = futures_util::stream::poll_fn(move |cx| answer.poll_recv(cx));
    let mut response = Response::new(Body::from_stream(parts));
    *response.status_mut() = StatusCode::from_u16(head.status).map_err(|_| lost())?;
    *response.headers_mut() = to_headers(&head.headers);
    if head.recorded {
        response.extensions_mut().insert(RecordedThere);
    }
    Ok(Forwarded::Answered(response))
}

// === impl AnswerHead ===

impl AnswerHead {
    fn of(response: &Response) -> Self {
        let headers = response.headers();
        let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        Self {
            status: response.status().as_u16(),
            headers: from_headers(headers, &names),
            moved: false,
            recorded: response.extensions().get::<RecordedThere>().is_some(),
        }
    }

    fn moved() -> Self {
        Self {
            status: StatusCode::NOT_FOUND.as_u16(),
            headers: Vec::new(),
            moved: true,
            recorded: false,
        }
    }

    fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

fn encode(asked: &Asked, body: &[u8]) -> Bytes {
    let head = serde_json::to_vec(asked).unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(head.len() + 1 + body.len());
    bytes.put_slice(&head);
    bytes.put_u8(b'\n');
    bytes.put_slice(body);
    bytes.freeze()
}

fn decode(request: &Bytes) -> Option<(Asked, Bytes)> {
    let end = request.iter().position(|byte| *byte == b'\n')?;
    let asked = serde_json::from_slice(&request[..end]).ok()?;
    Some((asked, request.slice(end + 1..)))
}

fn from_headers(headers: &HeaderMap, names: &[&str]) -> Vec<(String, String)> {
    let values = names.iter().flat_map(|name| {
        let values = headers.get_all(*name).iter();
        values.filter_map(|value| Some(((*name).to_owned(), value.to_str().ok()?.to_owned())))
    });
    values.collect()
}

fn to_headers(headers: &[(String, String)]) -> HeaderMap {
    let pairs = headers.iter().filter_map(|(name, value)| {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        Some((name, HeaderValue::try_from(value.as_str()).ok()?))
    });
    pairs.collect()
}
