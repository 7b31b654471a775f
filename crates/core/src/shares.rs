//! Limits that callers share, and the part of each that one caller may take.
//!
//! ```text
//!               ┌─ total: nobody gets more ───────────────────┐
//!   ShareKey ──▶│ SharedLimit: permits     (calls, bodies, …) │──▶ Permit, released when dropped
//!               │ Claims: distinct things  (watches, graphs…) │──▶ Claim, released when dropped
//!               │ SharedRate: per second   (new sessions)     │
//!               └─ share: one caller gets no more ────────────┘
//! ```
//!
//! With a share of half a limit, whatever one caller does leaves the other half for others.
//!
//! - `key`: for whom something is counted
//! - `limit`: permits; `claims`: things that several callers may hold together; `rate`: per
//!   second
//! - `reached`: the error that names the limit, and what to do

mod claims;
mod key;
mod limit;
mod rate;
mod reached;

pub use self::{
    claims::{Claim, Claims},
    key::{CallerShare, ShareKey},
    limit::{Permit, SharedLimit},
    rate::SharedRate,
    reached::{LimitName, LimitReached},
};
