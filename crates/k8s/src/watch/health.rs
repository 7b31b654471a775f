//! How a watch does.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::{error::ClusterError, startup::Startup};
use kubecrier_core::metrics::{WatchEnd, WatchMetrics, WatchState};

/// The state of a watch, for those who wait for it and for the metrics.
pub(crate) struct WatchHealth {
    startup: Startup,
    current: Mutex<Current>,
    metrics: WatchMetrics,
    /// Ends the backoff of a watch: the cluster has just answered another request.
    wake: Notify,
}

#[derive(Clone, Copy)]
struct Current {
    state: WatchState,
    last_activity: Instant,
    open_since: Option<Instant>,
}

/// An open watch.
pub(crate) struct OpenWatch(Arc<WatchHealth>);

// === impl WatchHealth ===

impl WatchHealth {
    pub(crate) fn new(metrics: WatchMetrics) -> Self {
        let state = WatchState::Connecting;
        metrics.entered(None, Some(state));
        Self {
            startup: Startup::new(),
            current: Mutex::new(Current {
                state,
                last_activity: Instant::now(),
                open_since: None,
            }),
            metrics,
            wake: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> WatchState {
        self.current.lock().state
    }

    /// When the API server last sent anything.
    pub(crate) fn last_activity(&self) -> Instant {
        self.current.lock().last_activity
    }

    /// Since when the API server sends what happens; none between two watches, also while one
    /// is renewed.
    pub(crate) fn open_since(&self) -> Option<Instant> {
        self.current.lock().open_since
    }

    /// A watch is open until the guard is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> OpenWatch {
        self.current.lock().open_since = Some(Instant::now());
        OpenWatch(Arc::clone(self))
    }

    pub(crate) fn enter(&self, state: WatchState) {
        let before = std::mem::replace(&mut self.current.lock().state, state);
        self.metrics.entered(Some(before), Some(state));
        if state == WatchState::Live {
            self.startup.ready();
        }
    }

    pub(crate) fn record_activity(&self) {
        self.current.lock().last_activity = Instant::now();
    }

    pub(crate) fn count_end(&self, why: WatchEnd) {
        self.metrics.ended(why);
    }

    pub(crate) fn count_event(&self, matched: bool) {
        self.metrics.event(matched);
    }

    /// The watch ends; callers who wait for its start get the error.
    pub(crate) fn fail_startup(&self, error: ClusterError) {
        self.startup.fail(error);
    }

    /// Waits until the watch is established for the first time, or will not be.
    /// Cancel-safe.
    pub(crate) async fn started(&self) -> Result<(), ClusterError> {
        self.startup.wait().await
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for [`Self::wake`]. Cancel-safe.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}

impl Drop for WatchHealth {
    fn drop(&mut self) {
        let state = self.current.lock().state;
        self.metrics.entered(Some(state), None);
    }
}

// === impl OpenWatch ===

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.current.lock().open_since = None;
    }
}
