//! Watches of events, shared by everyone who needs the same.
//!
//! ```text
//!  join ──▶ begin (may we, and from where?) ──▶ one Machine per Scope ──▶ Members
//!                                                      ▲                     │
//!                    the last lease, and a while ──────┘◀──── Lease ─────────┘
//! ```

pub(super) mod home;
mod labels;
pub(super) mod machine;
mod members;
mod memo;
mod outgoing;
mod partial;
mod scope;
pub(super) mod source;
pub(super) mod status;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep};

use self::{
    labels::LabelSource,
    machine::Machine,
    members::Members,
    outgoing::Outgoing,
    scope::Scope,
    source::{ClusterSource, Start},
    status::Status,
};
use super::{
    contexts::Contexts,
    error::{ClusterError, ErrorKind},
};
use kubecrier_core::{
    filters::Filters,
    metrics::{WatchMetrics, WatchState},
    slices::Slices,
    subscriptions::Listener,
};
use kubecrier_lifecycle::Lifecycle;

/// A watch that nobody needs any more is kept this long: the next one may come at
/// once.
const LINGER: Duration = Duration::from_secs(5);

/// Watches of single objects per context; more objects are watched together.
const SELECTIVE_MAX: usize = 8;

/// Events live this long in a cluster that was not told otherwise.
const EVENT_TTL_MINUTES: usize = 60;

/// All watches of events. A clone is the same.
#[derive(Clone)]
pub struct Watches {
    shared: Arc<Shared>,
}

struct Shared {
    contexts: Arc<Contexts>,
    lifecycle: Lifecycle,
    labels: Arc<LabelSource>,
    metrics: WatchMetrics,
    renewal: Duration,
    slices: Slices,
    keys: AtomicU64,
    // A lock because subscribers come and go on many tasks; held for map operations.
    running: Mutex<HashMap<Scope, Running>>,
}

#[derive(Clone)]
struct Running {
    members: Arc<Members>,
    status: Arc<Status>,
}

/// What a subscriber got.
#[derive(Debug)]
pub struct Joined {
    /// Dropped, it ends the membership.
    pub lease: Lease,
    /// The context, spelled out.
    pub context: String,
    /// What is not as it was asked for.
    pub warnings: Vec<String>,
    /// Events per minute in what is watched, before any filter.
    pub rate: Option<usize>,
}

/// A share in one or more watches, while it is held.
#[derive(Default)]
pub struct Lease {
    shares: Vec<Share>,
}

struct Share {
    members: Arc<Members>,
    key: u64,
}

/// How a watch does, for those who run the server.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchInfo {
    /// What it covers.
    pub scope: String,
    /// How it stands.
    pub state: WatchState,
    /// Who shares it.
    pub subscriptions: usize,
    /// Since something was last heard.
    pub silent_seconds: u64,
}

// === impl Watches ===

impl Watches {
    /// No watch yet.
    pub fn new(
        contexts: Arc<Contexts>,
        lifecycle: Lifecycle,
        metrics: WatchMetrics,
        renewal: Duration,
        slices: Slices,
    ) -> Self {
        let labels = Arc::new(LabelSource::new(Arc::clone(&contexts), lifecycle.clone()));
        Self {
            shared: Arc::new(Shared {
                contexts,
                lifecycle,
                labels,
                metrics,
                renewal,
                slices,
                keys: AtomicU64::new(0),
                running: Mutex::default(),
            }),
        }
    }

    /// The context a name stands for; none is the default one.
    pub fn context(&self, name: Option<&str>) -> Result<String, ClusterError> {
        self.shared.contexts.resolve(name)
    }

    /// Watches what these filters need, on behalf of the listener. When it returns,
    /// the watch stands: nothing that happens later is missed, and nothing that was
    /// there before is told.
    pub async fn join(
        &self,
        context: &str,
        filters: &Filters,
        listener: Arc<dyn Listener>,
    ) -> Result<Joined, ClusterError> {
        let scopes = Scope::of(context, filters);
        let mut warnings = Vec::new();
        let begun = self.begin_all(&scopes).await;
        let begun = match (begun, scopes.as_slice()) {
            (Err(error), [whole])
                if error.kind() == ErrorKind::Forbidden && whole.namespace.is_none() =>
            {
                self.allowed_namespaces(whole, filters, error, &mut warnings)
                    .await?
            }
            (begun, _) => begun?,
        };
        self.missing_namespaces(context, filters, &mut warnings)
            .await;
        let counts = begun.iter().map(|(_, start)| start.count);
        let events: Option<usize> = counts.sum();
        let entered = self.enter(begun, &listener);
        for stood in join_all(entered.iter().map(|(_, one)| one.status.first())).await {
            stood.map_err(with_rule)?;
        }
        for (share, running) in &entered {
            if running.status.state() != WatchState::Live {
                let again = "the watch is being re-established";
                let why = running.members.trouble().map(|error| format!(": {error}"));
                warnings.push(format!(
                    "{again}{}; events of the meantime will follow",
                    why.unwrap_or_default()
                ));
                // The cluster has just answered, so it need not wait any longer.
                running.status.nudge();
            }
            running.members.catch_up(share.key, &*listener);
        }
        let lease = Lease {
            shares: entered.into_iter().map(|(share, _)| share).collect(),
        };
        Ok(Joined {
            lease,
            context: context.to_owned(),
            warnings,
            rate: events.map(|events| events.div_ceil(EVENT_TTL_MINUTES)),
        })
    }

    /// How the watches do.
    pub fn list(&self) -> Vec<WatchInfo> {
        let running = self.shared.running.lock();
        let info = |(scope, one): (&Scope, &Running)| WatchInfo {
            scope: scope.to_string(),
            state: one.status.state(),
            subscriptions: one.members.len(),
            silent_seconds: one.status.alive().elapsed().as_secs(),
        };
        let mut all: Vec<_> = running.iter().map(info).collect();
        drop(running);
        all.sort_by(|a, b| a.scope.cmp(&b.scope));
        all
    }

    /// Since when the quietest watch has said nothing.
    pub fn quietest(&self) -> Duration {
        let running = self.shared.running.lock();
        let now = Instant::now();
        let silence = |one: &Running| now.duration_since(one.status.alive());
        running.values().map(silence).max().unwrap_or_default()
    }

    async fn begin_all(&self, scopes: &[Scope]) -> Result<Vec<(Scope, Start)>, ClusterError> {
        let begin = |scope: Scope| async move {
            let start = source::begin(&self.shared.contexts, &scope).await?;
            Ok((scope, start))
        };
        let begun = join_all(scopes.iter().cloned().map(begin)).await;
        begun
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(with_rule)
    }

    /// Joins the watches that cover the scopes, or starts them.
    fn enter(
        &self,
        begun: Vec<(Scope, Start)>,
        listener: &Arc<dyn Listener>,
    ) -> Vec<(Share, Running)> {
        let shared = &self.shared;
        let mut running = shared.running.lock();
        let working = working(&running);
        // Where one watch sees all namespaces, none is watched beside it: what happens
        // there would be told twice.
        let whole = (begun.iter())
            .map(|(scope, _)| covering(&running, &working, scope.clone()))
            .find(|scope| scope.namespace.is_none());
        let mut entered: Vec<(Share, Running)> = Vec::with_capacity(begun.len());
        for (scope, start) in begun {
            let scope = match &whole {
                Some(whole) => whole.clone(),
                None => covering(&running, &working, scope),
            };
            let known = running.get(&scope).cloned();
            let one = known.clone().unwrap_or_else(|| Running {
                members: Arc::default(),
                status: Arc::new(Status::new(shared.metrics.clone())),
            });
            let same = |(share, _): &(Share, Running)| Arc::ptr_eq(&share.members, &one.members);
            if entered.iter().any(same) {
                continue;
            }
            // Under the lock: who joins a watch later has a higher key.
            let key = shared.keys.fetch_add(1, Ordering::Relaxed);
            let not_before = start.version.parse().unwrap_or_default();
            one.members.add(key, not_before, Arc::clone(listener));
            if known.is_none() {
                running.insert(scope.clone(), one.clone());
                // With its first member: what it sees at once is for somebody.
                self.run(scope, &one, start.version);
            }
            let members = Arc::clone(&one.members);
            entered.push((Share { members, key }, one));
        }
        entered
    }

    fn run(&self, scope: Scope, one: &Running, version: String) {
        let shared = &self.shared;
        let source = ClusterSource::new(
            Arc::clone(&shared.contexts),
            Arc::clone(&shared.labels),
            scope.clone(),
            shared.renewal,
        );
        let machine = Machine::new(
            source,
            Outgoing::new(Arc::clone(&one.members), shared.slices),
            Arc::clone(&one.status),
            shared.renewal,
            version,
            scope.to_string(),
        );
        let weak = Arc::downgrade(shared);
        let (members, status) = (Arc::clone(&one.members), Arc::clone(&one.status));
        let draining = shared.lifecycle.draining().clone();
        shared.lifecycle.spawn("watch", async move {
            tracing::debug!(watch = %scope, "a watch starts");
            tokio::select! {
                error = machine.run() => {
                    forget(&weak, &scope, &members);
                    status.never_stood(error);
                }
                () = unneeded(&weak, &scope, &members) => {}
                () = draining.cancelled() => {
                    forget(&weak, &scope, &members);
                    status.never_stood(ClusterError::new(
                        ErrorKind::Other,
                        "cannot watch events",
                        "the server stops",
                        None,
                    ));
                }
            }
            tracing::debug!(watch = %scope, "a watch ends");
        });
    }
}

/// The watches that can be joined for more than their own scope. A wider watch that
/// does not work may never: rights may be narrower than it.
fn working(running: &HashMap<Scope, Running>) -> HashSet<Scope> {
    let works = |one: &Running| {
        matches!(
            one.status.state(),
            WatchState::Connecting | WatchState::Live
        )
    };
    let working = running.iter().filter(|(_, one)| works(one));
    working.map(|(scope, _)| scope.clone()).collect()
}

/// A watch that is there and sees all that the scope asks for, or the scope itself.
fn covering(running: &HashMap<Scope, Running>, working: &HashSet<Scope>, scope: Scope) -> Scope {
    let wide = scope.widened();
    let whole = wide.everywhere();
    let selective = (running.keys())
        .filter(|one| one.selector.is_some() && one.context == scope.context)
        .count();
    match () {
        () if running.contains_key(&scope) => scope,
        () if working.contains(&wide) => wide,
        () if working.contains(&whole) => whole,
        () if scope.selector.is_some() && selective >= SELECTIVE_MAX => wide,
        () => scope,
    }
}

/// Waits until nobody has needed the watch for a while, and takes it off the list so
/// that nobody can join it any more.
async fn unneeded(shared: &Weak<Shared>, scope: &Scope, members: &Arc<Members>) {
    loop {
        members.empty().await;
        sleep(LINGER).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut running = shared.running.lock();
        if members.is_empty() {
            running.remove(scope);
            return;
        }
    }
}

fn forget(shared: &Weak<Shared>, scope: &Scope, members: &Arc<Members>) {
    if let Some(shared) = shared.upgrade() {
        let mut running = shared.running.lock();
        if running
            .get(scope)
            .is_some_and(|one| Arc::ptr_eq(&one.members, members))
        {
            running.remove(scope);
        }
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

// === impl Lease ===

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("watches", &self.shares.len())
            .finish()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.members.remove(self.key);
    }
}

#[cfg(test)]
mod tests;
