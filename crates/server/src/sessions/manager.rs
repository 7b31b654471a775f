//! All sessions: made, found, swept, ended.

use std::{collections::HashMap, fmt, sync::Arc};

use futures_util::{Stream, StreamExt, stream};
use mcp_notify::{CloseReason, HeartbeatConfig, Notification, OutboxConfig, Session};
use parking_lot::RwLock;
use rmcp::{
    ErrorData,
    model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager},
};
use tokio::{
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

use super::{
    admission::{Admission, Gate, Refused},
    entry::{Entry, Kind, Open},
    heartbeat::Hearts,
    wire::Wire,
};
use crate::caller::Caller;
use kubecrier_core::slices::Slices;

/// Messages from a client that the service has not taken yet.
const INBOUND_CAPACITY: usize = 64;

/// How often dead sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Caps and times of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// In all.
    pub sessions_max: usize,
    /// Of one caller.
    pub sessions_per_caller_max: usize,
    /// New ones in a second.
    pub rate_per_second: usize,
    /// Without a stream and without a request, a session ends after this.
    pub idle_timeout: Duration,
    /// After so much silence a client with an open stream is asked whether it is
    /// there; `None` is never.
    pub heartbeat: Option<Duration>,
}

/// Every session of the server.
pub(crate) struct Sessions {
    limits: SessionLimits,
    outbox: OutboxConfig,
    gate: Arc<Gate>,
    hearts: Hearts,
    slices: Slices,
    // A lock for lookups by id; held for one map operation.
    entries: RwLock<HashMap<SessionId, Arc<Entry>>>,
}

/// What rmcp is told when a session cannot do something.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the session has ended")]
    Ended,
    #[error("the session did not answer `initialize`")]
    NoAnswer,
    #[error("streams are opened elsewhere")]
    Elsewhere,
}

// === impl SessionLimits ===

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions_max: 10_000,
            sessions_per_caller_max: 1_000,
            rate_per_second: 200,
            idle_timeout: Duration::from_mins(5),
            heartbeat: Some(HeartbeatConfig::default().interval),
        }
    }
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(limits: SessionLimits, metrics: mcp_notify::Metrics, slices: Slices) -> Self {
        let gate = Arc::new(Gate::new(limits));
        let outbox = OutboxConfig::default().metrics(metrics);
        Self {
            limits,
            outbox,
            gate,
            hearts: Hearts::default(),
            slices,
            entries: RwLock::default(),
        }
    }

    /// A place under the caps, for something that lives as long as a session.
    pub(crate) fn enter(&self, caller: &Caller) -> Result<Admission, Refused> {
        self.gate.enter(caller)
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(super) fn hearts(&self) -> &Hearts {
        &self.hearts
    }

    pub(super) fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// How many sessions there are.
    pub(crate) fn count(&self) -> usize {
        self.gate.count()
    }

    /// A session, if the caller of the request under way has opened it. To anyone
    /// else it does not exist.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        let entry = self.entries.read().get(id).cloned()?;
        let ours = entry.caller == Caller::current();
        (ours && !entry.session.is_closed()).then_some(entry)
    }

    /// A session by its id alone, for work that is not a request's.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        self.entries
            .read()
            .get(id)
            .cloned()
            .filter(|entry| !entry.session.is_closed())
    }

    /// Puts a notification into every outbox.
    pub(crate) fn push_to_all(&self, notification: &Notification) {
        for entry in self.entries.read().values() {
            let _accounted = entry.session.push(notification.clone());
        }
    }

    /// Ends a session and frees what hangs on it. Exactly once; a second time does
    /// nothing.
    pub(super) fn end(&self, id: &str, why: &'static str) {
        let Some(entry) = self.entries.write().remove(id) else {
            return;
        };
        tracing::debug!(session = id, why, "session ended");
        entry.session.close(CloseReason::Requested);
        entry.release();
    }

    /// Ends every session.
    pub(crate) fn end_all(&self) {
        let ids: Vec<_> = self.entries.read().keys().cloned().collect();
        for id in ids {
            self.end(&id, "the server stops");
        }
    }

    /// Ends idle sessions, until told to stop.
    pub(crate) async fn sweep(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(SWEEP.min(self.limits.idle_timeout));
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _tick = ticks.tick() => self.sweep_once(),
            }
        }
    }

    fn sweep_once(&self) {
        let now = Instant::now();
        let idle = |entry: &Entry| {
            entry.session.is_closed()
                || entry
                    .idle_since()
                    .is_some_and(|since| now.duration_since(since) >= self.limits.idle_timeout)
        };
        let dead: Vec<_> = self
            .entries
            .read()
            .iter()
            .filter(|(_, entry)| idle(entry))
            .map(|(id, _)| id.clone())
            .collect();
        for id in dead {
            self.end(&id, "idle: no stream and no request");
        }
    }

    fn entry(&self, id: &str) -> Result<Arc<Entry>, SessionError> {
        self.get(id).ok_or(SessionError::Ended)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = Wire;

    async fn create_session(&self) -> Result<(SessionId, Wire), SessionError> {
        let admission = match Admission::reserved() {
            Some(place) => place,
            None => self.gate.enter(&Caller::current())?,
        };
        let id: SessionId = uuid::Uuid::new_v4().to_string().into();
        let (sender, inbound) = mpsc::channel(INBOUND_CAPACITY);
        let session = Session::builder()
            .outbox(self.outbox.clone())
            .build(id.clone());
        let entry = Arc::new(Entry::new(session, admission, sender, self.slices));
        self.entries.write().insert(id.clone(), Arc::clone(&entry));
        Ok((id, Wire { entry, inbound }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        let entry = self.entry(id)?;
        let (expected, mut answer) = entry.expect(&message).ok_or(SessionError::NoAnswer)?;
        entry
            .inbound
            .send(Box::new(message))
            .await
            .map_err(|_| SessionError::Ended)?;
        expected.asked();
        let first = answer.recv().await.and_then(|event| event.message);
        let message = first.ok_or(SessionError::NoAnswer)?;
        Ok(Arc::unwrap_or_clone(message))
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.find(id).is_some())
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        self.end(id, "its service has ended");
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let entry = self.entry(id)?;
        let open = entry.open(Kind::Post);
        let Some((expected, answer)) = entry.expect(&message) else {
            return Ok(events(refusal(&message), open));
        };
        entry
            .inbound
            .send(Box::new(message))
            .await
            .map_err(|_| SessionError::Ended)?;
        expected.asked();
        Ok(events(answer, open))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let entry = self.entry(id)?;
        entry.seen();
        // An answer to a ping is counted as one, not as something said.
        if !matches!(message, ClientJsonRpcMessage::Response(_)) {
            entry.beat();
        }
        let cancelled = cancelled(&message);
        entry
            .inbound
            .send(Box::new(message))
            .await
            .map_err(|_| SessionError::Ended)?;
        // rmcp does not answer a cancelled request, so nobody is to wait for it.
        if let Some(request) = cancelled {
            drop(entry.take_answer(&request));
        }
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        _id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Err::<stream::Empty<_>, _>(SessionError::Elsewhere)
    }

    async fn resume(
        &self,
        _id: &SessionId,
        _last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Err::<stream::Empty<_>, _>(SessionError::Elsewhere)
    }
}

/// The request that a message cancels.
fn cancelled(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    let ClientJsonRpcMessage::Notification(notification) = message else {
        return None;
    };
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.clone(),
        _ => None,
    }
}

/// The answer to a request whose id another one still has.
fn refusal(message: &ClientJsonRpcMessage) -> mpsc::Receiver<ServerSseMessage> {
    let id = match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    };
    let text = "a request with this id is still being answered; use another id";
    let error = ServerJsonRpcMessage::error(ErrorData::invalid_request(text, None), id);
    let (sender, receiver) = mpsc::channel(1);
    // There is room for one.
    let _sent = sender.try_send(ServerSseMessage::from_message(error));
    receiver
}

/// The messages of one POST; while it is read, the session lives.
fn events(
    answer: mpsc::Receiver<ServerSseMessage>,
    open: Open,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    stream::unfold((answer, open), |(mut answer, open)| async move {
        let event = answer.recv().await?;
        Some((event, (answer, open)))
    })
    .fuse()
}
