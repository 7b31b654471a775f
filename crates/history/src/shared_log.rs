//! The seam: messages in order, by topic, that several servers share.
//!
//! A topic has one writer at a time. Each message names the one before it, so that a writer that
//! was only slow, and whose place another has taken meanwhile, is refused: what it wants to write
//! comes after a message that is not the last one any more.

#[cfg(any(test, feature = "testing"))]
mod check;
mod memory;

#[cfg(any(test, feature = "testing"))]
pub use self::check::check_shared_log;
pub use self::memory::MemorySharedLog;

use std::{fmt, future::Future, pin::Pin};

use bytes::Bytes;
use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::mpsc;

/// Largest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 512 * 1024;

/// The answer of a shared log, once it has come.
pub type SharedLogFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, SharedLogError>> + Send + 'a>>;

/// The messages of a topic as they come. After an error there are no more; dropping it ends it.
pub type Messages = mpsc::Receiver<Result<Message, SharedLogError>>;

/// A message with its number, which is higher than that of every message of the topic before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number; the first of a topic may have any but 0.
    pub number: u64,
    /// Its content.
    pub bytes: Bytes,
}

/// How a message was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// With this number.
    At(u64),
    /// The last message of the topic is another one than the writer knows, so nothing was
    /// written.
    Conflict,
}

/// Where a reader starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// Behind the message of this number; 0 is the oldest that is kept.
    After(u64),
    /// At the first message that was written at this time or later.
    Since(Timestamp),
}

/// Keeps messages by topic for a while, for several servers. Topics are named like the keys of a
/// registry.
pub trait SharedLog: fmt::Debug + Send + Sync {
    /// Appends a message behind the one of this number; 0 is that the topic has none. When it
    /// returns, the message is kept as well as the implementation can. After an error it may be
    /// kept or not.
    fn append<'a>(
        &'a self,
        topic: &'a str,
        after: u64,
        bytes: Bytes,
    ) -> SharedLogFuture<'a, Appended>;

    /// The last message of a topic.
    fn last<'a>(&'a self, topic: &'a str) -> SharedLogFuture<'a, Option<Message>>;

    /// Why the store cannot be reached now, as far as that is known without asking.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The messages of a topic from a place on: those that are kept, then those to come.
    fn follow<'a>(&'a self, topic: &'a str, from: ReadFrom) -> SharedLogFuture<'a, Messages>;
}

/// Why a shared log cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SharedLogError {
    /// The text names no topic, or the message is too large.
    #[error("a message of `{topic}` is not kept: {why}")]
    Rejected {
        /// Name of the topic.
        topic: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store cannot be reached or written now; later it may be.
    #[error("the shared log cannot be {doing} now: {why}")]
    Unavailable {
        /// Read or written.
        doing: &'static str,
        /// The error of the store.
        why: String,
    },
}

/// Checks that a message can be written, for implementations.
pub fn check_message(topic: &str, bytes: &[u8]) -> Result<(), SharedLogError> {
    let rejected = |why: String| SharedLogError::Rejected {
        topic: topic.chars().take(80).collect(),
        why,
    };
    crate::registry::check_key(topic).map_err(|_| rejected("that is no name".to_owned()))?;
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(rejected(format!(
            "its {} bytes are more than the {MESSAGE_BYTES_MAX} that a message may have",
            bytes.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
