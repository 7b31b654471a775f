//! Writes the records of sessions that have changed, and removes those of sessions that have
//! ended.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use kubecrier_history::{RegistryError, SetOutcome};
use rmcp::transport::streamable_http_server::session::SessionId;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{
    http_session::HttpSession,
    manager::Sessions,
    record::SessionRecord,
    store::{SessionStore, TIME_TO_LIVE, key},
};

/// How often all sessions are compared with their records: some changes are not of a request.
const COMPARE: Duration = Duration::from_secs(30);

/// A record is written again before its time is over.
const RENEW_AFTER: Duration = Duration::from_mins(20);

/// How often a record is written that another server writes at the same time.
const TRIES_MAX: usize = 3;

/// A store that fails is tried again after this.
const RETRY: Duration = Duration::from_secs(5);

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
        let mut compare = interval(COMPARE);
        compare.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_failed = self.write_records(&store, &describe).await;
            tokio::select! {
                () = stop.cancelled() => break,
                () = store.changed(), if !has_failed => {}
                () = tokio::time::sleep(RETRY), if has_failed => {}
                _tick = compare.tick() => self.change_all(&store),
            }
        }
        self.change_all(&store);
        self.write_records(&store, &describe).await;
    }

    fn change_all(&self, store: &SessionStore) {
        for id in self.ids() {
            store.change(&id);
        }
    }

    /// Writes what has changed, all at once. True if something could not be written.
    async fn write_records(
        &self,
        store: &SessionStore,
        describe: &(impl Fn(&HttpSession, SessionRecord) -> SessionRecord + Send + Sync),
    ) -> bool {
        let changed = store.take_changed();
        let writes = changed.into_iter().map(|(id, waiting)| async move {
            let written = match self.get(&id) {
                Some(entry) => self.write(store, &entry, describe).await,
                None if store.has_ended(&id) => remove(store, &id).await,
                None => Ok(()),
            };
            match written {
                Ok(()) => {
                    for done in waiting {
                        let _gone = done.send(());
                    }
                    None
                }
                Err(error) => {
                    store.change(&id);
                    Some(error)
                }
            }
        });
        let failures: Vec<_> = join_all(writes).await.into_iter().flatten().collect();
        if let Some(error) = failures.first() {
            let records = failures.len();
            tracing::warn!(%error, records, "sessions are not being kept; it is tried again");
        }
        !failures.is_empty()
    }
}

impl Sessions {
    /// Writes the record of a session if it is another one, or an old one.
    async fn write(
        &self,
        store: &SessionStore,
        entry: &HttpSession,
        describe: &(impl Fn(&HttpSession, SessionRecord) -> SessionRecord + Send + Sync),
    ) -> Result<(), RegistryError> {
        let id = entry.session.id();
        // Nothing can be continued before `initialize` is answered.
        let Some(client) = entry.client() else {
            return Ok(());
        };
        let mut record = SessionRecord::new(&entry.caller, client.clone());
        record.is_initialized = entry.kept.lock().is_initialized;
        record.home = store.home().map(str::to_owned);
        let record = describe(entry, record);
        let bytes = record.to_bytes();
        let is_same = (entry.kept.lock().written.as_ref())
            .is_some_and(|(before, at)| *before == bytes && at.elapsed() < RENEW_AFTER);
        if is_same {
            return Ok(());
        }
        let written = match store.home() {
            None => put(store, id, bytes.clone()).await.map(|()| true),
            Some(home) => set(store, home, entry, bytes.clone()).await,
        };
        match written {
            Ok(true) => {}
            Ok(false) => {
                self.leave(id);
                return Ok(());
            }
            // One that is too large is not kept, and neither is it tried again.
            Err(RegistryError::Rejected { why, .. }) => {
                tracing::warn!(session = %id, why, "a session is not kept");
            }
            Err(error) => return Err(error),
        }
        entry.kept.lock().written = Some((bytes, Instant::now()));
        if store.has_ended(id) {
            // It has ended meanwhile.
            store.change(id);
        }
        Ok(())
    }
}

async fn put(store: &SessionStore, id: &SessionId, bytes: Bytes) -> Result<(), RegistryError> {
    let key = key(id);
    store.registry().put(&key, bytes, TIME_TO_LIVE).await?;
    Ok(())
}

/// Writes the record of a session that other servers may take. False if one has.
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
        match store.find(id).await? {
            // Written by this server without hearing of it.
            Some((record, revision)) if record.home.as_deref() == Some(home) => {
                entry.kept.lock().revision = Some(revision);
            }
            // Another server has it, or has ended it.
            Some(_) | None => return Ok(false),
        }
    }
    Ok(true)
}

/// Removes the record of a session that has ended.
async fn remove(store: &SessionStore, id: &SessionId) -> Result<(), RegistryError> {
    store.registry().delete(&key(id)).await?;
    store.forget(id);
    Ok(())
}
