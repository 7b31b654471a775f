//! All sessions: made, found, swept, ended.

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc};

use mcp_notify::{
    CloseReason, HeartbeatConfig, Notification, OutboxConfig, ProtocolVersion, Session,
};
use parking_lot::RwLock;
use rmcp::transport::streamable_http_server::session::SessionId;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::{
    dispatch::SessionError,
    heartbeat::HeartbeatQueue,
    http_session::{HttpSession, Silence},
    limiter::{SessionLimiter, SessionPermit, SessionRefused},
    parking::Parking,
    record::{End, SessionRecord},
    store::{Ended, NotKept, SessionStore},
};
use crate::{caller::Caller, share};
use kubecrier_core::{metrics::AnswerMetrics, shares::CallerShare};

/// How often idle and closed sessions are looked for.
const SWEEP: Duration = Duration::from_secs(10);

/// A client whose stream broke comes back within seconds: the stream itself says after how
/// many. One that does not, and sends nothing else, is gone; with the sweep, it is ended
/// within 40 s.
const VANISHED_AFTER: Duration = Duration::from_secs(30);

/// Caps and times of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// The number of sessions in all.
    pub sessions_max: usize,
    /// The number of sessions of one caller.
    pub sessions_per_caller_max: usize,
    /// New ones in a second.
    pub rate_per_second: usize,
    /// The part of the rate that one caller may use.
    pub share: CallerShare,
    /// Without a stream and without a request, a session ends after this.
    pub idle_timeout: Duration,
    /// A client with an open stream is pinged after this much silence; `None` is never.
    pub heartbeat: Option<Duration>,
    /// How long an answer is parked for a client that lost its connection; zero is never.
    pub park_for: Duration,
    /// The bytes of all parked answers.
    pub parked_bytes_max: usize,
    /// A connection that waits for its answer for longer is closed, and the client polls;
    /// `None` is never.
    pub poll_after: Option<Duration>,
}

/// Every session of the server.
pub(crate) struct Sessions {
    limits: SessionLimits,
    outbox: OutboxConfig,
    limiter: SessionLimiter,
    heartbeats: HeartbeatQueue,
    parking: Arc<Parking>,
    /// Where sessions are kept, if they are.
    store: Option<Arc<SessionStore>>,
    // A lock for lookups by id; held for one map operation.
    entries: RwLock<HashMap<SessionId, Arc<HttpSession>>>,
}

// === impl SessionLimits ===

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions_max: 10_000,
            sessions_per_caller_max: 1_000,
            rate_per_second: 200,
            share: CallerShare::HALF,
            idle_timeout: Duration::from_mins(5),
            heartbeat: Some(HeartbeatConfig::default().interval),
            park_for: Duration::from_mins(2),
            // Half of it holds the three largest answers there can be.
            parked_bytes_max: 64 * 1024 * 1024,
            poll_after: None,
        }
    }
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(
        limits: SessionLimits,
        metrics: mcp_notify::Metrics,
        answers: AnswerMetrics,
    ) -> Self {
        let limiter = SessionLimiter::new(limits);
        let outbox = OutboxConfig::default().metrics(metrics);
        Self {
            limits,
            outbox,
            limiter,
            heartbeats: HeartbeatQueue::default(),
            parking: Arc::new(Parking::new(&limits, answers)),
            store: None,
            entries: RwLock::default(),
        }
    }

    /// The same, which are kept.
    pub(crate) fn kept(mut self, store: Option<Arc<SessionStore>>) -> Self {
        self.store = store;
        self
    }

    /// Where sessions are kept, if they are.
    pub(crate) fn store(&self) -> Option<&Arc<SessionStore>> {
        self.store.as_ref()
    }

    /// Acquires a permit for something that lives as long as a session.
    pub(crate) fn acquire(
        &self,
        caller: &Caller,
        peer: Option<IpAddr>,
    ) -> Result<SessionPermit, SessionRefused> {
        self.limiter.acquire(caller, peer)
    }

    /// The same for the caller of the request under way.
    pub(super) fn acquire_current(&self) -> Result<SessionPermit, SessionRefused> {
        self.acquire(&Caller::current(), share::current_peer())
    }

    /// Begins a session of the current request's caller.
    pub(super) fn create(&self) -> Result<Arc<HttpSession>, SessionError> {
        let permit = match SessionPermit::reserved() {
            Some(permit) => permit,
            None => self.acquire_current()?,
        };
        let id: SessionId = uuid::Uuid::new_v4().to_string().into();
        self.insert(self.entry(id, permit))
    }

    /// Makes a session anew of which there is a record. It is not found before it is inserted.
    pub(super) fn restore(
        &self,
        id: &str,
        record: &SessionRecord,
    ) -> Result<Arc<HttpSession>, SessionRefused> {
        let permit = self
            .limiter
            .acquire_again(&Caller::current(), share::current_peer())?;
        let entry = self.entry(id.into(), permit);
        entry.kept.lock().may_be_there = true;
        let version = record.client.protocol_version.as_str();
        entry
            .session
            .set_protocol_version(ProtocolVersion::new(version));
        entry.set_client(record.client.clone());
        if record.is_initialized {
            entry.set_initialized();
        }
        Ok(entry)
    }

    fn entry(&self, id: SessionId, permit: SessionPermit) -> Arc<HttpSession> {
        let session = Session::builder()
            .outbox(self.outbox.clone())
            .build(id.clone());
        let peer = share::current_peer();
        let share_key = share::key(permit.caller(), peer, Some(&id));
        let entry = HttpSession::new(session, permit, peer, Arc::clone(&self.parking), share_key);
        if self.store.is_some() {
            entry.make_resumable();
        }
        Arc::new(entry)
    }

    /// Adds a session, which is found from now on.
    pub(super) fn insert(&self, entry: Arc<HttpSession>) -> Result<Arc<HttpSession>, SessionError> {
        let id = Arc::clone(entry.session.id());
        self.entries.write().insert(id.clone(), Arc::clone(&entry));
        // Revoked since the request was let in, and those that are ended may have been
        // looked up before.
        if entry.caller.is_revoked() {
            self.end(&id, "the token of its caller is revoked");
            return Err(SessionError::Ended);
        }
        Ok(entry)
    }

    pub(super) fn heartbeats(&self) -> &HeartbeatQueue {
        &self.heartbeats
    }

    pub(super) fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.limiter.count()
    }

    /// The bytes of all parked answers.
    pub(crate) fn parked_bytes(&self) -> usize {
        self.parking.bytes()
    }

    /// A session of the current request's caller. A session of another caller is not
    /// found.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<HttpSession>> {
        let entry = self.entries.read().get(id).cloned()?;
        let is_owner = entry.caller == Caller::current();
        (is_owner && !entry.session.is_closed()).then_some(entry)
    }

    /// A session by its id alone, for work that is not a request's.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<HttpSession>> {
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

    /// Ends a session on purpose, on whatever server it is, and frees everything that belongs to
    /// it. A second end does nothing.
    pub(super) fn end(&self, id: &str, why: &'static str) {
        self.end_as(End::Final, id, why);
    }

    /// Ends a session of whose client nothing is heard here. If another server has it, it goes on
    /// there.
    pub(super) fn give_up(&self, id: &str, why: &'static str) {
        self.end_as(End::Silent, id, why);
    }

    fn end_as(&self, end: End, id: &str, why: &'static str) {
        let Some(entry) = self.entries.write().remove(id) else {
            return;
        };
        tracing::debug!(session = id, why, "session ended");
        if let Some(store) = &self.store {
            let kept = entry.kept.lock();
            let (may_be_there, revision) = (kept.may_be_there, kept.revision);
            drop(kept);
            // Before `initialize` is answered there is no record.
            if may_be_there || revision.is_some() {
                store.end(entry.session.id(), Ended { end, revision });
            }
        }
        Self::close(&entry);
    }

    /// Lets go of a session that goes on on another server.
    pub(super) fn leave(&self, id: &str) {
        if let Some(entry) = self.entries.write().remove(id) {
            tracing::debug!(session = id, "session left: another server has it");
            entry.session.close(CloseReason::Requested);
            entry.release_moved();
        }
    }

    fn close(entry: &HttpSession) {
        entry.session.close(CloseReason::Requested);
        entry.release();
    }

    /// The number of sessions of a caller.
    pub(crate) fn count_of(&self, caller: &Caller) -> usize {
        let entries = self.entries.read();
        entries.values().filter(|one| one.caller == *caller).count()
    }

    /// Whether a session is one of the caller.
    pub(crate) fn is_of(&self, id: &str, caller: &Caller) -> bool {
        let entries = self.entries.read();
        entries.get(id).is_some_and(|one| one.caller == *caller)
    }

    /// Ends the sessions that were opened with a token that is revoked.
    pub(crate) fn end_revoked(&self) {
        let revoked: Vec<_> = self
            .entries
            .read()
            .iter()
            .filter(|(_, entry)| entry.caller.is_revoked())
            .map(|(id, _)| id.clone())
            .collect();
        for id in revoked {
            self.end(&id, "the token of its caller is revoked");
        }
    }

    /// Closes every session. Those that are kept have not ended: another process goes on with
    /// them.
    pub(crate) fn close_all(&self) {
        let entries = std::mem::take(&mut *self.entries.write());
        for entry in entries.values() {
            tracing::debug!(session = %entry.session.id(), "session closed: the server stops");
            Self::close(entry);
        }
    }

    /// The ids of all sessions.
    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.entries.read().keys().cloned().collect()
    }

    /// Notes that the client of a session is ready for notifications.
    pub(crate) fn initialized(&self, id: &str) {
        if let Some(entry) = self.get(id) {
            entry.set_initialized();
        }
        self.start_heartbeat(id);
    }

    /// Waits until what a request has changed of its session is kept, if sessions are. Where no
    /// other server would go on with it, this one goes on without a record; then that is returned.
    pub(crate) async fn settle(&self, id: &SessionId) -> Result<Option<NotKept>, NotKept> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        match store.settle(id).await {
            Ok(()) => Ok(None),
            Err(error) if store.home().is_none() => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    /// The same for a session that begins, if other servers read its record: the next request of
    /// its client may come to one of them. One that is not kept ends.
    pub(super) async fn settle_new(&self, id: &SessionId) -> Result<(), NotKept> {
        let store = self.store.as_ref().filter(|store| store.home().is_some());
        let Some(store) = store else {
            return Ok(());
        };
        let kept = store.settle_new(id).await;
        if kept.is_err() {
            self.end(id, "it cannot be kept");
        }
        kept
    }

    /// Ends idle sessions, until `stop`.
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
        let entries = self.entries.read();
        let dead: Vec<_> = (entries.iter())
            .filter_map(|(id, entry)| Some((id.clone(), self.end_of(entry, now)?)))
            .collect();
        for entry in entries.values() {
            entry.expire_answers(now);
        }
        drop(entries);
        for (id, why) in dead {
            self.give_up(&id, why);
        }
    }

    /// Why a session is at its end, if it is.
    fn end_of(&self, entry: &HttpSession, now: Instant) -> Option<&'static str> {
        if entry.session.is_closed() {
            return Some("closed");
        }
        let Silence { since, stream_lost } = entry.silence()?;
        let silent_for = now.duration_since(since);
        if silent_for >= self.limits.idle_timeout {
            Some("idle: no stream and no request")
        } else if stream_lost && silent_for >= VANISHED_AFTER {
            Some("vanished: its stream is gone, and it did not come back")
        } else {
            None
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
