//! Sessions over HTTP, of the protocol versions that have them.
//!
//! ```text
//!   POST ──▶ rmcp ──▶ Sessions::create_stream ──▶ SessionTransport ──▶ rmcp's service, Handler
//!    ▲                                             │
//!    └── PostStream ◀──────┬── Answers ◀── answer ◀┤
//!   GET of a client that   │                       │
//!    resumes it ◀──────────┘                       │ everything else
//!   GET  ──▶ stream::open ◀── replay ◀── Outbox ◀──┴── every publisher
//! ```
//!
//! rmcp's own session manager does not fit a server that pushes: a stalled stream
//! blocks its session, an open quiet one is closed, a dead one that is pushed to is
//! kept for ever. Here publishing never waits, requests and the stream share nothing
//! but the session, and an open stream is the sign of life.
//!
//! - `limiter`: the limits on sessions, and the middleware that applies them;
//! - `manager`: all sessions, as rmcp's `SessionManager`;
//! - `http_session`: the state of one session; `transport`: rmcp's side of it;
//! - `answers`: the messages of each answer, and which are kept for a client that resumes;
//!   `parking`: the limit of what is kept; `answer_stream`: the connections that read them;
//! - `stream`: GET and DELETE, from the outbox to bytes; `replay`: what a client that
//!   reconnects has missed;
//! - `heartbeat`: pings.

mod answer_stream;
mod answers;
mod heartbeat;
mod http_session;
mod limiter;
mod manager;
mod parking;
mod replay;
mod stream;
mod transport;

pub use self::manager::SessionLimits;
pub(super) use self::{
    answer_stream::IsAnswer,
    limiter::{SessionPermit, admit},
    manager::Sessions,
    stream::{close, open},
};
