//! House rules that no compiler knows, as ordinary tests.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod delivery;
mod manners;
mod requirements;
mod tree;
mod words;
