//! The watches of one graph: a list and a watch per kind, which all feed one graph.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Duration, Instant, sleep, sleep_until},
};

use super::{
    OBJECTS_MAX, Scope,
    read::{
        Autoscaler, CronJob, DaemonSet, DecodedObject, GraphObject, Ingress, Job, Namespace, Node,
        Pod, ReplicaWorkload, Service,
    },
    source::{KindSource, ObjectChange, RelistedObjects},
};
use crate::{
    Contexts,
    error::{ClusterError, ErrorKind},
    startup::Startup,
    watch::{
        health::WatchHealth,
        watch_loop::{RelistContext, WatchHandler, WatchLoop},
    },
};
use kubecrier_core::{
    metrics::{GraphMetrics, WatchMetrics},
    subscriptions::WatchStatus,
};
use kubecrier_topology::{Graph, GraphChange, GraphScope, GraphSubscriber, Kind, ObjectSummary};

/// Changes within this time are in one update: a rollout changes several kinds.
const BATCH_DELAY: Duration = Duration::from_millis(50);

/// The shortest time between two updates.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// The delay before a kind that may not be read is tried again: the right may be granted.
const DENIED_RETRY: Duration = Duration::from_mins(5);

/// The length of a reason in a note.
const REASON_CHARS_MAX: usize = 240;

/// What the watches of a graph are made with.
#[derive(Clone)]
pub(super) struct GraphDeps {
    pub(super) contexts: Arc<Contexts>,
    pub(super) watches: WatchMetrics,
    pub(super) metrics: GraphMetrics,
    pub(super) renewal: Duration,
}

/// One graph, its watches and its followers.
pub(super) struct GraphWatcher {
    // Read by callers while the watches write; held for as long as a change or a
    // snapshot takes. Where both are held, the graph's is taken first.
    graph: Mutex<Graph>,
    kind_statuses: Mutex<KindStatuses>,
    followers: Mutex<HashMap<u64, Arc<dyn GraphSubscriber>>>,
    startup: Startup,
    seq: AtomicU64,
    changed: Notify,
    metrics: GraphMetrics,
}

/// The state of each kind.
#[derive(Debug, Default)]
struct KindStatuses {
    kinds: BTreeMap<Kind, KindStatus>,
    /// The notes of the last update.
    notes: Vec<String>,
    /// A read has shown other notes since.
    shown: bool,
}

#[derive(Clone, Debug)]
enum KindStatus {
    /// It has not been listed yet.
    Pending,
    Watching,
    /// It cannot be watched at the moment, and why.
    Stale(String),
    /// It may not be read, and the redacted reason.
    LeftOut(ClusterError, String),
}

/// Feeds what the watch of one kind sees to the graph. A clone is the same.
#[derive(Clone)]
struct KindHandler {
    graph: Arc<GraphWatcher>,
    kind: Kind,
    pending: Arc<Mutex<PendingList>>,
}

/// The first list of a kind, which counts once its watch is established: a kind that may be
/// listed but not watched must not come and go with each attempt.
enum PendingList {
    Collecting(Vec<ObjectSummary>),
    Applied,
}

/// Whether a kind may not be read, or there is none.
fn is_denied(error: &ClusterError) -> bool {
    matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound)
}

/// The kinds that are watched.
fn watched() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| !kind.is_reference())
}

// === impl GraphWatcher ===

impl GraphWatcher {
    pub(super) fn new(scope: &Scope, metrics: GraphMetrics) -> Self {
        let graph_scope = match scope.namespace {
            Some(_) => GraphScope::Namespace,
            None => GraphScope::Cluster,
        };
        metrics.began();
        let kind_statuses = KindStatuses {
            kinds: watched().map(|kind| (kind, KindStatus::Pending)).collect(),
            ..KindStatuses::default()
        };
        Self {
            graph: Mutex::new(Graph::new(graph_scope, OBJECTS_MAX)),
            kind_statuses: Mutex::new(kind_statuses),
            followers: Mutex::default(),
            startup: Startup::new(),
            seq: AtomicU64::new(1),
            changed: Notify::new(),
            metrics,
        }
    }

    /// Watches every kind until it is dropped; returns only if the graph never became ready.
    pub(super) async fn run(self: Arc<Self>, scope: Scope, deps: GraphDeps) -> ClusterError {
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
        deps: &GraphDeps,
    ) -> BoxFuture<'static, ClusterError> {
        let (scope, deps) = (scope.clone(), deps.clone());
        match kind {
            Kind::Namespace => Box::pin(self.follow::<Namespace>(kind, scope, deps)),
            Kind::Node => Box::pin(self.follow::<Node>(kind, scope, deps)),
            Kind::Ingress => Box::pin(self.follow::<Ingress>(kind, scope, deps)),
            Kind::Service => Box::pin(self.follow::<Service>(kind, scope, deps)),
            Kind::HorizontalPodAutoscaler => Box::pin(self.follow::<Autoscaler>(kind, scope, deps)),
            Kind::CronJob => Box::pin(self.follow::<CronJob>(kind, scope, deps)),
            Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet => {
                Box::pin(self.follow::<ReplicaWorkload>(kind, scope, deps))
            }
            Kind::DaemonSet => Box::pin(self.follow::<DaemonSet>(kind, scope, deps)),
            Kind::Job => Box::pin(self.follow::<Job>(kind, scope, deps)),
            Kind::Pod => Box::pin(self.follow::<Pod>(kind, scope, deps)),
            Kind::ConfigMap | Kind::Secret | Kind::PersistentVolumeClaim => {
                Box::pin(std::future::pending())
            }
        }
    }

    /// Lists and watches a kind. One that may not be read is left out, and tried again
    /// from time to time.
    async fn follow<T: GraphObject + DecodedObject>(
        self: Arc<Self>,
        kind: Kind,
        scope: Scope,
        deps: GraphDeps,
    ) -> ClusterError {
        loop {
            let contexts = Arc::clone(&deps.contexts);
            let source = KindSource::<T>::new(contexts, &scope, kind, deps.renewal);
            let handler = KindHandler::new(&self, kind);
            let health = Arc::new(WatchHealth::new(deps.watches.clone()));
            let watch_loop = WatchLoop::new(
                source,
                handler.clone(),
                Arc::clone(&health),
                deps.renewal,
                String::new(),
                format!("{scope} {}", kind.plural()),
            );
            let started = async {
                if health.started().await.is_ok() {
                    handler.begin();
                    self.set_status(kind, KindStatus::Watching);
                }
                std::future::pending::<()>().await;
            };
            let error = tokio::select! {
                error = watch_loop.relist_first().run() => error,
                () = started => continue,
            };
            drop(health);
            if !is_denied(&error) && self.startup.is_pending() {
                return error;
            }
            tracing::info!(graph = %scope, kind = kind.plural(), %error, "left out of the graph");
            self.change(|graph| graph.forget(kind));
            let redactor = deps.contexts.redactor();
            let reason = error.redacted(redactor).to_string();
            let reason = reason.chars().take(REASON_CHARS_MAX).collect();
            self.set_status(kind, KindStatus::LeftOut(error, reason));
            sleep(DENIED_RETRY).await;
        }
    }

    /// Applies a change to the graph.
    fn change<T>(&self, change: impl FnOnce(&mut Graph) -> T) -> T {
        let mut graph = self.graph.lock();
        let before = graph.len();
        let result = change(&mut graph);
        self.metrics.objects(before, graph.len());
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
        kind_statuses.kinds.insert(kind, status);
        if self.startup.is_pending()
            && !kind_statuses
                .kinds
                .values()
                .any(|status| matches!(status, KindStatus::Pending))
        {
            graph.track_changes();
            kind_statuses.notes = kind_statuses.list();
            match kind_statuses.unreadable() {
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

    fn notify_once(&self) -> bool {
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
        self.metrics.notified();
        for follower in followers {
            follower.on_change(&update);
        }
        true
    }

    /// Reads the graph, with its notes and the number of the last update.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Graph) -> T) -> (T, Vec<String>, u64) {
        let mut graph = self.graph.lock();
        graph.mark_read();
        let mut notes = self.kind_statuses.lock().show();
        if graph.refused() > 0 {
            notes.push(format!(
                "there is room for {OBJECTS_MAX} objects and there are more: name a namespace"
            ));
        }
        (read(&graph), notes, self.seq.load(Ordering::Relaxed))
    }

    /// The error of a kind that is left out of the graph.
    pub(super) fn left_out(&self, kind: Kind) -> Option<ClusterError> {
        match self.kind_statuses.lock().kinds.get(&kind) {
            Some(KindStatus::LeftOut(error, _)) => Some(error.clone()),
            _ => None,
        }
    }
}

impl Drop for GraphWatcher {
    fn drop(&mut self) {
        self.metrics.objects(self.graph.get_mut().len(), 0);
        self.metrics.ended();
    }
}

// === impl KindStatuses ===

impl KindStatuses {
    /// The notes for a read.
    fn show(&mut self) -> Vec<String> {
        let notes = self.list();
        self.shown |= notes != self.notes;
        notes
    }

    /// A note for each kind that is missing or out of date.
    fn list(&self) -> Vec<String> {
        let note = |(kind, status): (&Kind, &KindStatus)| {
            let short = |text: &str| text.chars().take(REASON_CHARS_MAX).collect::<String>();
            match status {
                KindStatus::Pending | KindStatus::Watching => None,
                KindStatus::Stale(error) => Some(format!(
                    "{} may be out of date: {}",
                    kind.plural(),
                    short(error)
                )),
                KindStatus::LeftOut(_, reason) => {
                    Some(format!("{} are left out: {reason}", kind.plural()))
                }
            }
        };
        self.kinds.iter().filter_map(note).collect()
    }

    /// The error of a graph of which no kind may be read.
    fn unreadable(&self) -> Option<ClusterError> {
        let namespaced = self.kinds.iter().filter(|(kind, _)| kind.is_namespaced());
        let left_out = |status: &KindStatus| matches!(status, KindStatus::LeftOut(..));
        if !namespaced.into_iter().all(|(_, status)| left_out(status)) {
            return None;
        }
        match self.kinds.get(&Kind::Pod) {
            Some(KindStatus::LeftOut(error, _)) => Some(error.clone()),
            _ => None,
        }
    }
}

// === impl KindHandler ===

impl KindHandler {
    fn new(graph: &Arc<GraphWatcher>, kind: Kind) -> Self {
        Self {
            graph: Arc::clone(graph),
            kind,
            pending: Arc::new(Mutex::new(PendingList::Collecting(Vec::new()))),
        }
    }

    /// The watch is established: the list that waited for it counts.
    fn begin(&self) {
        let pending = std::mem::replace(&mut *self.pending.lock(), PendingList::Applied);
        if let PendingList::Collecting(objects) = pending {
            self.graph.change(|graph| graph.relist(self.kind, objects));
        }
    }
}

impl<T: GraphObject + DecodedObject> WatchHandler<KindSource<T>> for KindHandler {
    fn on_item(&mut self, change: ObjectChange, _source: &KindSource<T>, _health: &WatchHealth) {
        self.begin();
        let began = Instant::now();
        self.graph.change(|graph| match change {
            ObjectChange::Applied(object) => graph.apply(object),
            ObjectChange::Deleted(id) => graph.delete(&id),
        });
        self.graph.metrics.changed(began.elapsed());
    }

    fn on_relist(
        &mut self,
        listed: RelistedObjects,
        _relist: &RelistContext<'_>,
        _source: &KindSource<T>,
        _health: &WatchHealth,
    ) -> String {
        let kind = self.kind;
        match &mut *self.pending.lock() {
            PendingList::Collecting(objects) => *objects = listed.objects,
            PendingList::Applied => self
                .graph
                .change(|graph| graph.relist(kind, listed.objects)),
        }
        listed.version
    }

    fn is_fatal(&self, error: &ClusterError) -> bool {
        is_denied(error)
    }

    fn on_status(&mut self, status: WatchStatus) {
        match status {
            WatchStatus::Degraded { error } => {
                self.graph.set_status(self.kind, KindStatus::Stale(error));
            }
            WatchStatus::Recovered => self.graph.set_status(self.kind, KindStatus::Watching),
            WatchStatus::Gap { .. } | WatchStatus::Unlabelled { .. } => {}
        }
    }
}
