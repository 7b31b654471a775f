//! The handle of a history: records go in without waiting, searches read what is on the disk.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    folder::OpenError,
    log::{Log as _, LogError, Page, Position},
    query::{Budget, Found, Query},
    record::{Record, RecordRef, Stream},
    registry::FolderRegistry,
    retention::Retention,
    store::{ByVersion, IN_MEMORY, Store, VersionOrder, Wanted},
    summary::Summary,
    writer::{Entry, Health, QUEUE_MAX, Writer},
};

/// Where and how much is kept.
#[derive(Clone, Debug)]
pub struct HistoryConfig {
    /// The folder.
    pub folder: PathBuf,
    /// How long and how much is kept.
    pub retention: Retention,
}

/// Where a reader stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResumeFrom {
    /// After this position.
    pub position: Position,
    /// Only after this resourceVersion.
    pub version: u64,
    /// And also what happened after this time, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Nothing that happened before this time: versions of another cluster mean nothing.
    pub not_before: i64,
}

/// The history of all clusters. A clone is the same.
#[derive(Clone)]
pub struct History {
    pub(crate) shared: Arc<Shared>,
    secret: [u8; 32],
    // A lock for one copy.
    other_secrets: Arc<RwLock<Vec<[u8; 32]>>>,
}

/// Opens the store; a seam, so that a test can open one over a disk that fails.
pub(crate) type Opener = Box<dyn Fn() -> Result<Store, OpenError> + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) config: HistoryConfig,
    pub(crate) open_store: Opener,
    /// The store, or why it is not open.
    // A lock because a store that failed is opened again; held to clone it.
    pub(crate) store: RwLock<Result<Arc<Store>, String>>,
    queue: mpsc::Sender<Entry>,
    /// What did not fit into the queue, by log.
    pub(crate) dropped: Mutex<HashMap<(Arc<str>, Stream), Dropped>>,
    /// Ends the pause of the writer: somebody waits for a commit.
    pub(crate) hurry: Notify,
    /// Wakes the writer: the store failed under somebody else.
    pub(crate) failed: Notify,
    pub(crate) counters: Counters,
    alive_until: Option<i64>,
}

/// Records that were dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped {
    pub(crate) count: u64,
    pub(crate) since: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// In the queue.
    pub(crate) waiting: AtomicUsize,
    /// That could not be written yet.
    pub(crate) unwritten: AtomicUsize,
    /// By stream, in the order of [`Stream::ALL`].
    pub(crate) kept: [AtomicU64; Stream::ALL.len()],
    pub(crate) doubles: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) removed: AtomicU64,
    pub(crate) block_bytes: AtomicU64,
}

/// Numbers for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// Records that wait to be written.
    pub waiting: usize,
    /// Records that were written.
    pub kept: u64,
    /// The same by stream, in the order of [`Stream::ALL`].
    pub kept_by_stream: [u64; Stream::ALL.len()],
    /// Records that were there already.
    pub doubles: u64,
    /// Records that were lost: the queue was full, or the disk failed for too long.
    pub dropped: u64,
    /// Writes that failed.
    pub failures: u64,
    /// Records that were removed because of their age or of the size.
    pub removed: u64,
    /// Bytes of what is kept.
    pub block_bytes: u64,
    /// Bytes on the disk.
    pub disk_bytes: u64,
}

// === impl ResumeFrom ===

impl ResumeFrom {
    /// Whether a block may have a record that is after this.
    pub(crate) fn may_have(&self, summary: &Summary) -> bool {
        summary.time_max >= self.not_before
            && (summary.version_max > self.version
                || summary.has_unversioned
                || self.is_late(summary.time_max))
    }

    /// Whether a record is after this, wherever it was kept.
    pub(crate) fn has(&self, record: &RecordRef<'_>) -> bool {
        record.time >= self.not_before
            && (record.version == 0 || record.version > self.version || self.is_late(record.time))
    }

    fn is_late(&self, time: i64) -> bool {
        self.since.is_some_and(|since| time >= since)
    }
}

// === impl History ===

impl History {
    /// Opens the history of a folder. The writer has to run for anything to be kept.
    pub fn open(config: HistoryConfig) -> Result<(Self, Writer), OpenError> {
        let folder = config.folder.clone();
        Self::with(config, Box::new(move || Store::open(&folder)))
    }

    /// A history in memory: it ends with the process, and needs no disk.
    pub fn in_memory(retention: Retention) -> Result<(Self, Writer), OpenError> {
        let config = HistoryConfig {
            folder: PathBuf::from(IN_MEMORY),
            retention,
        };
        Self::with(config, Box::new(Store::in_memory))
    }

    pub(crate) fn with(
        config: HistoryConfig,
        open_store: Opener,
    ) -> Result<(Self, Writer), OpenError> {
        let store = open_store()?;
        let secret = *store.secret();
        let (queue, entries) = mpsc::channel(QUEUE_MAX);
        let shared = Shared {
            config,
            open_store,
            alive_until: store.alive_until(),
            store: RwLock::new(Ok(Arc::new(store))),
            queue,
            dropped: Mutex::default(),
            hurry: Notify::new(),
            failed: Notify::new(),
            counters: Counters::default(),
        };
        let history = Self {
            shared: Arc::new(shared),
            secret,
            other_secrets: Arc::default(),
        };
        let writer = Writer::new(history.clone(), entries);
        Ok((history, writer))
    }

    /// Keeps a record, which is made off the caller's task. Never waits: what does not fit into
    /// the queue is counted, and kept as a gap.
    pub fn record(
        &self,
        cluster: &Arc<str>,
        stream: Stream,
        make: impl FnOnce() -> Record + Send + 'static,
    ) {
        let entry = Entry::Record {
            cluster: Arc::clone(cluster),
            stream,
            make: Box::new(make),
        };
        self.shared.counters.waiting.fetch_add(1, Ordering::Relaxed);
        if self.shared.queue.try_send(entry).is_err() {
            self.shared.counters.waiting.fetch_sub(1, Ordering::Relaxed);
            self.shared.drop_record(cluster, stream);
        }
    }

    /// Waits until everything that was recorded before is on the disk. False if it is not.
    pub async fn flush(&self) -> bool {
        let (done, is_done) = oneshot::channel();
        if self.shared.queue.send(Entry::Flush(done)).await.is_err() {
            return false;
        }
        self.shared.hurry.notify_one();
        is_done.await.is_ok()
    }

    /// Searches a log, roughly the newest records first; `on_record` says what is still wanted.
    /// Reads from the disk: not for a task that others wait for.
    pub fn search(
        &self,
        cluster: &str,
        stream: Stream,
        query: &Query,
        budget: Budget,
        on_record: impl FnMut(Position, Record) -> Wanted,
    ) -> Result<Found, LogError> {
        let store = self.shared.store()?;
        store.search(cluster, stream, query, budget, on_record)
    }

    /// The records after a position, the oldest first. Reads from the disk.
    pub fn read_from(
        &self,
        cluster: &str,
        stream: Stream,
        after: Position,
        limit: usize,
    ) -> Result<Page, LogError> {
        let store = self.shared.store()?;
        store.read_from(cluster, stream, after, limit)
    }

    /// Passes on the records after a reader stopped, the oldest first, until `on_record` returns
    /// false; gaps among them. Returns how many records after the position are not kept any
    /// more. Reads from the disk.
    pub fn resume(
        &self,
        cluster: &str,
        stream: Stream,
        from: ResumeFrom,
        mut on_record: impl FnMut(Position, Record) -> bool,
    ) -> Result<u64, LogError> {
        let store = self.shared.store()?;
        store.scan_from(
            cluster,
            stream,
            from.position,
            |summary| from.may_have(summary),
            &mut |position, record| !from.has(record) || on_record(position, record.to_record()),
        )
    }

    /// The same in the order of versions, from all positions. Reads from the disk.
    pub fn resume_by_version(
        &self,
        cluster: &str,
        stream: Stream,
        from: ResumeFrom,
        order: VersionOrder,
    ) -> Result<ByVersion, LogError> {
        let store = self.shared.store()?;
        store.by_version(cluster, stream, from, order)
    }

    /// The position of the newest record.
    pub fn tail(&self, cluster: &str, stream: Stream) -> Result<Position, LogError> {
        self.shared.store()?.tail(cluster, stream)
    }

    /// The time of the oldest record that is kept.
    pub fn oldest(&self, cluster: &str, stream: Stream) -> Result<Option<i64>, LogError> {
        self.shared.store()?.oldest(cluster, stream)
    }

    /// The registry in the same folder.
    pub fn registry(&self) -> FolderRegistry {
        FolderRegistry::new(self)
    }

    /// The history with another secret than that of its store: servers that share their work have
    /// the same one, so that a cursor of one of them means the same to all.
    #[must_use]
    pub fn with_secret(mut self, secret: [u8; 32]) -> Self {
        self.secret = secret;
        self
    }

    /// A secret, the same as long as the folder is.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Has the cursors of servers that have other secrets mean the same as those of this one, from
    /// now on.
    pub fn set_other_secrets(&self, secrets: Vec<[u8; 32]>) {
        *self.other_secrets.write() = secrets;
    }

    /// The secrets of other servers whose cursors mean the same.
    pub fn other_secrets(&self) -> Vec<[u8; 32]> {
        self.other_secrets.read().clone()
    }

    /// Until when a process wrote to this history before this one.
    pub fn alive_until(&self) -> Option<i64> {
        self.shared.alive_until
    }

    /// Whether it ends with the process.
    pub fn is_in_memory(&self) -> bool {
        self.shared.config.folder == Path::new(IN_MEMORY)
    }

    /// Whether what happens is being kept.
    pub fn health(&self) -> Health {
        match &*self.shared.store.read() {
            Ok(_) => Health::Ok,
            Err(error) => Health::Failing(error.clone()),
        }
    }

    /// Numbers for operators.
    pub fn stats(&self) -> HistoryStats {
        let counters = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let kept_by_stream = counters.kept.each_ref().map(get);
        HistoryStats {
            waiting: counters.waiting.load(Ordering::Relaxed)
                + counters.unwritten.load(Ordering::Relaxed),
            kept: kept_by_stream.iter().sum(),
            kept_by_stream,
            doubles: get(&counters.doubles),
            dropped: get(&counters.dropped),
            failures: get(&counters.failures),
            removed: get(&counters.removed),
            block_bytes: get(&counters.block_bytes),
            disk_bytes: self.shared.store().map_or(0, |store| store.disk_bytes()),
        }
    }
}

// === impl Shared ===

impl Shared {
    pub(crate) fn store(&self) -> Result<Arc<Store>, LogError> {
        let store = self.store.read();
        store
            .as_ref()
            .map(Arc::clone)
            .map_err(|error| LogError::Closed(error.clone()))
    }

    /// Notes that a store failed, unless it was opened anew since: after an error nothing of it in
    /// memory is trusted, and it answers nothing any more.
    pub(crate) fn fail(&self, failed: &Arc<Store>, error: &LogError) {
        {
            let mut store = self.store.write();
            if !matches!(&*store, Ok(current) if Arc::ptr_eq(current, failed)) {
                return;
            }
            *store = Err(error.to_string());
        }
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        tracing::error!(%error, folder = %self.config.folder.display(), "the history is not being kept; it is tried again");
        self.failed.notify_one();
    }

    pub(crate) fn drop_record(&self, cluster: &Arc<str>, stream: Stream) {
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        let since = jiff::Timestamp::now().as_millisecond();
        let mut dropped = self.dropped.lock();
        let of_log = dropped
            .entry((Arc::clone(cluster), stream))
            .or_insert(Dropped { count: 0, since });
        of_log.count += 1;
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History")
            .field("folder", &self.shared.config.folder)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
