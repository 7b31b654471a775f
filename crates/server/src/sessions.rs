//! Sessions over HTTP, of the protocol versions that have them.
//!
//! ```text
//!   POST ──▶ rmcp ──▶ Sessions::create_stream ──▶ Wire ──▶ rmcp's service, our handler
//!    ▲                                             │
//!    └── that request's own stream ◀── response ◀──┤
//!                                                  │ everything else
//!   GET  ──▶ stream::open ◀── replay ◀── Outbox ◀──┴── whoever publishes
//! ```
//!
//! rmcp's own manager does not fit a server that pushes: a stalled stream wedges
//! its session, an open quiet one is killed, a dead one that is pushed to lives
//! for ever. Here publishing never waits, requests and the stream have nothing in
//! common but the session, and an open stream is the sign of life.

mod admission;
mod entry;
mod heartbeat;
mod manager;
mod replay;
mod stream;
mod wire;

pub use self::manager::SessionLimits;
pub(super) use self::{
    admission::{Admission, admit},
    manager::Sessions,
    stream::{close, open},
};
