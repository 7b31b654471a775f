//! Broadcasts gathered over time, for notifications that come in bursts.

use std::fmt;

use crate::debounce::{Debouncer, Timing};
use crate::notification::{CoalesceKey, Notification};
use crate::observers::ObserverRegistry;

/// An [`ObserverRegistry`] whose broadcasts wait until a burst is over
/// ([`Timing::Trailing`]) or a window has passed ([`Timing::Window`]). A clone
/// is the same.
///
/// Only notifications with a coalescing key are gathered, the newest per key.
/// One without a key must arrive as it is: [`submit`](Self::submit) does not
/// take it, and whoever has it broadcasts it. This is off unless you put it in between:
/// by default every change is told at once.
#[derive(Clone)]
pub struct BatchedBroadcast {
    registry: ObserverRegistry,
    gathered: Debouncer<CoalesceKey, Notification>,
}

impl BatchedBroadcast {
    /// Gathers what is to go to this registry.
    pub fn new(registry: ObserverRegistry, timing: Timing) -> Self {
        Self {
            registry,
            gathered: Debouncer::new(timing),
        }
    }

    /// Hands in a notification. True if it waits for its time; false if it has
    /// no key, or too many wait already: then broadcast it yourself.
    #[must_use = "what was not taken must be broadcast by the caller"]
    pub fn submit(&self, notification: Notification) -> bool {
        match notification.coalesce_key().cloned() {
            Some(key) => self.gathered.trigger(key, notification),
            None => false,
        }
    }

    /// Broadcasts each when its time comes, for ever. Spawn it once.
    ///
    /// Dropping it ends the broadcast that is under way; what waits is kept
    /// for the next run.
    pub async fn run(&self) {
        loop {
            let fired = self.gathered.fired().await;
            let _ = self.registry.broadcast(&fired.value).await;
        }
    }
}

impl fmt::Debug for BatchedBroadcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BatchedBroadcast")
            .field(&self.gathered)
            .finish()
    }
}
