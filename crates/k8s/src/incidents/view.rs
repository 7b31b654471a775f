//! What a caller reads of incidents, for as long as it holds this.

use std::{fmt, sync::Arc};

use super::{
    Announced, IncidentClaim, IncidentSnapshot, evaluator, eyes, notes, watcher::IncidentWatcher,
};
use crate::{error::ClusterError, scope_rights::Freshness, shared_task::Lease};

/// The incidents of a namespace or a cluster, kept up to date while this is held.
pub struct IncidentView {
    pub(super) watcher: Lease<Arc<IncidentWatcher>>,
    pub(super) key: u64,
    /// Of the caller that reads it. Those who follow it have their own.
    pub(super) _claim: Option<IncidentClaim>,
}

// === impl IncidentView ===

impl IncidentView {
    /// The name of the context.
    pub fn context(&self) -> &str {
        &self.watcher.scope.context
    }

    /// The incidents of now. Costs no request and no computation.
    pub fn snapshot(&self) -> Arc<IncidentSnapshot> {
        self.watcher.snapshot()
    }

    /// The incidents of now, for an answer: what a user may see of them is asked for it.
    ///
    /// # Errors
    /// If that is nothing, or cannot be found out.
    pub async fn snapshot_for_answer(&self) -> Result<Arc<IncidentSnapshot>, ClusterError> {
        let Some(eyes) = &self.watcher.eyes else {
            return Ok(self.snapshot());
        };
        let decided = eyes.decide(Freshness::Asked).await;
        let clearance = eyes::some(decided, &self.watcher.scope)?;
        let snapshot = self.snapshot();
        if (snapshot.clearance.as_ref()).is_some_and(|known| known.is_same(&clearance)) {
            return Ok(snapshot);
        }
        // Its own evaluation takes that into account as well.
        self.watcher.wake();
        let seen = evaluator::snapshot_as(&self.watcher, Arc::new(clearance));
        Ok(Arc::new(Box::pin(seen).await))
    }

    /// What was announced after the one with that number, as far as it may be seen by who may
    /// see a snapshot.
    pub fn announced_after(&self, number: u64, snapshot: &IncidentSnapshot) -> Announced {
        let mut announced = self.watcher.journal.after(number);
        let all = announced.updates.len();
        announced.updates.retain(
            |(_, update)| match (&update.clearance, &snapshot.clearance) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(then), Some(now)) => now.covers(then),
            },
        );
        announced.gap |= announced.updates.len() < all;
        announced
    }

    /// Why the incidents of now may be those of before, if watches do not work.
    pub fn degraded(&self) -> Option<String> {
        let snapshot = self.snapshot();
        let mut notes = snapshot.notes.iter();
        notes.find(|note| note.starts_with(notes::STALE)).cloned()
    }
}

impl Drop for IncidentView {
    fn drop(&mut self) {
        self.watcher.remove(self.key);
    }
}

impl fmt::Debug for IncidentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IncidentView")
            .field(&self.watcher.scope)
            .finish()
    }
}
