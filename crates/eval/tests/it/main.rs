//! Incidents on status as real controllers write it.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod controllers;
mod stage;
