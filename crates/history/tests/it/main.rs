//! A history in a real folder: processes that are killed, folders that are not its own.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]
#![expect(
    clippy::disallowed_methods,
    reason = "no server runs here whose tasks have names, and a process is killed in real time"
)]

mod crash;
mod folders;
mod writing;
