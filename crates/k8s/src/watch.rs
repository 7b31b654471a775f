//! Watches of events, shared by all subscriptions that need the same.
//!
//! ```text
//!  join ──▶ probe (allowed? from which version?) ──▶ one WatchLoop per Scope ──▶ Dispatcher
//!                                                          ▲                       │
//!             shared_task: the last lease, then a while ───┘      Subscribers ◀────┘
//! ```
//!
//! - `scope`: what one watch covers
//! - `watch_loop`: the life of any watch; `source`: what it reads from the API server
//! - `bound_context`: the cluster that a watch belongs to, while its kubeconfig may change
//! - `dispatcher`: labels and orders events; `rounds`: when they are delivered; `subscribers`: who
//!   gets which; `users`: what those get who may not read everything; `user_rights`: what they are told of it
//! - `beside`: joining where another subscriber has what was received before; `progress`: how far it is
//! - `labels`: the labels of involved objects; `health`: how a watch does
//! - `shared`: one watch for several servers; `sharing`: which watches are
//! - `claims`: which callers need which watches, within their shares
//! - `partial`: which namespaces are watched where the whole cluster may not be; `rights`: what
//!   a subscription will be refused later

mod beside;
pub(super) mod bound_context;
mod claims;
mod dispatcher;
pub(super) mod health;
mod labels;
mod partial;
mod progress;
mod rights;
mod rounds;
mod scope;
mod shared;
mod sharing;
pub(super) mod source;
mod subscribers;
mod user_rights;
mod users;
pub(super) mod watch_loop;

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::{BoxFuture, join_all};
use tokio::time::{Duration, Instant};

pub use self::{
    claims::WatchClaim,
    shared::{BacklogGap, SharedBacklog, SharedWatching},
    sharing::WatchRole,
};
use self::{
    claims::WatchNeed, dispatcher::Dispatcher, health::WatchHealth, labels::LabelSource,
    rights::Rights, scope::Scope, sharing::Sharing, source::WatchStart, subscribers::Subscribers,
    watch_loop::WatchLoop,
};
use super::{
    contexts::Contexts,
    error::{ClusterError, ErrorKind},
    shared_task::{Entries, Lease, SharedTasks, TaskEnd, TaskLimits},
};
use kubecrier_core::{
    filters::Filters,
    metrics::{WatchMetrics, WatchState},
    shares::{Claims, LimitReached},
    subscriptions::Listener,
};
use kubecrier_lifecycle::Lifecycle;

/// A watch without subscribers is kept this long: the next one may come at once.
const LINGER: Duration = Duration::from_secs(5);

/// Watches of single objects per context; more objects are watched together.
const SELECTIVE_MAX: usize = 8;

/// The lifetime of events in a cluster with the default settings.
const EVENT_TTL_MINUTES: usize = 60;

/// All watches of events. A clone is the same.
#[derive(Clone)]
pub struct Watches {
    shared: Arc<Shared>,
}

struct Shared {
    contexts: Arc<Contexts>,
    labels: Arc<LabelSource>,
    rights: Rights,
    metrics: WatchMetrics,
    renewal: Duration,
    keys: AtomicU64,
    claims: Claims<WatchNeed>,
    tasks: SharedTasks<Scope, WatchTask>,
    lifecycle: Lifecycle,
    /// What servers have in common that share their watches; empty if none do.
    sharing: OnceLock<SharedWatching>,
}

/// What the task of a watch shares with its subscribers.
struct WatchTask {
    scope: Scope,
    subscribers: Arc<Subscribers>,
    health: Arc<WatchHealth>,
    /// If it is shared with other servers.
    sharing: Option<Sharing>,
}

/// The result of joining: a lease, and what the subscriber has to know.
#[derive(Debug)]
pub struct JoinedWatch {
    /// Dropping it ends the subscription to the watches.
    pub lease: WatchLease,
    /// The context that was chosen.
    pub context: String,
    /// Differences between what was asked for and what is watched.
    pub warnings: Vec<String>,
    /// Events per minute in what is watched, before any filter.
    pub rate: Option<usize>,
    /// The resourceVersion after which everything is delivered, if it is a number.
    pub version: Option<u64>,
}

/// A share in one or more watches.
#[derive(Default)]
pub struct WatchLease {
    shares: Vec<Share>,
}

/// One subscriber of one watch; removed when it is dropped.
struct Share {
    watch: Lease<WatchTask>,
    key: u64,
    /// The resourceVersion after which everything is delivered, if it is a number.
    version: Option<u64>,
}

/// The state of a watch, for `/stats`.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchInfo {
    /// The context, the namespace or `*`, and the field selector.
    pub scope: String,
    /// Connecting, live, reconnecting or degraded.
    pub state: WatchState,
    /// The number of subscriptions that share it.
    pub subscriptions: usize,
    /// Seconds since the API server last sent anything.
    pub silent_seconds: u64,
    /// Who watches, where servers share their watches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<WatchRole>,
}

// === impl Watches ===

impl Watches {
    /// No watch yet.
    pub fn new(
        contexts: Arc<Contexts>,
        lifecycle: Lifecycle,
        metrics: WatchMetrics,
        renewal: Duration,
        limits: TaskLimits,
    ) -> Self {
        let labels = Arc::new(LabelSource::new(Arc::clone(&contexts), lifecycle.clone()));
        Self {
            shared: Arc::new(Shared {
                contexts,
                labels,
                rights: Rights::default(),
                metrics,
                renewal,
                keys: AtomicU64::new(0),
                claims: Claims::new(claims::LIMIT, limits.per_caller_max),
                tasks: SharedTasks::new(
                    "watch",
                    LINGER,
                    (claims::LIMIT, limits.total_max),
                    lifecycle.clone(),
                ),
                lifecycle,
                sharing: OnceLock::new(),
            }),
        }
    }

    /// The name of a context; `None` is the default one.
    pub fn context(&self, name: Option<&str>) -> Result<String, ClusterError> {
        self.shared.contexts.resolve(name)
    }

    /// Watches what these filters need, for the listener. When it returns, the watch is
    /// established: later events are not missed, and earlier ones are not delivered.
    ///
    /// Whoever needs it holds a [claim](Watches::claim) meanwhile.
    pub async fn join(
        &self,
        context: &str,
        filters: &Filters,
        listener: Arc<dyn Listener>,
    ) -> Result<JoinedWatch, ClusterError> {
        let asked = Scope::of(context, filters);
        let (mut warnings, mut hidden) = (Vec::new(), Vec::new());
        let viewer = listener.viewer();
        let sees_all = user_rights::sees_all(&viewer, context, filters, &mut hidden).await?;
        let confined = self.confined(context, filters, &mut warnings).await?;
        let scopes = confined.unwrap_or_else(|| asked.clone());
        let room = self.make_room(&scopes);
        room.map_err(|reached| ClusterError::limit("cannot watch events", &reached))?;
        let probes = self.probe_all(&scopes).await;
        let starts = rights::without_forbidden(probes, &mut warnings).map_err(with_rule);
        let starts = match (starts, scopes.as_slice()) {
            (Err(error), [whole])
                if error.kind() == ErrorKind::Forbidden && whole.namespace.is_none() =>
            {
                self.allowed_namespaces(whole, filters, error, &mut warnings)
                    .await?
            }
            (starts, _) => starts?,
        };
        self.resolve_claims(&asked, &starts, filters)?;
        self.missing_namespaces(context, filters, &mut warnings)
            .await;
        self.missing_rights(context, filters, &starts, &mut warnings)
            .await;
        if !sees_all {
            // Which namespaces there are is told only to who may read them.
            warnings = hidden;
        }
        let counts = starts.iter().map(|(_, start)| start.count);
        let events: Option<usize> = counts.sum();
        let versions = starts.iter().map(|(_, start)| start.version.parse().ok());
        let version = versions.min().flatten();
        let cluster = self.shared_cluster(context).await?;
        let subscribed = self.subscribe(starts, cluster.as_deref(), &listener);
        let shares =
            subscribed.map_err(|reached| ClusterError::limit("cannot watch events", &reached))?;
        for started in join_all(shares.iter().map(|share| share.watch.health.started())).await {
            started.map_err(with_rule)?;
        }
        for Share { watch, key, .. } in &shares {
            if watch.health.state() != WatchState::Live {
                let again = "the watch is being re-established";
                let why = watch.subscribers.degradation();
                let why = why.map(|error| format!(": {error}")).unwrap_or_default();
                warnings.push(format!("{again}{why}; events of the meantime will follow"));
                // The probe has just reached the cluster, so the backoff can end.
                watch.health.wake();
            }
            watch.subscribers.replay_status(*key, &*listener);
        }
        Ok(JoinedWatch {
            version,
            lease: WatchLease { shares },
            context: context.to_owned(),
            warnings,
            rate: (events.filter(|_| sees_all)).map(|events| events.div_ceil(EVENT_TTL_MINUTES)),
        })
    }

    /// The state of each watch.
    pub fn list(&self) -> Vec<WatchInfo> {
        let tasks = self.shared.tasks.lock();
        let info = |(scope, task): (&Scope, &WatchTask)| WatchInfo {
            scope: scope.to_string(),
            state: task.health.state(),
            subscriptions: task.subscribers.len(),
            silent_seconds: task.health.last_activity().elapsed().as_secs(),
            role: task.sharing.as_ref().map(Sharing::role),
        };
        let mut all: Vec<_> = tasks.iter().map(info).collect();
        drop(tasks);
        all.sort_by(|a, b| a.scope.cmp(&b.scope));
        all
    }

    /// The longest time that any watch has received nothing.
    pub fn longest_silence(&self) -> Duration {
        let now = Instant::now();
        let tasks = self.shared.tasks.lock();
        let silences = tasks
            .iter()
            .map(|(_, task)| now.duration_since(task.health.last_activity()));
        silences.max().unwrap_or_default()
    }

    /// Makes sure that the scopes could be watched, before anything is asked of a cluster.
    fn make_room(&self, scopes: &[Scope]) -> Result<(), LimitReached> {
        let mut tasks = self.shared.tasks.lock();
        let working = working(&tasks);
        for scope in scopes {
            let scope = covering(&tasks, &working, scope.clone());
            tasks.make_room(&scope, None)?;
        }
        Ok(())
    }

    async fn probe_all(&self, scopes: &[Scope]) -> Vec<(Scope, Result<WatchStart, ClusterError>)> {
        let probe = |scope: Scope| async move {
            let start = source::probe(&self.shared.contexts, &scope).await;
            (scope, start)
        };
        join_all(scopes.iter().cloned().map(probe)).await
    }

    /// Subscribes to the watches that cover the scopes; those that do not run are
    /// started.
    fn subscribe(
        &self,
        starts: Vec<(Scope, WatchStart)>,
        cluster: Option<&str>,
        listener: &Arc<dyn Listener>,
    ) -> Result<Vec<Share>, LimitReached> {
        let mut tasks = self.shared.tasks.lock();
        let working = working(&tasks);
        // A watch of all namespaces replaces all others: a second one beside it would
        // deliver the same events again.
        let whole = (starts.iter())
            .map(|(scope, _)| covering(&tasks, &working, scope.clone()))
            .find(|scope| scope.namespace.is_none());
        let mut shares: Vec<Share> = Vec::with_capacity(starts.len());
        for (scope, start) in starts {
            let scope = match &whole {
                Some(whole) => whole.clone(),
                None => covering(&tasks, &working, scope),
            };
            let running = tasks.lease(&scope);
            let subscribed = |watch: &Lease<_>| shares.iter().any(|one| one.watch.is_same(watch));
            if running.as_ref().is_some_and(subscribed) {
                continue;
            }
            // Keys grow in the order in which a watch is joined; the lock is held.
            let key = self.shared.keys.fetch_add(1, Ordering::Relaxed);
            let version = start.version.parse().ok();
            let not_before = version.unwrap_or_default();
            let subscribe = |task: &WatchTask| {
                task.subscribers.add(key, not_before, Arc::clone(listener));
            };
            let watch = if let Some(running) = running {
                subscribe(&running);
                running
            } else {
                tasks.make_room(&scope, None)?;
                let task = WatchTask {
                    scope: scope.clone(),
                    subscribers: Subscribers::new(&scope.context),
                    health: Arc::new(WatchHealth::new(self.shared.metrics.clone())),
                    sharing: cluster
                        .and_then(|cluster| self.share_scope(&scope, &start.version, cluster)),
                };
                // Before it runs: what it receives at once has to reach a subscriber.
                subscribe(&task);
                self.start(&mut tasks, scope, task, start.version)
            };
            shares.push(Share {
                watch,
                key,
                version,
            });
        }
        Ok(shares)
    }

    fn start(
        &self,
        tasks: &mut Entries<'_, Scope, WatchTask>,
        scope: Scope,
        task: WatchTask,
        version: String,
    ) -> Lease<WatchTask> {
        let dispatcher = Dispatcher::new(Arc::clone(&task.subscribers));
        let health = Arc::clone(&task.health);
        let (renewal, name) = (self.shared.renewal, scope.to_string());
        let source = self.source(&scope);
        let run: BoxFuture<'static, ClusterError> = match &task.sharing {
            None => {
                let watch_loop =
                    WatchLoop::new(source, dispatcher, health, renewal, version, name.clone());
                Box::pin(watch_loop.run())
            }
            Some(sharing) => {
                let source = self.shared_source(source, sharing);
                let watch_loop =
                    WatchLoop::new(source, dispatcher, health, renewal, version, name.clone());
                Box::pin(watch_loop.run())
            }
        };
        let run = async move {
            tracing::debug!(watch = name, "a watch starts");
            run.await
        };
        tasks.start(scope, task, None, run, |task, end| match end {
            TaskEnd::Failed(error) => task.health.fail_startup(error),
            TaskEnd::Draining => {
                let doing = "cannot watch events";
                let error = ClusterError::new(ErrorKind::Other, doing, "the server stops", None);
                task.health.fail_startup(error);
            }
            TaskEnd::Unused => {}
        })
    }
}

/// The watches that can be joined for more than their own scope. A wider watch that
/// does not work may never do so: the rights may be narrower than it.
fn working(tasks: &Entries<'_, Scope, WatchTask>) -> HashSet<Scope> {
    let works = |task: &WatchTask| {
        let state = task.health.state();
        matches!(state, WatchState::Connecting | WatchState::Live)
    };
    let working = tasks.iter().filter(|(_, task)| works(task));
    working.map(|(scope, _)| scope.clone()).collect()
}

/// A watch that runs and covers the scope, else the scope itself.
fn covering(
    tasks: &Entries<'_, Scope, WatchTask>,
    working: &HashSet<Scope>,
    scope: Scope,
) -> Scope {
    let wide = scope.widened();
    let whole = wide.everywhere();
    let selective = (tasks.iter())
        .filter(|(one, _)| one.selector.is_some() && one.context == scope.context)
        .count();
    match () {
        () if tasks.contains(&scope) => scope,
        () if working.contains(&wide) => wide,
        () if working.contains(&whole) => whole,
        () if scope.selector.is_some() && selective >= SELECTIVE_MAX => wide,
        () => scope,
    }
}

/// What has to be granted, ready to be applied.
fn with_rule(error: ClusterError) -> ClusterError {
    if error.kind() != ErrorKind::Forbidden {
        return error;
    }
    error.with_hint(
        "grant it with the rule {apiGroups: [\"\"], resources: [\"events\"], verbs: [\"list\", \
         \"watch\"]} in a ClusterRole, or in a Role of the namespaces you name",
    )
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

// === impl WatchLease ===

impl WatchLease {
    /// The highest resourceVersion that one of the watches was joined at; `None` if one of them is no
    /// number.
    pub fn began_after(&self) -> Option<u64> {
        let versions = self.shares.iter().map(|share| share.version);
        versions
            .reduce(|one, other| Some(one?.max(other?)))
            .flatten()
    }

    /// How the watches do.
    pub(super) fn healths(&self) -> impl Iterator<Item = &Arc<WatchHealth>> {
        self.shares.iter().map(|share| &share.watch.health)
    }
}

impl std::fmt::Debug for WatchLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchLease")
            .field("watches", &self.shares.len())
            .finish()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.watch.subscribers.remove(self.key);
    }
}

#[cfg(test)]
mod tests;
