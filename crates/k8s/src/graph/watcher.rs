//! The watches of one graph: a list and a watch per kind, which all feed one graph.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Duration, Instant, sleep_until},
};

use super::{
    deleted,
    eyes::{self, GraphEyes},
    read::{
        Autoscaler, CronJob, DaemonSet, Ingress, Job, Namespace, Node, Pod, ReplicaWorkload,
        Service,
    },
};
use crate::{
    error::ClusterError,
    kind_watch::{
        Decoder, KindObserver, KindStatus, KindStatuses, OBJECTS_MAX, ObjectChange, Scope,
        WatchDeps, follow, is_denied,
    },
    scope_rights,
    startup::Startup,
};
use kubecrier_core::{access::Clearance, metrics::GraphMetrics};
use kubecrier_topology::{
    Graph, GraphChange, GraphScope, GraphSubscriber, Kind, ObjectSummary, Visibility,
};

/// Changes within this time are in one update: a rollout changes several kinds.
pub(super) const BATCH_DELAY: Duration = Duration::from_millis(50);

/// The shortest time between two updates.
pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// One graph, its watches and its followers.
pub(super) struct GraphWatcher {
    // Read by callers while the watches write; held for as long as a change or a
    // snapshot takes. Where both are held, the graph's is taken first.
    graph: Mutex<Graph>,
    kind_statuses: Mutex<NotedStatuses>,
    followers: Mutex<HashMap<u64, Arc<dyn GraphSubscriber>>>,
    startup: Startup,
    seq: AtomicU64,
    changed: Notify,
    /// None for the view of one user, which counts as a part of the graph that it is made of.
    metrics: Option<GraphMetrics>,
    /// Set if this is what one user may see of another graph.
    eyes: Option<GraphEyes>,
}

/// The state of each kind, and what followers were told of it.
#[derive(Debug)]
struct NotedStatuses {
    kinds: KindStatuses<Kind>,
    /// The notes of the last update.
    notes: Vec<String>,
    /// A read has shown other notes since.
    shown: bool,
    /// The state of which kinds a reader may know, and what it should know beside that.
    eyes: KindNotes,
}

/// What the notes of a graph tell beside the state of its kinds.
#[derive(Clone, Debug, Default)]
pub(super) struct KindNotes {
    /// What may be seen.
    pub(super) visibility: Visibility,
    pub(super) more: Vec<String>,
}

/// The kinds that are watched.
fn watched() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| !kind.is_reference())
}

// === impl GraphWatcher ===

impl GraphWatcher {
    pub(super) fn new(scope: &Scope, metrics: GraphMetrics) -> Self {
        metrics.began();
        Self::empty(scope, Some(metrics), None)
    }

    /// What one user may see of another graph.
    pub(super) fn seen(scope: &Scope, eyes: GraphEyes) -> Self {
        Self::empty(scope, None, Some(eyes))
    }

    fn empty(scope: &Scope, metrics: Option<GraphMetrics>, eyes: Option<GraphEyes>) -> Self {
        let graph_scope = match scope.namespace {
            Some(_) => GraphScope::Namespace,
            None => GraphScope::Cluster,
        };
        let kind_statuses = NotedStatuses {
            kinds: KindStatuses::new(watched()),
            notes: Vec::new(),
            shown: false,
            eyes: KindNotes::default(),
        };
        Self {
            graph: Mutex::new(Graph::new(graph_scope, OBJECTS_MAX)),
            kind_statuses: Mutex::new(kind_statuses),
            followers: Mutex::default(),
            startup: Startup::new(),
            seq: AtomicU64::new(1),
            changed: Notify::new(),
            metrics,
            eyes,
        }
    }

    /// Watches every kind until it is dropped; returns only if the graph never became ready.
    pub(super) async fn run(self: Arc<Self>, scope: Scope, deps: WatchDeps) -> ClusterError {
        // A task each: decoding a page of pods is work that the other kinds must not wait
        // for.
        let mut kinds = JoinSet::new();
        for kind in watched() {
            kinds.spawn(Arc::clone(&self).kind(kind, &scope, &deps));
        }
        tokio::select! {
            Some(ended) = kinds.join_next() => match ended {
                Ok(error) => error,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_cancelled) => super::stopped(&scope),
                },
            },
            error = self.startup.failure() => error,
            never = self.notify_followers() => match never {},
        }
    }

    fn kind(
        self: Arc<Self>,
        kind: Kind,
        scope: &Scope,
        deps: &WatchDeps,
    ) -> BoxFuture<'static, ClusterError> {
        let (scope, deps) = (scope.clone(), deps.clone());
        let decoder = match kind {
            Kind::Namespace => Decoder::of::<Namespace>(),
            Kind::Node => Decoder::of::<Node>(),
            Kind::Ingress => Decoder::of::<Ingress>(),
            Kind::Service => Decoder::of::<Service>(),
            Kind::HorizontalPodAutoscaler => Decoder::of::<Autoscaler>(),
            Kind::CronJob => Decoder::of::<CronJob>(),
            Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet => {
                Decoder::of::<ReplicaWorkload>()
            }
            Kind::DaemonSet => Decoder::of::<DaemonSet>(),
            Kind::Job => Decoder::of::<Job>(),
            Kind::Pod => Decoder::of::<Pod>(),
            Kind::ConfigMap | Kind::Secret | Kind::PersistentVolumeClaim => {
                return Box::pin(std::future::pending());
            }
        };
        Box::pin(follow(self, kind, decoder, scope, deps))
    }

    /// Applies a change to the graph.
    fn change<T>(&self, change: impl FnOnce(&mut Graph) -> T) -> T {
        let mut graph = self.graph.lock();
        let before = graph.len();
        let result = change(&mut graph);
        if let Some(metrics) = &self.metrics {
            metrics.objects(before, graph.len());
        }
        let has_changes = graph.has_changes();
        drop(graph);
        if has_changes {
            self.changed.notify_one();
        }
        result
    }

    fn set_status(&self, kind: Kind, status: KindStatus) {
        // The graph becomes ready for all readers at once, so it must not change meanwhile.
        let mut graph = self.graph.lock();
        let mut kind_statuses = self.kind_statuses.lock();
        kind_statuses.kinds.set(kind, status);
        if self.startup.is_pending() && !kind_statuses.kinds.is_pending() {
            graph.track_changes();
            kind_statuses.notes = kind_statuses.list();
            let unreadable = kind_statuses
                .kinds
                .unreadable(&Kind::Pod, |kind| kind.is_namespaced());
            match unreadable {
                Some(error) => self.startup.fail(error),
                None => self.startup.ready(),
            }
        }
        drop(kind_statuses);
        drop(graph);
        self.changed.notify_one();
    }

    /// The graph ends; callers who wait for it get the error.
    pub(super) fn fail_startup(&self, error: ClusterError) {
        self.startup.fail(error);
    }

    /// Waits until everything has been listed once. Cancel-safe.
    pub(super) async fn ready(&self) -> Result<(), ClusterError> {
        self.startup.wait().await
    }

    pub(super) fn has_failed(&self) -> bool {
        self.startup.has_failed()
    }

    pub(super) fn add(&self, key: u64, follower: Arc<dyn GraphSubscriber>) {
        self.followers.lock().insert(key, follower);
    }

    pub(super) fn remove(&self, key: u64) {
        self.followers.lock().remove(&key);
    }

    /// Notifies the followers for ever: changes that belong together in one update, and
    /// not too often.
    async fn notify_followers(&self) -> Infallible {
        let mut last = Instant::now();
        loop {
            self.changed.notified().await;
            sleep_until((Instant::now() + BATCH_DELAY).max(last + MIN_INTERVAL)).await;
            if self.notify_once() {
                last = Instant::now();
            }
        }
    }

    pub(super) fn notify_once(&self) -> bool {
        let update = {
            let mut graph = self.graph.lock();
            if !self.startup.is_ready() {
                return false;
            }
            let mut kind_statuses = self.kind_statuses.lock();
            let delta = graph.take_delta();
            let notes = kind_statuses.list();
            let shown = std::mem::take(&mut kind_statuses.shown);
            let changed_notes = (shown || notes != kind_statuses.notes).then(|| notes.clone());
            kind_statuses.notes = notes;
            if delta.is_empty() && changed_notes.is_none() {
                return false;
            }
            GraphChange {
                seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1,
                delta,
                notes: changed_notes,
            }
        };
        let followers: Vec<_> = self.followers.lock().values().cloned().collect();
        if let Some(metrics) = &self.metrics {
            metrics.notified();
        }
        for follower in followers {
            follower.on_change(&update);
        }
        true
    }

    /// Reads the graph, with its notes and the number of the last update.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Graph) -> T) -> (T, Vec<String>, u64) {
        self.read_locked(&mut self.graph.lock(), read)
    }

    /// The same of the view of a user, as its rights are now.
    pub(super) fn read_as<T>(
        &self,
        clearance: &Clearance,
        read: impl FnOnce(&Graph) -> T,
    ) -> (T, Vec<String>, u64) {
        let mut graph = self.adopt(clearance);
        let result = self.read_locked(&mut graph, read);
        let has_changes = graph.has_changes();
        drop(graph);
        if has_changes {
            self.changed.notify_one();
        }
        result
    }

    fn read_locked<T>(
        &self,
        graph: &mut Graph,
        read: impl FnOnce(&Graph) -> T,
    ) -> (T, Vec<String>, u64) {
        graph.mark_read();
        let mut notes = self.kind_statuses.lock().show();
        if graph.refused() > 0 {
            notes.push(format!(
                "there is room for {OBJECTS_MAX} objects and there are more: name a namespace"
            ));
        }
        (read(graph), notes, self.seq.load(Ordering::Relaxed))
    }

    /// Makes the view of a user what the shared graph has for it now.
    pub(super) fn adopt(&self, clearance: &Clearance) -> MutexGuard<'_, Graph> {
        let Some(eyes) = &self.eyes else {
            return self.graph.lock();
        };
        let visibility = eyes::visibility(clearance);
        let kinds = eyes.whole.kind_statuses.lock().kinds.clone();
        // The shared one first, always.
        let whole = eyes.whole.graph.lock();
        let mut graph = self.graph.lock();
        graph.adopt(&whole, &visibility);
        drop(whole);
        let mut kind_statuses = self.kind_statuses.lock();
        kind_statuses.kinds = kinds;
        kind_statuses.eyes = KindNotes {
            visibility,
            more: scope_rights::notes(clearance),
        };
        graph
    }

    /// Begins to tell of changes: what was adopted so far is where a follower begins.
    pub(super) fn begin(&self) {
        let mut graph = self.graph.lock();
        let mut kind_statuses = self.kind_statuses.lock();
        graph.track_changes();
        kind_statuses.notes = kind_statuses.list();
        self.startup.ready();
    }

    pub(super) fn eyes(&self) -> Option<&GraphEyes> {
        self.eyes.as_ref()
    }

    /// The namespaces that objects are in.
    pub(super) fn namespaces(&self) -> BTreeSet<Arc<str>> {
        self.graph.lock().namespaces()
    }

    /// Waits until something has changed since it last returned. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// The error of a kind that is left out of the graph.
    pub(super) fn left_out(&self, kind: Kind) -> Option<ClusterError> {
        self.kind_statuses.lock().kinds.left_out(&kind).cloned()
    }
}

impl Drop for GraphWatcher {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.objects(self.graph.get_mut().len(), 0);
            metrics.ended();
        }
    }
}

impl KindObserver for GraphWatcher {
    type Kind = Kind;
    type Kept = ObjectSummary;

    fn on_change(&self, kind: Kind, change: ObjectChange<ObjectSummary>) {
        let began = Instant::now();
        self.change(|graph| match change {
            ObjectChange::Applied(object) => graph.apply(object),
            ObjectChange::Deleted(name) => graph.delete(&deleted(kind, &name)),
        });
        if let Some(metrics) = &self.metrics {
            metrics.changed(began.elapsed());
        }
    }

    fn on_relist(&self, kind: Kind, objects: Vec<ObjectSummary>) {
        self.change(|graph| graph.relist(kind, objects));
    }

    fn on_status(&self, kind: Kind, status: KindStatus) {
        self.set_status(kind, status);
    }

    fn on_left_out(&self, kind: Kind, error: ClusterError, reason: String) {
        self.change(|graph| graph.forget(kind));
        self.set_status(kind, KindStatus::LeftOut(error, reason));
    }

    fn is_fatal(&self, _kind: Kind, error: &ClusterError) -> bool {
        !is_denied(error) && self.startup.is_pending()
    }
}

// === impl NotedStatuses ===

impl NotedStatuses {
    /// The notes for a read.
    fn show(&mut self) -> Vec<String> {
        let notes = self.list();
        self.shown |= notes != self.notes;
        notes
    }

    /// A note for each kind that is missing or out of date.
    fn list(&self) -> Vec<String> {
        let note = |(kind, status): (&Kind, &KindStatus)| {
            if !self.eyes.visibility.shows_kind(*kind) {
                return None;
            }
            let plural = kind.plural();
            match status {
                KindStatus::Pending | KindStatus::Watching => None,
                KindStatus::Stale(error) => Some(format!("{plural} may be out of date: {error}")),
                KindStatus::LeftOut(_, reason) => Some(format!("{plural} are left out: {reason}")),
            }
        };
        let notes = self.kinds.iter().filter_map(note);
        notes.chain(self.eyes.more.iter().cloned()).collect()
    }
}
