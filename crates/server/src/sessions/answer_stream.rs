//! The connections on which answers are read: that of the POST, and those of a client that
//! resumes with GET.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::Stream;
use http::StatusCode;
use http_body::Frame;
use rmcp::{
    ErrorData,
    model::{CustomNotification, RequestId, ServerJsonRpcMessage, ServerNotification},
    transport::streamable_http_server::session::ServerSseMessage,
};
use serde_json::json;
use tokio::time::{Duration, Instant, Sleep, sleep};

use super::{
    answers::{AnswerEvent, Connection, EventId, LossReason, NotResumed, Read},
    http_session::{ActivityGuard, ActivityKind, HttpSession},
    stream::{GAP_METHOD, KEEP_ALIVE, events_response, refuse},
};

/// The reconnection time that an answer announces: somebody waits for it.
const RETRY: Duration = Duration::from_secs(1);

/// Marks the response with an answer, which a stop waits for. An extension of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsAnswer;

/// A connection that reads an answer.
pub(super) struct AnswerReader {
    entry: Arc<HttpSession>,
    connection: Connection,
    /// The number of the next event.
    next: u64,
    took_everything: bool,
    _activity: ActivityGuard,
}

/// The messages of a POST, for rmcp.
pub(super) struct PostStream {
    reader: AnswerReader,
    is_resumable: bool,
    /// The first event, for clients that can resume.
    priming: Option<ServerSseMessage>,
    close: CloseTimer,
}

/// The body of a GET that resumes an answer.
struct AnswerBody {
    reader: AnswerReader,
    /// What is written before anything else is read.
    waiting: VecDeque<Bytes>,
    close: CloseTimer,
    alive: Pin<Box<Sleep>>,
    ended: bool,
}

/// When a connection is closed before its answer is there, so that the client polls.
struct CloseTimer(Option<Pin<Box<Sleep>>>);

// === impl AnswerReader ===

impl AnswerReader {
    pub(super) fn new(entry: Arc<HttpSession>, connection: Connection, next: u64) -> Self {
        let activity = entry.begin_activity(ActivityKind::Post);
        Self {
            entry,
            connection,
            next,
            took_everything: false,
            _activity: activity,
        }
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Read>> {
        let mut answers = self.entry.answers.lock();
        let read = ready!(answers.poll(self.connection, &mut self.next, cx.waker()));
        self.took_everything |= read.is_none();
        Poll::Ready(read)
    }

    /// Whether no other connection can read the answer, because the session is on another server
    /// by now.
    fn is_last(&self) -> bool {
        self.entry.session.is_closed()
    }
}

impl Drop for AnswerReader {
    fn drop(&mut self) {
        let mut answers = self.entry.answers.lock();
        let unread = answers.disconnect(self.connection, self.took_everything, Instant::now());
        let abandoned = answers.abandoned(self.connection);
        drop(answers);
        if let Some(request) = abandoned {
            self.entry.cancel(&request);
        }
        if let Some(answer) = unread {
            self.entry.park(answer);
        }
    }
}

// === impl PostStream ===

impl PostStream {
    pub(super) fn new(reader: AnswerReader) -> Self {
        let is_resumable = reader.entry.is_resumable();
        let priming = is_resumable.then(|| {
            let first = EventId {
                answer: reader.connection.answer,
                event: 0,
            };
            ServerSseMessage::priming(first.to_string(), RETRY)
        });
        let close = CloseTimer::new(reader.entry.poll_after().filter(|_| is_resumable));
        Self {
            reader,
            is_resumable,
            priming,
            close,
        }
    }
}

impl Stream for PostStream {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        if let Some(priming) = self.priming.take() {
            return Poll::Ready(Some(priming));
        }
        let mut event = ServerSseMessage::default();
        match self.reader.poll_read(cx) {
            Poll::Ready(Some(Read::Event(id, AnswerEvent::Message(message)))) => {
                event.event_id = self.is_resumable.then(|| id.to_string());
                event.message = Some(message);
            }
            Poll::Ready(Some(Read::Missing(count))) => event.message = Some(Arc::new(gap(count))),
            // Only what has lost its connection becomes a frame.
            Poll::Ready(Some(Read::Event(_, AnswerEvent::Frame(_))) | None) => {
                return Poll::Ready(None);
            }
            Poll::Pending if self.reader.is_last() => return Poll::Pending,
            Poll::Pending => return self.close.poll(cx).map(|()| None),
        }
        Poll::Ready(Some(event))
    }
}

// === impl AnswerBody ===

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(next))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match self.reader.poll_read(cx) {
                Poll::Ready(Some(Read::Event(id, event))) => {
                    self.waiting.extend(pieces(Some(id), event.frame()));
                }
                Poll::Ready(Some(Read::Missing(count))) => {
                    let gap = AnswerEvent::Message(Arc::new(gap(count)));
                    self.waiting.extend(pieces(None, gap.frame()));
                }
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => {
                    if !self.reader.is_last() && self.close.poll(cx).is_ready() {
                        self.ended = true;
                        continue;
                    }
                    ready!(self.alive.as_mut().poll(cx));
                    self.alive.as_mut().reset(Instant::now() + KEEP_ALIVE);
                    self.waiting.push_back(Bytes::from_static(b": alive\n\n"));
                }
            }
        }
    }
}

// === impl CloseTimer ===

impl CloseTimer {
    fn new(after: Option<Duration>) -> Self {
        Self(after.map(|after| Box::pin(sleep(after))))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(timer) => timer.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// `GET /mcp` with the id of an event of an answer: the rest of that answer.
pub(super) fn resume(entry: Arc<HttpSession>, seen: EventId) -> Response {
    match entry.resume(seen) {
        Ok(connection) => {
            let close = CloseTimer::new(entry.poll_after());
            let body = AnswerBody {
                reader: AnswerReader::new(entry, connection, seen.event + 1),
                waiting: VecDeque::from([priming(seen)]),
                close,
                alive: Box::pin(sleep(KEEP_ALIVE)),
                ended: false,
            };
            let mut response = events_response(Body::new(body));
            response.extensions_mut().insert(IsAnswer);
            response
        }
        Err(NotResumed::Complete) => events_response(Body::from(priming(seen))),
        Err(NotResumed::Lost(request, reason)) => {
            let error = AnswerEvent::Message(Arc::new(lost(request, reason)));
            let [head, frame, tail] = pieces(None, error.frame());
            events_response(Body::from([head, frame, tail].concat()))
        }
        Err(NotResumed::Forgotten) => refuse(
            StatusCode::GONE,
            "that answer is no longer kept: send the request again if you still need it",
        ),
        Err(NotResumed::NeverSent) => never_sent(),
    }
    .into_response()
}

pub(super) fn never_sent() -> Response {
    refuse(
        StatusCode::BAD_REQUEST,
        "Last-Event-ID is an id that we sent in this session",
    )
}

/// An event in pieces, so that a large message is not copied.
fn pieces(id: Option<EventId>, frame: Bytes) -> [Bytes; 3] {
    let head = match id {
        Some(id) => format!("id: {id}\ndata: ").into(),
        None => Bytes::from_static(b"data: "),
    };
    [head, frame, Bytes::from_static(b"\n\n")]
}

/// The event without content that comes first. It repeats what the client has seen: one that
/// sees no id on this connection would not know with which to come back.
fn priming(seen: EventId) -> Bytes {
    format!("id: {seen}\nretry: {}\ndata: \n\n", RETRY.as_millis()).into()
}

/// Announces that so many messages are missing here.
fn gap(missing: u64) -> ServerJsonRpcMessage {
    let gap = CustomNotification::new(GAP_METHOD, Some(json!({"missing": missing})));
    ServerJsonRpcMessage::notification(ServerNotification::CustomNotification(gap))
}

/// The answer to a request whose answer is gone.
fn lost(request: RequestId, reason: LossReason) -> ServerJsonRpcMessage {
    let text = format!("{reason}; send the request again if you still need its answer");
    let data = json!({"reason": reason.as_str()});
    let error = ErrorData::internal_error(text, Some(data));
    ServerJsonRpcMessage::error(error, Some(request))
}

#[cfg(test)]
mod tests;
