//! One watch for several servers: the one that has the lease of a scope watches it and writes
//! what it sees to a log that all of them read, itself included.
//!
//! ```text
//!  API server ──▶ WatchLoop ──▶ Publishing ──append──▶ SharedLog ──▶ LoggedFrames ──▶ WatchLoop
//!                 (of the holder)                          │                         of this server
//!                                                          ├──────▶ LoggedFrames ──▶ … of another
//!                                                          └──────▶ …
//! ```
//!
//! The resourceVersion is the position everywhere: a message says from which version to which it
//! has everything. So a server can leave the log at any time, watch for itself from where it was,
//! and come back: it does so if the log is silent, cannot be reached, or has a hole, and nobody
//! has to be notified of that.
//!
//! - `message`: what is written; `topic`: where
//! - `publisher`: takes the lease and writes; `publishing`: what it does with what it sees
//! - `frames`: what comes from the log as the frames of a watch; `source`: the log, or the
//!   API server if it has to be
//! - `backlog`: what the log has of the time before

mod backlog;
mod frames;
mod message;
mod publisher;
mod publishing;
mod source;
mod topic;

pub use self::backlog::{BacklogGap, SharedBacklog};
pub(super) use self::{
    publisher::{Publisher, publish},
    source::{ReadAt, SharedSource},
    topic::topic,
};

use std::sync::Arc;

use kubecrier_history::{Registry, SharedLog};

/// What servers that share their watches have in common.
#[derive(Clone, Debug)]
pub struct SharedWatching {
    /// Where what is seen is written.
    pub log: Arc<dyn SharedLog>,
    /// Where the leases are.
    pub registry: Arc<dyn Registry>,
    /// The name of this server, which no other has.
    pub server: String,
}

#[cfg(test)]
mod tests;
