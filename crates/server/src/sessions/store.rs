//! Where sessions are kept, so that they survive the process: which records have to be written,
//! and which sessions have ended.
//!
//! A record is written when the session is another than it was, and never for an event. One task
//! writes them all (`keeper`), so that of one session there is one write at a time.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kubecrier_history::{Registry, RegistryError, Revision, SetOutcome};
use parking_lot::Mutex;
use rmcp::{ErrorData, transport::streamable_http_server::session::SessionId};
use serde_json::json;
use tokio::{
    sync::{Notify, oneshot},
    time::{Duration, Instant, timeout},
};

use super::record::{End, Kept, SessionRecord};
use crate::output::ToolError;

/// How long a session of which nothing is heard can be continued elsewhere.
pub(super) const TIME_TO_LIVE: Duration = Duration::from_hours(1);

/// How long the answer to a request waits for the record that it changes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Sessions that have ended and wait for a store that fails. Beyond that the oldest are left to expire
/// there.
const ENDED_MAX: usize = 50_000;

/// How long other servers may take, after the store was away, to write again what it has lost.
const SETTLING: Duration = Duration::from_secs(5);

/// The records of sessions.
pub(crate) struct SessionStore {
    registry: Arc<dyn Registry>,
    /// The name of this server, where several share their sessions.
    home: Option<String>,
    // A lock for one operation on the maps.
    pending: Mutex<Pending>,
    // A lock for one step.
    connection: Mutex<Connection>,
    has_failed: AtomicBool,
    changed: Notify,
    doubted: Notify,
}

/// Which connection to the store there is.
struct Connection {
    reconnects: u64,
    /// When another one than the first was noticed.
    since: Option<Instant>,
}

#[derive(Default)]
struct Pending {
    /// Sessions that may be others than their records say, and who waits for the record.
    changed: HashMap<SessionId, Waiting>,
    /// Sessions that have ended and whose records may still be there, and since when.
    ended: HashMap<SessionId, (Ended, Instant)>,
    /// The same in their order, and some that are done.
    ended_order: VecDeque<(SessionId, Instant)>,
}

/// A session that has ended here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    /// The revision of its record, as far as it is known.
    pub(super) revision: Option<Revision>,
}

/// Why what a session is was not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotKept {
    #[error("the session cannot be kept as it is: {0}")]
    Rejected(String),
    #[error("the session cannot be kept as it is at the moment, try again in a few seconds: {0}")]
    Failed(String),
    #[error("the session is on another server by now, try again")]
    Moved,
}

impl From<NotKept> for ErrorData {
    fn from(error: NotKept) -> Self {
        let text = error.to_string();
        let kind = ToolError::from(error).kind();
        Self::internal_error(text, Some(json!({"kind": kind})))
    }
}

impl From<NotKept> for ToolError {
    fn from(error: NotKept) -> Self {
        match error {
            NotKept::Rejected(_) => Self::Limit(error.to_string()),
            NotKept::Failed(_) | NotKept::Moved => Self::Unavailable(error.to_string()),
        }
    }
}

/// Who waits for a record.
pub(super) type Waiting = Vec<oneshot::Sender<Result<(), NotKept>>>;

/// What is known of a session that is not here.
#[derive(Debug)]
pub(super) enum Found {
    /// It can be continued.
    Session(Box<SessionRecord>, Revision),
    Ended,
    /// There is no record.
    Nothing,
}

// === impl SessionStore ===

impl SessionStore {
    pub(crate) fn new(registry: Arc<dyn Registry>) -> Self {
        let connection = Connection {
            reconnects: registry.reconnects(),
            since: None,
        };
        Self {
            registry,
            home: None,
            pending: Mutex::default(),
            connection: Mutex::new(connection),
            has_failed: AtomicBool::new(false),
            changed: Notify::new(),
            doubted: Notify::new(),
        }
    }

    /// The same, which other servers share.
    pub(crate) fn shared_as(mut self, home: &str) -> Self {
        self.home = Some(home.to_owned());
        self
    }

    /// The name of this server, where several share their sessions.
    pub(super) fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    pub(super) fn registry(&self) -> &dyn Registry {
        &*self.registry
    }

    /// Has the record of a session written, if it is another one.
    pub(super) fn change(&self, id: &SessionId) {
        self.pending.lock().changed.entry(id.clone()).or_default();
        self.changed.notify_one();
    }

    /// The same for a session that has ended: its record is removed, if it is this server's.
    pub(super) fn end(&self, id: &SessionId, ended: Ended) {
        self.pending.lock().end(id, ended);
        self.change(id);
    }

    /// Has those records that were changed written at once, also if the store has just failed.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Waits until that is to be done. Cancel-safe.
    pub(super) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// How often the store was away and came back.
    pub(super) fn reconnects(&self) -> u64 {
        let reconnects = self.registry.reconnects();
        let mut connection = self.connection.lock();
        if connection.reconnects != reconnects {
            *connection = Connection {
                reconnects,
                since: Some(Instant::now()),
            };
        }
        reconnects
    }

    /// Whether what is not in the store is nowhere: after it was away, other servers write again
    /// what it has lost.
    pub(super) fn is_settled(&self) -> bool {
        let _noted = self.reconnects();
        let since = self.connection.lock().since;
        since.is_none_or(|since| since.elapsed() >= SETTLING)
    }

    /// Whether writes fail at the moment: what is not in the store may be on another server, which
    /// could not write it.
    pub(super) fn is_failing(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.registry.is_failing()
    }

    /// Notes whether the last writes failed.
    pub(super) fn set_failed(&self, has_failed: bool) {
        self.has_failed.store(has_failed, Ordering::Relaxed);
    }

    /// Has the record of a session written, and waits for it for a while. Cancel-safe.
    pub(super) async fn settle(&self, id: &SessionId) -> Result<(), NotKept> {
        let (done, is_done) = oneshot::channel();
        self.wait_for(id, done);
        match timeout(WRITE_TIMEOUT, is_done).await {
            Ok(Ok(written)) => written,
            Ok(Err(_dropped)) => Err(NotKept::Failed("the store fails".to_owned())),
            Err(_elapsed) => Err(NotKept::Failed("the store takes too long".to_owned())),
        }
    }

    /// The same for a session that begins. While nobody can read the store, nobody takes the session
    /// for one that there is not, and it begins without a record.
    pub(super) async fn settle_new(&self, id: &SessionId) -> Result<(), NotKept> {
        let Err(error) = self.settle(id).await else {
            return Ok(());
        };
        match timeout(WRITE_TIMEOUT, self.look(id)).await {
            Ok(Ok(found)) if !found.is_at(self.home()) => Err(error),
            Ok(Ok(_) | Err(_)) | Err(_) => Ok(()),
        }
    }

    fn wait_for(&self, id: &SessionId, done: oneshot::Sender<Result<(), NotKept>>) {
        let mut pending = self.pending.lock();
        let waiting = pending.changed.entry(id.clone()).or_default();
        waiting.retain(|other| !other.is_closed());
        waiting.push(done);
        drop(pending);
        self.changed.notify_one();
    }

    /// Waits for a change. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The sessions whose records have to be looked at.
    pub(super) fn take_changed(&self) -> HashMap<SessionId, Waiting> {
        std::mem::take(&mut self.pending.lock().changed)
    }

    /// How a session has ended, if it has and not only left this process.
    pub(super) fn ended(&self, id: &str) -> Option<Ended> {
        let pending = self.pending.lock();
        pending.ended.get(id).map(|(ended, _)| *ended)
    }

    /// Notes that the record of a session that has ended is gone, or another server's.
    pub(super) fn forget(&self, id: &str) {
        self.pending.lock().ended.remove(id);
    }

    /// What the registry has of a session.
    pub(super) async fn look(&self, id: &str) -> Result<Kept, RegistryError> {
        Ok(Kept::of(self.registry.get(&key(id)).await?))
    }

    /// What is known of a session that this process does not have.
    pub(super) async fn find(&self, id: &str) -> Result<Found, RegistryError> {
        let is_final = |ended: Ended| ended.end == End::Final;
        if self.ended(id).is_some_and(is_final) {
            return Ok(Found::Ended);
        }
        let kept = self.look(id).await?;
        // It may have ended here since. One that another server has taken before goes on there.
        let is_elsewhere = matches!(kept, Kept::Session(..)) && !kept.is_at(self.home());
        let has_ended = self.ended(id);
        if has_ended.is_some_and(|ended| is_final(ended) || !is_elsewhere) {
            return Ok(Found::Ended);
        }
        Ok(match kept {
            Kept::Session(record, revision) => Found::Session(record, revision),
            Kept::Ended(..) | Kept::Foreign => Found::Ended,
            Kept::Nothing => Found::Nothing,
        })
    }

    /// Writes the record of a session that this server takes, if it is as it was found.
    pub(super) async fn claim(
        &self,
        id: &str,
        record: &SessionRecord,
        found: Revision,
    ) -> Result<Option<Revision>, RegistryError> {
        let (key, bytes) = (key(id), record.to_bytes());
        let set = (self.registry).compare_and_set(&key, Some(found), bytes, TIME_TO_LIVE);
        Ok(match set.await? {
            SetOutcome::Set(revision) => {
                // It may have ended here before it went on elsewhere.
                self.forget(id);
                Some(revision)
            }
            SetOutcome::Conflict => None,
        })
    }
}

// === impl Pending ===

impl Pending {
    fn end(&mut self, id: &SessionId, ended: Ended) {
        let now = Instant::now();
        self.ended.insert(id.clone(), (ended, now));
        self.ended_order.push_back((id.clone(), now));
        while let Some((oldest, at)) = self.ended_order.front() {
            let is_waiting = self.ended.get(oldest).is_some_and(|(_, since)| since == at);
            let is_one_too_many = self.ended_order.len() > ENDED_MAX;
            // What is older has expired in the store.
            if is_waiting && !is_one_too_many && at.elapsed() < TIME_TO_LIVE {
                return;
            }
            if let Some((oldest, _)) = self.ended_order.pop_front()
                && is_waiting
            {
                self.ended.remove(&oldest);
                self.changed.remove(&oldest);
            }
        }
    }
}

/// The key of a record.
pub(super) fn key(id: &str) -> String {
    format!("session.{id}")
}

impl fmt::Debug for SessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStore")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many sessions end while a store fails, and for however long it does.
    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_store_is_bounded_by_number_and_time() {
        let mut pending = Pending::default();
        let id = |number: usize| SessionId::from(number.to_string());
        let ended = Ended {
            end: End::Final,
            revision: None,
        };
        for number in 0..ENDED_MAX + 10 {
            pending.changed.entry(id(number)).or_default();
            pending.end(&id(number), ended);
        }
        for len in [
            pending.ended.len(),
            pending.ended_order.len(),
            pending.changed.len(),
        ] {
            assert_eq!(len, ENDED_MAX);
        }
        assert!(!pending.ended.contains_key(&id(9)), "the oldest are left");
        assert!(pending.ended.contains_key(&id(10)));
        tokio::time::advance(TIME_TO_LIVE).await;
        pending.end(&id(0), ended);
        assert_eq!((pending.ended.len(), pending.changed.len()), (1, 0));
        // Of those that are written nothing stays.
        pending.ended.remove(&id(0));
        pending.end(&id(1), ended);
        assert_eq!(pending.ended_order.len(), 1);
    }
}
