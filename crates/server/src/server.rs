//! The server and the handlers of its requests.
//!
//! - `setup` makes the [`Server`] that all clients share;
//! - `handler` is what rmcp calls, one per session or request, and these answer its
//!   requests: `calls` (`tools/call`), `listen` (`subscriptions/listen`), `prompts`
//!   (with completion), `resources`, `level` (`logging/setLevel`), `tasks` (`tasks/get` and
//!   calls whose answer is fetched with it);
//! - `instructions` is what a client gives its model; `parameters` names what is wrong with
//!   those of a request;
//! - `work` limits what runs at a time; `incidents` are followed for the process's own sinks;
//! - `lists` makes the lists that clients page through;
//! - `revival` continues the sessions of another process;
//! - `subscriptions` shows operators what is watched.

mod calls;
mod handler;
mod incidents;
mod instructions;
mod level;
mod listen;
mod lists;
mod parameters;
mod prompts;
mod resources;
mod revival;
mod setup;
mod subscriptions;
mod tasks;
mod work;

pub(crate) use self::{handler::Handler, work::Work};
pub use self::{
    incidents::FollowedIncidents,
    setup::{Setup, ToolLimits},
    subscriptions::SubscriptionStats,
    work::WorkLimits,
};

use std::sync::{Arc, OnceLock};

use mcp_notify::{Delivery, LoggingService, Notification, NotificationSink, Session};

use tokio::time::{Duration, sleep};

use super::{
    doors::Door,
    history::{CaughtUp, Recorder},
    incidents::Incidents,
    list_changes::ListChanges,
    replicas::{ClusterStore, SharedCaptures, keep_secret},
    resources::Resources,
    sessions::Sessions,
    subscriptions::Subscriptions,
    tasks::Tasks,
    tool_filter::ToolFilter,
    tool_provider::ToolProvider,
    tools::{ContextChoice, DefinitionCache},
    waits::Waits,
};
use kubecrier_core::metrics::{AnswerMetrics, Metrics};
use kubecrier_history::{History, Peers, Registry};
use kubecrier_k8s::{Contexts, EventLists, Graphs, SharedWatching};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_project::Project;
use kubecrier_redact::Redactor;

/// The MCP server: what all of its clients share.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

/// What servers that share their sessions have in common.
#[derive(Clone, Debug)]
pub struct SharedSessions {
    /// Where the records of sessions are.
    pub registry: Arc<dyn Registry>,
    /// How the others are reached.
    pub peers: Arc<dyn Peers>,
}

/// How long a server that starts waits for what others have seen before it is ready.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(20);

/// How often a store is looked at while it is waited for.
const STORE_CHECK: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Shared {
    contexts: Arc<Contexts>,
    metrics: Metrics,
    lifecycle: Lifecycle,
    limits: ToolLimits,
    work: Work,
    tool_filter: ToolFilter,
    redactor: Redactor,
    logging: LoggingService,
    list_changes: ListChanges,
    resources: Resources,
    subscriptions: Subscriptions,
    event_lists: EventLists,
    /// What happened before, if it is kept.
    history: Option<History>,
    caught_up: Arc<CaughtUp>,
    graphs: Graphs,
    incidents: Incidents,
    waits: Waits,
    tasks: Tasks,
    /// The built-in tools, as clients see them.
    definitions: DefinitionCache<ContextChoice>,
    tool_providers: Vec<Box<dyn ToolProvider>>,
    project: Option<Project>,
    /// The servers that share its sessions, and where; empty if none do.
    replicas: OnceLock<SharedSessions>,
    /// What else they share; empty if nothing.
    cluster_store: OnceLock<ClusterStore>,
    /// The sessions over HTTP, to be counted; empty on stdio.
    sessions: OnceLock<Arc<Sessions>>,
}

// === impl Server ===

impl Server {
    pub(super) fn contexts(&self) -> &Arc<Contexts> {
        &self.shared.contexts
    }

    /// A handler for the one client of a transport.
    pub(super) fn handler_for_session(&self, session: Session) -> Handler {
        Handler::for_session(self.clone(), session)
    }

    /// A handler for the clients of these sessions.
    pub(super) fn handler_for_sessions(&self, sessions: Arc<Sessions>) -> Handler {
        let sessions = self.shared.sessions.get_or_init(|| sessions).clone();
        self.shared.subscriptions.keep_with(&sessions);
        Handler::for_sessions(self.clone(), sessions)
    }

    /// The work that callers ask for.
    pub(super) fn work(&self) -> &Work {
        &self.shared.work
    }

    /// Delivers through a sink, and counts what fails.
    pub(super) fn delivery(&self, sink: impl NotificationSink) -> Delivery {
        Delivery::new(sink).metrics(self.shared.metrics.notifications())
    }

    /// Counts failed notifications.
    pub(super) fn notification_metrics(&self) -> mcp_notify::Metrics {
        self.shared.metrics.notifications()
    }

    /// Counts parked answers.
    pub(super) fn answer_metrics(&self) -> AnswerMetrics {
        self.shared.metrics.answers()
    }

    /// The bytes of answers that are parked for clients that may resume.
    pub(super) fn parked_answer_bytes(&self) -> usize {
        let sessions = self.shared.sessions.get();
        sessions.map_or(0, |sessions| sessions.parked_bytes())
    }

    /// Keeps the events and incidents of every context, if there is a history. Never returns before the
    /// server stops.
    pub async fn keep_history(self) {
        let Some(history) = &self.shared.history else {
            return;
        };
        let recorder = Recorder {
            contexts: Arc::clone(&self.shared.contexts),
            watches: self.shared.subscriptions.watches().clone(),
            incidents: (self.history().is_some()
                && self.shared.tool_filter.check(Door::IncidentMode).is_ok())
            .then(|| self.shared.incidents.clone()),
            faults: self.shared.subscriptions.faults().clone(),
            history: history.clone(),
            lifecycle: self.shared.lifecycle.clone(),
            caught_up: Arc::clone(&self.shared.caught_up),
        };
        recorder.run().await;
    }

    /// Waits for a while until the history has what other servers have seen of every context.
    async fn until_caught_up(&self, store: &ClusterStore) {
        let contexts = self.shared.contexts.list().unwrap_or_default();
        let caught_up = async {
            for context in contexts {
                self.shared.caught_up.wait(&context.name).await;
            }
        };
        // A cluster that cannot be read, and a store that is away, keep no server from serving.
        tokio::select! {
            () = self.shared.lifecycle.draining().cancelled() => {}
            () = caught_up => {}
            () = sleep(CATCH_UP_TIMEOUT) => {
                tracing::warn!("the history of some contexts is not there yet; serving without it");
            }
            () = until_unreachable(store) => {}
        }
    }

    /// The history, if there is one that outlives the process: what is in memory is for cursors
    /// alone.
    pub fn history(&self) -> Option<&History> {
        let history = self.shared.history.as_ref();
        history.filter(|history| !history.is_in_memory())
    }

    /// Shares the sessions with other servers, and the subscriptions of callers that have none. To
    /// be called before the transport is started.
    pub fn share_sessions(&self, shared: SharedSessions) {
        let (registry, tool_filter) = (&shared.registry, &self.shared.tool_filter);
        (self.shared.subscriptions).share(Arc::clone(registry), tool_filter.clone());
        let _only_once = self.shared.replicas.set(shared);
    }

    /// Shares everything that can be shared with the servers that have this store. To be called
    /// before anything is watched and before the transport is started.
    pub fn join_cluster(&self, store: &ClusterStore) {
        let ClusterStore {
            registry,
            peers,
            log,
        } = store;
        self.share_sessions(SharedSessions {
            registry: Arc::clone(registry),
            peers: Arc::clone(peers),
        });
        let subscriptions = &self.shared.subscriptions;
        subscriptions.watches().share(SharedWatching {
            log: Arc::clone(log),
            registry: Arc::clone(registry),
            server: peers.name().to_owned(),
        });
        let contexts = Arc::clone(&self.shared.contexts);
        let captures = SharedCaptures::new(Arc::clone(registry), contexts);
        subscriptions.faults().share_with(Arc::new(captures));
        let _only_once = self.shared.cluster_store.set(store.clone());
        if let Some(history) = self.shared.history.clone() {
            let draining = self.shared.lifecycle.draining().clone();
            let keeping = keep_secret(Arc::clone(registry), history, draining);
            self.shared.lifecycle.spawn("shared-secret", keeping);
            // Who comes from another server has a cursor, which leads into the history.
            let gate = self.shared.lifecycle.readiness_gate();
            let (this, store) = (self.clone(), store.clone());
            self.shared.lifecycle.spawn("history-ready", async move {
                this.until_caught_up(&store).await;
                drop(gate);
            });
        }
    }

    /// Why the store that servers share cannot be reached now, if they share one.
    pub(super) fn cluster_store(&self) -> Option<Result<(), String>> {
        let store = self.shared.cluster_store.get()?;
        Some(store.failure().map_or(Ok(()), Err))
    }

    /// The servers that share the sessions, if any do.
    pub(super) fn session_peers(&self) -> Option<Arc<dyn Peers>> {
        let shared = self.shared.replicas.get()?;
        Some(Arc::clone(&shared.peers))
    }

    /// Where sessions are kept, if they are.
    pub(super) fn session_registry(&self) -> Option<Arc<dyn Registry>> {
        if let Some(shared) = self.shared.replicas.get() {
            return Some(Arc::clone(&shared.registry));
        }
        let history = self.shared.history.as_ref()?;
        Some(Arc::new(history.registry()))
    }

    /// The number of sessions over HTTP.
    pub fn sessions(&self) -> usize {
        self.shared
            .sessions
            .get()
            .map_or(0, |sessions| sessions.count())
    }

    /// Pushes to every session over HTTP, whatever it asked for. Only the benchmark
    /// does that: no request leads here.
    #[doc(hidden)]
    pub fn push_to_every_session(&self, notification: &Notification) {
        if let Some(sessions) = self.shared.sessions.get() {
            sessions.push_to_all(notification);
        }
    }
}

/// Waits until the store cannot be reached.
async fn until_unreachable(store: &ClusterStore) {
    while store.failure().is_none() {
        sleep(STORE_CHECK).await;
    }
}

#[cfg(test)]
pub(crate) mod tests;
