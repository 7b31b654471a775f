//! The watches of one scope: a list and a watch per kind, which all feed one state.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Weak},
};

use jiff::{SignedDuration, Timestamp};
use kubecrier_incidents::{Options, Severity, State, objects::Event};
use kubecrier_k8s_api::{BuiltinKind, kinds};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    Clock, IncidentFollower, IncidentSnapshot, IncidentUpdate,
    crash_words::{self, ContainerEnd, CrashWords},
    evaluator,
    eyes::IncidentEyes,
    journal::Journal,
    kinds::{KINDS, WatchedKind, is_optional},
    notes,
    object::{KeptObject, ReadObject},
    shared_events,
};
use crate::{
    allowed::ReadScope,
    error::{ClusterError, ErrorKind},
    kind_watch::{
        KindObserver, KindStatus, KindStatuses, OBJECTS_MAX, ObjectChange, Scope, WatchDeps,
        follow, is_denied,
    },
    startup::Startup,
    watch::{Watches, health::WatchHealth},
};
use kubecrier_core::metrics::{IncidentMetrics, WatchState};

/// How long events are kept that are not reported again.
const EVENTS_KEPT: SignedDuration = SignedDuration::from_hours(2);

/// Events that are added before those that are too old are dropped. The state bounds their
/// number by itself.
const EVENTS_TRIMMED_AFTER: usize = 1000;

/// The incidents of one scope, their watches and their followers.
pub(super) struct IncidentWatcher {
    pub(super) scope: Scope,
    pub(super) clock: Clock,
    pub(super) options: Arc<Options>,
    /// None for the view of one user, whose incidents are counted with those of its scope.
    pub(super) metrics: Option<IncidentMetrics>,
    /// What may be shown.
    pub(super) shown: ReadScope,
    // Written by the watches; the evaluator copies it. Held for as long as a change takes.
    objects: Mutex<Objects>,
    statuses: Mutex<KindStatuses<&'static BuiltinKind>>,
    snapshot: Mutex<Arc<IncidentSnapshot>>,
    followers: Mutex<HashMap<u64, Arc<dyn IncidentFollower>>>,
    pub(super) journal: Journal,
    /// The watches that run.
    health: Mutex<BTreeMap<&'static BuiltinKind, Weak<WatchHealth>>>,
    words: CrashWords,
    startup: Startup,
    changed: Notify,
    /// The views of users, which are evaluated when something changes.
    views: Mutex<HashMap<u64, Weak<Self>>>,
    /// Set if this is the view of a user: its objects are those of another watcher.
    pub(super) eyes: Option<IncidentEyes>,
}

/// The objects of a scope.
#[derive(Debug, Default)]
struct Objects {
    state: State,
    /// Kinds of which there are more objects than there is room for.
    incomplete: BTreeSet<&'static BuiltinKind>,
    /// How often a kind was left out that could be read before.
    losses: u64,
    /// Events since the last time that old ones were dropped.
    new_events: usize,
}

/// What an evaluation works on.
pub(super) struct Input {
    pub(super) state: State,
    /// How often a kind was left out that could be read before.
    pub(super) losses: u64,
}

// === impl IncidentWatcher ===

impl IncidentWatcher {
    pub(super) fn new(
        scope: Scope,
        clock: Clock,
        options: Arc<Options>,
        metrics: IncidentMetrics,
        shown: ReadScope,
        journal: Journal,
    ) -> Self {
        metrics.began();
        Self::empty((scope, shown), clock, options, Some(metrics), journal, None)
    }

    /// The view of a user.
    pub(super) fn seen(eyes: IncidentEyes, journal: Journal) -> Self {
        let whole = &eyes.whole;
        let place = (whole.scope.clone(), whole.shown.clone());
        let (clock, options) = (Arc::clone(&whole.clock), Arc::clone(&whole.options));
        Self::empty(place, clock, options, None, journal, Some(eyes))
    }

    fn empty(
        (scope, shown): (Scope, ReadScope),
        clock: Clock,
        options: Arc<Options>,
        metrics: Option<IncidentMetrics>,
        journal: Journal,
        eyes: Option<IncidentEyes>,
    ) -> Self {
        let snapshot = IncidentSnapshot {
            context: scope.context.clone(),
            namespace: scope.namespace.clone(),
            at: clock(),
            open: Vec::new(),
            resolved: Vec::new(),
            notes: Vec::new(),
            seq: 1,
            clearance: None,
        };
        Self {
            scope,
            clock,
            options,
            metrics,
            shown,
            objects: Mutex::default(),
            statuses: Mutex::new(KindStatuses::new(KINDS.iter().map(|kind| kind.resource))),
            snapshot: Mutex::new(Arc::new(snapshot)),
            followers: Mutex::default(),
            journal,
            health: Mutex::default(),
            words: CrashWords::default(),
            startup: Startup::new(),
            changed: Notify::new(),
            views: Mutex::default(),
            eyes,
        }
    }

    /// The watcher whose objects these are.
    fn whole(&self) -> &Self {
        self.eyes.as_ref().map_or(self, |eyes| &eyes.whole)
    }

    /// Watches every kind until it is dropped; returns only if nothing could be read. Events come
    /// from the watches of others, if there are such.
    pub(super) async fn run(
        self: Arc<Self>,
        deps: WatchDeps,
        events: Option<Watches>,
    ) -> ClusterError {
        // A task each: decoding a page of pods is work that the other kinds must not wait
        // for.
        let mut watches = JoinSet::new();
        for kind in KINDS {
            let (watcher, scope, deps) = (Arc::clone(&self), self.scope.clone(), deps.clone());
            let shared = events.clone().filter(|_| *kind.resource == kinds::EVENT);
            watches.spawn(async move {
                if let Some(shared) = shared {
                    let (watcher, contexts) = (Arc::clone(&watcher), &deps.contexts);
                    let error =
                        shared_events::follow(watcher, kind, &scope, contexts, &shared).await;
                    tracing::debug!(%scope, %error, "events are watched for incidents alone");
                }
                Box::pin(follow(watcher, kind, kind.decoder, scope, deps)).await
            });
        }
        tokio::select! {
            Some(ended) = watches.join_next() => match ended {
                Ok(error) => error,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_cancelled) => super::stopped(&self.scope),
                },
            },
            error = self.startup.failure() => error,
            never = evaluator::run(&self) => match never {},
            never = crash_words::run(&self, Arc::clone(&deps.contexts)) => match never {},
        }
    }

    /// The watcher ends; callers who wait for it get the error.
    pub(super) fn fail_startup(&self, error: ClusterError) {
        self.startup.fail(error);
    }

    /// Waits until everything has been listed and evaluated once. Cancel-safe.
    pub(super) async fn ready(&self) -> Result<(), ClusterError> {
        self.startup.wait().await
    }

    pub(super) fn has_failed(&self) -> bool {
        self.startup.has_failed()
    }

    pub(super) fn add(&self, key: u64, follower: Arc<dyn IncidentFollower>) {
        self.followers.lock().insert(key, follower);
    }

    pub(super) fn remove(&self, key: u64) {
        self.followers.lock().remove(&key);
    }

    pub(super) fn snapshot(&self) -> Arc<IncidentSnapshot> {
        Arc::clone(&self.snapshot.lock())
    }

    // --- for the evaluator and the reads of logs ---

    /// Waits until something has changed since it last returned. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn is_starting(&self) -> bool {
        self.startup.is_pending()
    }

    /// Whether every kind has been listed, or is left out.
    pub(super) fn is_listed(&self) -> bool {
        !self.whole().statuses.lock().is_pending()
    }

    pub(super) fn input(&self) -> Input {
        let objects = self.whole().objects.lock();
        Input {
            state: objects.state.clone(),
            losses: objects.losses,
        }
    }

    /// The reads of logs.
    pub(super) fn words(&self) -> &CrashWords {
        &self.whole().words
    }

    /// Evaluates a view of these objects when they change, until it is removed.
    pub(super) fn add_view(&self, key: u64, view: Weak<Self>) {
        self.views.lock().insert(key, view);
    }

    pub(super) fn remove_view(&self, key: u64) {
        self.views.lock().remove(&key);
    }

    /// Evaluates again, here and in the views of users.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
        for view in self.views.lock().values() {
            if let Some(view) = view.upgrade() {
                view.changed.notify_one();
            }
        }
    }

    /// Kinds whose watches broke and are not established again.
    pub(super) fn behind(&self) -> Vec<&'static BuiltinKind> {
        let health = self.whole().health.lock();
        let is_behind = |health: &Weak<WatchHealth>| {
            let state = health.upgrade().map(|health| health.state());
            matches!(state, Some(WatchState::Reconnecting | WatchState::Degraded))
        };
        let behind = health.iter().filter(|(_, health)| is_behind(health));
        behind.map(|(kind, _)| *kind).collect()
    }

    /// Ends the backoff of watches: the cluster answers again.
    pub(super) fn wake_watches(&self) {
        for health in self.whole().health.lock().values() {
            if let Some(health) = health.upgrade() {
                health.wake();
            }
        }
    }

    /// Notes why a container ended, unless its pod is gone.
    pub(super) fn set_log_line(&self, end: &ContainerEnd, line: &str) {
        self.change(|objects, _now| {
            let (namespace, name) = (end.namespace(), end.pod());
            let pod = objects.state.pods.get(namespace, name);
            let is_there = pod.is_some_and(|pod| end.is_of(pod));
            if is_there {
                objects
                    .state
                    .set_log_line(namespace, name, end.container(), line);
            }
            is_there
        });
    }

    /// What a reader should know of the list.
    pub(super) fn notes(&self, state: &State) -> Vec<String> {
        let whole = self.whole();
        let mut notes = notes::of_kinds(&whole.statuses.lock());
        if !whole.objects.lock().incomplete.is_empty() {
            notes.push(format!(
                "there is room for {OBJECTS_MAX} objects and there are more: name a namespace"
            ));
        }
        if let Some(namespace) = &self.scope.namespace
            && state.namespaces.is_known()
            && state.namespaces.get("", namespace).is_none()
        {
            notes.push(format!("there is no namespace `{namespace}` yet"));
        }
        notes
    }

    /// Shows this to readers from now on.
    pub(super) fn publish(&self, snapshot: IncidentSnapshot) {
        let snapshot = Arc::new(snapshot);
        let before = std::mem::replace(&mut *self.snapshot.lock(), Arc::clone(&snapshot));
        if let Some(metrics) = &self.metrics {
            metrics.opened(&severities(&before), &severities(&snapshot));
        }
        self.startup.ready();
    }

    pub(super) fn notify_followers(&self, update: &Arc<IncidentUpdate>) {
        // Before: a follower that is woken reads it there.
        self.journal.add(update);
        let followers: Vec<_> = self.followers.lock().values().cloned().collect();
        for follower in followers {
            follower.on_update(update);
        }
    }

    // --- for the watches ---

    fn change(&self, change: impl FnOnce(&mut Objects, Timestamp) -> bool) {
        let now = (self.clock)();
        let changed = change(&mut self.objects.lock(), now);
        if changed {
            self.wake();
        }
    }

    /// Adds events that came together.
    pub(super) fn add_events(&self, events: Vec<Event>) {
        self.change(|objects, now| {
            let any = !events.is_empty();
            objects.new_events += events.len();
            for event in events {
                objects.state.apply_event(event);
            }
            objects.trim_events(now);
            any
        });
    }

    fn set_status(&self, kind: &'static BuiltinKind, status: KindStatus) {
        let mut statuses = self.statuses.lock();
        statuses.set(kind, status);
        if self.startup.is_pending() && !statuses.is_pending() {
            let unreadable = statuses.unreadable(&&kinds::POD, |kind| kind.namespaced);
            if let Some(error) = unreadable {
                self.startup.fail(error);
            }
        }
        drop(statuses);
        self.wake();
    }
}

impl KindObserver for IncidentWatcher {
    type Kind = &'static WatchedKind;
    type Kept = KeptObject;

    fn on_change(&self, kind: &'static WatchedKind, change: ObjectChange<KeptObject>) {
        self.change(|objects, now| match change {
            ObjectChange::Applied(KeptObject::Read(object)) => {
                let changed = objects.apply(kind, object);
                objects.trim_events(now);
                changed
            }
            ObjectChange::Applied(KeptObject::Skipped(name)) | ObjectChange::Deleted(name) => {
                (kind.delete)(&mut objects.state, kind.resource, &name)
            }
        });
    }

    fn on_relist(&self, kind: &'static WatchedKind, listed: Vec<KeptObject>) {
        self.change(|objects, now| {
            (kind.clear)(&mut objects.state, kind.resource);
            (kind.set_known)(&mut objects.state, true);
            objects.incomplete.remove(kind.resource);
            for object in listed {
                if let KeptObject::Read(object) = object {
                    objects.apply(kind, object);
                }
            }
            objects.trim_events(now);
            true
        });
    }

    fn on_start(&self, kind: &'static WatchedKind, health: &Arc<WatchHealth>) {
        self.health
            .lock()
            .insert(kind.resource, Arc::downgrade(health));
    }

    fn on_status(&self, kind: &'static WatchedKind, status: KindStatus) {
        self.set_status(kind.resource, status);
    }

    fn on_left_out(&self, kind: &'static WatchedKind, error: ClusterError, reason: String) {
        let is_absent = is_optional(kind.resource) && error.kind() == ErrorKind::NotFound;
        let was_seen =
            !self.startup.is_pending() && self.statuses.lock().left_out(&kind.resource).is_none();
        self.change(|objects, _now| {
            (kind.clear)(&mut objects.state, kind.resource);
            // Of a kind that the cluster does not have, there is nothing.
            (kind.set_known)(&mut objects.state, is_absent);
            objects.incomplete.remove(kind.resource);
            objects.losses += u64::from(was_seen);
            true
        });
        self.set_status(kind.resource, KindStatus::LeftOut(error, reason));
    }

    /// Without pods there is little to say; any other kind can be left out.
    fn is_fatal(&self, kind: &'static WatchedKind, error: &ClusterError) -> bool {
        *kind.resource == kinds::POD && !is_denied(error) && self.startup.is_pending()
    }
}

impl Drop for IncidentWatcher {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.opened(&severities(self.snapshot.get_mut()), &[]);
            metrics.ended();
        }
    }
}

fn severities(snapshot: &IncidentSnapshot) -> Vec<&'static str> {
    let open = snapshot.open.iter();
    open.map(|incident| match incident.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Info => "info",
    })
    .collect()
}

// === impl Objects ===

impl Objects {
    /// Adds or replaces an object if there is room; answers whether anything is another.
    fn apply(&mut self, kind: &'static WatchedKind, object: Box<dyn ReadObject>) -> bool {
        if *kind.resource == kinds::EVENT {
            self.new_events += 1;
        } else if self.state.objects_len() >= OBJECTS_MAX
            && !(kind.is_known)(&self.state, kind.resource, &object.name())
        {
            (kind.set_known)(&mut self.state, false);
            return self.incomplete.insert(kind.resource);
        }
        object.apply(&mut self.state, kind.resource)
    }

    /// Drops events that are too old, from time to time.
    fn trim_events(&mut self, now: Timestamp) {
        if self.new_events >= EVENTS_TRIMMED_AFTER {
            self.new_events = 0;
            let before = now.checked_sub(EVENTS_KEPT).unwrap_or(Timestamp::MIN);
            self.state.forget_events(before);
        }
    }
}
