//! What a user of Kubernetes may see of what all callers share.
//!
//! One watch serves every caller, with the server's own rights. Before anything of it reaches a
//! caller who acts as a user, the API server is asked whether that user may read it, and its
//! answer is remembered for a short while.
//!
//! ```text
//!  Viewer ──user──▶ UserView ──right──▶ Right: check ─▶ allowed, denied, or asking ──┐
//!                                         ▲   (never waits)                          │
//!              allowed 30 s, denied 10 s ─┘◀── cluster-wide, then the namespace ◀── AccessReviewer
//! ```
//!
//! - `question`: what is asked; `asked`: the questions of all users, each kept once; `right`: one
//!   question of one user and its answer; `reviewed_context`: whose answers count
//! - `decisions`: all answers, and the limits of asking; `turns`, `pace`: how much and how fast it is
//!   asked, of each cluster for itself
//! - `viewer`: through whose eyes something is seen; `sight`: what that needs in one cluster;
//!   `gate`: the rights that a message needs when it is sent; `noted`: what is noted of namespaces
//! - `clearance`: what a user may read of several kinds, for what is derived from many objects

mod asked;
mod clearance;
mod decisions;
mod gate;
mod noted;
mod pace;
mod question;
mod reviewed_context;
mod right;
mod sight;
pub(crate) mod turns;
mod viewer;

pub use self::{
    clearance::{Clearance, Extent, ScopedAction, Undecided, Within},
    decisions::{AccessDecisions, AccessReviewer, ReviewError},
    gate::Gate,
    noted::NotedNamespaces,
    question::{AccessQuestion, Action},
    right::{Answer, Asking, Right, Verdict},
    sight::{EventRights, LabelRight, Sight},
    viewer::{UserView, Viewer},
};

#[cfg(test)]
pub(crate) mod tests;
