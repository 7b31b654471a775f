//! One session over HTTP: its channels, its state and its signs of life.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
    task::Waker,
};

use bytes::Bytes;
use mcp_notify::{Liveness, OutboxBatch, Session};
use parking_lot::Mutex;
use rmcp::{
    model::{ClientJsonRpcMessage, GetMeta, ProgressToken, RequestId},
    transport::streamable_http_server::session::ServerSseMessage,
};
use tokio::{sync::mpsc, time::Instant};

use super::{limiter::SessionPermit, replay::Replay};
use crate::caller::Caller;
use kubecrier_core::flush_clock::FlushClock;

/// The server's own requests that wait for the stream. There are two kinds, and each is
/// sent again if it is lost.
const SERVER_REQUESTS_MAX: usize = 16;

/// Messages on the way to the answer of one POST. The writer of a full channel waits,
/// and no other request waits for that writer.
const RESPONSE_CAPACITY: usize = 64;

/// A session and everything that ends with it.
pub(crate) struct HttpSession {
    pub(super) session: Session,
    /// The caller that opened the session.
    pub(super) caller: Caller,
    /// Boxed: a channel holds room for 32, and messages are large.
    pub(super) inbound: mpsc::Sender<Box<ClientJsonRpcMessage>>,
    /// Its permit of the session limiter, until it ends.
    permit: Mutex<Option<SessionPermit>>,
    pub(super) outbound: Mutex<OutboundState>,
    /// When its stream writes.
    pub(super) flush_clock: FlushClock,
    responses: Mutex<PendingResponses>,
    server_requests: Mutex<ServerRequests>,
    activity: Mutex<Activity>,
    /// Set when the client is ready to be pinged.
    liveness: OnceLock<Liveness>,
}

/// What is on its way to the stream. It belongs to the session and not to a stream:
/// what one stream took and did not write, the next one writes.
#[derive(Default)]
pub(super) struct OutboundState {
    pub(super) replay: Replay,
    pub(super) batch: Option<OutboxBatch>,
}

/// The channels of unanswered requests.
#[derive(Default)]
struct PendingResponses {
    by_request: HashMap<RequestId, mpsc::Sender<ServerSseMessage>>,
    by_token: HashMap<ProgressToken, RequestId>,
}

/// The server's own requests, for the stream.
#[derive(Default)]
struct ServerRequests {
    waiting: VecDeque<Bytes>,
    reader: Option<Waker>,
}

struct Activity {
    streams: usize,
    posts: usize,
    seen: Instant,
    /// The last stream is gone, and nothing has come since.
    stream_lost: bool,
}

/// Since when nothing is open and nothing has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    pub(super) since: Instant,
    /// Whether it began with the loss of the session's stream. A client that never had one,
    /// or that has sent something since, lives without.
    pub(super) stream_lost: bool,
}

/// The channel of a request that has not been forwarded to the service yet: dropping it
/// removes the channel.
pub(super) struct PendingResponse {
    entry: Option<Arc<HttpSession>>,
    id: RequestId,
}

/// Something open that shows life: while it is held, the session does not idle.
pub(super) struct ActivityGuard {
    entry: Arc<HttpSession>,
    kind: ActivityKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivityKind {
    Stream,
    Post,
}

// === impl HttpSession ===

impl HttpSession {
    pub(super) fn new(
        session: Session,
        permit: SessionPermit,
        inbound: mpsc::Sender<Box<ClientJsonRpcMessage>>,
        flush_clock: FlushClock,
    ) -> Self {
        Self {
            session,
            caller: permit.caller().clone(),
            inbound,
            permit: Mutex::new(Some(permit)),
            outbound: Mutex::default(),
            flush_clock,
            responses: Mutex::default(),
            server_requests: Mutex::default(),
            activity: Mutex::new(Activity {
                streams: 0,
                posts: 0,
                seen: Instant::now(),
                stream_lost: false,
            }),
            liveness: OnceLock::new(),
        }
    }

    /// Releases everything that belongs to the session: the channels of its requests,
    /// what was on its way, and its permit.
    pub(super) fn release(&self) {
        *self.responses.lock() = PendingResponses::default();
        *self.server_requests.lock() = ServerRequests::default();
        let batch = self.outbound.lock().batch.take();
        drop(batch);
        drop(self.permit.lock().take());
    }

    /// Registers the channel of a request's answer; `None` if the id is taken, as it is
    /// until the earlier request has been answered or cancelled.
    pub(super) fn register_request(
        self: &Arc<Self>,
        message: &ClientJsonRpcMessage,
    ) -> Option<(PendingResponse, mpsc::Receiver<ServerSseMessage>)> {
        let ClientJsonRpcMessage::Request(request) = message else {
            return None;
        };
        let (sender, receiver) = mpsc::channel(RESPONSE_CAPACITY);
        let mut responses = self.responses.lock();
        if responses.by_request.contains_key(&request.id) {
            return None;
        }
        responses.by_request.insert(request.id.clone(), sender);
        if let Some(token) = request.request.get_meta().get_progress_token() {
            responses.by_token.insert(token, request.id.clone());
        }
        drop(responses);
        let expected = PendingResponse {
            entry: Some(Arc::clone(self)),
            id: request.id.clone(),
        };
        Some((expected, receiver))
    }

    /// Removes the channel of a request, for its last message.
    pub(super) fn take_response_channel(
        &self,
        id: &RequestId,
    ) -> Option<mpsc::Sender<ServerSseMessage>> {
        let mut responses = self.responses.lock();
        responses.by_token.retain(|_, request| request != id);
        responses.by_request.remove(id)
    }

    /// The channel of a running request.
    pub(super) fn response_channel(
        &self,
        id: &RequestId,
    ) -> Option<mpsc::Sender<ServerSseMessage>> {
        self.responses.lock().by_request.get(id).cloned()
    }

    /// The channel of a running request, by its progress token.
    pub(super) fn progress_channel(
        &self,
        token: &ProgressToken,
    ) -> Option<mpsc::Sender<ServerSseMessage>> {
        let responses = self.responses.lock();
        responses
            .by_request
            .get(responses.by_token.get(token)?)
            .cloned()
    }

    /// Queues a request of the server for the stream. False when the queue is full.
    pub(super) fn enqueue_request(&self, frame: Bytes) -> bool {
        let mut server_requests = self.server_requests.lock();
        if server_requests.waiting.len() >= SERVER_REQUESTS_MAX {
            return false;
        }
        server_requests.waiting.push_back(frame);
        if let Some(reader) = server_requests.reader.take() {
            reader.wake();
        }
        true
    }

    /// Takes the next request of the server, or registers the waker.
    pub(super) fn poll_request(&self, waker: &Waker) -> Option<Bytes> {
        let mut server_requests = self.server_requests.lock();
        let next = server_requests.waiting.pop_front();
        if next.is_none() {
            server_requests.reader = Some(waker.clone());
        }
        next
    }

    pub(super) fn begin_activity(self: &Arc<Self>, kind: ActivityKind) -> ActivityGuard {
        let mut activity = self.activity.lock();
        activity.see();
        *activity.counter(kind) += 1;
        drop(activity);
        self.beat();
        ActivityGuard {
            entry: Arc::clone(self),
            kind,
        }
    }

    /// A message that opens nothing shows life too.
    pub(super) fn touch(&self) {
        self.activity.lock().see();
    }

    /// Sets the liveness that signs of life are reported to. False if it has one already.
    pub(super) fn set_liveness(&self, liveness: Liveness) -> bool {
        self.liveness.set(liveness).is_ok()
    }

    /// Reports a sign of life to the heartbeat.
    pub(super) fn beat(&self) {
        if let Some(liveness) = self.liveness.get() {
            liveness.record_activity();
        }
    }

    /// Whether a stream is open.
    pub(crate) fn has_stream(&self) -> bool {
        self.activity.lock().streams > 0
    }

    /// The silence of a session that has nothing open.
    pub(super) fn silence(&self) -> Option<Silence> {
        let activity = self.activity.lock();
        let is_silent = activity.streams == 0 && activity.posts == 0;
        is_silent.then_some(Silence {
            since: activity.seen,
            stream_lost: activity.stream_lost,
        })
    }

    /// The session itself.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

// === impl PendingResponse ===

impl PendingResponse {
    /// The request is on its way: its answer will come.
    pub(super) fn forwarded(mut self) {
        self.entry = None;
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            drop(entry.take_response_channel(&self.id));
        }
    }
}

// === impl Activity ===

impl Activity {
    /// Notes that the client has sent something.
    fn see(&mut self) {
        self.seen = Instant::now();
        self.stream_lost = false;
    }

    fn counter(&mut self, kind: ActivityKind) -> &mut usize {
        match kind {
            ActivityKind::Stream => &mut self.streams,
            ActivityKind::Post => &mut self.posts,
        }
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        let mut activity = self.entry.activity.lock();
        // The time of silence begins when the last thing closes.
        activity.seen = Instant::now();
        *activity.counter(self.kind) -= 1;
        activity.stream_lost |= self.kind == ActivityKind::Stream && activity.streams == 0;
    }
}
