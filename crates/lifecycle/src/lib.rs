//! The lifecycle of the process: named tasks, readiness, draining, stopping.
//!
//! ```text
//! running --first signal--> draining --nothing in flight, or deadline--> stopped
//!                               └──────second signal, or a panic───────────┘
//! ```
//!
//! - [`Lifecycle`] spawns the tasks and carries the drain signal and the failure.
//! - [`InFlightGuard`] holds a shutdown back while a request is in flight.
//! - [`ReadinessGate`] holds `/readyz` back until a part of the server has started.
//! - [`reap_orphans`] waits for processes that nobody else waits for.

mod orphans;

pub use self::orphans::reap_orphans;

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
use tracing::{Instrument, Span};

/// The one lifecycle of the process. Clones share it and are cheap.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    draining: CancellationToken,
    failed: CancellationToken,
    tasks: TaskTracker,
    tool_calls: AtomicUsize,
    http_exchanges: AtomicUsize,
    idle: Notify,
    // A lock because the panic is recorded on one task and read on another.
    failure: Mutex<Option<String>>,
    readiness_gates: Mutex<Vec<Weak<()>>>,
}

/// Tasks of one name. What the log says of each of them is kept once.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    inner: Arc<Inner>,
    name: &'static str,
    span: Span,
}

/// Work that a shutdown waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// A tool call that has not returned.
    ToolCall,
    /// An HTTP request whose response has not been written to its last byte.
    HttpExchange,
}

/// Counts one piece of work as in flight until dropped.
#[derive(Debug)]
pub struct InFlightGuard {
    lifecycle: Lifecycle,
    work: InFlight,
}

/// Keeps the server from being ready until dropped.
#[derive(Debug)]
pub struct ReadinessGate(#[expect(dead_code, reason = "only its drop is observed")] Arc<()>);

// === impl Lifecycle ===

impl Lifecycle {
    /// Spawns a task under a name. A panic in it ends the process: a server of which
    /// one task is dead is worse than no server.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.group(name).spawn(task);
    }

    /// A group of tasks of one name, of which there may be thousands at a time.
    pub fn group(&self, name: &'static str) -> TaskGroup {
        TaskGroup {
            inner: Arc::clone(&self.inner),
            name,
            span: tracing::info_span!("task", name),
        }
    }

    /// Ends the process with a reason: the failure cannot be recovered from.
    pub fn fail(&self, reason: String) {
        self.inner.fail(reason);
    }

    /// The token that is cancelled when a shutdown begins.
    pub fn draining(&self) -> &CancellationToken {
        &self.inner.draining
    }

    /// Begins a graceful shutdown.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    /// Counts work as in flight until the guard is dropped.
    pub fn begin(&self, work: InFlight) -> InFlightGuard {
        self.counter(work).fetch_add(1, Ordering::AcqRel);
        InFlightGuard {
            lifecycle: self.clone(),
            work,
        }
    }

    /// The number of calls or exchanges in flight.
    pub fn in_flight(&self, work: InFlight) -> usize {
        self.counter(work).load(Ordering::Acquire)
    }

    fn counter(&self, work: InFlight) -> &AtomicUsize {
        match work {
            InFlight::ToolCall => &self.inner.tool_calls,
            InFlight::HttpExchange => &self.inner.http_exchanges,
        }
    }

    /// Waits until nothing is in flight. Cancel-safe.
    pub async fn idle(&self) {
        loop {
            let changed = self.inner.idle.notified();
            if self.in_flight(InFlight::ToolCall) + self.in_flight(InFlight::HttpExchange) == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Waits until every spawned task has returned. Cancel-safe.
    pub async fn join_tasks(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Waits for a failure and returns its reason. Cancel-safe.
    pub async fn failure(&self) -> String {
        self.inner.failed.cancelled().await;
        self.inner.failure.lock().clone().unwrap_or_default()
    }

    /// Registers a gate that holds readiness back until it is dropped.
    pub fn readiness_gate(&self) -> ReadinessGate {
        let held = Arc::new(());
        let gate = Arc::downgrade(&held);
        self.inner.readiness_gates.lock().push(gate);
        ReadinessGate(held)
    }

    /// Whether the server takes requests: no gate is held and it is not draining.
    pub fn is_ready(&self) -> bool {
        let mut gates = self.inner.readiness_gates.lock();
        gates.retain(|gate| gate.strong_count() > 0);
        gates.is_empty() && !self.inner.draining.is_cancelled()
    }
}

impl Inner {
    fn fail(&self, reason: String) {
        *self.failure.lock() = Some(reason);
        self.failed.cancel();
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let counter = self.lifecycle.counter(self.work);
        if counter.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.lifecycle.inner.idle.notify_waiters();
        }
    }
}

// === impl TaskGroup ===

impl TaskGroup {
    /// Spawns one. A panic in it ends the process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (inner, name) = (Arc::clone(&self.inner), self.name);
        // Not an `async` block, which would have room for the task twice: before it runs, and
        // while it does.
        let guarded = AssertUnwindSafe(task).catch_unwind().map(move |ended| {
            if ended.is_err() {
                inner.fail(format!("task `{name}` panicked"));
            }
        });
        let task = guarded.instrument(self.span.clone());
        self.inner.tasks.spawn(task);
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
        lifecycle.join_tasks().await;
    }

    #[tokio::test]
    async fn idle_waits_for_everything_in_flight() {
        let lifecycle = Lifecycle::default();
        lifecycle.idle().await;
        let one = lifecycle.begin(InFlight::ToolCall);
        let two = lifecycle.begin(InFlight::HttpExchange);
        let mut waiting = tokio_test::task::spawn(lifecycle.idle());
        assert!(waiting.poll().is_pending());
        drop(one);
        assert!(waiting.poll().is_pending());
        drop(two);
        assert!(waiting.is_woken() && waiting.poll().is_ready());
    }

    #[test]
    fn ready_means_no_gate_is_held_and_no_shutdown_began() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.is_ready());
        let gate = lifecycle.readiness_gate();
        assert!(!lifecycle.is_ready());
        drop(gate);
        assert!(lifecycle.is_ready());
        lifecycle.drain();
        assert!(!lifecycle.is_ready());
    }
}
