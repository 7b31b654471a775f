//! Sessions over HTTP, of the protocol versions that have them.
//!
//! ```text
//!   POST ──▶ rmcp ──▶ Dispatcher ──▶ a service of rmcp for this message ──▶ Handler
//!    ▲                                       │ MessageTransport
//!    └── PostStream ◀──────┬── Answers ◀─────┤
//!   GET of a client that   │                 │ everything else
//!    resumes it ◀──────────┘                 ▼
//!   GET  ──▶ stream::open ◀── replay ◀── Outbox ◀── every publisher
//! ```
//!
//! rmcp's own session manager does not fit a server that pushes: a stalled stream
//! blocks its session, an open quiet one is closed, a dead one that is pushed to is
//! kept for ever. Here publishing never waits, requests and the stream share nothing
//! but the session, and an open stream is the sign of life.
//!
//! A session that nothing is asked of costs its state and its socket: no task and no service
//! of rmcp belongs to it.
//!
//! - `limiter`: the limits on sessions, and the middleware that applies them;
//! - `manager`: all sessions; `http_session`: the state of one;
//! - `dispatch`: rmcp's `SessionManager`, with a service for each message; `transport`: the
//!   service's way in and out; `running`: what can be cancelled;
//! - `answers`: the messages of each answer, and which are kept for a client that resumes;
//!   `parking`: the limit of what is kept; `answer_stream`: the connections that read them;
//! - `stream`: GET and DELETE, from the outbox to bytes; `replay`: what a client that
//!   reconnects has missed;
//! - `stream_id`: the ids of events, which are cursors where sessions are kept; `record`: what is
//!   kept of a session; `store`, `keeper`: when that is written; `recheck`: when it may be another's by
//!   now, or lost; `revival`: a session of another process is continued; `home`: requests of a session that another server has;
//! - `heartbeat`: when a client is pinged; `server_requests`: the pings themselves.

mod answer_stream;
mod answers;
mod dispatch;
mod heartbeat;
mod home;
mod http_session;
mod keeper;
mod limiter;
mod manager;
mod parking;
mod recheck;
mod record;
mod replay;
mod revival;
mod running;
mod server_requests;
mod store;
mod stream;
mod stream_id;
mod transport;

pub use self::manager::SessionLimits;
pub(super) use self::{
    answer_stream::IsAnswer,
    dispatch::Dispatcher,
    home::{PeerRequests, forward},
    http_session::HttpSession,
    limiter::{SessionPermit, admit},
    manager::Sessions,
    record::{SessionRecord, digest},
    revival::{Revival, revive},
    store::{NotKept, SessionStore},
    stream::{close, open},
    stream_id::StreamPosition,
};
