//! Which contexts the history has everything of again, after a start.

use std::{collections::HashMap, sync::Arc};

use kubecrier_k8s::WatchLease;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The contexts of which what happened before the start was listed. Until then the history may
/// have what happens now, and lack what happened while no server ran.
#[derive(Debug, Default)]
pub(crate) struct CaughtUp {
    /// With the watches from which the history gets what happens.
    // A lock for one operation on the map.
    contexts: Mutex<HashMap<Arc<str>, Arc<WatchLease>>>,
    changed: Notify,
}

// === impl CaughtUp ===

impl CaughtUp {
    /// Notes that the history has everything of a context, and gets what happens from its watches.
    pub(super) fn note(&self, context: &Arc<str>, watches: Arc<WatchLease>) {
        self.contexts.lock().insert(Arc::clone(context), watches);
        self.changed.notify_waiters();
    }

    /// Notes that nothing of a context is kept from now on.
    pub(super) fn forget(&self, context: &str) {
        self.contexts.lock().remove(context);
    }

    /// Whether the history has everything of a context.
    pub(super) fn has(&self, context: &str) -> bool {
        self.contexts.lock().contains_key(context)
    }

    /// The watches of a context that the history has everything of.
    pub(crate) fn watches(&self, context: &str) -> Option<Arc<WatchLease>> {
        self.contexts.lock().get(context).cloned()
    }

    /// Waits until the history has everything of a context. Cancel-safe.
    pub(crate) async fn wait(&self, context: &str) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // What changes from here on wakes it.
            changed.as_mut().enable();
            if self.has(context) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_context_is_woken_by_that_one() {
        let caught_up = CaughtUp::default();
        let mut waiting = tokio_test::task::spawn(caught_up.wait("dev"));
        assert!(waiting.poll().is_pending());
        caught_up.note(&"prod".into(), Arc::default());
        assert!(waiting.poll().is_pending());
        caught_up.note(&"dev".into(), Arc::default());
        assert!(waiting.is_woken() && waiting.poll().is_ready());
        caught_up.wait("dev").await;
    }
}
