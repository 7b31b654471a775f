//! Logs that are followed as they grow, once for everyone who wants the same.
//!
//! ```text
//!  join ──▶ one Follower per LogKey ──▶ Members ──▶ LogListener::grew, at most twice a second
//!                  ▲                       │
//!                  └── the last lease ─────┘
//! ```

mod follower;
mod lines;
mod news;
mod place;
mod source;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Duration, sleep},
};

pub use self::news::{LogNews, LogState};
use self::{follower::Follower, source::ClusterSource};
use super::{contexts::Contexts, name::Name};
use kubecrier_core::metrics::FollowMetrics;
use kubecrier_lifecycle::Lifecycle;

/// Logs that are followed at once; each is a connection to a kubelet.
pub(super) const FOLLOWS_MAX: usize = 100;

/// A log that nobody wants any more is followed this much longer: the next one may
/// come at once.
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

/// Hears of a log that grows, on the task that follows it: nothing here may wait.
pub trait LogListener: Send + Sync + 'static {
    /// Something is new.
    fn grew(&self, news: &LogNews);
}

/// All logs that are followed. A clone is the same.
#[derive(Clone)]
pub struct Follows {
    shared: Arc<Shared>,
}

struct Shared {
    contexts: Arc<Contexts>,
    lifecycle: Lifecycle,
    metrics: FollowMetrics,
    keys: AtomicU64,
    // A lock because readers come and go on many tasks; held for map operations.
    running: Mutex<HashMap<LogKey, Arc<Members>>>,
}

/// Those who hear of one log.
#[derive(Default)]
struct Members {
    all: Mutex<Vec<(u64, Arc<dyn LogListener>)>>,
    /// What was told last, without its lines: whoever comes later hears how it stands.
    last: Mutex<Option<LogNews>>,
    left: Notify,
}

/// A share in a followed log, while it is held.
pub struct FollowLease {
    members: Arc<Members>,
    key: u64,
}

/// As many logs are followed as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{FOLLOWS_MAX} logs are followed already, which is the most there may be; read it instead")]
pub struct TooManyFollows;

// === impl Follows ===

impl Follows {
    /// Nothing is followed yet.
    pub fn new(contexts: Arc<Contexts>, lifecycle: Lifecycle, metrics: FollowMetrics) -> Self {
        Self {
            shared: Arc::new(Shared {
                contexts,
                lifecycle,
                metrics,
                keys: AtomicU64::new(0),
                running: Mutex::default(),
            }),
        }
    }

    /// Whether this log could be followed now.
    pub fn has_room(&self, key: &LogKey) -> Result<(), TooManyFollows> {
        let running = self.shared.running.lock();
        if running.len() < FOLLOWS_MAX || running.contains_key(key) {
            return Ok(());
        }
        Err(TooManyFollows)
    }

    /// Follows a log on behalf of the listener, until the lease is dropped. It is told
    /// when following begins, or at once if that was before.
    pub fn join(
        &self,
        key: &LogKey,
        listener: Arc<dyn LogListener>,
    ) -> Result<FollowLease, TooManyFollows> {
        let shared = &self.shared;
        let id = shared.keys.fetch_add(1, Ordering::Relaxed);
        let mut running = shared.running.lock();
        if let Some(members) = running.get(key).cloned() {
            members.all.lock().push((id, Arc::clone(&listener)));
            drop(running);
            let last = members.last.lock().clone();
            if let Some(last) = last {
                listener.grew(&last);
            }
            return Ok(FollowLease { members, key: id });
        }
        if running.len() >= FOLLOWS_MAX {
            return Err(TooManyFollows);
        }
        let members = Arc::<Members>::default();
        members.all.lock().push((id, listener));
        running.insert(key.clone(), Arc::clone(&members));
        drop(running);
        self.run(key, &members);
        Ok(FollowLease { members, key: id })
    }

    /// How many logs are followed.
    pub fn count(&self) -> usize {
        self.shared.running.lock().len()
    }

    fn run(&self, key: &LogKey, members: &Arc<Members>) {
        let shared = &self.shared;
        let source = ClusterSource::new(Arc::clone(&shared.contexts), key.clone());
        let (weak, key) = (Arc::downgrade(shared), key.clone());
        let (metrics, lifecycle) = (shared.metrics.clone(), &shared.lifecycle);
        let (draining, members) = (lifecycle.draining().clone(), Arc::clone(members));
        let redactor = shared.contexts.redactor().clone();
        lifecycle.spawn("log", async move {
            let _counted = metrics.begin();
            let told = Arc::clone(&members);
            let follower = Follower::new(source, redactor, metrics, move |news| told.tell(news));
            tracing::debug!(log = %key, "a log is followed");
            tokio::select! {
                () = follower.run() => {}
                () = unneeded(&weak, &key, &members) => {}
                () = draining.cancelled() => {}
            }
            tracing::debug!(log = %key, "a log is followed no more");
        });
    }
}

/// Waits until nobody has wanted the log for a while, and takes it off the list so
/// that nobody can join it any more.
async fn unneeded(shared: &Weak<Shared>, key: &LogKey, members: &Members) {
    loop {
        members.empty().await;
        sleep(LINGER).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut running = shared.running.lock();
        if members.all.lock().is_empty() {
            running.remove(key);
            return;
        }
    }
}

impl fmt::Debug for Follows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follows")
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

// === impl Members ===

impl Members {
    fn tell(&self, news: &LogNews) {
        *self.last.lock() = Some(LogNews {
            lines: Vec::new(),
            omitted: 0,
            ..news.clone()
        });
        let all: Vec<_> = {
            let all = self.all.lock();
            all.iter().map(|(_, one)| Arc::clone(one)).collect()
        };
        for one in all {
            one.grew(news);
        }
    }

    /// Waits until the last one has left. Cancel-safe.
    async fn empty(&self) {
        while !self.all.lock().is_empty() {
            self.left.notified().await;
        }
    }
}

// === impl FollowLease ===

impl Drop for FollowLease {
    fn drop(&mut self) {
        let gone = {
            let mut all = self.members.all.lock();
            let at = all.iter().position(|(key, _)| *key == self.key);
            at.map(|at| all.swap_remove(at))
        };
        if gone.is_some() {
            self.members.left.notify_one();
        }
    }
}

impl fmt::Debug for FollowLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FollowLease")
    }
}
