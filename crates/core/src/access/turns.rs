//! How much may be asked at the same time, and how fast.

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Duration, sleep},
};

use super::pace::Pace;

/// The turns of everybody in one cluster, or of one user there.
#[derive(Debug)]
pub(crate) struct Turns {
    running: Semaphore,
    pace: Pace,
    limits: &'static TurnLimits,
}

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnLimits {
    /// Questions at a time.
    pub(crate) running_max: usize,
    /// Questions a second.
    pub(crate) per_second: u32,
    /// Questions at once after a pause.
    pub(crate) burst: u32,
}

// === impl Turns ===

impl Turns {
    pub(crate) fn new(limits: &'static TurnLimits) -> Self {
        Self {
            running: Semaphore::new(limits.running_max),
            pace: Pace::new(),
            limits,
        }
    }

    /// Waits for a turn, which lasts until it is dropped. `None` if it does not come within
    /// `patience`.
    pub(crate) async fn take(&self, patience: Duration) -> Option<SemaphorePermit<'_>> {
        let turn = self.running.acquire().await.ok()?;
        sleep(self.pace.take(self.limits, patience)?).await;
        Some(turn)
    }
}
