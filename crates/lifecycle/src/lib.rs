//! Starting, being ready, draining, stopping.
//!
//! ```text
//! running --first signal--> draining --no call left, or time up--> stopped
//!                               └──────second signal, or a panic──────┘
//! ```

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

/// The process's one lifecycle; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    draining: CancellationToken,
    failed: CancellationToken,
    tasks: TaskTracker,
    calls: AtomicUsize,
    exchanges: AtomicUsize,
    idle: Notify,
    // A lock because a panic and the reader of its name are on different tasks.
    failure: Mutex<Option<String>>,
    latches: Mutex<Vec<Weak<()>>>,
}

/// What a stop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A tool runs.
    Call,
    /// An HTTP request has not been answered to its last byte.
    Exchange,
}

/// Work that a stop waits for, while it is held.
#[derive(Debug)]
pub struct Busy {
    lifecycle: Lifecycle,
    work: Work,
}

/// Something that has to happen before the server is ready; dropped when it has.
#[derive(Debug)]
pub struct Latch(#[expect(dead_code, reason = "its life is its meaning")] Arc<()>);

// === impl Lifecycle ===

impl Lifecycle {
    /// Runs a task under a name. A panic in it ends the process: a server with a
    /// dead part is worse than none.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let inner = Arc::clone(&self.inner);
        let guarded = async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                inner.fail(format!("task `{name}` panicked"));
            }
        };
        self.inner
            .tasks
            .spawn(guarded.instrument(tracing::info_span!("task", name)));
    }

    /// Ends the process: something is broken that cannot be mended.
    pub fn fail(&self, what: String) {
        self.inner.fail(what);
    }

    /// Ends when a stop has been asked for.
    pub fn draining(&self) -> &CancellationToken {
        &self.inner.draining
    }

    /// Asks for a stop.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    /// Counts work until the answer is dropped.
    pub fn busy(&self, work: Work) -> Busy {
        self.counter(work).fetch_add(1, Ordering::AcqRel);
        Busy {
            lifecycle: self.clone(),
            work,
        }
    }

    /// How much of that work is going on.
    pub fn count(&self, work: Work) -> usize {
        self.counter(work).load(Ordering::Acquire)
    }

    fn counter(&self, work: Work) -> &AtomicUsize {
        match work {
            Work::Call => &self.inner.calls,
            Work::Exchange => &self.inner.exchanges,
        }
    }

    /// Waits until no work is going on. Cancel-safe.
    pub async fn idle(&self) {
        loop {
            let changed = self.inner.idle.notified();
            if self.count(Work::Call) + self.count(Work::Exchange) == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Waits until every task has ended. Cancel-safe.
    pub async fn ended(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Waits for a task to panic, and says which. Cancel-safe.
    pub async fn failure(&self) -> String {
        self.inner.failed.cancelled().await;
        self.inner.failure.lock().clone().unwrap_or_default()
    }

    /// Holds readiness back until the latch is dropped.
    pub fn latch(&self) -> Latch {
        let held = Arc::new(());
        self.inner.latches.lock().push(Arc::downgrade(&held));
        Latch(held)
    }

    /// Whether requests are welcome.
    pub fn is_ready(&self) -> bool {
        let mut latches = self.inner.latches.lock();
        latches.retain(|latch| latch.strong_count() > 0);
        latches.is_empty() && !self.inner.draining.is_cancelled()
    }
}

impl Inner {
    fn fail(&self, what: String) {
        *self.failure.lock() = Some(what);
        self.failed.cancel();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self
            .lifecycle
            .counter(self.work)
            .fetch_sub(1, Ordering::AcqRel)
            == 1
        {
            self.lifecycle.inner.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_process_and_names_its_task() {
        let lifecycle = Lifecycle::default();
        lifecycle.spawn("quiet", async {});
        lifecycle.spawn("loud", async { panic!("on purpose") });
        assert_eq!(lifecycle.failure().await, "task `loud` panicked");
        lifecycle.ended().await;
    }

    #[tokio::test]
    async fn idle_waits_for_all_work() {
        let lifecycle = Lifecycle::default();
        lifecycle.idle().await;
        let (one, two) = (lifecycle.busy(Work::Call), lifecycle.busy(Work::Exchange));
        let mut waiting = tokio_test::task::spawn(lifecycle.idle());
        assert!(waiting.poll().is_pending());
        drop(one);
        assert!(waiting.poll().is_pending());
        drop(two);
        assert!(waiting.is_woken() && waiting.poll().is_ready());
    }

    #[test]
    fn ready_means_no_latch_and_no_stop() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.is_ready());
        let latch = lifecycle.latch();
        assert!(!lifecycle.is_ready());
        drop(latch);
        assert!(lifecycle.is_ready());
        lifecycle.drain();
        assert!(!lifecycle.is_ready());
    }
}
