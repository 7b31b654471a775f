//! Logs that are followed as they grow, each once for all subscribers.
//!
//! ```text
//!  join ──▶ one LogFollower per LogKey ──▶ LogSubscribers ──▶ LogListener::on_update
//!                  ▲                           │               (at most twice a second)
//!                  └── shared_task: last lease ┘
//! ```
//!
//! - `follower`: the life of one followed log; `source`: the pod and its log
//! - `position`: how far a log was read; `updates`: what is sent, and how often

mod follower;
mod lines;
mod position;
mod source;
mod updates;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::time::Duration;

pub use self::updates::{LogState, LogUpdate};
use self::{follower::LogFollower, source::ContainerLogSource};
use super::{
    contexts::Contexts,
    name::Name,
    shared_task::{Lease, SharedTasks, TaskLimits},
};
use kubecrier_core::{
    metrics::FollowMetrics,
    shares::{Claim, Claims, LimitName, LimitReached, ShareKey},
};
use kubecrier_lifecycle::Lifecycle;

/// The words of the limit; each of them is a connection to a kubelet.
const LIMIT: LimitName = LimitName::new("followed logs", "--max-followed-logs");

/// A log without subscribers is followed this much longer: the next one may come at once.
const LINGER: Duration = Duration::from_secs(2);

/// Whose log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogKey {
    /// The context of the kubeconfig.
    pub context: String,
    /// Where the pod lives.
    pub namespace: Name,
    /// The pod.
    pub pod: Name,
    /// The container.
    pub container: Name,
}

/// Receives updates of a log, on the task that follows it: nothing here may wait.
pub trait LogListener: Send + Sync + 'static {
    /// The log has grown, or its state has changed.
    fn on_update(&self, update: &LogUpdate);
}

/// All logs that are followed. A clone is the same.
#[derive(Clone)]
pub struct LogFollows {
    shared: Arc<Shared>,
}

struct Shared {
    contexts: Arc<Contexts>,
    metrics: FollowMetrics,
    keys: AtomicU64,
    claims: Claims<LogKey>,
    tasks: SharedTasks<LogKey, Arc<LogSubscribers>>,
}

/// The listeners of one log.
#[derive(Default)]
struct LogSubscribers {
    all: Mutex<Vec<(u64, Arc<dyn LogListener>)>>,
    /// The last update without its lines: a later subscriber starts with its state.
    last: Mutex<Option<LogUpdate>>,
}

/// A share in a followed log.
pub struct LogLease {
    log: Lease<Arc<LogSubscribers>>,
    key: u64,
}

/// A followed log that a caller needs, counted until this is dropped.
#[derive(Debug)]
pub struct LogClaim {
    _claim: Claim<LogKey>,
}

// === impl LogFollows ===

impl LogFollows {
    /// No log is followed yet.
    pub fn new(
        contexts: Arc<Contexts>,
        lifecycle: Lifecycle,
        metrics: FollowMetrics,
        limits: TaskLimits,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                contexts,
                metrics,
                keys: AtomicU64::new(0),
                claims: Claims::new(LIMIT, limits.per_caller_max),
                tasks: SharedTasks::new("log", LINGER, (LIMIT, limits.total_max), lifecycle),
            }),
        }
    }

    /// Counts a followed log for a caller.
    pub fn claim(&self, caller: &ShareKey, key: &LogKey) -> Result<LogClaim, LimitReached> {
        let claim = self.shared.claims.claim(caller, vec![key.clone()])?;
        Ok(LogClaim { _claim: claim })
    }

    /// Makes sure that this log could be followed now.
    pub fn make_room(&self, key: &LogKey) -> Result<(), LimitReached> {
        self.shared.tasks.lock().make_room(key, None)
    }

    /// Follows a log for the listener, until the lease is dropped. The first update
    /// comes when following has begun, or at once if it had before. Whoever needs it holds a
    /// [claim](LogFollows::claim) meanwhile.
    pub fn join(
        &self,
        key: &LogKey,
        listener: Arc<dyn LogListener>,
    ) -> Result<LogLease, LimitReached> {
        let shared = &self.shared;
        let id = shared.keys.fetch_add(1, Ordering::Relaxed);
        let mut tasks = shared.tasks.lock();
        if let Some(log) = tasks.lease(key) {
            log.all.lock().push((id, Arc::clone(&listener)));
            drop(tasks);
            let last = log.last.lock().clone();
            if let Some(last) = last {
                listener.on_update(&last);
            }
            return Ok(LogLease { log, key: id });
        }
        tasks.make_room(key, None)?;
        let subscribers = Arc::<LogSubscribers>::default();
        subscribers.all.lock().push((id, listener));
        let (source, redactor) = (
            ContainerLogSource::new(Arc::clone(&shared.contexts), key.clone()),
            shared.contexts.redactor().clone(),
        );
        let (metrics, notified) = (shared.metrics.clone(), Arc::clone(&subscribers));
        let name = key.to_string();
        let follow = async move {
            let _counted = metrics.begin();
            tracing::debug!(log = name, "a log is followed");
            let notify = move |update: &LogUpdate| notified.notify(update);
            let never = LogFollower::new(source, redactor, metrics, notify);
            match never.run().await {}
        };
        let log = tasks.start(key.clone(), subscribers, None, follow, |_, _| {});
        Ok(LogLease { log, key: id })
    }

    /// The number of logs that are followed.
    pub fn count(&self) -> usize {
        self.shared.tasks.lock().len()
    }
}

impl fmt::Debug for LogFollows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFollows")
            .field("count", &self.count())
            .finish()
    }
}

// === impl LogKey ===

impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            context,
            namespace,
            pod,
            container,
        } = self;
        write!(f, "{context}/{namespace}/{pod}/{container}")
    }
}

// === impl LogSubscribers ===

impl LogSubscribers {
    fn notify(&self, update: &LogUpdate) {
        *self.last.lock() = Some(LogUpdate {
            lines: Vec::new(),
            omitted: 0,
            ..update.clone()
        });
        let all: Vec<_> = {
            let all = self.all.lock();
            all.iter().map(|(_, one)| Arc::clone(one)).collect()
        };
        for one in all {
            one.on_update(update);
        }
    }

    fn remove(&self, key: u64) {
        // The listener is dropped without the lock: it may do anything.
        let _removed = {
            let mut all = self.all.lock();
            let at = all.iter().position(|(one, _)| *one == key);
            at.map(|at| all.swap_remove(at))
        };
    }
}

// === impl LogLease ===

impl Drop for LogLease {
    fn drop(&mut self) {
        self.log.remove(self.key);
    }
}

impl fmt::Debug for LogLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLease")
    }
}
