//! Records in the folder of a history: they survive the process.
//!
//! What is written at the same time is written in one transaction: the disk takes as long for
//! one record as for a hundred.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{sync::oneshot, task::spawn_blocking, time::Duration};

use super::{
    Entry, Registry, RegistryError, RegistryFuture, Revision, SetOutcome, check_key, check_record,
};
use crate::{
    history::{History, Shared},
    log::LogError,
    store::records::{Change, Changed, Write},
};

/// Writes of one transaction.
const BATCH_MAX: usize = 1000;

/// The registry in the folder of a history. A clone is the same.
#[derive(Clone)]
pub struct FolderRegistry {
    shared: Arc<Shared>,
    queue: Arc<Mutex<Queue>>,
}

/// Writes that wait for the next transaction.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Write, oneshot::Sender<Result<Changed, LogError>>)>,
    /// Whether a thread takes from the queue.
    is_served: bool,
}

// === impl Queue ===

impl Queue {
    /// Adds a write. True if a thread has to be started for it.
    fn push(&mut self, write: Write, done: oneshot::Sender<Result<Changed, LogError>>) -> bool {
        self.waiting.push_back((write, done));
        !std::mem::replace(&mut self.is_served, true)
    }
}

// === impl FolderRegistry ===

impl FolderRegistry {
    pub(crate) fn new(history: &History) -> Self {
        Self {
            shared: Arc::clone(&history.shared),
            queue: Arc::default(),
        }
    }

    /// Writes with what others write now; returns when it is on the disk.
    async fn write(&self, key: &str, change: Change) -> Result<Changed, RegistryError> {
        let (done, is_done) = oneshot::channel();
        let write = Write {
            key: key.to_owned(),
            change,
        };
        if self.queue.lock().push(write, done) {
            let shared = Arc::downgrade(&self.shared);
            let queue = Arc::clone(&self.queue);
            drop(spawn_blocking(move || serve(&shared, &queue)));
        }
        match is_done.await {
            Ok(Ok(changed)) => Ok(changed),
            Ok(Err(error)) => Err(unavailable("written", &error)),
            Err(_cancelled) => Err(unavailable("written", &stopping())),
        }
    }

    /// Reads off the async threads.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&crate::Store, i64) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let shared = Arc::clone(&self.shared);
        let reading = spawn_blocking(move || {
            let now = Timestamp::now().as_millisecond();
            shared.store().and_then(|store| read(&store, now))
        });
        let found = reading.await.unwrap_or_else(|_cancelled| Err(stopping()));
        found.map_err(|error| unavailable("read", &error))
    }
}

/// Writes until nothing waits. Waits for the disk.
///
/// The store is let go before an answer is given: who has the last answer and drops the registry
/// can open the folder again.
fn serve(shared: &Weak<Shared>, queue: &Mutex<Queue>) {
    loop {
        let mut locked = queue.lock();
        let count = locked.waiting.len().min(BATCH_MAX);
        if count == 0 {
            locked.is_served = false;
            return;
        }
        let (writes, waiting): (Vec<_>, Vec<_>) = locked.waiting.drain(..count).unzip();
        drop(locked);
        match write_now(shared, &writes) {
            Ok(changed) => {
                for (done, changed) in waiting.into_iter().zip(changed) {
                    let _gone = done.send(Ok(changed));
                }
            }
            Err(error) => {
                for done in waiting {
                    let _gone = done.send(Err(error.clone()));
                }
            }
        }
    }
}

fn write_now(shared: &Weak<Shared>, writes: &[Write]) -> Result<Vec<Changed>, LogError> {
    let Some(shared) = shared.upgrade() else {
        return Err(stopping());
    };
    let now = Timestamp::now().as_millisecond();
    let store = shared.store()?;
    let written = store.write_records(writes, now);
    if let Err(error) = &written {
        shared.fail(&store, error);
    }
    written
}

fn stopping() -> LogError {
    LogError::Closed("the server stops".to_owned())
}

fn unavailable(doing: &'static str, error: &LogError) -> RegistryError {
    RegistryError::Unavailable {
        doing,
        why: error.to_string(),
    }
}

/// Until when a record that is written now is there, in milliseconds since 1970.
fn until(time_to_live: Duration) -> i64 {
    let milliseconds = i64::try_from(time_to_live.as_millis()).unwrap_or(i64::MAX);
    Timestamp::now()
        .as_millisecond()
        .saturating_add(milliseconds)
}

impl Registry for FolderRegistry {
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<Entry>> {
        Box::pin(async move {
            check_key(key)?;
            let key = key.to_owned();
            self.read(move |store, now| store.record(&key, now)).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision> {
        Box::pin(async move {
            check_record(key, &value)?;
            let expires = until(time_to_live);
            match self.write(key, Change::Put { value, expires }).await? {
                Changed::Set(revision) => Ok(revision),
                Changed::Conflict | Changed::Deleted => Err(RegistryError::Unavailable {
                    doing: "written",
                    why: "the store did something else".to_owned(),
                }),
            }
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome> {
        Box::pin(async move {
            check_record(key, &value)?;
            let change = Change::Compare {
                expected,
                value,
                expires: until(time_to_live),
            };
            Ok(match self.write(key, change).await? {
                Changed::Set(revision) => SetOutcome::Set(revision),
                Changed::Conflict | Changed::Deleted => SetOutcome::Conflict,
            })
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
        Box::pin(async move {
            check_key(key)?;
            self.write(key, Change::Delete).await.map(drop)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, Entry)>> {
        let prefix = prefix.to_owned();
        Box::pin(self.read(move |store, now| store.records(&prefix, now)))
    }
}

impl fmt::Debug for FolderRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderRegistry")
            .field("folder", &self.shared.config.folder)
            .finish_non_exhaustive()
    }
}
