//! Finds out when the records of sessions may be others than this server knows.
//!
//! A server that is frozen, or cut off from the store, is gone for the others: they take its
//! sessions. It hears nothing of that, neither then nor later. So it asks the store for one of its
//! records each second: if the answer is the first one for a while, if the store itself was away, or
//! if that record is not as it should be, all of them are written again. What another server has by
//! now is left then, and what the store has lost is there again.

use rmcp::transport::streamable_http_server::session::SessionId;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{manager::Sessions, store::SessionStore};

/// How often the store is asked for a record.
const LOOK: Duration = Duration::from_secs(1);

/// A server that had no answer for so long may be gone for the others. They wait for longer.
const SILENCE_MAX: Duration = Duration::from_secs(3);

impl Sessions {
    /// Has all records written again when they may be others, until `stop`.
    pub(super) async fn recheck_records(&self, store: &SessionStore, stop: &CancellationToken) {
        if store.home().is_none() {
            return;
        }
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn = Vec::new();
        let (mut answered, mut connection) = (Instant::now(), store.reconnects());
        loop {
            let looked = async {
                ticks.tick().await;
                self.look_at_one(store, &mut turn).await
            };
            let is_as_known = tokio::select! {
                () = stop.cancelled() => return,
                is_as_known = looked => is_as_known,
            };
            // A store that does not answer may be written by others.
            let Some(is_as_known) = is_as_known else {
                continue;
            };
            let reconnects = store.reconnects();
            if !is_as_known || answered.elapsed() > SILENCE_MAX || reconnects != connection {
                tracing::debug!("the records of all sessions are written again");
                self.doubt_all(store);
            }
            (answered, connection) = (Instant::now(), reconnects);
        }
    }

    /// Whether the record of the session whose turn it is says that it is here; `None` if the store
    /// does not answer.
    async fn look_at_one(&self, store: &SessionStore, turn: &mut Vec<SessionId>) -> Option<bool> {
        let Some(id) = self.next_kept(turn) else {
            return Some(true);
        };
        let found = store.look(&id).await.ok()?;
        // It may have ended or moved meanwhile.
        Some(found.is_at(store.home()) || !self.is_kept(&id))
    }

    fn next_kept(&self, turn: &mut Vec<SessionId>) -> Option<SessionId> {
        if turn.is_empty() {
            *turn = self.ids();
        }
        while let Some(id) = turn.pop() {
            if self.is_kept(&id) {
                return Some(id);
            }
        }
        None
    }

    /// Whether a session is here and has a record.
    fn is_kept(&self, id: &str) -> bool {
        let entry = self.get(id);
        entry.is_some_and(|entry| entry.kept.lock().revision.is_some())
    }

    fn doubt_all(&self, store: &SessionStore) {
        for entry in self.ids().iter().filter_map(|id| self.get(id)) {
            entry.kept.lock().is_doubted = true;
        }
        self.change_all(store);
        store.doubt();
    }
}
