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
//! - `evaluator`: what is open, and what is announced
//! - `crash_words`: why containers ended, as their logs tell
//! - `journal`: what was announced lately
//! - `shown`: what may be shown of an incident
//! - `notes`: kinds that are missing, and what is not seen without them

mod crash_words;
mod evaluator;
mod journal;
mod kinds;
mod notes;
mod object;
mod shown;
mod watcher;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Duration, timeout};

pub use self::journal::Announced;
pub(crate) use self::kinds::{blind_without, incident_kinds};
use self::{
    journal::{Announcements, Journal},
    watcher::IncidentWatcher,
};
use crate::{
    contexts::Contexts,
    error::{ClusterError, ErrorKind},
    kind_watch::{Scope, WatchDeps},
    name::Name,
    shared_task::{Lease, SharedTasks, TaskEnd, TaskLimits},
};
use kubecrier_core::{
    metrics::WatchMetrics,
    shares::{Claim, Claims, LimitName, LimitReached, ShareKey},
};
use kubecrier_incidents::{Incident, Options, Transition};
use kubecrier_lifecycle::Lifecycle;

/// A watcher without views is kept this long: listing everything again is a lot of work for
/// an API server, and what was announced would be forgotten.
const LINGER: Duration = Duration::from_mins(5);

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
    options: Arc<Options>,
    clock: Clock,
    keys: AtomicU64,
    announcements: Announcements,
    claims: Claims<Scope>,
    tasks: SharedTasks<Scope, Arc<IncidentWatcher>>,
}

/// Incidents that a caller needs, counted until this is dropped.
#[derive(Debug)]
pub struct IncidentClaim {
    _claim: Claim<Scope>,
    caller: ShareKey,
    scope: Scope,
}

/// The incidents of a namespace or a cluster, kept up to date while this is held.
pub struct IncidentView {
    watcher: Lease<Arc<IncidentWatcher>>,
    key: u64,
    /// Of the caller that reads it. Those who follow it have their own.
    _claim: Option<IncidentClaim>,
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
        Self {
            shared: Arc::new(Shared {
                deps,
                options: Arc::new(settings.options),
                clock,
                keys: AtomicU64::new(0),
                announcements: Announcements::default(),
                claims: Claims::new(LIMIT, limits.per_caller_max),
                tasks: SharedTasks::new("incidents", LINGER, limit, lifecycle),
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

    /// The incidents of a namespace, or of a whole cluster, for a caller. When it returns,
    /// every kind that may be read has been listed.
    pub async fn read(
        &self,
        caller: &ShareKey,
        context: Option<&str>,
        namespace: Option<&Name>,
    ) -> Result<IncidentView, ClusterError> {
        let claim = self.claim(caller, context, namespace)?;
        let scope = claim.scope.clone();
        self.ready_view(scope, Some(claim)).await
    }

    /// The same; the follower is notified of later changes. Whoever needs it holds a
    /// [claim](IncidentWatches::claim) meanwhile.
    pub async fn follow(
        &self,
        context: Option<&str>,
        namespace: Option<&Name>,
        follower: Arc<dyn IncidentFollower>,
    ) -> Result<IncidentView, ClusterError> {
        let scope = self.scope(context, namespace)?;
        let view = self.ready_view(scope, None).await?;
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

    /// The number of the last announcement, of all scopes together.
    pub fn last_announced(&self) -> u64 {
        self.shared.announcements.last()
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
        claim: Option<IncidentClaim>,
    ) -> Result<IncidentView, ClusterError> {
        let view = self.view(scope, claim)?;
        let ready = timeout(ACQUIRE_TIMEOUT, view.watcher.ready()).await;
        ready.map_err(|_elapsed| slow(&view.watcher.scope))??;
        Ok(view)
    }

    fn view(
        &self,
        scope: Scope,
        claim: Option<IncidentClaim>,
    ) -> Result<IncidentView, ClusterError> {
        let key = self.shared.keys.fetch_add(1, Ordering::Relaxed);
        let mut tasks = self.shared.tasks.lock();
        let running = tasks.lease(&scope).filter(|one| !one.has_failed());
        let watcher = match running {
            Some(watcher) => watcher,
            None => {
                let caller = claim.as_ref().map(|claim| &claim.caller);
                let room = tasks.make_room(&scope, caller);
                room.map_err(|reached| limit(&scope, &reached))?;
                let shared = &self.shared;
                let watcher = Arc::new(IncidentWatcher::new(
                    scope.clone(),
                    Arc::clone(&shared.clock),
                    Arc::clone(&shared.options),
                    shared.deps.watches.incidents().clone(),
                    shared.deps.contexts.scope(),
                    Journal::new(shared.announcements.clone()),
                ));
                let run = Arc::clone(&watcher).run(shared.deps.clone());
                let on_end = |watcher: &Arc<IncidentWatcher>, end| match end {
                    TaskEnd::Failed(error) => watcher.fail_startup(error),
                    TaskEnd::Draining => watcher.fail_startup(stopped(&watcher.scope)),
                    TaskEnd::Unused => {}
                };
                tasks.start(scope, watcher, caller, run, on_end)
            }
        };
        Ok(IncidentView {
            watcher,
            key,
            _claim: claim,
        })
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

fn reading(scope: &Scope) -> String {
    format!("cannot read the incidents of {scope}")
}

fn limit(scope: &Scope, reached: &LimitReached) -> ClusterError {
    ClusterError::limit(&reading(scope), reached)
}

fn confined(scope: &Scope) -> ClusterError {
    let reason = "--allowed-namespaces excludes the incidents of a whole cluster";
    let hint = "name a namespace that is allowed".to_owned();
    ClusterError::new(ErrorKind::Forbidden, reading(scope), reason, Some(hint))
}

fn slow(scope: &Scope) -> ClusterError {
    let seconds = ACQUIRE_TIMEOUT.as_secs();
    ClusterError::new(
        ErrorKind::Timeout,
        reading(scope),
        format!("not everything could be listed within {seconds} s; it goes on"),
        Some("ask again in a moment, or name a namespace".to_owned()),
    )
}

fn stopped(scope: &Scope) -> ClusterError {
    ClusterError::new(ErrorKind::Other, reading(scope), "the server stops", None)
}

// === impl IncidentView ===

impl IncidentView {
    /// The name of the context.
    pub fn context(&self) -> &str {
        &self.watcher.scope.context
    }

    /// The incidents of now. Costs no request and no computation.
    pub fn snapshot(&self) -> Arc<IncidentSnapshot> {
        self.watcher.snapshot()
    }

    /// What was announced after the one with that number.
    pub fn announced_after(&self, number: u64) -> Announced {
        self.watcher.journal.after(number)
    }

    /// Why the incidents of now may be those of before, if watches do not work.
    pub fn degraded(&self) -> Option<String> {
        let snapshot = self.snapshot();
        let mut notes = snapshot.notes.iter();
        notes.find(|note| note.starts_with(notes::STALE)).cloned()
    }
}

impl Drop for IncidentView {
    fn drop(&mut self) {
        self.watcher.remove(self.key);
    }
}

impl fmt::Debug for IncidentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IncidentView")
            .field(&self.watcher.scope)
            .finish()
    }
}

#[cfg(test)]
mod tests;
