//! Rules of the project that no compiler checks, as ordinary tests.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod actors;
mod delivery;
mod manners;
mod public_api;
mod publishing;
mod requirements;
mod tree;
mod words;
