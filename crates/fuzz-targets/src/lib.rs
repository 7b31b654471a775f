//! What must hold for any input that a stranger chooses.
//!
//! A target is a function of bytes that panics when something does not hold. `cargo xtask fuzz`
//! searches for such bytes, guided by coverage; the programs for that are in `fuzz/`, a
//! workspace of its own. A test of this crate runs every target on the kept corpus.

mod bodies;
mod frames;
mod project_files;
mod redaction;
mod selectors;

pub use self::{
    bodies::bodies, frames::frames, project_files::project_files, redaction::redaction,
    selectors::selectors,
};

/// Takes an input, and panics if something does not hold.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its program and of its folder in the corpus.
/// The programs call their functions directly: what they do not reach is not linked, and need
/// not be looked at after each input.
pub const TARGETS: &[(&str, Target)] = &[
    ("bodies", bodies),
    ("frames", frames),
    ("project_files", project_files),
    ("redaction", redaction),
    ("selectors", selectors),
];
