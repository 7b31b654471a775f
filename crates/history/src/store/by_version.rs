//! Reading in the order of versions, block by block: records are kept in the order in which they
//! came, which is another one on each server.

use super::{Store, read, records_of, search::Tables};
use crate::{
    history::ResumeFrom,
    log::{LogError, Position},
    record::{Record, Stream},
    summary::Summary,
};

/// Which versions are read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionOrder {
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
}

/// Blocks that are not read yet, by their versions.
pub struct ByVersion {
    from: ResumeFrom,
    tables: Option<Tables>,
    /// Those that are read last come first.
    rest: Vec<Unread>,
    lost: u64,
}

/// Where what is not read yet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// No record that is not read yet has a version below this one or, where the highest are read
    /// first, above it. 0 if that is not known.
    pub version: u64,
    /// The time of the oldest record that is not read yet.
    pub time: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unread {
    edge: Edge,
    first: u64,
    count: u64,
}

impl Store {
    pub(crate) fn by_version(
        &self,
        cluster: &str,
        stream: Stream,
        from: ResumeFrom,
        order: VersionOrder,
    ) -> Result<ByVersion, LogError> {
        let mut reader = ByVersion {
            from,
            tables: self.tables(cluster, stream)?,
            rest: Vec::new(),
            lost: 0,
        };
        let Some(tables) = &reader.tables else {
            return Ok(reader);
        };
        let mut expected = 1;
        for entry in tables.all()? {
            let (key, value) = entry.map_err(read)?;
            let (_, first) = key.value();
            let Some(summary) = Summary::decode(value.value()) else {
                continue;
            };
            let count = u64::from(summary.count);
            reader.lost += first.saturating_sub(expected);
            expected = first + count;
            if from.may_have(&summary) {
                let version = match order {
                    VersionOrder::Lowest => summary.version_min,
                    VersionOrder::Highest => summary.version_max,
                };
                let time = summary.time_min;
                let edge = Edge { version, time };
                reader.rest.push(Unread { edge, first, count });
            }
        }
        reader.lost += tables.next.saturating_sub(expected);
        reader.rest.sort_unstable();
        if order == VersionOrder::Lowest {
            reader.rest.reverse();
        }
        Ok(reader)
    }
}

// === impl ByVersion ===

impl ByVersion {
    /// Where the next block begins; `None` if everything was read.
    pub fn edge(&self) -> Option<Edge> {
        let next = self.rest.last()?.edge;
        let time = self.rest.iter().map(|unread| unread.edge.time).min();
        Some(Edge {
            time: time.unwrap_or(next.time),
            ..next
        })
    }

    /// The records of the next block, in the order in which they were kept. Reads from the disk.
    pub fn read_block(&mut self) -> Result<Vec<(Position, Record)>, LogError> {
        let (Some(tables), Some(next)) = (&self.tables, self.rest.pop()) else {
            return Ok(Vec::new());
        };
        let value = tables.blocks.get((tables.log, next.first)).map_err(read)?;
        let Some(records) = value.and_then(|value| records_of(value.value())) else {
            self.lost += next.count;
            return Ok(Vec::new());
        };
        let positions = (next.first..).map(Position::from);
        let wanted = positions
            .zip(records.iter())
            .filter(|(_, record)| self.from.has(record));
        Ok(wanted
            .map(|(position, record)| (position, record.to_record()))
            .collect())
    }

    /// How many records are not kept any more, as far as is known.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl std::fmt::Debug for ByVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByVersion")
            .field("from", &self.from)
            .field("rest", &self.rest.len())
            .finish_non_exhaustive()
    }
}
