//! How a watch does.

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use crate::error::ClusterError;
use kubecrier_core::metrics::{WatchEnd, WatchMetrics, WatchState};

/// What is known about a watch, by those who wait for it and those who count.
pub(crate) struct Status {
    first: watch::Sender<First>,
    now: Mutex<Now>,
    metrics: WatchMetrics,
    /// Wakes a watch that waits: somebody has just reached the cluster.
    nudge: Notify,
}

/// Whether the watch ever stood.
#[derive(Clone, Debug)]
pub(crate) enum First {
    Trying,
    Stood,
    Failed(ClusterError),
}

#[derive(Clone, Copy)]
struct Now {
    state: WatchState,
    alive: Instant,
}

// === impl Status ===

impl Status {
    pub(crate) fn new(metrics: WatchMetrics) -> Self {
        let state = WatchState::Connecting;
        metrics.entered(None, Some(state));
        Self {
            first: watch::Sender::new(First::Trying),
            now: Mutex::new(Now {
                state,
                alive: Instant::now(),
            }),
            metrics,
            nudge: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> WatchState {
        self.now.lock().state
    }

    /// When something was last heard.
    pub(crate) fn alive(&self) -> Instant {
        self.now.lock().alive
    }

    pub(crate) fn enter(&self, state: WatchState) {
        let before = std::mem::replace(&mut self.now.lock().state, state);
        self.metrics.entered(Some(before), Some(state));
        if state == WatchState::Live {
            self.first.send_replace(First::Stood);
        }
    }

    pub(crate) fn sign_of_life(&self) {
        self.now.lock().alive = Instant::now();
    }

    pub(crate) fn ended(&self, why: WatchEnd) {
        self.metrics.ended(why);
    }

    pub(crate) fn counted(&self, matched: bool) {
        self.metrics.event(matched);
    }

    pub(crate) fn never_stood(&self, error: ClusterError) {
        self.first.send_if_modified(|first| {
            let trying = matches!(first, First::Trying);
            if trying {
                *first = First::Failed(error);
            }
            trying
        });
    }

    /// Waits until the watch stands for the first time, or does not. Cancel-safe.
    pub(crate) async fn first(&self) -> Result<(), ClusterError> {
        let mut first = self.first.subscribe();
        let decided = first
            .wait_for(|first| !matches!(first, First::Trying))
            .await;
        match decided.as_deref() {
            Ok(First::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Waits for a nudge. Cancel-safe.
    pub(crate) async fn nudged(&self) {
        self.nudge.notified().await;
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let state = self.now.lock().state;
        self.metrics.entered(Some(state), None);
    }
}
