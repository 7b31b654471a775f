//! The start of something that callers wait for.

use tokio::sync::watch;

use crate::error::ClusterError;

/// Whether a shared task has come up, for those who wait for that.
pub(crate) struct Startup(watch::Sender<StartupState>);

#[derive(Clone, Debug)]
enum StartupState {
    Pending,
    Ready,
    Failed(ClusterError),
}

// === impl Startup ===

impl Startup {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(StartupState::Pending))
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(*self.0.borrow(), StartupState::Pending)
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(*self.0.borrow(), StartupState::Ready)
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(*self.0.borrow(), StartupState::Failed(_))
    }

    /// The task has come up; later calls change nothing.
    pub(crate) fn ready(&self) {
        self.settle(StartupState::Ready);
    }

    /// The task will not come up; one that has already is not touched.
    pub(crate) fn fail(&self, error: ClusterError) {
        self.settle(StartupState::Failed(error));
    }

    /// Waits until the task has come up, or will not. Cancel-safe.
    pub(crate) async fn wait(&self) -> Result<(), ClusterError> {
        let mut state = self.0.subscribe();
        let settled = state.wait_for(|state| !matches!(state, StartupState::Pending));
        match settled.await.as_deref() {
            Ok(StartupState::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Waits until it is known that the task will not come up. Cancel-safe.
    pub(crate) async fn failure(&self) -> ClusterError {
        match self.wait().await {
            Err(error) => error,
            Ok(()) => std::future::pending().await,
        }
    }

    fn settle(&self, settled: StartupState) {
        self.0.send_if_modified(|state| {
            let pending = matches!(state, StartupState::Pending);
            if pending {
                *state = settled;
            }
            pending
        });
    }
}
