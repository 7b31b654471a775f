//! Incidents of clusters and namespaces, shared by all readers that need the same.
//!
//! ```text
//!  read, follow ──▶ one watcher per scope: a list and a watch per kind ──▶ State ──▶ Life
//!                          ▲                                                 │        │
//!                          └── shared_task: the last view, then a while      ▼        ▼
//!                                                                        snapshots  followers
//! ```

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Duration;

use crate::{contexts::Contexts, error::ClusterError, name::Name, shared_task::TaskLimits};
use kubecrier_core::{metrics::WatchMetrics, shares::ShareKey};
use kubecrier_incidents::{Incident, Transition};
use kubecrier_lifecycle::Lifecycle;

/// What an operator may choose.
#[derive(Clone, Debug, Default)]
pub struct IncidentSettings {}

/// The incidents of all clusters that somebody reads. A clone is the same.
#[derive(Clone, Debug)]
pub struct IncidentWatches {}

/// Incidents that a caller needs, counted until this is dropped.
#[derive(Debug)]
pub struct IncidentClaim {}

/// The incidents of a namespace or a cluster, kept up to date while this is held.
pub struct IncidentView {}

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
        _contexts: Arc<Contexts>,
        _lifecycle: Lifecycle,
        _watches: WatchMetrics,
        _renewal: Duration,
        _limits: TaskLimits,
        _settings: IncidentSettings,
    ) -> Self {
        Self {}
    }

    /// Counts the incidents of a namespace, or of a whole cluster, for a caller.
    pub fn claim(
        &self,
        _caller: &ShareKey,
        _context: Option<&str>,
        _namespace: Option<&Name>,
    ) -> Result<IncidentClaim, ClusterError> {
        unimplemented!()
    }

    /// The incidents of a namespace, or of a whole cluster, for a caller. When it returns,
    /// every kind that may be read has been listed.
    pub async fn read(
        &self,
        _caller: &ShareKey,
        _context: Option<&str>,
        _namespace: Option<&Name>,
    ) -> Result<IncidentView, ClusterError> {
        unimplemented!()
    }

    /// The same; the follower is notified of later changes. Whoever needs it holds a
    /// [claim](IncidentWatches::claim) meanwhile.
    pub async fn follow(
        &self,
        _context: Option<&str>,
        _namespace: Option<&Name>,
        _follower: Arc<dyn IncidentFollower>,
    ) -> Result<IncidentView, ClusterError> {
        unimplemented!()
    }

    /// Whether there can be such incidents. Sends no request.
    pub fn check(
        &self,
        _context: Option<&str>,
        _namespace: Option<&Name>,
    ) -> Result<(), ClusterError> {
        unimplemented!()
    }
}

// === impl IncidentView ===

impl IncidentView {
    /// The name of the context.
    pub fn context(&self) -> &str {
        unimplemented!()
    }

    /// The incidents of now. Costs no request and no computation.
    pub fn snapshot(&self) -> Arc<IncidentSnapshot> {
        unimplemented!()
    }
}

impl fmt::Debug for IncidentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncidentView").finish()
    }
}
