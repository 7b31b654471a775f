//! The store in a folder: blocks and their summaries in tables of redb.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | a name | the format, the id and the secret of the store |
//! | `logs` | stream and cluster | number of the log, position of its next record |
//! | `blocks` | log, position of the first record | records, compressed |
//! | `summaries` | the same | what is known about the block |
//! | `records` | a key | a record of the registry, with its revision and its end |
//!
//! A commit is on the disk when it returns: it survives the end of the process at any moment,
//! and the loss of power as far as the disk keeps what it was told to.

mod by_version;
#[cfg(test)]
pub(crate) mod faulty;
pub(crate) mod records;
mod search;

pub use self::{
    by_version::{ByVersion, Edge, VersionOrder},
    search::Wanted,
};

use std::{
    collections::{HashMap, HashSet},
    fmt,
    fs::File,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase as _, ReadableTable,
    ReadableTableMetadata as _, Table, TableDefinition,
};

use crate::{
    block::{OpenBlock, Records},
    folder::{self, OpenError},
    log::{Log, LogError, Page, Position},
    record::{Record, RecordRef, Stream},
    retention::{Candidate, Retention},
    summary::Summary,
};

/// The format of keys and values.
const FORMAT: u32 = 1;

/// What the store keeps in memory of its pages. The summaries of a busy day fit.
const CACHE_BYTES: usize = 48 << 20;

/// What stands in the place of a folder.
pub(crate) const IN_MEMORY: &str = "(memory)";

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const LOGS: TableDefinition<'_, &str, (u32, u64)> = TableDefinition::new("logs");
const BLOCKS: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("blocks");
const SUMMARIES: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("summaries");

/// A store in a folder. One process has it open at a time.
#[derive(Debug)]
pub struct Store {
    db: Database,
    folder: Option<PathBuf>,
    secret: [u8; 32],
    // A lock because there is one writer; held during a commit, which no reader waits for.
    open: Mutex<HashMap<u32, OpenBlock>>,
}

/// Records of one log that are appended together.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) stream: Stream,
    pub(crate) records: &'a [Record],
}

/// What the store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trimmed {
    /// Records that were removed.
    pub(crate) records: u64,
    /// Bytes of the blocks that are left.
    pub(crate) bytes: u64,
}

// === impl Store ===

impl Store {
    /// Opens the store of a folder, which is made if it does not exist.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let file = folder::open(folder)?;
        let damaged = |why: String| OpenError::Damaged {
            folder: folder.to_owned(),
            why,
        };
        let db = database(file).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse {
                folder: folder.to_owned(),
            },
            DatabaseError::UpgradeRequired(version) => OpenError::Version {
                folder: folder.to_owned(),
                found: format!("{version} of redb"),
                expected: FORMAT,
            },
            error => damaged(error.to_string()),
        })?;
        let mut store = Self::over(db).map_err(|refused| match refused {
            Refused::Format(found) => OpenError::Version {
                folder: folder.to_owned(),
                found,
                expected: FORMAT,
            },
            refused => damaged(refused.to_string()),
        })?;
        store.folder = Some(folder.to_owned());
        Ok(store)
    }

    /// An empty store in memory, which ends with its process.
    pub(crate) fn in_memory() -> Result<Self, OpenError> {
        let mut builder = Database::builder();
        // The pages are in memory already.
        builder.set_cache_size(1 << 20);
        let backend = redb::backends::InMemoryBackend::new();
        let memory = |why: String| OpenError::Damaged {
            folder: PathBuf::from(IN_MEMORY),
            why,
        };
        let db = builder.create_with_backend(backend);
        let db = db.map_err(|error| memory(error.to_string()))?;
        Self::over(db).map_err(|refused| memory(refused.to_string()))
    }

    fn over(db: Database) -> Result<Self, Refused> {
        let txn = db.begin_write().map_err(written)?;
        let is_new = txn.list_tables().map_err(written)?.next().is_none()
            && (txn.list_multimap_tables().map_err(written)?)
                .next()
                .is_none();
        let secret = {
            let mut meta = txn.open_table(META).map_err(written)?;
            let format = FORMAT.to_string();
            let found = meta.get("format").map_err(written)?;
            let found = found.map(|found| String::from_utf8_lossy(found.value()).into_owned());
            match found {
                // What is in it stays as it is: nothing of this is committed.
                None if !is_new => return Err(Refused::Foreign),
                None => {
                    let mut secret = [0; 32];
                    for part in secret.chunks_exact_mut(16) {
                        part.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
                    }
                    meta.insert("format", format.as_bytes()).map_err(written)?;
                    meta.insert("secret", secret.as_slice()).map_err(written)?;
                    secret
                }
                Some(found) if found != format => return Err(Refused::Format(found)),
                Some(_) => {
                    let secret = meta.get("secret").map_err(written)?;
                    let secret = secret.map(|secret| secret.value().to_vec());
                    let secret = secret.and_then(|secret| secret.try_into().ok());
                    secret.ok_or_else(|| Refused::Format("without a secret".to_owned()))?
                }
            }
        };
        // So that a search of an empty store finds its tables.
        txn.open_table(LOGS).map_err(written)?;
        txn.open_table(BLOCKS).map_err(written)?;
        txn.open_table(SUMMARIES).map_err(written)?;
        txn.commit().map_err(written)?;
        Ok(Self {
            db,
            folder: None,
            secret,
            open: Mutex::default(),
        })
    }

    /// A secret of this store, which its readers sign positions with.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The bytes that the store takes on the disk.
    pub fn disk_bytes(&self) -> u64 {
        self.folder.as_deref().map_or(0, folder::disk_bytes)
    }

    /// Appends to several logs in one transaction.
    pub(crate) fn append_all(&self, batches: &[Batch<'_>], now: i64) -> Result<(), LogError> {
        let mut open = self.open.lock();
        let result = self.commit(&mut open, batches, now);
        if result.is_err() {
            // They may have records that are not on the disk.
            open.clear();
        }
        result
    }

    fn commit(
        &self,
        open: &mut HashMap<u32, OpenBlock>,
        batches: &[Batch<'_>],
        now: i64,
    ) -> Result<(), LogError> {
        let mut txn = self.db.begin_write().map_err(written)?;
        txn.set_durability(Durability::Immediate).map_err(written)?;
        {
            let mut logs = txn.open_table(LOGS).map_err(written)?;
            let mut blocks = txn.open_table(BLOCKS).map_err(written)?;
            let mut summaries = txn.open_table(SUMMARIES).map_err(written)?;
            for batch in batches.iter().filter(|batch| !batch.records.is_empty()) {
                let name = log_name(batch.cluster, batch.stream);
                let known = logs
                    .get(name.as_str())
                    .map_err(written)?
                    .map(|log| log.value());
                let (log, next) = match known {
                    Some(known) => known,
                    // Logs are never removed, so their number is new.
                    None => {
                        let number = logs.len().map_err(written)?;
                        (u32::try_from(number).unwrap_or(u32::MAX), 1)
                    }
                };
                let mut block = match open.remove(&log) {
                    Some(block) => block,
                    None => newest(&summaries, &blocks, log, next)?,
                };
                block.appended = block.appended.max(now);
                for record in batch.records {
                    if block.is_full() {
                        put(&mut blocks, &mut summaries, log, &mut block)?;
                        block = OpenBlock::new(block.next(), block.appended);
                    }
                    block.push(record);
                }
                put(&mut blocks, &mut summaries, log, &mut block)?;
                logs.insert(name.as_str(), (log, block.next()))
                    .map_err(written)?;
                open.insert(log, block);
            }
        }
        txn.commit().map_err(written)
    }

    /// Removes what is too old or too much.
    pub(crate) fn trim(&self, retention: &Retention, now: i64) -> Result<Trimmed, LogError> {
        let mut open = self.open.lock();
        let mut candidates = Vec::new();
        let mut counts: HashMap<(u32, u64), u64> = HashMap::new();
        {
            let txn = self.db.begin_read().map_err(read)?;
            let summaries = txn.open_table(SUMMARIES).map_err(read)?;
            for entry in summaries.iter().map_err(read)? {
                let (key, value) = entry.map_err(read)?;
                let (log, first) = key.value();
                // One that cannot be read goes with the oldest.
                let summary = Summary::decode(value.value());
                let of = |part: fn(&Summary) -> u64| summary.as_ref().map_or(0, part);
                counts.insert((log, first), of(|one| u64::from(one.count)));
                candidates.push(Candidate {
                    appended: summary.as_ref().map_or(i64::MIN, |one| one.appended),
                    log,
                    first,
                    bytes: of(|one| one.bytes),
                });
            }
        }
        let bytes: u64 = candidates.iter().map(|one| one.bytes).sum();
        let expired = retention.expired(candidates, now);
        let mut trimmed = Trimmed { records: 0, bytes };
        if expired.is_empty() {
            return Ok(trimmed);
        }
        let txn = self.db.begin_write().map_err(written)?;
        {
            let mut blocks = txn.open_table(BLOCKS).map_err(written)?;
            let mut summaries = txn.open_table(SUMMARIES).map_err(written)?;
            for one in &expired {
                let key = (one.log, one.first);
                blocks.remove(key).map_err(written)?;
                summaries.remove(key).map_err(written)?;
                trimmed.records += counts.get(&key).copied().unwrap_or_default();
                trimmed.bytes -= one.bytes;
                if open
                    .get(&one.log)
                    .is_some_and(|block| block.first == one.first)
                {
                    open.remove(&one.log);
                }
            }
        }
        txn.commit().map_err(written)?;
        Ok(trimmed)
    }

    /// Notes that a process writes to the store at that time.
    pub(crate) fn note_alive(&self, now: i64) -> Result<(), LogError> {
        let txn = self.db.begin_write().map_err(written)?;
        {
            let mut meta = txn.open_table(META).map_err(written)?;
            let now = now.to_le_bytes();
            meta.insert("alive", now.as_slice()).map_err(written)?;
        }
        txn.commit().map_err(written)
    }

    /// When a process last wrote to the store.
    pub(crate) fn alive_until(&self) -> Option<i64> {
        let txn = self.db.begin_read().ok()?;
        let meta = txn.open_table(META).ok()?;
        let alive = meta.get("alive").ok()??;
        alive.value().try_into().ok().map(i64::from_le_bytes)
    }

    /// Clusters of which there is a log.
    pub fn clusters(&self) -> Result<HashSet<String>, LogError> {
        let txn = self.db.begin_read().map_err(read)?;
        let logs = txn.open_table(LOGS).map_err(read)?;
        let mut clusters = HashSet::new();
        for entry in logs.iter().map_err(read)? {
            let (name, _) = entry.map_err(read)?;
            if let Some((_, cluster)) = name.value().split_once('\n') {
                clusters.insert(cluster.to_owned());
            }
        }
        Ok(clusters)
    }
}

impl Log for Store {
    fn append(
        &self,
        cluster: &str,
        stream: Stream,
        records: &[Record],
    ) -> Result<Position, LogError> {
        let batch = Batch {
            cluster,
            stream,
            records,
        };
        let now = jiff::Timestamp::now().as_millisecond();
        self.append_all(&[batch], now)?;
        self.tail(cluster, stream)
    }

    fn read_from(
        &self,
        cluster: &str,
        stream: Stream,
        after: Position,
        limit: usize,
    ) -> Result<Page, LogError> {
        let mut page = Page::default();
        let mut on_record = |position, record: &RecordRef<'_>| {
            if page.records.len() == limit {
                page.more = true;
                return false;
            }
            page.records.push((position, record.to_record()));
            true
        };
        let lost = self.scan_from(cluster, stream, after, |_| true, &mut on_record)?;
        page.lost = lost;
        Ok(page)
    }

    fn tail(&self, cluster: &str, stream: Stream) -> Result<Position, LogError> {
        let txn = self.db.begin_read().map_err(read)?;
        let logs = txn.open_table(LOGS).map_err(read)?;
        let name = log_name(cluster, stream);
        let log = logs.get(name.as_str()).map_err(read)?;
        Ok(log.map_or(Position(0), |log| Position(log.value().1 - 1)))
    }
}

/// Why a database is not a store.
enum Refused {
    /// It has tables, and says no format.
    Foreign,
    Format(String),
    Error(LogError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it has tables of another program"),
            Self::Format(found) => write!(f, "it has format {found}"),
            Self::Error(error) => error.fmt(f),
        }
    }
}

impl From<LogError> for Refused {
    fn from(error: LogError) -> Self {
        Self::Error(error)
    }
}

fn database(file: File) -> Result<Database, DatabaseError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.create_file(file)
}

/// The key of a log.
fn log_name(cluster: &str, stream: Stream) -> String {
    format!("{}\n{cluster}", stream.as_str())
}

type BlockTable<'txn> = Table<'txn, (u32, u64), &'static [u8]>;

/// The newest block of a log, to be continued; a new one if there is none, or if it cannot be
/// read.
fn newest(
    summaries: &BlockTable<'_>,
    blocks: &BlockTable<'_>,
    log: u32,
    next: u64,
) -> Result<OpenBlock, LogError> {
    let mut all = summaries.range((log, 0)..=(log, u64::MAX)).map_err(read)?;
    let Some(last) = all.next_back() else {
        return Ok(OpenBlock::new(next, 0));
    };
    let (key, value) = last.map_err(read)?;
    let (_, first) = key.value();
    let appended = Summary::decode(value.value()).map_or(0, |summary| summary.appended);
    let block = blocks.get((log, first)).map_err(read)?;
    let block = block.and_then(|block| OpenBlock::reopen(first, block.value(), appended));
    Ok(block
        .filter(|block| block.next() == next)
        .unwrap_or_else(|| OpenBlock::new(next, appended)))
}

fn put(
    blocks: &mut BlockTable<'_>,
    summaries: &mut BlockTable<'_>,
    log: u32,
    block: &mut OpenBlock,
) -> Result<(), LogError> {
    if block.is_empty() {
        return Ok(());
    }
    let (value, summary) = block.encode();
    let key = (log, block.first);
    blocks.insert(key, value.as_slice()).map_err(written)?;
    let summary = summary.encode();
    summaries.insert(key, summary.as_slice()).map_err(written)?;
    Ok(())
}

/// The records of a block that was found.
fn records_of(value: &[u8]) -> Option<Records> {
    Records::decode(value)
}

fn written(error: impl Into<redb::Error>) -> LogError {
    store_error("written", error)
}

fn read(error: impl Into<redb::Error>) -> LogError {
    store_error("read", error)
}

fn store_error(doing: &'static str, error: impl Into<redb::Error>) -> LogError {
    LogError::Store {
        doing,
        why: error.into().to_string(),
    }
}

/// A store over a disk that can fail.
#[cfg(test)]
pub(crate) fn over_disk(disk: &faulty::FaultyDisk) -> Result<Store, String> {
    let mut builder = Database::builder();
    builder.set_cache_size(1 << 20);
    let db = builder.create_with_backend(disk.clone());
    let db = db.map_err(|error| error.to_string())?;
    Store::over(db).map_err(|refused| refused.to_string())
}

#[cfg(test)]
mod tests;
