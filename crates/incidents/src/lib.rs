//! Incidents: what is wrong in a cluster, derived from the state of its objects.
//!
//! ```text
//!  objects ──▶ State ──▶ DETECTORS ──▶ symptoms ──▶ group ──▶ incidents ──▶ Life ──▶ opened,
//!  events  ──────┘      (one table)                    │                          changed, resolved
//!                                                      └──▶ headline
//! ```
//!
//! - `objects`: the fields of objects that detectors read
//! - `store`, `event_log`, `state`, `owners`: the objects of a cluster, and who owns whom
//! - `clock`: what the times in a state are worth
//! - `messages`: what a message names as the cause, and the part that a reader needs
//! - `symptom`: what a detector found on one object
//! - `detectors`: the table, and one file per family
//! - `incident`: symptoms with one cause, put together
//! - `changes`: what changed shortly before
//! - `headline`: an incident in one line
//! - `eval`: recorded cases, and how well the first answer names the true object
//! - `options`: which detectors are off, and other holds
//! - `life`: when an incident opens, changes and is over
//!
//! Everything is derived from the state and the time: the same state gives the same
//! incidents with the same ids, on every server and after a restart.

mod changes;
mod clock;
pub mod detectors;
#[cfg(feature = "eval")]
pub mod eval;
mod event_log;
mod headline;
mod incident;
mod life;
mod messages;
pub mod objects;
mod options;
mod owners;
mod state;
mod store;
mod symptom;

pub use self::{
    incident::{Change, Effect, Evaluation, Incident, evaluate, incidents, incidents_with},
    life::{Life, Transition},
    messages::telling_line,
    options::{DetectorName, HoldSetting, Options, OptionsError},
    state::{Eyes, State},
    store::Store,
    symptom::{Hold, Severity, Symptom},
};
