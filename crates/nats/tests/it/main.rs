//! The store on a real nats-server.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod connect;
mod failing;
mod log;
mod peers;
mod records;
mod strangers;
mod support;
