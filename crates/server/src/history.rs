//! The history of clusters, with `--history`: what is kept, and how it is read again.
//!
//! ```text
//!  Watches ──events──▶ recorder ──Record──▶ kubecrier_history ──▶ search ──▶ events_list (since)
//!  (one of our own for each context)     ▲                    ├─▶ resume ──▶ events_poll (cursor)
//!  Incidents ──▶ incidents::recorder ────┤                    ├─▶ incidents ──▶ faults_list (since), faults_get
//!  FaultQueue ──▶ faults ────────────────┘                    └─▶ faults ──▶ faults_get
//! ```
//!
//! - `record`: an event as it is kept, and back; what is shown is decided by the settings of now
//! - `recorder`: watches every context that is allowed, and lists what happened before
//! - `search`: what the API server has and what is kept, as one list
//! - `resume`: what happened after a cursor whose feed is gone; `caught_up`: since when it is all
//!   there; `reader`: one read of it; `by_version`: a page of it in the order of versions, where
//!   servers share subscriptions
//! - `eyes`: what a user may see of it, where callers act as users
//! - `incidents`: what happened to each incident, and what was wrong in a time
//! - `faults`: the evidence of faults, found by their id

mod by_version;
mod caught_up;
pub(crate) mod eyes;
pub(crate) mod faults;
mod fields;
pub(crate) mod incidents;
mod reader;
mod record;
mod recorder;
pub(crate) mod resume;
pub(crate) mod search;

pub(crate) use self::{caught_up::CaughtUp, faults::FaultArchive, recorder::Recorder};
