//! Graphs of clusters and namespaces, shared by all readers that need the same.
//!
//! ```text
//!  join ──▶ one GraphWatcher per Scope: a list and a watch per kind ──▶ Graph ──▶ followers
//!                  ▲                                                     └──▶ reads
//!                  └── shared_task: the last view, then a while
//! ```
//!
//! Nothing of a graph can be read before every kind has been listed. Config maps, secrets
//! and volume claims are known by the names that pods give; they are never requested.
//!
//! - `eyes`: a graph as one user may see it
//! - `watcher`: the watches of one graph (`kind_watch`) feed it, and it notifies its followers
//! - `read`: as much of an object as a graph keeps
//! - `status_line`: the state of an object in one line

mod errors;
mod eyes;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod read;
mod status_line;
mod watcher;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::time::{Duration, timeout};

use self::{
    errors::{confined, hidden, limit, slow, stopped},
    eyes::GraphEyes,
    watcher::GraphWatcher,
};
use super::{
    client::Cluster,
    contexts::Contexts,
    error::{ClusterError, ErrorKind},
    kind_watch::{ObjectName, Scope, WatchDeps},
    name::Name,
    scope_rights::{Freshness, USERS_PER_SCOPE},
    shared_task::{Lease, SharedTasks, TaskEnd, TaskLimits},
};
use kubecrier_core::{
    access::{Clearance, UserView, Viewer},
    metrics::{GraphMetrics, WatchMetrics},
    shares::{Claim, Claims, LimitName, ShareKey},
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_topology::{
    Graph, GraphSubscriber, Kind, KindFilter, Neighbourhood, ObjectId, Snapshot,
};

/// A graph without views is kept this long: listing everything again is a lot of work
/// for an API server.
const LINGER: Duration = Duration::from_mins(1);

/// The words of the limit.
const LIMIT: LimitName = LimitName::new("graphs", "--max-graphs");

/// The longest time that a caller waits for all lists of a graph.
const ACQUIRE_TIMEOUT: Duration = Duration::from_mins(1);

/// All graphs. A clone is the same.
#[derive(Clone)]
pub struct Graphs {
    shared: Arc<Shared>,
}

struct Shared {
    deps: WatchDeps,
    metrics: GraphMetrics,
    keys: AtomicU64,
    claims: Claims<Scope>,
    tasks: SharedTasks<Scope, Arc<GraphWatcher>>,
    /// What users may see of them.
    views: SharedTasks<(Scope, Arc<UserView>), Arc<GraphWatcher>>,
}

/// A graph that a caller needs, counted until this is dropped.
#[derive(Debug)]
pub struct GraphClaim {
    _claim: Claim<Scope>,
    caller: ShareKey,
    scope: Scope,
}

/// A graph, kept up to date while this is held.
pub struct GraphView {
    watcher: Lease<Arc<GraphWatcher>>,
    scope: Scope,
    key: u64,
    /// What the user may see who reads it, asked for this read.
    clearance: Option<Clearance>,
    /// Of the caller that reads it. Those who follow it have their own.
    _claim: Option<GraphClaim>,
}

/// The result of reading a graph.
#[derive(Clone, Debug)]
pub struct GraphRead<T> {
    /// The result.
    pub what: T,
    /// KindFilter that are missing, or out of date.
    pub notes: Vec<String>,
    /// The number of the last update that followers were notified of; the result is not
    /// older.
    pub seq: u64,
}

// === impl Graphs ===

impl Graphs {
    /// No graph yet.
    pub fn new(
        contexts: Arc<Contexts>,
        lifecycle: Lifecycle,
        watches: WatchMetrics,
        metrics: GraphMetrics,
        renewal: Duration,
        limits: TaskLimits,
    ) -> Self {
        let deps = WatchDeps {
            contexts,
            watches,
            renewal,
        };
        let views_max = limits.total_max.saturating_mul(USERS_PER_SCOPE);
        let views = SharedTasks::new("graph", LINGER, (LIMIT, views_max), lifecycle.clone());
        Self {
            shared: Arc::new(Shared {
                deps,
                metrics,
                keys: AtomicU64::new(0),
                claims: Claims::new(LIMIT, limits.per_caller_max),
                tasks: SharedTasks::new("graph", LINGER, (LIMIT, limits.total_max), lifecycle),
                views,
            }),
        }
    }

    /// Counts the graph of a namespace, or of a whole cluster, for a caller.
    pub fn claim(
        &self,
        caller: &ShareKey,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<GraphClaim, ClusterError> {
        let scope = self.scope(context, namespace)?;
        let claim = self.shared.claims.claim(caller, vec![scope.clone()]);
        Ok(GraphClaim {
            _claim: claim.map_err(|reached| limit(&scope, &reached))?,
            caller: caller.clone(),
            scope,
        })
    }

    /// The graph of a namespace, or of a whole cluster, for a caller: what may be seen of it.
    /// When it returns, every kind that may be read has been listed.
    pub async fn read(
        &self,
        caller: &ShareKey,
        viewer: &Viewer,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<GraphView, ClusterError> {
        let claim = self.claim(caller, context, namespace)?;
        let scope = claim.scope.clone();
        let mut view = self.ready_view(scope, viewer, Some(claim)).await?;
        if let Some(eyes) = view.watcher.eyes() {
            view.clearance = Some(eyes.some(Freshness::Asked).await?);
        }
        Ok(view)
    }

    /// The graph of a namespace, or of a whole cluster, as [`Graphs::read`] gives it; the
    /// follower is notified of later changes. Whoever needs it holds a
    /// [claim](Graphs::claim) meanwhile.
    pub async fn follow(
        &self,
        viewer: &Viewer,
        context: Option<&str>,
        namespace: Option<&Name>,
        follower: Arc<dyn GraphSubscriber>,
    ) -> Result<GraphView, ClusterError> {
        let scope = self.scope(context, namespace)?;
        let view = self.ready_view(scope, viewer, None).await?;
        view.watcher.add(view.key, follower);
        Ok(view)
    }

    /// Whether there can be such a graph. Sends no request.
    pub fn check(
        &self,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<(), ClusterError> {
        self.scope(context, namespace).map(drop)
    }

    fn scope(
        &self,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<Scope, ClusterError> {
        let contexts = &self.shared.deps.contexts;
        let scope = Scope {
            context: contexts.resolve(context)?,
            namespace: namespace.map(|name| name.as_str().to_owned()),
        };
        match namespace {
            Some(name) => contexts.check_namespace(&scope.context, name)?,
            None if contexts.is_confined() => return Err(confined(&scope)),
            None => {}
        }
        Ok(scope)
    }

    /// The number of graphs.
    pub fn len(&self) -> usize {
        self.shared.tasks.lock().len()
    }

    /// Whether there is no graph.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    async fn ready_view(
        &self,
        scope: Scope,
        viewer: &Viewer,
        claim: Option<GraphClaim>,
    ) -> Result<GraphView, ClusterError> {
        if let (Viewer::User(user), Some(_)) = (viewer, &scope.namespace) {
            // Nothing is listed for who may not see any of it.
            let rights = eyes::rights(user, &scope);
            let decided = rights.decide(&BTreeSet::new(), Freshness::Remembered).await;
            eyes::some(decided, &scope)?;
        }
        let view = self.view(scope, viewer, claim)?;
        let ready = timeout(ACQUIRE_TIMEOUT, view.watcher.ready()).await;
        ready.map_err(|_elapsed| slow(&view.scope))??;
        Ok(view)
    }

    fn view(
        &self,
        scope: Scope,
        viewer: &Viewer,
        claim: Option<GraphClaim>,
    ) -> Result<GraphView, ClusterError> {
        let caller = claim.as_ref().map(|claim| &claim.caller);
        let whole = self.whole(&scope, caller)?;
        let watcher = match viewer {
            Viewer::Everything => whole,
            Viewer::User(user) => self.seen(whole, &scope, user, caller)?,
        };
        Ok(GraphView {
            watcher,
            scope,
            key: self.next_key(),
            clearance: None,
            _claim: claim,
        })
    }

    /// The graph of a scope, for all.
    fn whole(
        &self,
        scope: &Scope,
        caller: Option<&ShareKey>,
    ) -> Result<Lease<Arc<GraphWatcher>>, ClusterError> {
        let mut tasks = self.shared.tasks.lock();
        if let Some(watcher) = tasks.lease(scope).filter(|one| !one.has_failed()) {
            return Ok(watcher);
        }
        let room = tasks.make_room(scope, caller);
        room.map_err(|reached| limit(scope, &reached))?;
        let metrics = self.shared.metrics.clone();
        let watcher = Arc::new(GraphWatcher::new(scope, metrics));
        let run = Arc::clone(&watcher).run(scope.clone(), self.shared.deps.clone());
        Ok(tasks.start(scope.clone(), watcher, caller, run, on_end(scope)))
    }

    /// What a user may see of it.
    fn seen(
        &self,
        whole: Lease<Arc<GraphWatcher>>,
        scope: &Scope,
        user: &Arc<UserView>,
        caller: Option<&ShareKey>,
    ) -> Result<Lease<Arc<GraphWatcher>>, ClusterError> {
        let key = (scope.clone(), Arc::clone(user));
        let mut views = self.shared.views.lock();
        if let Some(watcher) = views.lease(&key).filter(|one| !one.has_failed()) {
            return Ok(watcher);
        }
        let room = views.make_room(&key, caller);
        room.map_err(|reached| limit(scope, &reached))?;
        let eyes = GraphEyes::new(&whole, scope, user);
        let watcher = Arc::new(GraphWatcher::seen(scope, eyes));
        let run = eyes::run(Arc::clone(&watcher), whole, self.next_key());
        Ok(views.start(key, watcher, caller, run, on_end(scope)))
    }

    fn next_key(&self) -> u64 {
        self.shared.keys.fetch_add(1, Ordering::Relaxed)
    }
}

/// Tells those who wait for a graph that it has ended.
fn on_end(scope: &Scope) -> impl FnOnce(&Arc<GraphWatcher>, TaskEnd) + Send + 'static {
    let stopped = stopped(scope);
    |watcher, end| match end {
        TaskEnd::Failed(error) => watcher.fail_startup(error),
        TaskEnd::Draining => watcher.fail_startup(stopped),
        TaskEnd::Unused => {}
    }
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.shared.tasks.lock();
        f.debug_set()
            .entries(tasks.iter().map(|(scope, _)| scope))
            .finish()
    }
}

/// The id of an object that was deleted.
fn deleted(kind: Kind, name: &ObjectName) -> ObjectId {
    ObjectId::new(kind, &name.namespace, &name.name)
}

// === impl GraphView ===

impl GraphView {
    /// The name of the context.
    pub fn context(&self) -> &str {
        &self.scope.context
    }

    /// Every node of these kinds.
    pub fn snapshot(&self, kinds: &KindFilter) -> GraphRead<Snapshot> {
        // Deriving everything takes a while, and the watches must not wait for it.
        let GraphRead { what, notes, seq } = self.read(Graph::copy);
        GraphRead {
            what: what.snapshot(kinds),
            notes,
            seq,
        }
    }

    /// The number of objects.
    pub fn count(&self) -> GraphRead<usize> {
        self.read(Graph::len)
    }

    /// The neighbourhood of an object.
    pub fn around(
        &self,
        id: &ObjectId,
        depth: usize,
        nodes_max: usize,
    ) -> Result<GraphRead<Neighbourhood>, ClusterError> {
        if let Some(clearance) = &self.clearance
            && !eyes::visibility(clearance).shows(id)
        {
            return Err(hidden(id, &self.scope));
        }
        let read = self.read(|graph| {
            let around = graph.neighbourhood(id, depth, nodes_max);
            around.ok_or_else(|| {
                let all = id.kind.is_reference() || graph.has_synced(id.kind);
                (graph.names(id.kind, &id.namespace), all)
            })
        });
        match read.what {
            Ok(what) => Ok(GraphRead {
                what,
                notes: read.notes,
                seq: read.seq,
            }),
            Err((names, all)) => Err(self.absent(id, &names, all)),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Graph) -> T) -> GraphRead<T> {
        let read = |graph: &Graph| (read(graph), self.has_its_namespace(graph));
        let ((what, exists), mut notes, seq) = match &self.clearance {
            Some(clearance) => self.watcher.read_as(clearance, read),
            None => self.watcher.read(read),
        };
        if let Some(namespace) = self.scope.namespace.as_ref().filter(|_| !exists)
            && self.watcher.left_out(Kind::Namespace).is_none()
        {
            notes.push(format!("there is no namespace `{namespace}` yet"));
        }
        GraphRead { what, notes, seq }
    }

    fn has_its_namespace(&self, graph: &Graph) -> bool {
        let namespace = self.scope.namespace.as_deref().unwrap_or_default();
        let id = ObjectId::new(Kind::Namespace, "", namespace);
        // Who may not list namespaces is not told which there are.
        let is_told = |clearance| eyes::visibility(clearance).shows_kind(Kind::Namespace);
        graph.node(&id).is_some() || !self.clearance.as_ref().is_none_or(is_told)
    }

    /// Why an object is not in the graph, which may not have all of its kind.
    fn absent(&self, id: &ObjectId, names: &[Arc<str>], all: bool) -> ClusterError {
        if let Some(error) = self.watcher.left_out(id.kind) {
            return error;
        }
        let place = match &*id.namespace {
            "" => String::new(),
            namespace => format!(" in namespace `{namespace}`"),
        };
        let reason = if id.kind.is_reference() {
            "no pod there names it, and it is known by its name only"
        } else if !all {
            "there are more than the graph has room for, and it may be one of those"
        } else {
            "there is none of that name"
        };
        let mut near: Vec<_> = names
            .iter()
            .map(|name| (strsim::damerau_levenshtein(name, &id.name), name))
            .collect();
        near.sort_unstable();
        let near: Vec<_> = near
            .iter()
            .take(NEAREST_MAX)
            .map(|(_, name)| &***name)
            .collect();
        let hint = match near.as_slice() {
            [] => format!("no {} is known{place}; is the namespace right?", id.kind),
            near => format!("names are exact; nearest: `{}`", near.join("`, `")),
        };
        let doing = format!(
            "cannot find {} `{}`{place} of context `{}`",
            id.kind, id.name, self.scope.context
        );
        ClusterError::new(ErrorKind::NotFound, doing, reason, Some(hint))
    }
}

/// Names that are offered for one that is not there.
const NEAREST_MAX: usize = 5;

impl Drop for GraphView {
    fn drop(&mut self) {
        self.watcher.remove(self.key);
    }
}

impl fmt::Debug for GraphView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GraphView").field(&self.scope).finish()
    }
}

// === impl Cluster ===

impl Cluster {
    /// The kind of a node that a caller deps. A word that is no kind at all gets the
    /// nearest ones of the cluster.
    pub async fn graph_kind(&self, word: &str) -> Result<Kind, ClusterError> {
        let not = match Kind::parse(word) {
            Ok(kind) => return Ok(kind),
            Err(not) => not,
        };
        let kind = self.kind(word, None).await?;
        let doing = format!("cannot show `{}` in a graph", kind.full_name());
        Err(ClusterError::invalid(
            doing,
            not.to_string(),
            "resources_get shows objects of any kind",
        ))
    }
}

#[cfg(test)]
mod tests;
