//! The work that callers ask for: running calls, and reads from clusters.
//!
//! Over HTTP a call has its permit before its message reaches rmcp (`body`); on stdio it gets
//! it here. Of the calls that run, only some read from clusters at a time, because each may
//! have a large answer in memory; the others wait, no longer than their caller does. So do
//! those that run executables of a project. A call that waits for an incident has a limit of
//! its own, and takes part in the others only when it reads the evidence.

use rmcp::ErrorData;

use super::handler::{Handler, SessionLookup};
use crate::{resources::Requester, tools};
use kubecrier_core::shares::{CallerShare, LimitName, Permit, SharedLimit};
use kubecrier_k8s::TaskLimits;

/// The words of the limits.
const CALLS: LimitName = LimitName::new("running requests", "--max-concurrent-requests");
const PROCESSES: LimitName = LimitName::new("executables of the project", "--max-tool-processes");
const READS: LimitName = LimitName::new("reads from clusters", "--max-cluster-reads");
const WAITS: LimitName = LimitName::new("waits for incidents", "--max-waits");

/// Limits of what callers can have the server do, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// The part of each that one caller may take.
    pub share: CallerShare,
    /// Requests that run.
    pub calls_max: usize,
    /// Requests that read from clusters at a time.
    pub reads_max: usize,
    /// Calls and tasks that wait for an incident.
    pub waits_max: usize,
    /// Watches of events.
    pub watches_max: usize,
    /// Graphs that are kept up to date.
    pub graphs_max: usize,
    /// Logs that are followed.
    pub followed_logs_max: usize,
}

/// The work that is being done.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    calls: SharedLimit,
    reads: SharedLimit,
    processes: SharedLimit,
    waits: SharedLimit,
}

// === impl WorkLimits ===

impl WorkLimits {
    pub(crate) fn watches(&self) -> TaskLimits {
        TaskLimits::new(self.watches_max, self.share)
    }

    pub(crate) fn graphs(&self) -> TaskLimits {
        TaskLimits::new(self.graphs_max, self.share)
    }

    /// Incidents are kept from as many watches as a graph.
    pub(crate) fn incidents(&self) -> TaskLimits {
        self.graphs()
    }

    pub(crate) fn followed_logs(&self) -> TaskLimits {
        TaskLimits::new(self.followed_logs_max, self.share)
    }
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self {
            share: CallerShare::HALF,
            calls_max: 512,
            reads_max: 32,
            waits_max: 2000,
            watches_max: 200,
            graphs_max: 16,
            followed_logs_max: 100,
        }
    }
}

// === impl Work ===

impl Work {
    pub(crate) fn new(limits: &WorkLimits, processes_max: usize) -> Self {
        Self {
            processes: SharedLimit::new(PROCESSES, processes_max, limits.share),
            calls: SharedLimit::new(CALLS, limits.calls_max, limits.share),
            reads: SharedLimit::new(READS, limits.reads_max, limits.share),
            waits: SharedLimit::new(WAITS, limits.waits_max, limits.share),
        }
    }

    /// The limit of running calls.
    pub(crate) fn calls(&self) -> &SharedLimit {
        &self.calls
    }

    /// The limit of waits, which hold no other permit while they wait.
    pub(crate) fn waits(&self) -> &SharedLimit {
        &self.waits
    }

    /// Waits until the requester may read from a cluster. Cancel-safe.
    pub(crate) async fn read_permit(&self, requester: &Requester) -> Permit {
        self.reads.wait(&requester.share_key()).await
    }

    /// Waits until the requester may run an executable of the project. Cancel-safe.
    pub(super) async fn process_permit(&self, requester: &Requester) -> Permit {
        self.processes.wait(&requester.share_key()).await
    }
}

// === impl Handler ===

impl Handler {
    /// The permit of a request, where the transport has not acquired it.
    pub(super) fn call_permit(&self, requester: &Requester) -> Result<Option<Permit>, ErrorData> {
        self.permit_of(requester, self.server.shared.work.calls())
    }

    /// The same for a call of a tool: a wait counts as no call.
    pub(super) fn tool_permit(
        &self,
        requester: &Requester,
        tool: &str,
    ) -> Result<Option<Permit>, ErrorData> {
        let work = &self.server.shared.work;
        let limit = if tool == tools::FAULTS_WAIT {
            work.waits()
        } else {
            work.calls()
        };
        self.permit_of(requester, limit)
    }

    fn permit_of(
        &self,
        requester: &Requester,
        limit: &SharedLimit,
    ) -> Result<Option<Permit>, ErrorData> {
        match self.sessions {
            SessionLookup::ByHeader(_) => Ok(None),
            SessionLookup::Single { .. } => {
                let permit = limit.acquire(&requester.share_key());
                let refused = |reached| {
                    let text = format!("{reached}; try again when some have been answered");
                    ErrorData::internal_error(text, None)
                };
                permit.map(Some).map_err(refused)
            }
        }
    }
}
