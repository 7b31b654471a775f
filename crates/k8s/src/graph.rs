//! Graphs of clusters and namespaces, shared by everyone who needs the same.
//!
//! ```text
//!  join ──▶ one Set per Scope: a list and a watch per kind ──▶ Graph ──▶ followers
//!                  ▲                                             └──▶ who reads
//!                  └── the last view, and a while
//! ```
//!
//! Nothing of it is seen before every kind has been listed. Of config maps, secrets and
//! volumes it knows the names that pods give; they are never asked for.

mod lines;
mod read;
mod set;
mod source;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Duration, sleep, timeout},
};

use self::set::{Means, Set};
use super::{
    contexts::Contexts,
    error::{ClusterError, ErrorKind},
    name::Name,
    target::Cluster,
};
use kubecrier_core::metrics::{GraphMetrics, WatchMetrics};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_topology::{Around, Follower, Graph, Id, Kind, Kinds, Snapshot};

/// A graph that nobody needs any more is kept this long: to list everything again is
/// much for an API server.
const LINGER: Duration = Duration::from_mins(1);

/// Graphs at once, of all clusters.
const GRAPHS_MAX: usize = 16;

/// Objects of one graph.
const OBJECTS_MAX: usize = 100_000;

/// Nobody waits longer for a graph to be whole.
const PATIENCE: Duration = Duration::from_mins(1);

/// All graphs. A clone is the same.
#[derive(Clone)]
pub struct Graphs {
    shared: Arc<Shared>,
}

struct Shared {
    means: Means,
    lifecycle: Lifecycle,
    keys: AtomicU64,
    // A lock because readers come and go on many tasks; held for map operations.
    running: Mutex<HashMap<Scope, Arc<Running>>>,
}

/// A graph that is being followed, and how many need it.
struct Running {
    set: Arc<Set>,
    views: AtomicUsize,
    left: Notify,
    end: Notify,
}

/// What one graph covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Scope {
    context: String,
    namespace: Option<String>,
}

/// A graph, kept up to date while this is held.
pub struct GraphView {
    running: Arc<Running>,
    scope: Scope,
    key: u64,
}

/// A graph that was looked at.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    /// What was seen.
    pub what: T,
    /// What a reader has to know: kinds that are missing, or out of date.
    pub notes: Vec<String>,
    /// How far followers have been told: what was seen is not older.
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
    ) -> Self {
        let means = Means {
            contexts,
            watches,
            metrics,
            renewal,
        };
        Self {
            shared: Arc::new(Shared {
                means,
                lifecycle,
                keys: AtomicU64::new(0),
                running: Mutex::default(),
            }),
        }
    }

    /// The graph of a namespace, or of a whole cluster. When it returns, every kind
    /// that may be read has been listed, and a follower hears of whatever happens
    /// later.
    pub async fn join(
        &self,
        context: Option<&str>,
        namespace: Option<&Name>,
        follower: Option<Arc<dyn Follower>>,
    ) -> Result<GraphView, ClusterError> {
        let scope = Scope {
            context: self.shared.means.contexts.resolve(context)?,
            namespace: namespace.map(|name| name.as_str().to_owned()),
        };
        let view = self.enter(scope)?;
        let whole = timeout(PATIENCE, view.running.set.whole()).await;
        whole.map_err(|_elapsed| slow(&view.scope))??;
        if let Some(follower) = follower {
            view.running.set.add(view.key, follower);
        }
        Ok(view)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.shared.running.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn enter(&self, scope: Scope) -> Result<GraphView, ClusterError> {
        let key = self.shared.keys.fetch_add(1, Ordering::Relaxed);
        let mut all = self.shared.running.lock();
        let known = all.get(&scope).filter(|one| !one.set.has_failed());
        let running = match known {
            Some(running) => Arc::clone(running),
            None => {
                make_room(&mut all, &scope)?;
                let set = Arc::new(Set::new(&scope, self.shared.means.metrics.clone()));
                let running = Arc::new(Running {
                    set,
                    views: AtomicUsize::new(0),
                    left: Notify::new(),
                    end: Notify::new(),
                });
                all.insert(scope.clone(), Arc::clone(&running));
                self.run(scope.clone(), &running);
                running
            }
        };
        // Under the lock: whoever ends a graph without views sees this one.
        running.views.fetch_add(1, Ordering::AcqRel);
        Ok(GraphView {
            running,
            scope,
            key,
        })
    }

    fn run(&self, scope: Scope, running: &Arc<Running>) {
        let (shared, running) = (Arc::downgrade(&self.shared), Arc::clone(running));
        let means = self.shared.means.clone();
        let draining = self.shared.lifecycle.draining().clone();
        self.shared.lifecycle.spawn("graph", async move {
            tracing::debug!(graph = %scope, "a graph begins");
            let set = Arc::clone(&running.set);
            tokio::select! {
                error = set.run(scope.clone(), means) => running.set.never_stood(error),
                () = running.set.fails() => {}
                () = unneeded(&shared, &scope, &running) => {}
                () = running.end.notified() => {}
                () = draining.cancelled() => running.set.never_stood(stops(&scope)),
            }
            forget(&shared, &scope, &running);
            tracing::debug!(graph = %scope, "a graph ends");
        });
    }
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.shared.running.lock();
        f.debug_set().entries(running.keys()).finish()
    }
}

/// Ends a graph that nobody needs, if there are as many as there may be.
fn make_room(all: &mut HashMap<Scope, Arc<Running>>, wanted: &Scope) -> Result<(), ClusterError> {
    if all.len() < GRAPHS_MAX || all.contains_key(wanted) {
        return Ok(());
    }
    let unused = |one: &&Arc<Running>| one.views.load(Ordering::Acquire) == 0;
    let unused = all.iter().find(|(_, one)| unused(one));
    let Some((scope, running)) = unused.map(|(scope, one)| (scope.clone(), Arc::clone(one))) else {
        return Err(ClusterError::new(
            ErrorKind::Throttled,
            format!("cannot follow the graph of {wanted}"),
            format!("{GRAPHS_MAX} graphs are followed already, which is the most there may be"),
            Some("end a subscription to one, or ask for one that is followed".to_owned()),
        ));
    };
    all.remove(&scope);
    running.end.notify_one();
    Ok(())
}

/// Waits until nobody has needed the graph for a while, and takes it off the list so
/// that nobody can join it any more.
async fn unneeded(shared: &Weak<Shared>, scope: &Scope, running: &Arc<Running>) {
    loop {
        while running.views.load(Ordering::Acquire) > 0 {
            running.left.notified().await;
        }
        tokio::select! {
            () = sleep(LINGER) => {}
            // Somebody was here meanwhile, and the while begins anew.
            () = running.left.notified() => continue,
        }
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut all = shared.running.lock();
        if running.views.load(Ordering::Acquire) == 0 {
            remove(&mut all, scope, running);
            return;
        }
    }
}

fn forget(shared: &Weak<Shared>, scope: &Scope, running: &Arc<Running>) {
    if let Some(shared) = shared.upgrade() {
        remove(&mut shared.running.lock(), scope, running);
    }
}

/// Another one may have its place by now.
fn remove(all: &mut HashMap<Scope, Arc<Running>>, scope: &Scope, running: &Arc<Running>) {
    if all.get(scope).is_some_and(|one| Arc::ptr_eq(one, running)) {
        all.remove(scope);
    }
}

fn slow(scope: &Scope) -> ClusterError {
    let seconds = PATIENCE.as_secs();
    ClusterError::new(
        ErrorKind::Timeout,
        format!("cannot read the graph of {scope}"),
        format!("not everything could be listed within {seconds} s; it goes on"),
        Some("ask again in a moment, or name a namespace".to_owned()),
    )
}

fn stops(scope: &Scope) -> ClusterError {
    let doing = format!("cannot read the graph of {scope}");
    ClusterError::new(ErrorKind::Other, doing, "the server stops", None)
}

// === impl GraphView ===

impl GraphView {
    /// The context, spelled out.
    pub fn context(&self) -> &str {
        &self.scope.context
    }

    /// Everything of these kinds.
    pub fn snapshot(&self, kinds: &Kinds) -> Seen<Snapshot> {
        // To derive everything takes a while, and changes are not to wait for it.
        let Seen { what, notes, seq } = self.look(Graph::copy);
        Seen {
            what: what.snapshot(kinds),
            notes,
            seq,
        }
    }

    /// How many objects there are.
    pub fn count(&self) -> Seen<usize> {
        self.look(Graph::len)
    }

    /// What is around an object.
    pub fn around(
        &self,
        id: &Id,
        depth: usize,
        nodes_max: usize,
    ) -> Result<Seen<Around>, ClusterError> {
        let seen = self.look(|graph| {
            let around = graph.around(id, depth, nodes_max);
            around.ok_or_else(|| {
                let all = id.kind.is_reference() || graph.knows_all(id.kind);
                (graph.names(id.kind, &id.namespace), all)
            })
        });
        match seen.what {
            Ok(what) => Ok(Seen {
                what,
                notes: seen.notes,
                seq: seen.seq,
            }),
            Err((names, all)) => Err(self.absent(id, &names, all)),
        }
    }

    fn look<T>(&self, look: impl FnOnce(&Graph) -> T) -> Seen<T> {
        let set = &self.running.set;
        let ((what, there), mut notes, seq) =
            set.look(|graph| (look(graph), self.has_its_namespace(graph)));
        if let Some(namespace) = self.scope.namespace.as_ref().filter(|_| !there)
            && set.left_out(Kind::Namespace).is_none()
        {
            notes.push(format!("there is no namespace `{namespace}` yet"));
        }
        Seen { what, notes, seq }
    }

    fn has_its_namespace(&self, graph: &Graph) -> bool {
        let namespace = self.scope.namespace.as_deref().unwrap_or_default();
        let id = Id::new(Kind::Namespace, "", namespace);
        graph.node(&id).is_some()
    }

    /// Why an object is not in the graph, which may not have all of its kind.
    fn absent(&self, id: &Id, names: &[Arc<str>], all: bool) -> ClusterError {
        if let Some(error) = self.running.set.left_out(id.kind) {
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
            near => format!("names are exact; nearest: {}", near.join(", ")),
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
        self.running.set.remove(self.key);
        self.running.views.fetch_sub(1, Ordering::AcqRel);
        self.running.left.notify_one();
    }
}

impl fmt::Debug for GraphView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GraphView").field(&self.scope).finish()
    }
}

// === impl Scope ===

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or("*");
        write!(f, "{}/{namespace}", self.context)
    }
}

// === impl Cluster ===

impl Cluster {
    /// The kind of a node that a caller means. A word that is no kind at all gets the
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
