//! Writes the records of sessions that have changed, and removes those of sessions that have
//! ended.
//!
//! Where several servers share their sessions, a record is only written or removed as it is known:
//! another server may have taken the session meanwhile.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use kubecrier_history::{RegistryError, SetOutcome};
use rmcp::transport::streamable_http_server::session::SessionId;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    http_session::HttpSession,
    manager::Sessions,
    record::{End, Kept, SessionRecord},
    store::{Ended, NotKept, SessionStore, TIME_TO_LIVE, Waiting, key},
};

/// How often all sessions are compared with their records: some changes are not of a request.
const COMPARE: Duration = Duration::from_secs(30);

/// A record is written again before its time is over.
const RENEW_AFTER: Duration = Duration::from_mins(20);

/// How often a record is written that another server writes at the same time.
const TRIES_MAX: usize = 3;

/// A store that fails is tried again after this.
const RETRY: Duration = Duration::from_secs(5);

/// Records that are written at the same time. If one of them fails, the others wait.
const WRITES_MAX: usize = 256;

impl Sessions {
    /// Keeps the records of sessions as they are, until `stop`, and then once more.
    pub(crate) async fn keep_records(
        self: Arc<Self>,
        describe: impl Fn(&HttpSession, SessionRecord) -> SessionRecord + Send + Sync,
        stop: CancellationToken,
    ) {
        let Some(store) = self.store().cloned() else {
            return;
        };
        tokio::join!(
            self.recheck_records(&store, &stop),
            self.write_changes(&store, &describe, &stop),
        );
    }

    async fn write_changes(
        &self,
        store: &SessionStore,
        describe: &(impl Fn(&HttpSession, SessionRecord) -> SessionRecord + Send + Sync),
        stop: &CancellationToken,
    ) {
        let mut compare = interval(COMPARE);
        compare.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_failed = self.write_records(store, describe).await;
            store.set_failed(has_failed);
            tokio::select! {
                () = stop.cancelled() => break,
                () = store.changed(), if !has_failed => {}
                () = store.doubted() => {}
                () = sleep(RETRY), if has_failed => {}
                _tick = compare.tick() => self.change_all(store),
            }
        }
        self.change_all(store);
        self.write_records(store, describe).await;
    }

    pub(super) fn change_all(&self, store: &SessionStore) {
        for id in self.ids() {
            store.change(&id);
        }
    }

    /// Writes what has changed. True if something could not be written.
    async fn write_records(
        &self,
        store: &SessionStore,
        describe: &(impl Fn(&HttpSession, SessionRecord) -> SessionRecord + Send + Sync),
    ) -> bool {
        let mut changed = store.take_changed().into_iter();
        loop {
            let batch: Vec<_> = changed.by_ref().take(WRITES_MAX).collect();
            if batch.is_empty() {
                return false;
            }
            let writes = batch
                .into_iter()
                .map(|(id, waiting)| self.write_one(store, id, waiting, describe));
            let failures: Vec<_> = join_all(writes).await.into_iter().flatten().collect();
            if let Some(error) = failures.first() {
                let records = failures.len();
                tracing::warn!(%error, records, "sessions are not being kept; it is tried again");
                for (id, _waiting) in changed {
                    store.change(&id);
                }
                return true;
            }
        }
    }

    /// Why a change could not be written, if it could not.
    async fn write_one(
        &self,
        store: &SessionStore,
        id: SessionId,
        waiting: Waiting,
        describe: &(impl Fn(&HttpSession, SessionRecord) -> SessionRecord + Send + Sync),
    ) -> Option<RegistryError> {
        let written = match (self.get(&id), store.ended(&id)) {
            (Some(entry), _) => self.write(store, &entry, describe).await,
            (None, Some(ended)) => remove(store, &id, ended).await.map(Ok),
            (None, None) => Ok(Err(NotKept::Moved)),
        };
        let (kept, failure) = match written {
            Ok(kept) => (kept, None),
            Err(error) => {
                store.change(&id);
                (Err(NotKept::Failed(error.to_string())), Some(error))
            }
        };
        for done in waiting {
            let _gone = done.send(kept.clone());
        }
        failure
    }

    /// Writes the record of a session if it is another one, or an old one. One that cannot be kept
    /// is not tried again.
    async fn write(
        &self,
        store: &SessionStore,
        entry: &HttpSession,
        describe: &(impl Fn(&HttpSession, SessionRecord) -> SessionRecord + Send + Sync),
    ) -> Result<Result<(), NotKept>, RegistryError> {
        let id = entry.session.id();
        // Nothing can be continued before `initialize` is answered.
        let Some(client) = entry.client() else {
            return Ok(Ok(()));
        };
        let mut record = SessionRecord::new(&entry.caller, client.clone());
        record.is_initialized = entry.kept.lock().is_initialized;
        record.home = store.home().map(str::to_owned);
        let record = describe(entry, record);
        let bytes = record.to_bytes();
        {
            let mut kept = entry.kept.lock();
            let is_doubted = std::mem::take(&mut kept.is_doubted);
            let is_same = (kept.written.as_ref())
                .is_some_and(|(before, at)| *before == bytes && at.elapsed() < RENEW_AFTER);
            if is_same && !is_doubted {
                return Ok(Ok(()));
            }
            if let Some((rejected, why)) = &kept.rejected
                && *rejected == bytes
            {
                return Ok(Err(NotKept::Rejected(why.clone())));
            }
            kept.rejected = None;
            kept.may_be_there = true;
        }
        let written = match store.home() {
            None => put(store, id, bytes.clone()).await.map(|()| true),
            Some(home) => set(store, home, entry, bytes.clone()).await,
        };
        match written {
            Ok(true) => {}
            Ok(false) => {
                self.leave(id);
                return Ok(Err(NotKept::Moved));
            }
            // One that is too large.
            Err(RegistryError::Rejected { why, .. }) => {
                tracing::warn!(session = %id, why, "a session is not kept");
                entry.kept.lock().rejected = Some((bytes, why.clone()));
                return Ok(Err(NotKept::Rejected(why)));
            }
            Err(error) => {
                entry.kept.lock().is_doubted = true;
                return Err(error);
            }
        }
        entry.kept.lock().written = Some((bytes, Instant::now()));
        if store.ended(id).is_some() {
            // It has ended meanwhile.
            store.change(id);
        }
        Ok(Ok(()))
    }
}

async fn put(store: &SessionStore, id: &SessionId, bytes: Bytes) -> Result<(), RegistryError> {
    let key = key(id);
    store.registry().put(&key, bytes, TIME_TO_LIVE).await?;
    Ok(())
}

/// Writes the record of a session that other servers may take. False if one has, or if it was
/// ended on one.
async fn set(
    store: &SessionStore,
    home: &str,
    entry: &HttpSession,
    bytes: Bytes,
) -> Result<bool, RegistryError> {
    let id = entry.session.id();
    let (registry, key) = (store.registry(), key(id));
    for _ in 0..TRIES_MAX {
        let expected = entry.kept.lock().revision;
        let set = registry.compare_and_set(&key, expected, bytes.clone(), TIME_TO_LIVE);
        if let SetOutcome::Set(revision) = set.await? {
            entry.kept.lock().revision = Some(revision);
            return Ok(true);
        }
        let found = store.look(id).await?;
        // One that is this server's was written without hearing of it.
        let is_here = found.is_at(Some(home));
        let revision = match found {
            Kept::Session(_, revision) if is_here => Some(revision),
            Kept::Session(..) | Kept::Foreign | Kept::Ended(End::Final, _) => return Ok(false),
            // The server that gave it up did not hear the client, which is here.
            Kept::Ended(End::Silent, revision) => Some(revision),
            // The store has lost it, or was away for longer than it is kept.
            Kept::Nothing => None,
        };
        entry.kept.lock().revision = revision;
    }
    Err(changes_all_the_time(id))
}

/// Removes the record of a session that has ended.
async fn remove(store: &SessionStore, id: &SessionId, ended: Ended) -> Result<(), RegistryError> {
    match store.home() {
        None => store.registry().delete(&key(id)).await?,
        Some(home) => set_ended(store, home, id, ended).await?,
    }
    store.forget(id);
    Ok(())
}

/// Notes in the record of a session that it has ended, unless another server has it: what was
/// ended on purpose ends there, too.
async fn set_ended(
    store: &SessionStore,
    home: &str,
    id: &SessionId,
    Ended { end, mut revision }: Ended,
) -> Result<(), RegistryError> {
    let (key, bytes) = (key(id), end.to_bytes());
    for _ in 0..TRIES_MAX {
        let set =
            (store.registry()).compare_and_set(&key, revision, bytes.clone(), end.time_to_live());
        match set.await {
            Ok(SetOutcome::Set(_)) => return Ok(()),
            Ok(SetOutcome::Conflict) => {}
            Err(error) => return delete_own(store, home, id, error).await,
        }
        let found = store.look(id).await?;
        if end == End::Silent && !found.is_at(Some(home)) {
            return Ok(());
        }
        revision = match found {
            Kept::Session(_, revision) | Kept::Ended(End::Silent, revision) => Some(revision),
            Kept::Nothing => None,
            Kept::Ended(End::Final, _) | Kept::Foreign => return Ok(()),
        };
    }
    Err(changes_all_the_time(id))
}

/// Makes room in a store that is so full that it takes no note.
async fn delete_own(
    store: &SessionStore,
    home: &str,
    id: &SessionId,
    error: RegistryError,
) -> Result<(), RegistryError> {
    if !store.look(id).await?.is_at(Some(home)) {
        return Err(error);
    }
    // Whoever takes it in this moment writes it again.
    store.registry().delete(&key(id)).await
}

fn changes_all_the_time(id: &str) -> RegistryError {
    RegistryError::Unavailable {
        doing: "written",
        why: format!("that of the session `{id}` changes all the time"),
    }
}

#[cfg(test)]
mod tests;
