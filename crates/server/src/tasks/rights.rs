//! The rights of the user whose task it is: its answer was derived with them, and is shown only
//! while they are there.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use kubecrier_core::access::{Answer, Gate, Right, Undecided};
use parking_lot::Mutex;
use tokio::time::Instant;

/// As long as other answers that need many rights: several requests at once share them.
const SHARED_FOR: Duration = Duration::from_millis(500);

/// The rights that the answer of a task needs when it is read; none where callers act with the
/// rights of the server. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskRights(Arc<Mutex<Vec<Arc<Right>>>>);

// === impl TaskRights ===

impl TaskRights {
    /// Something was read that needs these.
    pub(crate) fn add(&self, rights: impl IntoIterator<Item = Arc<Right>>) {
        self.0.lock().extend(rights);
    }

    /// Whether the user has all of them now.
    pub(super) async fn are_held(&self) -> Result<bool, Undecided> {
        let now = Instant::now();
        let since = now.checked_sub(SHARED_FOR).unwrap_or(now);
        let rights = self.0.lock().clone();
        let answers = join_all(rights.iter().map(|right| right.decide_since(since))).await;
        if answers.contains(&Answer::Denied) {
            return Ok(false);
        }
        if answers.contains(&Answer::Unknown) {
            return Err(Undecided);
        }
        Ok(true)
    }

    /// For a message that waits before it is sent.
    pub(super) fn gate(&self) -> Gate {
        Gate::new(self.0.lock().clone())
    }
}
