//! The push path: from a session's outbox to the bytes of its GET stream.

mod events;

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Frame;
use mcp_notify::{
    Admission, CustomMethod, Notification, OutboxBatch, OutboxItem, OutboxReader, ReadEnd,
    SendError, Session,
};
use rmcp::model::ProtocolVersion;
use tokio::{
    task::coop::has_budget_remaining,
    time::{Duration, Instant, Sleep, sleep},
};

use self::events::{EVENT_BYTES, write_event, write_plain};
use super::{
    answer_stream,
    answers::EventId,
    http_session::{ActivityGuard, ActivityKind, HttpSession, OutboundState},
    manager::Sessions,
    replay::SentMessage,
    stream_id::StreamId,
};

/// Proxies cut connections that are silent for a minute.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The reconnection time that the stream announces.
const RETRY: Duration = Duration::from_secs(3);

/// What a reader takes is written in one go, up to this.
const CHUNK_BYTES: usize = 64 * 1024;

/// The bytes of a gap, about.
const GAP_BYTES: usize = 100;

pub(super) const GAP_METHOD: &str = "notifications/stream/gap";

/// `GET /mcp`: the stream of a session. The newest one receives; the one before
/// it ends.
pub(crate) async fn open(State(sessions): State<Arc<Sessions>>, headers: HeaderMap) -> Response {
    let accepts = text(&headers, "accept").is_some_and(|kinds| kinds.contains("text/event-stream"));
    if !accepts {
        return refuse(
            StatusCode::NOT_ACCEPTABLE,
            "a stream is text/event-stream: accept it",
        );
    }
    if let Some(refused) = wrong_version(&headers) {
        return refused;
    }
    let entry = match named(&sessions, &headers) {
        Ok(entry) => entry,
        Err((status, why)) => return refuse(status, why),
    };
    match last_seen(&headers) {
        Ok(LastSeen::Answer(seen)) => answer_stream::resume(entry, seen),
        Ok(LastSeen::Stream(seen)) => {
            let number = seen.number_in(entry.outbound.lock().ids.stream());
            settle_replay(&entry, number).await;
            events_response(Body::new(SseStream::new(entry, Some(seen))))
        }
        Ok(LastSeen::Nothing) => events_response(Body::new(SseStream::new(entry, None))),
        Err(()) => answer_stream::never_sent(),
    }
}

/// Waits until it is known of every message after an id whether the client may still read it.
async fn settle_replay(entry: &HttpSession, seen: u64) {
    let pending: Vec<_> = {
        let outbound = entry.outbound.lock();
        let missed = outbound.replay.after(seen).messages;
        let gates = missed.iter().map(|(_, message)| message.admit());
        let answers = gates.filter_map(|admission| match admission {
            Admission::Pending(answer) => Some(answer),
            _ => None,
        });
        answers.collect()
    };
    join_all(pending).await;
}

/// A response of server-sent events.
pub(super) fn events_response(body: Body) -> Response {
    let mut response = Response::new(body);
    let head = response.headers_mut();
    head.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    head.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    // nginx would collect a stream before it passes it on.
    head.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// `DELETE /mcp`: the client ends its session.
pub(crate) async fn close(State(sessions): State<Arc<Sessions>>, headers: HeaderMap) -> Response {
    if let Some(refused) = wrong_version(&headers) {
        return refused;
    }
    match named(&sessions, &headers) {
        Ok(entry) => {
            sessions.end(entry.session.id(), "the client asked");
            // What has ended has ended for every process.
            let _written = sessions.settle(entry.session.id()).await;
            // Not 202: some clients take only 200 and 204 for an end.
            StatusCode::NO_CONTENT.into_response()
        }
        Err((status, why)) => refuse(status, why),
    }
}

fn named(
    sessions: &Sessions,
    headers: &HeaderMap,
) -> Result<Arc<HttpSession>, (StatusCode, &'static str)> {
    let Some(id) = text(headers, "mcp-session-id") else {
        return Err((
            StatusCode::BAD_REQUEST,
            "name the session in Mcp-Session-Id",
        ));
    };
    sessions.find(id).ok_or((
        StatusCode::NOT_FOUND,
        "no such session: initialize a new one",
    ))
}

/// The last event that a client has seen.
enum LastSeen {
    /// It begins.
    Nothing,
    /// One of the session's stream.
    Stream(StreamId),
    /// One of the answer to a request.
    Answer(EventId),
}

/// The last event id that the client has; an error if the header is no such id.
fn last_seen(headers: &HeaderMap) -> Result<LastSeen, ()> {
    let Some(given) = headers.get("last-event-id") else {
        return Ok(LastSeen::Nothing);
    };
    let given = given.to_str().map_err(drop)?;
    if let Ok(id) = given.parse() {
        return Ok(LastSeen::Answer(id));
    }
    StreamId::parse(given).map(LastSeen::Stream).ok_or(())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The newest protocol has neither streams nor sessions; an unknown version is refused.
fn wrong_version(headers: &HeaderMap) -> Option<Response> {
    let version = text(headers, "mcp-protocol-version")?;
    if !ProtocolVersion::KNOWN_VERSIONS
        .iter()
        .any(|known| known.as_str() == version)
    {
        return Some(refuse(
            StatusCode::BAD_REQUEST,
            "MCP-Protocol-Version is not a version",
        ));
    }
    (version >= "2026-07-28").then(no_method)
}

fn no_method() -> Response {
    let allow = [(header::ALLOW, "POST")];
    (
        StatusCode::METHOD_NOT_ALLOWED,
        allow,
        "this protocol version only has POST\n",
    )
        .into_response()
}

pub(super) fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

/// The body of a GET: server-sent events out of the outbox.
struct SseStream {
    entry: Arc<HttpSession>,
    reader: OutboxReader,
    /// The first bytes: the retry time, and the replay of what the client has missed.
    first: Option<Bytes>,
    /// When a keep-alive comment is due, if nothing else is written.
    alive_due: Instant,
    /// Whether something was written since that was set.
    has_written: bool,
    /// Set to when a comment was due earlier: to be woken once too often costs less than to
    /// set it for each message.
    timer: Pin<Box<Sleep>>,
    /// When the timer wakes, and whom: a timer that does not have to be looked at stays out
    /// of the caches.
    wakes: Option<(Instant, Waker)>,
    /// The answer whether the next message may be sent, while it is waited for.
    admission: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
    ended: bool,
    _activity: ActivityGuard,
}

// === impl SseStream ===

impl SseStream {
    fn new(entry: Arc<HttpSession>, last_seen: Option<StreamId>) -> Self {
        let mut first = BytesMut::new();
        first.extend_from_slice(format!("retry: {}\n\n", RETRY.as_millis()).as_bytes());
        let mut outbound = entry.outbound.lock();
        let OutboundState { replay, ids, .. } = &mut *outbound;
        // From here on the stream before this one writes nothing more: it checks under
        // this very lock whether it is still the newest.
        let reader = entry.session.outbox().reader();
        let primes = ids.stream().is_some() && entry.knows_empty_events();
        if let Some(seen) = last_seen {
            let number = seen.number_in(ids.stream());
            let missed = replay.after(number);
            // As they were written first, after what the client has.
            let mut ids = ids.after(&seen);
            if primes {
                // A client that loses the stream again before an event says this again.
                write_event(&mut first, &mut ids, number, None, &[]);
            }
            if missed.lost > 0 {
                write_plain(&mut first, &gap(missed.lost));
            }
            let mut withheld = 0;
            for (id, message) in missed.messages {
                if !matches!(message.admit(), Admission::Open) {
                    withheld += 1;
                    continue;
                }
                if withheld > 0 {
                    write_plain(&mut first, &gap(std::mem::take(&mut withheld)));
                }
                write_event(&mut first, &mut ids, id, message.mark(), &message.pieces());
            }
            if withheld > 0 {
                write_plain(&mut first, &gap(withheld));
            }
        } else if primes {
            // So that a client that loses the stream before its first event says that it had it.
            write_event(&mut first, ids, replay.last_id(), None, &[]);
        }
        drop(outbound);
        Self {
            reader,
            first: Some(first.freeze()),
            alive_due: Instant::now() + KEEP_ALIVE,
            has_written: false,
            timer: Box::pin(sleep(KEEP_ALIVE)),
            wakes: None,
            admission: None,
            ended: false,
            _activity: entry.begin_activity(ActivityKind::Stream),
            entry,
        }
    }

    /// Ready when a keep-alive comment is due.
    fn poll_alive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if std::mem::take(&mut self.has_written) {
            self.alive_due = now + KEEP_ALIVE;
        }
        if let Some((at, waker)) = &self.wakes
            && now < *at
            && waker.will_wake(cx.waker())
        {
            return Poll::Pending;
        }
        while Instant::now() < self.alive_due {
            if self.timer.is_elapsed() {
                let due = self.alive_due;
                self.timer.as_mut().reset(due);
            }
            // A task that has used up its turn is woken for the next one, and not by the timer.
            let turn = has_budget_remaining();
            if self.timer.as_mut().poll(cx).is_pending() {
                self.wakes = turn.then(|| (self.timer.deadline(), cx.waker().clone()));
                return Poll::Pending;
            }
        }
        self.wakes = None;
        Poll::Ready(())
    }

    /// Writes what is asked of the client and what waits, up to a chunk; `None` when nothing does.
    fn write(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        let mut outbound = self.entry.outbound.lock();
        if !self.reader.is_current() {
            self.ended = true;
            return Some(Bytes::from_static(farewell(ReadEnd::Superseded).as_bytes()));
        }
        while let Poll::Ready(frame) = self.entry.server_requests.poll_next(cx) {
            let id = outbound.replay.record(frame.clone());
            write_event(&mut chunk, &mut outbound.ids, id, None, &[&frame]);
        }
        let mut has_taken = false;
        while chunk.len() < CHUNK_BYTES {
            if let Some(answer) = &mut self.admission {
                let Poll::Ready(is_admitted) = answer.as_mut().poll(cx) else {
                    break;
                };
                self.admission = None;
                if let Some(batch) = outbound.batch.as_mut().filter(|_| !is_admitted) {
                    drop(batch.abandon());
                    batch.abandon_shut();
                }
            }
            // Another stream may have taken over what was left.
            let waiting = outbound.batch.take().filter(|batch| !batch.is_empty());
            let mut batch = match waiting {
                Some(batch) => batch,
                // What came since is written next: whoever gets a chunk asks again before it waits.
                None if has_taken && !chunk.is_empty() => break,
                None => match self.reader.poll_next(cx) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(batch)) => {
                        has_taken = true;
                        batch
                    }
                    Poll::Ready(Err(end)) => {
                        self.ended = true;
                        chunk.extend_from_slice(farewell(end).as_bytes());
                        break;
                    }
                },
            };
            self.admission =
                write_batch(&mut chunk, &mut batch, &mut outbound, &self.entry.session);
            outbound.batch = Some(batch).filter(|batch| !batch.is_empty());
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    }
}

/// Writes from the front of a batch, up to a chunk; what is written counts as
/// delivered. One pass over the batch, one allocation and one count, whatever its
/// length. One that has no bytes is abandoned: it is reported as every failed delivery is,
/// and a gap takes its place, as it does of one that its client may not read any more. The
/// answer is returned that the next one has to wait for.
fn write_batch(
    chunk: &mut BytesMut,
    batch: &mut OutboxBatch,
    outbound: &mut OutboundState,
    session: &Session,
) -> Option<Pin<Box<dyn Future<Output = bool> + Send>>> {
    let OutboundState { replay, ids, .. } = outbound;
    let room = CHUNK_BYTES.saturating_sub(chunk.len());
    let items = batch.iter();
    chunk.reserve(size_of_front(
        items.clone(),
        room,
        EVENT_BYTES + ids.position_bytes(),
    ));
    let mut written = 0;
    let mut failed = None;
    let mut is_shut = false;
    let mut answer = None;
    for item in items {
        if chunk.len() >= CHUNK_BYTES {
            break;
        }
        match item {
            OutboxItem::Notification(notification) => match notification.admit() {
                Admission::Open => match notification.pieces() {
                    Ok(pieces) => {
                        let id = replay.record(notification.clone());
                        write_event(chunk, ids, id, notification.mark(), &pieces);
                    }
                    Err(error) => failed = Some(SendError::from(error)),
                },
                Admission::Pending(pending) => answer = Some(pending),
                _ => is_shut = true,
            },
            // A gap has an id too: a client that loses it learns of it again.
            OutboxItem::Gap(missing) => {
                let gap = SentMessage::gap(gap(missing.dropped), missing.dropped);
                let frame = gap.pieces().concat();
                write_event(chunk, ids, replay.record(gap), None, &[&frame]);
            }
            _ => failed = Some(SendError::other("not a message of a stream")),
        }
        if failed.is_some() || is_shut || answer.is_some() {
            break;
        }
        written += 1;
    }
    batch.deliver_first(written);
    if let Some(error) = failed {
        drop(batch.abandon_failed(session, &error));
    } else if is_shut {
        batch.abandon_shut();
    }
    answer
}

/// The size of the events that fit into `room` bytes, each with so many bytes around its message.
fn size_of_front<'a>(
    items: impl Iterator<Item = &'a OutboxItem>,
    room: usize,
    around: usize,
) -> usize {
    let mut size = 0;
    for item in items {
        size += match item {
            OutboxItem::Notification(notification) => notification.bytes_len(),
            _ => GAP_BYTES,
        } + around;
        if size >= room {
            break;
        }
    }
    size
}

impl http_body::Body for SseStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(chunk) = self.write(cx) {
            self.has_written = true;
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        ready!(self.poll_alive(cx));
        self.alive_due = Instant::now() + KEEP_ALIVE;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": alive\n\n")))))
    }
}

/// Announces that this many notifications are missing here.
fn gap(missing: u64) -> Notification {
    let method = CustomMethod::new(GAP_METHOD).expect("the name follows the rule");
    Notification::custom(method, &serde_json::json!({"missing": missing}))
}

fn farewell(end: ReadEnd) -> &'static str {
    match end {
        ReadEnd::Superseded => ": a newer stream of this session has taken over\n\n",
        _ => ": the session has ended\n\n",
    }
}

#[cfg(test)]
mod tests;
