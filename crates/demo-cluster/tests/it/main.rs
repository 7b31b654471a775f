//! The demo cluster under the client that production uses, and beside the real
//! API server.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod beside;
mod faults;
mod harness;
mod logs;
mod reading;
mod story;
mod watching;
