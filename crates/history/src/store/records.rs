//! The table of the registry: small records by key, each until a time.

use bytes::Bytes;
use redb::{ReadableDatabase as _, ReadableTable as _, Table, TableDefinition, TableError};

use super::{META, Store, read, written};
use crate::{
    log::LogError,
    registry::{Entry, Revision},
};

/// Key: revision, until when in milliseconds since 1970, value.
const RECORDS: TableDefinition<'_, &str, (u64, i64, &[u8])> = TableDefinition::new("records");

/// The revision that was given out last, in the table of metadata.
const LAST_REVISION: &str = "revision";

/// A write of one record.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) change: Change,
}

/// What a write does.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Writes, whatever was there.
    Put { value: Bytes, expires: i64 },
    /// Writes if the record has that revision.
    Compare {
        expected: Option<Revision>,
        value: Bytes,
        expires: i64,
    },
    /// Removes.
    Delete,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Set(Revision),
    Conflict,
    Deleted,
}

type RecordTable<'txn> = Table<'txn, &'static str, (u64, i64, &'static [u8])>;

// === impl Store ===

impl Store {
    /// The record of a key.
    pub(crate) fn record(&self, key: &str, now: i64) -> Result<Option<Entry>, LogError> {
        let txn = self.db.begin_read().map_err(read)?;
        let table = match txn.open_table(RECORDS) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(read(error)),
        };
        let found = table.get(key).map_err(read)?;
        Ok(found.and_then(|found| entry(found.value(), now)))
    }

    /// The records whose keys begin with a prefix.
    pub(crate) fn records(&self, prefix: &str, now: i64) -> Result<Vec<(String, Entry)>, LogError> {
        let txn = self.db.begin_read().map_err(read)?;
        let table = match txn.open_table(RECORDS) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(read(error)),
        };
        let mut records = Vec::new();
        for found in table.range(prefix..).map_err(read)? {
            let (key, value) = found.map_err(read)?;
            if !key.value().starts_with(prefix) {
                break;
            }
            if let Some(entry) = entry(value.value(), now) {
                records.push((key.value().to_owned(), entry));
            }
        }
        Ok(records)
    }

    /// Writes records in order, in one transaction.
    pub(crate) fn write_records(
        &self,
        writes: &[Write],
        now: i64,
    ) -> Result<Vec<Changed>, LogError> {
        let txn = self.db.begin_write().map_err(written)?;
        let mut changed = Vec::with_capacity(writes.len());
        {
            let mut meta = txn.open_table(META).map_err(written)?;
            let mut table = txn.open_table(RECORDS).map_err(written)?;
            let last = meta.get(LAST_REVISION).map_err(written)?;
            let last = last.and_then(|last| last.value().try_into().ok());
            let mut last = last.map_or(0, u64::from_le_bytes);
            for write in writes {
                changed.push(apply(&mut table, write, &mut last, now)?);
            }
            let last = last.to_le_bytes();
            meta.insert(LAST_REVISION, last.as_slice())
                .map_err(written)?;
        }
        txn.commit().map_err(written)?;
        Ok(changed)
    }

    /// Removes the records whose time is over.
    pub(crate) fn remove_expired_records(&self, now: i64) -> Result<(), LogError> {
        let mut expired = Vec::new();
        {
            let txn = self.db.begin_read().map_err(read)?;
            let table = match txn.open_table(RECORDS) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(()),
                Err(error) => return Err(read(error)),
            };
            for found in table.iter().map_err(read)? {
                let (key, value) = found.map_err(read)?;
                if value.value().1 <= now {
                    expired.push(key.value().to_owned());
                }
            }
        }
        if expired.is_empty() {
            return Ok(());
        }
        let txn = self.db.begin_write().map_err(written)?;
        {
            let mut table = txn.open_table(RECORDS).map_err(written)?;
            for key in expired {
                // It may have been written again meanwhile.
                let found = table.get(key.as_str()).map_err(written)?;
                let is_expired = found.is_some_and(|found| found.value().1 <= now);
                if is_expired {
                    table.remove(key.as_str()).map_err(written)?;
                }
            }
        }
        txn.commit().map_err(written)
    }
}

fn apply(
    table: &mut RecordTable<'_>,
    write: &Write,
    last: &mut u64,
    now: i64,
) -> Result<Changed, LogError> {
    let key = write.key.as_str();
    let (value, expires) = match &write.change {
        Change::Put { value, expires } => (value, *expires),
        Change::Compare {
            expected,
            value,
            expires,
        } => {
            let found = table.get(key).map_err(written)?;
            let found = found.and_then(|found| entry(found.value(), now));
            if found.map(|found| found.revision) != *expected {
                return Ok(Changed::Conflict);
            }
            (value, *expires)
        }
        Change::Delete => {
            table.remove(key).map_err(written)?;
            return Ok(Changed::Deleted);
        }
    };
    *last += 1;
    table
        .insert(key, (*last, expires, &value[..]))
        .map_err(written)?;
    Ok(Changed::Set(Revision::from(*last)))
}

/// A record as it is kept, unless its time is over.
fn entry((revision, expires, value): (u64, i64, &[u8]), now: i64) -> Option<Entry> {
    (expires > now).then(|| Entry {
        value: Bytes::copy_from_slice(value),
        revision: Revision::from(revision),
    })
}
