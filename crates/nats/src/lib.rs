//! The store that several servers share, over NATS JetStream.
//!
//! ```text
//!  NatsStore::connect ── checks the server, makes two streams
//!     │
//!     ├── registry    ── stream <fleet>-records: the last value of each subject, with a time to live
//!     ├── shared_log  ── stream <fleet>-log: messages by subject, kept by age and size
//!     └── peers(name) ── core NATS: <fleet>.peers.<name>, heartbeats on <fleet>.alive
//! ```
//!
//! - `config`: what is set, and what of it may be shown; `error`: why there is no store
//! - `link`: whether there is a connection; `failures`: whether what is asked for works;
//!   `credentials`: who connects
//! - `streams`: the two streams and their format; `keeper`: makes them again
//! - `store`: the connection and what goes over it; `registry`, `shared_log`, `follow`, `peers`: the
//!   seams
//!
//! NATS writes to the disk when the kernel does (`sync_interval`): what was acknowledged survives
//! the end of its process, and not the end of its machine, unless JetStream has `sync_always` or
//! replicas.

mod config;
mod credentials;
mod error;
mod failures;
mod follow;
mod keeper;
mod link;
mod peers;
mod registry;
mod shared_log;
mod store;
mod streams;

/// A log directive that silences the client library: what it reports is reported here, with what
/// to do.
pub const QUIET: &str = "async_nats=off";

pub use self::{
    config::NatsConfig,
    error::ConnectError,
    link::Health,
    peers::NatsPeers,
    registry::NatsRegistry,
    shared_log::NatsSharedLog,
    store::{NatsStats, NatsStore},
};
