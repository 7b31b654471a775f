//! Incidents that were: what happened to each is kept, and read again by its id or by time.
//!
//! - `recorder`: follows the incidents of a context, whether a client asks or not
//! - `record`: one change of an incident as it is kept, and back
//! - `past`: the incidents of a time, each with its newest state

mod past;
mod record;
mod recorder;

pub(crate) use self::past::{PastIncident, PastIncidents, PastState, find, search};
pub(super) use self::recorder::record_incidents;
