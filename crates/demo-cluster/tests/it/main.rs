//! The demo cluster with the client of production, and compared with the real API server.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod beside;
mod faults;
mod harness;
mod logs;
mod reading;
mod scenario;
mod watching;
