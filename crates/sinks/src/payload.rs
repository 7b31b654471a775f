//! Messages of sinks: an incident in, the text of a target's own format out. Pure functions.
//!
//! - `alert`: an alert of Alertmanager, and its webhook, version 4
//! - `cloud_event`: CloudEvents 1.0
//! - `a2a`: a message of A2A 1.0

pub(crate) mod a2a;
pub(crate) mod alert;
pub(crate) mod cloud_event;

#[cfg(test)]
mod tests;
