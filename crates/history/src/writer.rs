//! The writer: everything that waits goes into one transaction, and what is there already is
//! left out. A disk that fails is tried again; meanwhile records wait, as far as there is room.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    future::Future,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::{Duration, MissedTickBehavior, interval, sleep, timeout},
};

use crate::{
    history::{Dropped, History},
    log::{LogError, Position},
    record::{Record, Stream},
    store::{Batch, Store, Trimmed},
};

/// Records that wait; ten seconds of a busy cluster.
pub(crate) const QUEUE_MAX: usize = 10_000;

/// Records of one transaction.
const BATCH_MAX: usize = 2000;

/// The pause after a transaction, in which records gather for the next one: each writes the
/// newest block anew, so that few large ones cost less. Who waits for a commit ends it.
const COMMIT_PAUSE: Duration = Duration::from_millis(500);

/// After this a store that failed is opened again.
const RETRY: Duration = Duration::from_secs(5);

/// How often what is too old or too much is removed.
const TRIM: Duration = Duration::from_mins(1);

/// How long the last records of other tasks are waited for at the end.
const LAST_RECORDS: Duration = Duration::from_millis(300);

/// A record is not kept again within this time, and is after it. Events that are listed again
/// after a restart are younger.
const DOUBLES_WINDOW: i64 = (2 * 60 + 10) * 60 * 1000;

/// Ids that are remembered to find doubles, of one log.
const DOUBLES_MAX: usize = 2_000_000;

/// Whether what happens is being kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is.
    Ok,
    /// It is not, for this reason; it is tried again.
    Failing(String),
}

/// What waits.
pub(crate) enum Entry {
    Record {
        cluster: Arc<str>,
        stream: Stream,
        make: Box<dyn FnOnce() -> Record + Send>,
    },
    /// Answered when everything before it is on the disk.
    Flush(oneshot::Sender<()>),
}

/// Writes what is recorded. One task of the process runs it.
pub struct Writer {
    history: History,
    entries: mpsc::Receiver<Entry>,
    recent: Recent,
    /// What could not be written, while the store fails.
    unwritten: Option<Pending>,
    /// Whether records gather, or a store that failed is left alone for a while.
    is_paused: bool,
}

/// Records by cluster and stream, in order.
type Pending = BTreeMap<(Arc<str>, Stream), Vec<Record>>;

/// The ids that were kept lately.
#[derive(Default)]
struct Recent(HashMap<(Arc<str>, Stream), RecentIds>);

#[derive(Default)]
struct RecentIds {
    ids: HashSet<u64>,
    order: VecDeque<(i64, u64)>,
}

// === impl Writer ===

impl Writer {
    pub(crate) fn new(history: History, entries: mpsc::Receiver<Entry>) -> Self {
        Self {
            history,
            entries,
            recent: Recent::default(),
            unwritten: None,
            is_paused: false,
        }
    }

    /// Writes until `stop`, and then what waits.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut trims = interval(TRIM);
        trims.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting = Vec::new();
        loop {
            let pause = match &self.unwritten {
                Some(_) => RETRY,
                None => COMMIT_PAUSE,
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = self.history.shared.hurry.notified(), if self.is_paused && self.unwritten.is_none() => {
                    self.is_paused = false;
                }
                () = sleep(pause), if self.is_paused => self.is_paused = false,
                () = self.history.shared.failed.notified(), if self.unwritten.is_none() => {
                    // It may be open again.
                    if self.history.shared.store().is_err() {
                        self.unwritten = Some(Pending::new());
                        self.recent = Recent::default();
                        self.is_paused = true;
                    }
                }
                _tick = trims.tick(), if self.unwritten.is_none() => self.trim().await,
                () = std::future::ready(()), if !self.is_paused && self.unwritten.is_some() => {
                    self.recover().await;
                    self.is_paused = true;
                }
                count = self.entries.recv_many(&mut waiting, BATCH_MAX), if !self.is_paused && self.unwritten.is_none() => {
                    if count == 0 {
                        break;
                    }
                    self.write(std::mem::take(&mut waiting)).await;
                    // Where as many came as one transaction takes, more wait.
                    self.is_paused = count < BATCH_MAX || self.unwritten.is_some();
                }
            }
        }
        if self.unwritten.is_some() {
            self.recover().await;
        }
        while let Ok(1..) = timeout(
            LAST_RECORDS,
            self.entries.recv_many(&mut waiting, BATCH_MAX),
        )
        .await
        {
            self.write(std::mem::take(&mut waiting)).await;
        }
        self.trim().await;
        if let Some(unwritten) = &self.unwritten {
            let records: usize = unwritten.values().map(Vec::len).sum();
            tracing::error!(records, "the last records of the history are lost");
        }
    }

    /// Writes what waited.
    async fn write(&mut self, entries: Vec<Entry>) {
        let count = entries.len();
        let mut flushes = Vec::new();
        let mut made = Vec::with_capacity(count);
        for entry in entries {
            match entry {
                Entry::Record {
                    cluster,
                    stream,
                    make,
                } => made.push((cluster, stream, make)),
                Entry::Flush(done) => flushes.push(done),
            }
        }
        let records = made.len();
        let dropped = std::mem::take(&mut *self.history.shared.dropped.lock());
        let make = move || {
            let mut pending = Pending::new();
            for (cluster, stream, make) in made {
                pending.entry((cluster, stream)).or_default().push(make());
            }
            let now = Timestamp::now().as_millisecond();
            for (log, Dropped { count, since }) in dropped {
                let gap = Record::gap(
                    since,
                    now,
                    Some(count),
                    "records came faster than the disk took them",
                );
                pending.entry(log).or_default().push(gap);
            }
            pending
        };
        // Serialising and redacting what nobody had needed before.
        let pending = spawn_blocking(make).await.unwrap_or_default();
        self.commit(pending).await;
        self.count_unwritten();
        let counters = &self.history.shared.counters;
        counters.waiting.fetch_sub(records, Ordering::Relaxed);
        // Those of a commit that failed are dropped, which is an answer too.
        for done in flushes.into_iter().filter(|_| self.unwritten.is_none()) {
            let _gone = done.send(());
        }
    }

    /// Appends records; those that cannot be appended are kept for later.
    async fn commit(&mut self, pending: Pending) {
        let Ok(store) = self.history.shared.store() else {
            let unwritten = self.unwritten.get_or_insert_default();
            for (log, records) in pending {
                unwritten.entry(log).or_default().extend(records);
            }
            return;
        };
        let recent = std::mem::take(&mut self.recent);
        let used = Arc::clone(&store);
        let job = move || commit(&used, recent, pending);
        let Ok((recent, result)) = spawn_blocking(job).await else {
            return;
        };
        self.recent = recent;
        let counters = &self.history.shared.counters;
        match result {
            Ok(Committed { kept, doubles }) => {
                for (counter, kept) in counters.kept.iter().zip(kept) {
                    counter.fetch_add(kept, Ordering::Relaxed);
                }
                counters.doubles.fetch_add(doubles, Ordering::Relaxed);
            }
            Err((error, pending)) => self.fail(&store, &error, pending),
        }
    }

    /// Notes that the store failed. It is opened anew.
    fn fail(&mut self, store: &Arc<Store>, error: &LogError, unwritten: Pending) {
        self.unwritten = Some(unwritten);
        self.recent = Recent::default();
        self.history.shared.fail(store, error);
    }

    /// Notes how many records could not be written: they wait as well.
    fn count_unwritten(&self) {
        let unwritten = self.unwritten.iter().flat_map(Pending::values);
        let count = unwritten.map(Vec::len).sum();
        let counters = &self.history.shared.counters;
        counters.unwritten.store(count, Ordering::Relaxed);
    }

    /// Opens the store again and writes what could not be written before.
    async fn recover(&mut self) {
        let shared = Arc::clone(&self.history.shared);
        let opening = Arc::clone(&shared);
        match spawn_blocking(move || (opening.open_store)()).await {
            Ok(Ok(store)) => *shared.store.write() = Ok(Arc::new(store)),
            Ok(Err(error)) => {
                shared.counters.failures.fetch_add(1, Ordering::Relaxed);
                *shared.store.write() = Err(error.to_string());
                return;
            }
            Err(_cancelled) => return,
        }
        if let Some(unwritten) = self.unwritten.take() {
            self.commit(unwritten).await;
        }
        self.count_unwritten();
        if self.unwritten.is_none() {
            tracing::info!("the history is being kept again");
        }
    }

    async fn trim(&mut self) {
        let shared = Arc::clone(&self.history.shared);
        let Ok(store) = shared.store() else {
            return;
        };
        let retention = shared.config.retention;
        let used = Arc::clone(&store);
        let trimming = spawn_blocking(move || {
            let store = used;
            let now = Timestamp::now().as_millisecond();
            let trimmed = store.trim(&retention, now)?;
            store.remove_expired_records(now)?;
            store.note_alive(now)?;
            Ok::<_, LogError>(trimmed)
        });
        match trimming.await {
            Ok(Ok(Trimmed { records, bytes })) => {
                shared
                    .counters
                    .removed
                    .fetch_add(records, Ordering::Relaxed);
                shared.counters.block_bytes.store(bytes, Ordering::Relaxed);
            }
            Ok(Err(error)) => self.fail(&store, &error, Pending::new()),
            Err(_cancelled) => {}
        }
    }
}

struct Committed {
    /// By stream, in the order of [`Stream::ALL`].
    kept: [u64; Stream::ALL.len()],
    doubles: u64,
}

/// Leaves out what is there already and appends the rest.
fn commit(
    store: &Store,
    mut recent: Recent,
    mut pending: Pending,
) -> (Recent, Result<Committed, (LogError, Pending)>) {
    let now = Timestamp::now().as_millisecond();
    let before: usize = pending.values().map(Vec::len).sum();
    for ((cluster, stream), records) in &mut pending {
        let known = match recent.of(store, cluster, *stream, now) {
            Ok(known) => known,
            Err(error) => return (recent, Err((error, pending))),
        };
        let mut new = HashSet::new();
        records.retain(|record| {
            let id = record.id_hash();
            !known.ids.contains(&id) && new.insert(id)
        });
    }
    let kept: usize = pending.values().map(Vec::len).sum();
    let batches: Vec<_> = pending
        .iter()
        .map(|((cluster, stream), records)| Batch {
            cluster,
            stream: *stream,
            records,
        })
        .collect();
    if kept > 0
        && let Err(error) = store.append_all(&batches, now)
    {
        return (recent, Err((error, pending)));
    }
    let mut kept_by_stream = [0; Stream::ALL.len()];
    for ((_, stream), records) in &pending {
        kept_by_stream[*stream as usize] += records.len() as u64;
    }
    for ((cluster, stream), records) in pending {
        if let Some(known) = recent.0.get_mut(&(cluster, stream)) {
            known.add(records.iter().map(Record::id_hash), now);
        }
    }
    let committed = Committed {
        kept: kept_by_stream,
        doubles: (before - kept) as u64,
    };
    (recent, Ok(committed))
}

// === impl Recent ===

impl Recent {
    /// The ids of a log, which are read from the store at first.
    fn of(
        &mut self,
        store: &Store,
        cluster: &Arc<str>,
        stream: Stream,
        now: i64,
    ) -> Result<&RecentIds, LogError> {
        let key = (Arc::clone(cluster), stream);
        if !self.0.contains_key(&key) {
            let mut known = RecentIds::default();
            let is_recent = |appended: i64| appended >= now - DOUBLES_WINDOW;
            let mut ids = Vec::new();
            store.scan_from(
                cluster,
                stream,
                Position(0),
                |summary| is_recent(summary.appended),
                &mut |_, record| {
                    ids.push(record.id_hash());
                    true
                },
            )?;
            known.add(ids, now);
            self.0.insert(key.clone(), known);
        }
        Ok(self.0.entry(key).or_default())
    }
}

// === impl RecentIds ===

impl RecentIds {
    fn add(&mut self, ids: impl IntoIterator<Item = u64>, now: i64) {
        for id in ids {
            if self.ids.insert(id) {
                self.order.push_back((now, id));
            }
        }
        while let Some((seen, id)) = self.order.front()
            && (*seen < now - DOUBLES_WINDOW || self.order.len() > DOUBLES_MAX)
        {
            self.ids.remove(id);
            self.order.pop_front();
        }
    }
}

// === impl Record ===

impl Record {
    /// Set where records are missing.
    pub const GAP: u8 = 0x80;

    /// The record of a gap: from when to when records are missing, how many if that is known,
    /// and why.
    pub fn gap(since: i64, until: i64, count: Option<u64>, why: &str) -> Self {
        let time = |time: i64| Timestamp::from_millisecond(time).unwrap_or_default();
        let count = count.map_or("null".to_owned(), |count| count.to_string());
        let (since_text, until_text) = (time(since), time(until));
        // A text of ours for people, in which nothing has to be escaped.
        let why = why.replace(['"', '\\'], "'").replace(char::is_control, " ");
        let value = format!(
            r#"{{"since":"{since_text}","until":"{until_text}","count":{count},"why":"{why}"}}"#
        );
        Self {
            time: until,
            flags: Self::GAP,
            id: format!("gap:{since}:{until}"),
            value: Bytes::from(value),
            ..Self::default()
        }
    }

    /// Whether it is the record of a gap.
    pub fn is_gap(&self) -> bool {
        self.flags & Self::GAP != 0
    }
}

#[cfg(test)]
mod tests;
