//! The seam: small records with a revision and a time to live, such as those of sessions.
//!
//! ```text
//!  get, list ─────▶ MemoryRegistry   of one process, for tests and for a server without a store
//!  put, compare ──▶ FolderRegistry   a table of the history's store
//!                   (elsewhere)      a store that several servers share
//! ```

#[cfg(any(test, feature = "testing"))]
mod check;
mod folder;
mod memory;

#[cfg(any(test, feature = "testing"))]
pub use self::check::check_registry;
pub use self::{folder::FolderRegistry, memory::MemoryRegistry};

use std::{fmt, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use thiserror::Error;

/// Largest value of a record, in bytes.
pub const VALUE_BYTES_MAX: usize = 256 * 1024;

/// Longest key of a record, in bytes.
pub const KEY_BYTES_MAX: usize = 200;

/// The answer of a registry, once it has come.
pub type RegistryFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, RegistryError>> + Send + 'a>>;

/// The revision of a record: another one whenever it is written, also after it was deleted.
/// Only compared for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(u64);

/// A record that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its value.
    pub value: Bytes,
    /// Its revision.
    pub revision: Revision,
}

/// How a conditional write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOutcome {
    /// It was written, with this revision.
    Set(Revision),
    /// The record has another revision than the expected one, so nothing was written.
    Conflict,
}

/// Keeps small records by key. A record that is not written again within its time to live is
/// gone; when a method returns, what it wrote is kept as well as the implementation can.
///
/// Keys are parts of letters, digits, `-` and `_` that are joined by `.`: the first part says
/// what a record is.
pub trait Registry: fmt::Debug + Send + Sync {
    /// The record of a key, if there is one.
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<Entry>>;

    /// Writes a record, whatever was there.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision>;

    /// Writes a record if it has the expected revision; `None` is that there is no record.
    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome>;

    /// Removes a record. One that is not there is removed already.
    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()>;

    /// The records whose keys begin with a prefix, in the order of their keys.
    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, Entry)>>;

    /// How often the store was away and came back: it may have lost records then, and others may
    /// have written meanwhile.
    fn reconnects(&self) -> u64 {
        0
    }

    /// Whether records could not be written lately: what others wanted to write may be missing.
    fn is_failing(&self) -> bool {
        false
    }
}

/// Why a registry did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The text is no key.
    #[error("`{0}` is no key of a record")]
    Key(String),
    /// The value is too large, or there is no room for it.
    #[error("the record `{key}` is not kept: {why}")]
    Rejected {
        /// Key of the record.
        key: String,
        /// What there is no room in.
        why: String,
    },
    /// The store cannot be reached or written now; later it may be.
    #[error("records cannot be {doing} now: {why}")]
    Unavailable {
        /// Read or written.
        doing: &'static str,
        /// The error of the store.
        why: String,
    },
}

// === impl Revision ===

impl From<u64> for Revision {
    /// The revision that [`Revision::to_number`] gave, or one that the store numbers itself.
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl Revision {
    /// The revision as a number.
    pub fn to_number(self) -> u64 {
        self.0
    }
}

/// Checks that a text is a key, for implementations.
pub fn check_key(key: &str) -> Result<(), RegistryError> {
    let is_part = |part: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !part.is_empty() && part.bytes().all(is_letter)
    };
    if key.len() <= KEY_BYTES_MAX && key.split('.').all(is_part) {
        Ok(())
    } else {
        Err(RegistryError::Key(key.chars().take(80).collect()))
    }
}

/// Checks that a record can be written, for implementations.
pub fn check_record(key: &str, value: &[u8]) -> Result<(), RegistryError> {
    check_key(key)?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(RegistryError::Rejected {
            key: key.to_owned(),
            why: format!(
                "its {} bytes are more than the {VALUE_BYTES_MAX} that a record may have",
                value.len()
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
