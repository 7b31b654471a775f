//! Reading: from a position on, the oldest first; and by a query, the newest first.

use redb::{ReadOnlyTable, ReadableDatabase as _};

use super::{BLOCKS, LOGS, SUMMARIES, Store, log_name, read, records_of};
use crate::{
    log::{LogError, Position},
    query::{Budget, Found, Query},
    record::{Record, RecordRef, Stream},
    summary::Summary,
};

/// How far the time of a record can be after the time at which it was appended: clocks of
/// reporters may be ahead by five minutes.
const AHEAD_MAX: i64 = 6 * 60 * 1000;

/// What a reader of a search wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All that match.
    All,
    /// Only what is not before this time.
    NotBefore(i64),
}

type BlockTable = ReadOnlyTable<(u32, u64), &'static [u8]>;

/// The tables of a search, at one moment.
pub(super) struct Tables {
    pub(super) log: u32,
    /// Position that the next record gets.
    pub(super) next: u64,
    pub(super) blocks: BlockTable,
    summaries: BlockTable,
}

impl Store {
    /// Passes the records that match to `on_record`, roughly the newest first: a record that
    /// was appended late may come after older ones.
    pub(crate) fn search(
        &self,
        cluster: &str,
        stream: Stream,
        query: &Query,
        budget: Budget,
        mut on_record: impl FnMut(Position, Record) -> Wanted,
    ) -> Result<Found, LogError> {
        let mut found = Found::default();
        let Some(tables) = self.tables(cluster, stream)? else {
            return Ok(found);
        };
        found.oldest = tables.oldest()?;
        let mut floor = query.since.unwrap_or(i64::MIN);
        let all = tables.all()?;
        for entry in all.rev() {
            let (key, value) = entry.map_err(read)?;
            let (_, first) = key.value();
            let Some(summary) = Summary::decode(value.value()) else {
                found.unreadable += 1;
                continue;
            };
            if summary.appended.saturating_add(AHEAD_MAX) < floor {
                break;
            }
            if summary.time_max < floor || !query.may_match(&summary) {
                continue;
            }
            if found.looked_at >= budget.records_max {
                found.stopped_at = Some(summary.time_max);
                break;
            }
            found.looked_at += usize::try_from(summary.count).unwrap_or(usize::MAX);
            let value = tables.blocks.get((tables.log, first)).map_err(read)?;
            let Some(records) = value.and_then(|value| records_of(value.value())) else {
                found.unreadable += 1;
                continue;
            };
            let mut matching: Vec<_> = (first..)
                .zip(records.iter())
                .filter(|(_, record)| query.matches(record) && record.time >= floor)
                .collect();
            while let Some((position, record)) = matching.pop() {
                if record.time < floor {
                    continue;
                }
                if let Wanted::NotBefore(time) = on_record(Position(position), record.to_record()) {
                    floor = floor.max(time);
                }
            }
        }
        Ok(found)
    }

    /// Passes the records after a position to `on_record`, the oldest first, until it returns
    /// false. Blocks of which `opens` is false are not opened. Returns how many records after
    /// the position are not kept any more.
    pub(crate) fn scan_from(
        &self,
        cluster: &str,
        stream: Stream,
        after: Position,
        opens: impl Fn(&Summary) -> bool,
        on_record: &mut dyn FnMut(Position, &RecordRef<'_>) -> bool,
    ) -> Result<u64, LogError> {
        let Some(tables) = self.tables(cluster, stream)? else {
            return Ok(0);
        };
        let Position(after) = after;
        let log = tables.log;
        let mut before = (tables
            .summaries
            .range((log, 0)..=(log, after.saturating_add(1))))
        .map_err(read)?;
        let begin = match before.next_back() {
            Some(entry) => entry.map_err(read)?.0.value().1,
            None => 0,
        };
        let mut expected = after.saturating_add(1);
        let mut lost = 0;
        let rest = tables.summaries.range((log, begin)..=(log, u64::MAX));
        for entry in rest.map_err(read)? {
            let (key, value) = entry.map_err(read)?;
            let (_, first) = key.value();
            let Some(summary) = Summary::decode(value.value()) else {
                continue;
            };
            lost += first.saturating_sub(expected);
            let end = first + u64::from(summary.count);
            if end <= expected || !opens(&summary) {
                expected = expected.max(end);
                continue;
            }
            let value = tables.blocks.get((log, first)).map_err(read)?;
            let Some(records) = value.and_then(|value| records_of(value.value())) else {
                lost += end - expected.max(first);
                expected = end;
                continue;
            };
            for (position, record) in (first..).zip(records.iter()) {
                if position > after && !on_record(Position(position), &record) {
                    return Ok(lost);
                }
            }
            expected = end;
        }
        // Where no block is left, all of it is lost.
        Ok(lost + tables.next.saturating_sub(expected))
    }

    /// The time of the oldest record that is kept.
    pub(crate) fn oldest(&self, cluster: &str, stream: Stream) -> Result<Option<i64>, LogError> {
        match self.tables(cluster, stream)? {
            Some(tables) => tables.oldest(),
            None => Ok(None),
        }
    }

    pub(super) fn tables(&self, cluster: &str, stream: Stream) -> Result<Option<Tables>, LogError> {
        let txn = self.db.begin_read().map_err(read)?;
        let logs = txn.open_table(LOGS).map_err(read)?;
        let name = log_name(cluster, stream);
        let Some(log) = logs.get(name.as_str()).map_err(read)? else {
            return Ok(None);
        };
        let (log, next) = log.value();
        Ok(Some(Tables {
            log,
            next,
            blocks: txn.open_table(BLOCKS).map_err(read)?,
            summaries: txn.open_table(SUMMARIES).map_err(read)?,
        }))
    }
}

impl Tables {
    pub(super) fn all(&self) -> Result<redb::Range<'static, (u32, u64), &'static [u8]>, LogError> {
        let all = self.summaries.range((self.log, 0)..=(self.log, u64::MAX));
        all.map_err(read)
    }

    /// The time of the oldest block.
    fn oldest(&self) -> Result<Option<i64>, LogError> {
        let Some(first) = self.all()?.next() else {
            return Ok(None);
        };
        let (_, value) = first.map_err(read)?;
        Ok(Summary::decode(value.value()).map(|summary| summary.time_min))
    }
}
