//! Where sessions are kept, so that they survive the process: which records have to be written,
//! and which sessions have ended.
//!
//! A record is written when the session is another than it was, and never for an event. One task
//! writes them all (`keeper`), so that of one session there is one write at a time.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use kubecrier_history::{Registry, RegistryError, Revision, SetOutcome};
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::SessionId;
use tokio::{
    sync::{Notify, oneshot},
    time::{Duration, timeout},
};

use super::record::SessionRecord;

/// How long a session of which nothing is heard can be continued elsewhere.
pub(super) const TIME_TO_LIVE: Duration = Duration::from_hours(1);

/// How long the answer to a request waits for the record that it changes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The records of sessions.
pub(crate) struct SessionStore {
    registry: Arc<dyn Registry>,
    /// The name of this server, where several share their sessions.
    home: Option<String>,
    // A lock for one operation on the maps.
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Default)]
struct Pending {
    /// Sessions that may be others than their records say, and who waits for the record.
    changed: HashMap<SessionId, Vec<oneshot::Sender<()>>>,
    /// Sessions that have ended and whose records may still be there.
    ended: HashSet<SessionId>,
}

// === impl SessionStore ===

impl SessionStore {
    pub(crate) fn new(registry: Arc<dyn Registry>) -> Self {
        Self {
            registry,
            home: None,
            pending: Mutex::default(),
            changed: Notify::new(),
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

    /// The same for a session that has ended: its record is removed.
    pub(super) fn end(&self, id: &SessionId) {
        self.pending.lock().ended.insert(id.clone());
        self.change(id);
    }

    /// Has the record of a session written, and waits for it for a while. Cancel-safe.
    pub(super) async fn settle(&self, id: &SessionId) {
        let (done, is_done) = oneshot::channel();
        self.wait_for(id, done);
        // A store that fails is said elsewhere; the client is served without it.
        let _written = timeout(WRITE_TIMEOUT, is_done).await;
    }

    fn wait_for(&self, id: &SessionId, done: oneshot::Sender<()>) {
        let mut pending = self.pending.lock();
        pending.changed.entry(id.clone()).or_default().push(done);
        drop(pending);
        self.changed.notify_one();
    }

    /// Waits for a change. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The sessions whose records have to be looked at.
    pub(super) fn take_changed(&self) -> HashMap<SessionId, Vec<oneshot::Sender<()>>> {
        std::mem::take(&mut self.pending.lock().changed)
    }

    /// Whether a session has ended, and not only left this process.
    pub(super) fn has_ended(&self, id: &SessionId) -> bool {
        self.pending.lock().ended.contains(id)
    }

    /// Notes that the record of a session that has ended is gone.
    pub(super) fn forget(&self, id: &SessionId) {
        self.pending.lock().ended.remove(id);
    }

    /// The record of a session that this process does not have.
    pub(super) async fn find(
        &self,
        id: &str,
    ) -> Result<Option<(SessionRecord, Revision)>, RegistryError> {
        if self.pending.lock().ended.contains(id) {
            return Ok(None);
        }
        let found = self.registry.get(&key(id)).await?;
        let record =
            found.and_then(|entry| Some((SessionRecord::parse(&entry.value)?, entry.revision)));
        // It may have ended since.
        let has_ended = self.pending.lock().ended.contains(id);
        Ok(record.filter(|_| !has_ended))
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
            SetOutcome::Set(revision) => Some(revision),
            SetOutcome::Conflict => None,
        })
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
