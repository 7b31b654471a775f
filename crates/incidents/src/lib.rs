//! Incidents: what is wrong in a cluster, derived from the state of its objects.
//!
//! ```text
//!  objects ──▶ State ──▶ DETECTORS ──▶ symptoms ──▶ group ──▶ incidents ──▶ Life ──▶ opened,
//!  events  ──────┘      (one table)                    │                          changed, resolved
//!                                                      └──▶ headline
//! ```
//!
//! - `objects`: the fields of objects that detectors read
//! - `state`: the objects of a cluster
//! - `messages`: what a message names as the cause, and the part that a reader needs
//! - `symptom`: what a detector found on one object
//! - `detectors`: the table, and one file per family
//! - `incident`: symptoms with one cause, put together
//! - `headline`: an incident in one line
//! - `eval`: recorded cases, and how well the first answer names the true object
//! - `life`: when an incident opens, changes and is over
//!
//! Everything is derived from the state and the time: the same state gives the same
//! incidents with the same ids, on every server and after a restart.

pub mod detectors;
#[cfg(feature = "eval")]
pub mod eval;
mod headline;
mod incident;
mod life;
mod messages;
pub mod objects;
mod state;
mod symptom;

pub use self::{
    incident::{Change, Effect, Incident, incidents},
    life::{Life, Transition},
    messages::telling_line,
    state::{State, Store},
    symptom::{Hold, Severity, Symptom},
};
