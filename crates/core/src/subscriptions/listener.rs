//! Who hears of events: the seam between whoever watches and whoever subscribed.

use std::sync::Arc;

use jiff::Timestamp;

use crate::Event;

/// Hears of events, on the task that watches: nothing here may wait.
pub trait Listener: Send + Sync + 'static {
    /// Whether the event may matter. Its labels are not known yet: they cost a
    /// request, which is made only if somebody says yes.
    fn wants(&self, event: &Event) -> bool;

    /// Whether it looks at labels at all.
    fn needs_labels(&self) -> bool {
        true
    }

    /// Takes events it may want, labels and all, in order.
    fn take(self: Arc<Self>, events: &[&Arc<Event>]);

    /// Hears how one of its watches does.
    fn hear(&self, watch: u64, change: &Change);
}

/// What becomes of a watch, as far as a subscriber has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It could not be established again, several times in a row; it goes on trying.
    Degraded {
        /// Why, the last time.
        error: String,
    },
    /// It is back.
    Recovered,
    /// The cluster's history did not reach back to where we were.
    Gap {
        /// From when on something may be missing.
        since: Timestamp,
        /// What is known about it.
        detail: String,
    },
}
