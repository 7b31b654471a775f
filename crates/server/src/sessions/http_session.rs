//! One session over HTTP: its channels, its state and its signs of life.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use kubecrier_history::Revision;
use mcp_notify::{Liveness, OutboxBatch, ProtocolVersion, Session};
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, InitializeRequestParams, RequestId, ServerJsonRpcMessage};
use tokio::{
    sync::oneshot,
    time::{Duration, Instant},
};

use super::{
    answer_stream::AnswerReader,
    answers::{AnswerEvent, Answers, Connection, EventId, LossReason, NotResumed, Routed},
    limiter::SessionPermit,
    parking::Parking,
    replay::Replay,
    running::RunningRequests,
    server_requests::ServerRequests,
    stream_id::{StreamIds, StreamPosition},
};
use crate::caller::Caller;
use kubecrier_core::shares::ShareKey;

/// What a parked answer takes in memory besides its messages, about.
const PARKED_ENTRY_BYTES: usize = 512;

/// A session and everything that ends with it.
pub(crate) struct HttpSession {
    pub(super) session: Session,
    /// The caller that opened the session.
    pub(super) caller: Caller,
    /// The address that it was opened from.
    pub(super) peer: Option<IpAddr>,
    /// Where `initialize` goes, until it has come.
    handshake: Mutex<Option<oneshot::Sender<Box<ClientJsonRpcMessage>>>>,
    /// What the client said of itself, with the version that was agreed on; set when
    /// `initialize` is answered. Boxed: a session is made before.
    client: OnceLock<Box<InitializeRequestParams>>,
    /// The requests that are being worked on.
    pub(super) running: RunningRequests,
    /// Its permit of the session limiter, until it ends.
    permit: Mutex<Option<SessionPermit>>,
    pub(super) outbound: Mutex<OutboundState>,
    /// A lock for the readers of answers and the service; held for a step of one answer.
    pub(super) answers: Mutex<Answers>,
    parking: Arc<Parking>,
    /// For whom its parked answers count.
    share_key: ShareKey,
    pub(super) server_requests: ServerRequests,
    activity: Mutex<Activity>,
    /// Set when the client is ready to be pinged.
    liveness: OnceLock<Liveness>,
    /// What is known of its record, where sessions are kept.
    pub(super) kept: Mutex<KeptState>,
}

/// What is on its way to the stream. It belongs to the session and not to a stream:
/// what one stream took and did not write, the next one writes.
#[derive(Default)]
pub(super) struct OutboundState {
    pub(super) replay: Replay,
    pub(super) ids: StreamIds,
    pub(super) batch: Option<OutboxBatch>,
}

/// The record of a session, as far as it was written.
#[derive(Debug, Default)]
pub(super) struct KeptState {
    /// Whether the client has said that it is ready.
    pub(super) is_initialized: bool,
    /// The contents of lists that it was notified of.
    lists: [String; 3],
    /// The revision of the record, where several servers share their sessions.
    pub(super) revision: Option<Revision>,
    /// Whether there may be a record: one was tried to be written.
    pub(super) may_be_there: bool,
    /// The record that was written last, and when.
    pub(super) written: Option<(Bytes, Instant)>,
    /// The record that the store refuses for good, and why.
    pub(super) rejected: Option<(Bytes, String)>,
    /// It may not be there any more, or another server may have the session by now.
    pub(super) is_doubted: bool,
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
        peer: Option<IpAddr>,
        parking: Arc<Parking>,
        share_key: ShareKey,
    ) -> Self {
        Self {
            session,
            caller: permit.caller().clone(),
            peer,
            handshake: Mutex::default(),
            client: OnceLock::new(),
            running: RunningRequests::default(),
            permit: Mutex::new(Some(permit)),
            outbound: Mutex::default(),
            answers: Mutex::default(),
            parking,
            share_key,
            server_requests: ServerRequests::default(),
            activity: Mutex::new(Activity {
                streams: 0,
                posts: 0,
                seen: Instant::now(),
                stream_lost: false,
            }),
            liveness: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    /// Makes the ids of its stream cursors, and those of its answers ones of this process.
    pub(super) fn make_resumable(&self) {
        // Events of another process have another number.
        let [a, b, c, d, _, _, _, _, _, _, answers @ ..] = *uuid::Uuid::new_v4().as_bytes();
        let stream = u32::from_be_bytes([a, b, c, d]);
        let marks = Vec::new();
        self.outbound.lock().ids = StreamIds::resumable(StreamPosition { stream, marks });
        let before = (answers.iter()).fold(1, |number, byte| (number << 8) | u64::from(*byte));
        *self.answers.lock() = Answers::beginning_after(before);
    }

    /// The contents of lists that the client was notified of, as of when nothing waited.
    pub(crate) fn lists_when_sent(&self, notified: [String; 3]) -> [String; 3] {
        let nothing_waits = self.session.outbox().stats().pending == 0;
        let mut kept = self.kept.lock();
        if nothing_waits {
            kept.lists = notified;
        }
        kept.lists.clone()
    }

    /// Notes that the client has said that it is ready.
    pub(super) fn set_initialized(&self) {
        self.kept.lock().is_initialized = true;
    }

    /// Forgets the positions of its stream in feeds that have ended.
    pub(crate) fn retain_feeds(&self, is_alive: impl Fn(u32) -> bool) {
        self.outbound.lock().ids.retain(is_alive);
    }

    /// Whether its client takes an event that has an id and no message.
    pub(super) fn knows_empty_events(&self) -> bool {
        let version = self.session.protocol_version();
        version.is_some_and(|version| version >= ProtocolVersion::V_2025_11_25)
    }

    /// Releases everything that belongs to the session: what runs for it, its answers, what
    /// was on its way, and its permit.
    pub(super) fn release(&self) {
        self.running.end();
        let parked = self.answers.lock().end();
        self.parking.metrics().lost("session_ended", parked);
        self.release_stream();
    }

    /// The same for a session that goes on on another server: the requests that are being answered
    /// here are answered on the connections that they have.
    pub(super) fn release_moved(&self) {
        let (unread, parked) = self.answers.lock().leave();
        for request in &unread {
            self.running.cancel(request);
        }
        self.parking.metrics().lost("session_ended", parked);
        self.release_stream();
    }

    fn release_stream(&self) {
        drop(self.handshake.lock().take());
        self.server_requests.end();
        let batch = self.outbound.lock().batch.take();
        drop(batch);
        drop(self.permit.lock().take());
    }

    /// Begins the handshake: the receiver gets `initialize`.
    pub(super) fn begin_handshake(&self) -> oneshot::Receiver<Box<ClientJsonRpcMessage>> {
        let (sender, receiver) = oneshot::channel();
        *self.handshake.lock() = Some(sender);
        receiver
    }

    /// Hands `initialize` to the service of the handshake. False when there is none.
    pub(super) fn initialize(&self, message: ClientJsonRpcMessage) -> bool {
        let handshake = self.handshake.lock().take();
        handshake.is_some_and(|handshake| handshake.send(Box::new(message)).is_ok())
    }

    /// Sets what the client said of itself.
    pub(super) fn set_client(&self, client: InitializeRequestParams) {
        let _only_once = self.client.set(Box::new(client));
    }

    /// What the client said of itself; `None` before `initialize` is answered.
    pub(super) fn client(&self) -> Option<&InitializeRequestParams> {
        self.client.get().map(|client| &**client)
    }

    /// Begins the answer to a request; `None` if the id is taken, as it is until the
    /// earlier request has been answered or cancelled.
    pub(super) fn register_request(
        self: &Arc<Self>,
        message: &ClientJsonRpcMessage,
    ) -> Option<AnswerReader> {
        let is_resumable = self.is_resumable();
        let mut answers = self.answers.lock();
        let connection = answers.register(message, is_resumable, Instant::now())?;
        drop(answers);
        Some(AnswerReader::new(Arc::clone(self), connection, 1))
    }

    /// Whether its client resumes answers: the version of the protocol says how since
    /// 2025-11-25.
    pub(super) fn is_resumable(&self) -> bool {
        let version = self.session.protocol_version();
        self.parking.is_on()
            && version.is_some_and(|version| version >= ProtocolVersion::V_2025_11_25)
    }

    /// After what time a connection that waits for an answer is closed, if ever.
    pub(super) fn poll_after(&self) -> Option<Duration> {
        self.parking.poll_after()
    }

    /// Adds a message to the answer that it belongs to.
    pub(super) fn route(&self, message: ServerJsonRpcMessage) -> Routed {
        self.answers.lock().route(message)
    }

    /// Parks a complete answer that nobody reads, if there is room.
    pub(super) fn park(&self, answer: u64) {
        let Some(events) = self.answers.lock().unread(answer) else {
            return;
        };
        // A large answer takes milliseconds, and no other request waits for that.
        let frames: Vec<_> = events.iter().map(AnswerEvent::frame).collect();
        let bytes = PARKED_ENTRY_BYTES + frames.iter().map(Bytes::len).sum::<usize>();
        match self.parking.acquire(&self.share_key, bytes) {
            Ok(permit) => {
                let until = Instant::now() + self.parking.park_for();
                self.answers.lock().park(answer, frames, permit, until);
            }
            Err(reached) => {
                let reason = LossReason::NoRoom(reached);
                let session = self.session.name();
                tracing::debug!(session, bytes, %reached, "an answer is not parked");
                let is_lost = self.answers.lock().drop_unread(answer, reason);
                let lost = u64::from(is_lost);
                self.parking.metrics().lost(reason.as_str(), lost);
            }
        }
    }

    /// Drops the parked answers whose time is over.
    pub(super) fn expire_answers(&self, now: Instant) {
        let expired = self.answers.lock().expire(now);
        let reason = LossReason::Expired.as_str();
        self.parking.metrics().lost(reason, expired);
    }

    /// Connects a client again to an answer of which it has seen an event.
    pub(super) fn resume(&self, seen: EventId) -> Result<Connection, NotResumed> {
        if !self.is_resumable() {
            return Err(NotResumed::NeverSent);
        }
        self.expire_answers(Instant::now());
        let connection = self.answers.lock().resume(seen)?;
        self.parking.metrics().resumed();
        Ok(connection)
    }

    /// Cancels a request, and ends its answer.
    pub(super) fn cancel(&self, request: &RequestId) {
        self.running.cancel(request);
        let was_parked = self.answers.lock().cancel(request);
        let reason = LossReason::Cancelled.as_str();
        self.parking.metrics().lost(reason, u64::from(was_parked));
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

    /// The caller that opened it, or continued it.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The address that it was opened from.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// The session itself.
    pub(crate) fn session(&self) -> &Session {
        &self.session
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
