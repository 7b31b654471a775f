//! What happened in clusters, kept in a folder by age and size.
//!
//! ```text
//!  record (never waits) ──▶ queue ──▶ writer: one transaction for all that waits ──▶ Log
//!                                        │ full: counted, told as a gap                │
//!                                        │ fails: the store is opened again            │
//!  search, read_from ◀───── blocks, newest or oldest first ◀──── summaries ◀───────────┘
//! ```
//!
//! A log is the records of one cluster and one [`Stream`], numbered by [`Position`]. Records are
//! kept in blocks, compressed together; beside each block is a summary that says which times,
//! namespaces, names and reasons it has, so that a search opens few of them.
//!
//! - `log`: the seam, [`Log`], of which the [`Store`] in a folder is one implementation
//! - `record`: what is kept; `query`: what is searched for
//! - `block`, `summary`: records as a value of the store, and what is known without opening it
//! - `folder`: whose folder it is; `store`: the tables, in redb; `retention`: what is removed
//! - `writer`: the queue and its thread; `history`: the handle of the server
//! - `registry`: small records with a revision, such as those of sessions; `peers`: what servers
//!   that share a store ask of each other; `shared_log`: messages in order, of one writer at a time;
//!   `lease`: which of them does a piece of work

mod block;
mod folder;
mod history;
mod lease;
mod log;
mod peers;
mod query;
mod record;
mod registry;
mod retention;
mod shared_log;
mod store;
mod summary;
mod writer;

pub use self::{
    folder::OpenError,
    history::{History, HistoryConfig, HistoryStats, ResumeFrom},
    lease::{Lease, RENEWAL as LEASE_RENEWAL, TIME_TO_LIVE as LEASE_TIME_TO_LIVE},
    log::{Log, LogError, Page, Position},
    peers::{MemoryNetwork, MemoryPeers, PeerAnswer, PeerError, PeerFuture, PeerHandler, Peers},
    query::{Budget, Found, Query},
    record::{Record, Stream},
    registry::{
        Entry as RegistryEntry, FolderRegistry, KEY_BYTES_MAX, MemoryRegistry, Registry,
        RegistryError, RegistryFuture, Revision, SetOutcome, VALUE_BYTES_MAX, check_key,
        check_record,
    },
    retention::Retention,
    shared_log::{
        Appended, MESSAGE_BYTES_MAX, MemorySharedLog, Message, Messages, ReadFrom, SharedLog,
        SharedLogError, SharedLogFuture, check_message,
    },
    store::{ByVersion, Edge, Store, VersionOrder, Wanted},
    writer::{Health, Writer},
};
#[cfg(any(test, feature = "testing"))]
pub use self::{registry::check_registry, shared_log::check_shared_log};
