//! A context whose API server is asked, and since when that has been the same cluster.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::time::{Duration, Instant};

use super::turns::{TurnLimits, Turns};

/// Reviews of all users that a cluster is asked for. Each has turns of its own, so that one that
/// does not answer holds up no other.
const LIMITS: TurnLimits = TurnLimits {
    running_max: 16,
    per_second: 200,
    burst: 400,
};

/// A context, as all rights in it share it.
#[derive(Debug)]
pub(super) struct ReviewedContext {
    name: Arc<str>,
    turns: Turns,
    made: Instant,
    /// Nanoseconds from `made` until it came to name the cluster that it names now.
    renamed: AtomicU64,
}

// === impl ReviewedContext ===

impl ReviewedContext {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            turns: Turns::new(&LIMITS),
            made: Instant::now(),
            renamed: AtomicU64::new(0),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The turns of all users.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// An answer that was asked for earlier is that of another cluster.
    pub(super) fn since(&self) -> Instant {
        self.made + Duration::from_nanos(self.renamed.load(Ordering::Relaxed))
    }

    /// From now on it names another cluster.
    pub(super) fn rename(&self) {
        // Later than whatever was asked until now, also where the clock is coarse.
        let nanos = self.made.elapsed().as_nanos() + 1;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.renamed.store(nanos, Ordering::Relaxed);
    }
}
