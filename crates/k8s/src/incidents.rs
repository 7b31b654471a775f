//! Incidents of clusters and namespaces, shared by all readers that need the same.
//!
//! ```text
//!  read, follow ──▶ one IncidentWatcher per Scope: a list and a watch per kind ──▶ State
//!                          ▲                                                       │ when dirty, when due
//!                          └── shared_task: the last view, then a while            ▼
//!                                                 snapshots, followers ◀── Life ◀── evaluator
//! ```
//!
//! Nothing can be read before every kind has been listed, or is left out. Objects are redacted
//! before they are kept; detectors never see what must not be shown.
//!
//! - `kinds`: the kinds that detectors read, and where they are kept
//! - `object`: an object as it is decoded and redacted
//! - `watcher`: the watches of one scope (`kind_watch`) feed its state
//! - `shared_events`: events from a watch that others have anyway
//! - `evaluator`: what is open, and what is announced; `view`: what a caller reads of it
//! - `eyes`: the incidents that one user may see
//! - `crash_words`: why containers ended, as their logs tell
//! - `journal`: what was announced lately
//! - `shown`: what may be shown of an incident; `stored`: one that was kept in a history
//! - `notes`: kinds that are missing, and what is not seen without them

mod crash_words;
mod errors;
mod evaluator;
mod eyes;
mod journal;
mod kinds;
mod notes;
mod object;
mod shared_events;
mod shown;
mod stored;
mod view;
mod watcher;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Duration, timeout};

pub(crate) use self::kinds::{blind_without, incident_kinds};
use self::{
    errors::{confined, limit, slow, stopped},
    eyes::IncidentEyes,
    journal::{Announcements, Journal, UserAnnouncements},
    watcher::IncidentWatcher,
};
pub use self::{
    journal::Announced,
    stored::{StoredIncident, StoredWords, keep_incident},
    view::IncidentView,
};
use crate::{
    contexts::Contexts,
    error::ClusterError,
    kind_watch::{Scope, WatchDeps},
    name::Name,
    scope_rights::{Freshness, USERS_PER_SCOPE},
    shared_task::{Lease, SharedTasks, TaskEnd, TaskLimits},
    watch::Watches,
};
use kubecrier_core::{
    access::{Clearance, UserView, Viewer},
    metrics::WatchMetrics,
    shares::{Claim, Claims, LimitName, ShareKey},
};
use kubecrier_incidents::{Incident, Options, Transition};
use kubecrier_lifecycle::Lifecycle;

/// A watcher without views is kept this long: listing everything again is a lot of work for
/// an API server, and what was announced would be forgotten.
const LINGER: Duration = Duration::from_mins(5);

/// The same for the view of a user, whose rights are asked for meanwhile.
const VIEW_LINGER: Duration = Duration::from_mins(2);

/// The words of the limit. Graphs and lists of incidents are watched alike.
const LIMIT: LimitName = LimitName::new("lists of incidents", "--max-graphs");

/// The longest time that a caller waits for everything to be listed.
const ACQUIRE_TIMEOUT: Duration = Duration::from_mins(1);

/// The time, which tests move.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What an operator may choose.
#[derive(Clone, Debug, Default)]
pub struct IncidentSettings {
    /// Which detectors are off, and other holds.
    pub options: Options,
}

/// The incidents of all clusters that somebody reads. A clone is the same.
#[derive(Clone)]
pub struct IncidentWatches {
    shared: Arc<Shared>,
}

struct Shared {
    deps: WatchDeps,
    /// Watches of events that are there anyway.
    events: OnceLock<Watches>,
    options: Arc<Options>,
    clock: Clock,
    keys: AtomicU64,
    announcements: Announcements,
    user_announcements: UserAnnouncements,
    claims: Claims<Scope>,
    tasks: SharedTasks<Scope, Arc<IncidentWatcher>>,
    /// What users may see of them.
    views: SharedTasks<(Scope, Arc<UserView>), Arc<IncidentWatcher>>,
}

/// Incidents that a caller needs, counted until this is dropped.
#[derive(Debug)]
pub struct IncidentClaim {
    _claim: Claim<Scope>,
    caller: ShareKey,
    scope: Scope,
}

/// The incidents of a moment. All text is redacted.
#[derive(Clone, Debug)]
pub struct IncidentSnapshot {
    /// The context.
    pub context: String,
    /// The namespace; none for the whole cluster.
    pub namespace: Option<String>,
    /// The moment.
    pub at: Timestamp,
    /// Those that are open, the worst first.
    pub open: Vec<Arc<Incident>>,
    /// Those that were resolved lately, the newest first.
    pub resolved: Vec<Arc<ResolvedIncident>>,
    /// Kinds that are left out or out of date, and what is not seen without them.
    pub notes: Vec<String>,
    /// The number of the last update that followers were notified of.
    pub seq: u64,
    /// What the user could read for whom it was derived; none if it shows everything.
    pub clearance: Option<Arc<Clearance>>,
}

/// An incident that is over.
#[derive(Clone, Debug)]
pub struct ResolvedIncident {
    /// As it was last.
    pub incident: Incident,
    /// When it ended.
    pub at: Timestamp,
    /// How long it took.
    pub after: SignedDuration,
}

/// What followers are notified of.
#[derive(Clone, Debug)]
pub struct IncidentUpdate {
    /// The context.
    pub context: Arc<str>,
    /// The number of the update.
    pub seq: u64,
    /// When it was seen.
    pub at: Timestamp,
    /// What the user could read for whom it was derived; none if it shows everything.
    pub clearance: Option<Arc<Clearance>>,
    /// What was opened, changed and resolved; empty if only the list is another.
    pub transitions: Vec<Transition>,
}

/// Is notified of incidents. Must not block.
pub trait IncidentFollower: Send + Sync {
    /// Incidents were opened, changed or resolved, or the list of now is another.
    fn on_update(&self, update: &Arc<IncidentUpdate>);
}

// === impl IncidentWatches ===

impl IncidentWatches {
    /// The same, with events from the watches of others where those cover a scope. Nothing may be
    /// watched yet.
    #[must_use]
    pub fn sharing_events(self, watches: Watches) -> Self {
        let _has_some = self.shared.events.set(watches);
        self
    }

    /// Nothing is watched yet.
    pub fn new(
        contexts: Arc<Contexts>,
        lifecycle: Lifecycle,
        watches: WatchMetrics,
        renewal: Duration,
        limits: TaskLimits,
        settings: IncidentSettings,
    ) -> Self {
        let deps = WatchDeps {
            contexts,
            watches,
            renewal,
        };
        Self::with_clock(deps, lifecycle, limits, settings, Arc::new(Timestamp::now))
    }

    fn with_clock(
        deps: WatchDeps,
        lifecycle: Lifecycle,
        limits: TaskLimits,
        settings: IncidentSettings,
        clock: Clock,
    ) -> Self {
        let limit = (LIMIT, limits.total_max);
        let views_max = limits.total_max.saturating_mul(USERS_PER_SCOPE);
        let views = (LIMIT, views_max);
        let views = SharedTasks::new("incidents", VIEW_LINGER, views, lifecycle.clone());
        Self {
            shared: Arc::new(Shared {
                deps,
                events: OnceLock::new(),
                options: Arc::new(settings.options),
                clock,
                keys: AtomicU64::new(0),
                announcements: Announcements::default(),
                user_announcements: UserAnnouncements::default(),
                claims: Claims::new(LIMIT, limits.per_caller_max),
                tasks: SharedTasks::new("incidents", LINGER, limit, lifecycle),
                views,
            }),
        }
    }

    /// Counts the incidents of a namespace, or of a whole cluster, for a caller.
    pub fn claim(
        &self,
        caller: &ShareKey,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<IncidentClaim, ClusterError> {
        let scope = self.scope(context, namespace)?;
        let claim = self.shared.claims.claim(caller, vec![scope.clone()]);
        Ok(IncidentClaim {
            _claim: claim.map_err(|reached| limit(&scope, &reached))?,
            caller: caller.clone(),
            scope,
        })
    }

    /// The incidents of a namespace, or of a whole cluster, for a caller: those that may be
    /// seen. When it returns, every kind that may be read has been listed.
    pub async fn read(
        &self,
        caller: &ShareKey,
        viewer: &Viewer,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<IncidentView, ClusterError> {
        let claim = self.claim(caller, context, namespace)?;
        let scope = claim.scope.clone();
        self.ready_view(scope, viewer, Some(claim)).await
    }

    /// The same; the follower is notified of later changes. Whoever needs it holds a
    /// [claim](IncidentWatches::claim) meanwhile.
    pub async fn follow(
        &self,
        viewer: &Viewer,
        context: Option<&str>,
        namespace: Option<&Name>,
        follower: Arc<dyn IncidentFollower>,
    ) -> Result<IncidentView, ClusterError> {
        let scope = self.scope(context, namespace)?;
        let view = self.ready_view(scope, viewer, None).await?;
        view.watcher.add(view.key, follower);
        Ok(view)
    }

    /// Whether there can be such incidents. Sends no request.
    pub fn check(
        &self,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<(), ClusterError> {
        self.scope(context, namespace).map(drop)
    }

    /// The number of the last announcement that a viewer could see, of all scopes together.
    pub fn last_announced(&self, viewer: &Viewer) -> u64 {
        self.announcements(viewer).last()
    }

    fn announcements(&self, viewer: &Viewer) -> Announcements {
        match viewer {
            Viewer::Everything => self.shared.announcements.clone(),
            Viewer::User(user) => self.shared.user_announcements.of(user),
        }
    }

    /// The number of watchers.
    pub fn len(&self) -> usize {
        self.shared.tasks.lock().len()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    async fn ready_view(
        &self,
        scope: Scope,
        viewer: &Viewer,
        claim: Option<IncidentClaim>,
    ) -> Result<IncidentView, ClusterError> {
        if let (Viewer::User(user), Some(_)) = (viewer, &scope.namespace) {
            // Nothing is listed for who may not see any of it.
            let rights = eyes::rights(user, &scope);
            let decided = rights.decide(&BTreeSet::new(), Freshness::Remembered).await;
            eyes::some(decided, &scope)?;
        }
        let view = self.view(scope, viewer, claim)?;
        let ready = timeout(ACQUIRE_TIMEOUT, view.watcher.ready()).await;
        ready.map_err(|_elapsed| slow(&view.watcher.scope))??;
        Ok(view)
    }

    fn view(
        &self,
        scope: Scope,
        viewer: &Viewer,
        claim: Option<IncidentClaim>,
    ) -> Result<IncidentView, ClusterError> {
        let caller = claim.as_ref().map(|claim| &claim.caller);
        let whole = self.whole(&scope, caller)?;
        let watcher = match viewer {
            Viewer::Everything => whole,
            Viewer::User(user) => self.seen(whole, scope, user, caller)?,
        };
        Ok(IncidentView {
            watcher,
            key: self.next_key(),
            _claim: claim,
        })
    }

    /// The incidents of a scope, for all.
    fn whole(
        &self,
        scope: &Scope,
        caller: Option<&ShareKey>,
    ) -> Result<Lease<Arc<IncidentWatcher>>, ClusterError> {
        let shared = &self.shared;
        let mut tasks = shared.tasks.lock();
        if let Some(watcher) = tasks.lease(scope).filter(|one| !one.has_failed()) {
            return Ok(watcher);
        }
        let room = tasks.make_room(scope, caller);
        room.map_err(|reached| limit(scope, &reached))?;
        let watcher = Arc::new(IncidentWatcher::new(
            scope.clone(),
            Arc::clone(&shared.clock),
            Arc::clone(&shared.options),
            shared.deps.watches.incidents().clone(),
            shared.deps.contexts.scope(),
            Journal::new(shared.announcements.clone()),
        ));
        let events = shared.events.get().cloned();
        let run = Arc::clone(&watcher).run(shared.deps.clone(), events);
        Ok(tasks.start(scope.clone(), watcher, caller, run, on_end))
    }

    /// Those of them that a user may see.
    fn seen(
        &self,
        whole: Lease<Arc<IncidentWatcher>>,
        scope: Scope,
        user: &Arc<UserView>,
        caller: Option<&ShareKey>,
    ) -> Result<Lease<Arc<IncidentWatcher>>, ClusterError> {
        let key = (scope, Arc::clone(user));
        let mut views = self.shared.views.lock();
        if let Some(watcher) = views.lease(&key).filter(|one| !one.has_failed()) {
            return Ok(watcher);
        }
        let room = views.make_room(&key, caller);
        room.map_err(|reached| limit(&key.0, &reached))?;
        let journal = Journal::new(self.shared.user_announcements.of(user));
        let eyes = IncidentEyes::new(&whole, user);
        let watcher = Arc::new(IncidentWatcher::seen(eyes, journal));
        let run = eyes::run(Arc::clone(&watcher), whole, self.next_key());
        Ok(views.start(key, watcher, caller, run, on_end))
    }

    fn next_key(&self) -> u64 {
        self.shared.keys.fetch_add(1, Ordering::Relaxed)
    }
}

/// Tells those who wait for a watcher that it has ended.
fn on_end(watcher: &Arc<IncidentWatcher>, end: TaskEnd) {
    match end {
        TaskEnd::Failed(error) => watcher.fail_startup(error),
        TaskEnd::Draining => watcher.fail_startup(stopped(&watcher.scope)),
        TaskEnd::Unused => {}
    }
}

impl fmt::Debug for IncidentWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.shared.tasks.lock();
        f.debug_set()
            .entries(tasks.iter().map(|(scope, _)| scope))
            .finish()
    }
}

#[cfg(test)]
mod tests;
