//! The testbed itself, on the real thing.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod faults;
mod leftovers;
mod logs;
mod rights;
mod skips;
