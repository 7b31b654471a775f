//! Tests of the testbed itself, with a real control plane.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod faults;
mod leftovers;
mod logs;
mod rights;
mod skips;
