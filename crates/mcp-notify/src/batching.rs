//! Batched broadcasts: bursts of notifications are gathered before they are sent.

use std::fmt;

use crate::debounce::{DebounceMode, Debouncer};
use crate::notification::{CoalesceKey, Notification};
use crate::observers::ObserverRegistry;

/// Delays the broadcasts of an [`ObserverRegistry`] until a burst is over
/// ([`DebounceMode::Trailing`]) or a window has passed ([`DebounceMode::Window`]).
/// Clones share the pending notifications.
///
/// Only notifications with a coalescing key are gathered, the newest per key. One
/// without a key must not be merged: [`submit`](Self::submit) refuses it, and the
/// caller broadcasts it. Batching is opt-in: without this wrapper every change is
/// broadcast immediately.
#[derive(Clone)]
pub struct BatchedBroadcast {
    registry: ObserverRegistry,
    pending: Debouncer<CoalesceKey, Notification>,
}

impl BatchedBroadcast {
    /// Gathers notifications for this registry.
    pub fn new(registry: ObserverRegistry, mode: DebounceMode) -> Self {
        Self {
            registry,
            pending: Debouncer::new(mode),
        }
    }

    /// Submits a notification. True if it is pending; false if it has no key or too many
    /// are pending, and the caller has to broadcast it.
    #[must_use = "the caller must broadcast a notification that was refused"]
    pub fn submit(&self, notification: Notification) -> bool {
        match notification.coalesce_key().cloned() {
            Some(key) => self.pending.trigger(key, notification),
            None => false,
        }
    }

    /// Broadcasts notifications when they are due, in an endless loop. Spawn it once.
    ///
    /// Dropping the future cancels the broadcast in flight; pending notifications are
    /// kept for the next run.
    pub async fn run(&self) {
        loop {
            let due = self.pending.next().await;
            let _ = self.registry.broadcast(&due.value).await;
        }
    }
}

impl fmt::Debug for BatchedBroadcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BatchedBroadcast")
            .field(&self.pending)
            .finish()
    }
}
