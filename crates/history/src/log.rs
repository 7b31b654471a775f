//! The seam: what a log can do, wherever it is kept.

use std::fmt;

use thiserror::Error;

use crate::record::{Record, Stream};

/// A position in a log: opaque, and only compared with others of the same log. Each record has
/// a higher one than the record before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(pub(crate) u64);

/// Records after a position, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The records, with their positions.
    pub records: Vec<(Position, Record)>,
    /// How many records after the position are not kept any more.
    pub lost: u64,
    /// Whether there are more.
    pub more: bool,
}

/// Appends records and reads them again. One implementation keeps them in a folder; another
/// may share them with other servers.
pub trait Log: Send + Sync {
    /// Appends records of a cluster, in order. When it returns, they are kept. Returns the
    /// position of the last one.
    fn append(
        &self,
        cluster: &str,
        stream: Stream,
        records: &[Record],
    ) -> Result<Position, LogError>;

    /// The records after a position, up to a limit.
    fn read_from(
        &self,
        cluster: &str,
        stream: Stream,
        after: Position,
        limit: usize,
    ) -> Result<Page, LogError>;

    /// The position of the newest record.
    fn tail(&self, cluster: &str, stream: Stream) -> Result<Position, LogError>;
}

/// Why a log cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The disk, or what is on it.
    #[error("the history cannot be {doing}: {why}")]
    Store {
        /// Read or written.
        doing: &'static str,
        /// The error of the store.
        why: String,
    },
    /// It failed before, and is opened again soon.
    #[error("the history is not open: {0}")]
    Closed(String),
    /// It will have what is missing in a moment.
    #[error("the history is behind: {0}")]
    Behind(&'static str),
}

impl From<u64> for Position {
    /// The position that [`Position::to_number`] gave.
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl Position {
    /// The position as a number, to be kept in a cursor.
    pub fn to_number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
