//! The history of clusters, with `--history`: what is kept, and how it is read again.
//!
//! ```text
//!  Watches ──events──▶ recorder ──Record──▶ kubecrier_history ──▶ search ──▶ events_list (since)
//!  (one of our own for each context)                          └─▶ resume ──▶ events_poll (cursor)
//! ```
//!
//! - `record`: an event as it is kept, and back; what is shown is decided by the settings of now
//! - `recorder`: watches every context that is allowed, and lists what happened before
//! - `search`: what the API server has and what is kept, as one list
//! - `resume`: what happened after a cursor whose feed is gone

mod fields;
mod record;
mod recorder;
pub(crate) mod resume;
pub(crate) mod search;

pub(crate) use self::recorder::Recorder;
