//! The watches of one graph: a list and a watch per kind, and one graph that they all
//! tell.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Duration, Instant, sleep, sleep_until},
};

use super::{
    OBJECTS_MAX, Scope,
    read::{
        self, Autoscaler, CronJob, DaemonSet, Ingress, Job, Named, Namespace, Node, Pod,
        Replicated, Service, Shape,
    },
    source::{Change, KindSource, Listed},
};
use crate::{
    Contexts,
    error::{ClusterError, ErrorKind},
    watch::{
        machine::{Looked, Machine, Outlet},
        status::Status,
    },
};
use kubecrier_core::{
    metrics::{GraphMetrics, WatchMetrics},
    subscriptions,
};
use kubecrier_topology::{Facts, Follower, Graph, Kind, Reach, Told};

/// What happens within this is told together: one rollout changes several kinds.
const GATHER: Duration = Duration::from_millis(50);

/// Nobody is told more often.
const PACE: Duration = Duration::from_millis(500);

/// A kind that may not be read is tried again: rights may have been granted.
const TRY_AGAIN: Duration = Duration::from_mins(5);

/// As much of a reason as a note has room for.
const REASON_CHARS_MAX: usize = 240;

/// What the watches need.
#[derive(Clone)]
pub(super) struct Means {
    pub(super) contexts: Arc<Contexts>,
    pub(super) watches: WatchMetrics,
    pub(super) metrics: GraphMetrics,
    pub(super) renewal: Duration,
}

/// One graph, and who follows it.
pub(super) struct Set {
    // Locks because many read while the watches write; held for as long as a change
    // or a snapshot takes. Where both are held, the graph's is taken first.
    graph: Mutex<Graph>,
    standing: Mutex<Standing>,
    followers: Mutex<HashMap<u64, Arc<dyn Follower>>>,
    first: watch::Sender<First>,
    seq: AtomicU64,
    changed: Notify,
    metrics: GraphMetrics,
}

/// How each kind does.
#[derive(Debug, Default)]
struct Standing {
    kinds: BTreeMap<Kind, Stands>,
    /// As they were told last.
    notes: Vec<String>,
    /// Somebody has read others since.
    shown: bool,
}

#[derive(Clone, Debug)]
enum Stands {
    /// It has never been listed.
    Not,
    /// It is followed.
    Up,
    /// It cannot be followed at the moment, and why.
    Stale(String),
    /// It may not be read, and why, in words that may leave.
    LeftOut(ClusterError, String),
}

/// Whether the graph was ever whole.
#[derive(Clone, Debug)]
enum First {
    Reading,
    Whole,
    Failed(ClusterError),
}

/// Where the watch of a kind tells what it sees. A clone is the same.
#[derive(Clone)]
struct Intake {
    set: Arc<Set>,
    kind: Kind,
    early: Arc<Mutex<Early>>,
}

/// What is listed counts when the watch stands: what may be listed and not watched is not
/// to come and go with each attempt.
enum Early {
    Waits(Vec<Facts>),
    Over,
}

/// Whether a kind may not be read, or there is none.
fn denied(error: &ClusterError) -> bool {
    matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound)
}

/// The kinds that are watched.
fn watched() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| !kind.is_reference())
}

// === impl Set ===

impl Set {
    pub(super) fn new(scope: &Scope, metrics: GraphMetrics) -> Self {
        let reach = match scope.namespace {
            Some(_) => Reach::Namespace,
            None => Reach::Everything,
        };
        metrics.began();
        let standing = Standing {
            kinds: watched().map(|kind| (kind, Stands::Not)).collect(),
            ..Standing::default()
        };
        Self {
            graph: Mutex::new(Graph::new(reach, OBJECTS_MAX)),
            standing: Mutex::new(standing),
            followers: Mutex::default(),
            first: watch::Sender::new(First::Reading),
            seq: AtomicU64::new(1),
            changed: Notify::new(),
            metrics,
        }
    }

    /// Follows everything until it is dropped; returns only if it was never whole.
    pub(super) async fn run(self: Arc<Self>, scope: Scope, means: Means) -> ClusterError {
        // A task each: to read a page of pods is work, and nobody's answer is to wait for it.
        let mut kinds = JoinSet::new();
        for kind in watched() {
            kinds.spawn(Arc::clone(&self).kind(kind, &scope, &means));
        }
        tokio::select! {
            Some(ended) = kinds.join_next() => match ended {
                Ok(error) => error,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_cancelled) => super::stops(&scope),
                },
            },
            never = self.tell() => never,
        }
    }

    fn kind(
        self: Arc<Self>,
        kind: Kind,
        scope: &Scope,
        means: &Means,
    ) -> BoxFuture<'static, ClusterError> {
        let (scope, means) = (scope.clone(), means.clone());
        match kind {
            Kind::Namespace => Box::pin(self.follow::<Namespace>(kind, scope, means)),
            Kind::Node => Box::pin(self.follow::<Node>(kind, scope, means)),
            Kind::Ingress => Box::pin(self.follow::<Ingress>(kind, scope, means)),
            Kind::Service => Box::pin(self.follow::<Service>(kind, scope, means)),
            Kind::HorizontalPodAutoscaler => {
                Box::pin(self.follow::<Autoscaler>(kind, scope, means))
            }
            Kind::CronJob => Box::pin(self.follow::<CronJob>(kind, scope, means)),
            Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet => {
                Box::pin(self.follow::<Replicated>(kind, scope, means))
            }
            Kind::DaemonSet => Box::pin(self.follow::<DaemonSet>(kind, scope, means)),
            Kind::Job => Box::pin(self.follow::<Job>(kind, scope, means)),
            Kind::Pod => Box::pin(self.follow::<Pod>(kind, scope, means)),
            Kind::ConfigMap | Kind::Secret | Kind::PersistentVolumeClaim => {
                Box::pin(std::future::pending())
            }
        }
    }

    /// Lists and watches a kind. What may not be read is left out, and tried again
    /// every now and then.
    async fn follow<T: Shape + Named>(
        self: Arc<Self>,
        kind: Kind,
        scope: Scope,
        means: Means,
    ) -> ClusterError {
        loop {
            let contexts = Arc::clone(&means.contexts);
            let source = KindSource::<T>::new(contexts, &scope, kind, means.renewal);
            let intake = Intake::new(&self, kind);
            let status = Arc::new(Status::new(means.watches.clone()));
            let machine = Machine::new(
                source,
                intake.clone(),
                Arc::clone(&status),
                means.renewal,
                String::new(),
                format!("{scope} {}", kind.plural()),
            );
            let standing = async {
                if status.first().await.is_ok() {
                    intake.begin();
                    self.stands(kind, Stands::Up);
                }
                std::future::pending::<()>().await;
            };
            let error = tokio::select! {
                error = machine.looking_first().run() => error,
                () = standing => continue,
            };
            drop(status);
            if !denied(&error) && matches!(*self.first.borrow(), First::Reading) {
                return error;
            }
            tracing::info!(graph = %scope, kind = kind.plural(), %error, "left out of the graph");
            self.change(|graph| graph.leave_out(kind));
            let redactor = means.contexts.redactor();
            let reason = read::clean(&error.to_string(), REASON_CHARS_MAX, redactor);
            self.stands(kind, Stands::LeftOut(error, reason));
            sleep(TRY_AGAIN).await;
        }
    }

    /// Works a change into the graph.
    fn change<T>(&self, change: impl FnOnce(&mut Graph) -> T) -> T {
        let mut graph = self.graph.lock();
        let before = graph.len();
        let done = change(&mut graph);
        self.metrics.objects(before, graph.len());
        let touched = graph.is_touched();
        drop(graph);
        if touched {
            self.changed.notify_one();
        }
        done
    }

    fn stands(&self, kind: Kind, stands: Stands) {
        // Whole is what everybody sees at once, so nobody may change it meanwhile.
        let mut graph = self.graph.lock();
        let mut standing = self.standing.lock();
        standing.kinds.insert(kind, stands);
        if matches!(*self.first.borrow(), First::Reading)
            && !standing
                .kinds
                .values()
                .any(|one| matches!(one, Stands::Not))
        {
            graph.follow();
            standing.notes = standing.list();
            let first = match standing.unreadable() {
                Some(error) => First::Failed(error),
                None => First::Whole,
            };
            self.first.send_replace(first);
        }
        drop(standing);
        drop(graph);
        self.changed.notify_one();
    }

    /// It ends before it was whole.
    pub(super) fn never_stood(&self, error: ClusterError) {
        self.first.send_if_modified(|first| {
            let reading = matches!(first, First::Reading);
            if reading {
                *first = First::Failed(error);
            }
            reading
        });
    }

    /// Waits until everything has been listed once. Cancel-safe.
    pub(super) async fn whole(&self) -> Result<(), ClusterError> {
        let mut first = self.first.subscribe();
        let decided = first.wait_for(|first| !matches!(first, First::Reading));
        match decided.await.as_deref() {
            Ok(First::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Waits until it is known that there will be no graph. Cancel-safe.
    pub(super) async fn fails(&self) {
        let mut first = self.first.subscribe();
        let failed = first.wait_for(|first| matches!(first, First::Failed(_)));
        if failed.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(*self.first.borrow(), First::Failed(_))
    }

    pub(super) fn add(&self, key: u64, follower: Arc<dyn Follower>) {
        self.followers.lock().insert(key, follower);
    }

    pub(super) fn remove(&self, key: u64) {
        self.followers.lock().remove(&key);
    }

    /// Tells the followers, for ever: what belongs together at once, and never too
    /// often.
    async fn tell(&self) -> ClusterError {
        let mut last = Instant::now();
        loop {
            self.changed.notified().await;
            sleep_until((Instant::now() + GATHER).max(last + PACE)).await;
            if self.tell_once() {
                last = Instant::now();
            }
        }
    }

    fn tell_once(&self) -> bool {
        let told = {
            let mut graph = self.graph.lock();
            if !matches!(*self.first.borrow(), First::Whole) {
                return false;
            }
            let mut standing = self.standing.lock();
            let delta = graph.take_delta();
            let notes = standing.list();
            let shown = std::mem::take(&mut standing.shown);
            let noted = (shown || notes != standing.notes).then(|| notes.clone());
            standing.notes = notes;
            if delta.is_empty() && noted.is_none() {
                return false;
            }
            Told {
                seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1,
                delta,
                notes: noted,
            }
        };
        let followers: Vec<_> = self.followers.lock().values().cloned().collect();
        self.metrics.notified();
        for follower in followers {
            follower.changed(&told);
        }
        true
    }

    /// Looks at the graph, with what a reader has to know and how far it was told.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Graph) -> T) -> (T, Vec<String>, u64) {
        let mut graph = self.graph.lock();
        graph.show();
        let mut notes = self.standing.lock().show();
        if graph.refused() > 0 {
            notes.push(format!(
                "there is room for {OBJECTS_MAX} objects and there are more: name a namespace"
            ));
        }
        (look(&graph), notes, self.seq.load(Ordering::Relaxed))
    }

    /// Why a kind is not in the graph, if it is not.
    pub(super) fn left_out(&self, kind: Kind) -> Option<ClusterError> {
        match self.standing.lock().kinds.get(&kind) {
            Some(Stands::LeftOut(error, _)) => Some(error.clone()),
            _ => None,
        }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        self.metrics.objects(self.graph.get_mut().len(), 0);
        self.metrics.ended();
    }
}

// === impl Standing ===

impl Standing {
    /// What somebody reads who has to know it.
    fn show(&mut self) -> Vec<String> {
        let notes = self.list();
        self.shown |= notes != self.notes;
        notes
    }

    /// What a reader has to know.
    fn list(&self) -> Vec<String> {
        let note = |(kind, stands): (&Kind, &Stands)| {
            let short = |text: &str| text.chars().take(REASON_CHARS_MAX).collect::<String>();
            match stands {
                Stands::Not | Stands::Up => None,
                Stands::Stale(error) => Some(format!(
                    "{} may be out of date: {}",
                    kind.plural(),
                    short(error)
                )),
                Stands::LeftOut(_, reason) => {
                    Some(format!("{} are left out: {reason}", kind.plural()))
                }
            }
        };
        self.kinds.iter().filter_map(note).collect()
    }

    /// Why there is nothing to see at all, if so.
    fn unreadable(&self) -> Option<ClusterError> {
        let namespaced = self.kinds.iter().filter(|(kind, _)| kind.is_namespaced());
        let left_out = |stands: &Stands| matches!(stands, Stands::LeftOut(..));
        if !namespaced.into_iter().all(|(_, stands)| left_out(stands)) {
            return None;
        }
        match self.kinds.get(&Kind::Pod) {
            Some(Stands::LeftOut(error, _)) => Some(error.clone()),
            _ => None,
        }
    }
}

// === impl Intake ===

impl Intake {
    fn new(set: &Arc<Set>, kind: Kind) -> Self {
        Self {
            set: Arc::clone(set),
            kind,
            early: Arc::new(Mutex::new(Early::Waits(Vec::new()))),
        }
    }

    /// The watch stands.
    fn begin(&self) {
        let early = std::mem::replace(&mut *self.early.lock(), Early::Over);
        if let Early::Waits(all) = early {
            self.set.change(|graph| graph.relist(self.kind, all));
        }
    }
}

impl<T: Shape + Named> Outlet<KindSource<T>> for Intake {
    fn take(&mut self, change: Change, _source: &KindSource<T>, _status: &Status) {
        self.begin();
        let began = Instant::now();
        self.set.change(|graph| match change {
            Change::Set(facts) => graph.set(facts),
            Change::Gone(id) => graph.remove(&id),
        });
        self.set.metrics.changed(began.elapsed());
    }

    fn looked(
        &mut self,
        listed: Listed,
        _how: &Looked<'_>,
        _source: &KindSource<T>,
        _status: &Status,
    ) -> String {
        let kind = self.kind;
        match &mut *self.early.lock() {
            Early::Waits(all) => *all = listed.all,
            Early::Over => self.set.change(|graph| graph.relist(kind, listed.all)),
        }
        listed.version
    }

    fn gives_up_on(&self, error: &ClusterError) -> bool {
        denied(error)
    }

    fn tell(&mut self, change: subscriptions::Change) {
        match change {
            subscriptions::Change::Degraded { error } => {
                self.set.stands(self.kind, Stands::Stale(error));
            }
            subscriptions::Change::Recovered => self.set.stands(self.kind, Stands::Up),
            subscriptions::Change::Gap { .. } => {}
        }
    }
}
