//! The parts of a server, and how they are put together.

use std::sync::{Arc, OnceLock};

use mcp_notify::{Delivery, LoggingService, OutboxSink};

use super::{Server, Shared, Work, WorkLimits};
use crate::{
    doors::Door,
    history::{CaughtUp, FaultArchive},
    incidents::Incidents,
    list_changes::ListChanges,
    project,
    resources::{
        ClosedResources, EventResources, GraphResources, IncidentResources, LogResources,
        ResourceProvider, Resources, SubscriptionFeeds,
    },
    subscriptions::{OwnLedger, Sources, SubscriptionSettings, Subscriptions},
    tasks::Tasks,
    tool_filter::ToolFilter,
    tool_provider::ToolProvider,
    tools::DefinitionCache,
    viewers::Viewers,
    waits::Waits,
};
use kubecrier_core::{
    access::AccessDecisions,
    faults::{CaptureLimits, FaultQueue},
    metrics::Metrics,
    subscriptions::Ledger,
};
use kubecrier_history::History;
use kubecrier_k8s::{
    ClusterEvidence, ClusterReviewer, Contexts, EventLists, Graphs, IncidentSettings,
    IncidentWatches, LogFollows, Watches,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_project::{self, Project};
use kubecrier_redact::Redactor;

/// Limits of a tool's answer.
#[derive(Clone, Copy, Debug)]
pub struct ToolLimits {
    /// The size of an answer.
    pub output_bytes: usize,
}

/// Everything that a server is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The clusters.
    pub contexts: Arc<Contexts>,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// The process's own.
    pub lifecycle: Lifecycle,
    /// Limits of a tool's answer.
    pub limits: ToolLimits,
    /// Limits of what callers can have the server do.
    pub work: WorkLimits,
    /// The tools that clients may call.
    pub tool_filter: ToolFilter,
    /// Limits and times of subscriptions.
    pub subscriptions: SubscriptionSettings,
    /// Removes secrets from everything that leaves.
    pub redactor: Redactor,
    /// Limits of the evidence of faults.
    pub captures: CaptureLimits,
    /// What an operator may choose of incidents.
    pub incidents: IncidentSettings,
    /// The site's own tools, resources and prompts.
    pub project: Option<kubecrier_project::Config>,
    /// What happened before, if it is kept.
    pub history: Option<History>,
}

/// The providers of resources and tools.
#[derive(Default)]
pub(super) struct Providers {
    pub(super) resources: Vec<Box<dyn ResourceProvider>>,
    pub(super) tools: Vec<Box<dyn ToolProvider>>,
    pub(super) project: Option<Project>,
}

impl Server {
    /// A server over these clusters.
    pub fn new(setup: Setup) -> Self {
        let mut providers = Providers::default();
        if let Some(config) = &setup.project {
            let served = project::ProjectProvider::new(config.clone(), &setup);
            providers.project = Some(served.project().clone());
            providers.resources.push(Box::new(served.clone()));
            providers.tools.push(Box::new(served));
        }
        #[cfg(feature = "conformance-fixtures")]
        if let Some((resources, tools)) = crate::fixtures::switched_on() {
            providers.resources.push(resources);
            providers.tools.push(tools);
        }
        Self::with(setup, providers)
    }

    pub(super) fn with(setup: Setup, mut providers: Providers) -> Self {
        let Setup {
            contexts,
            metrics,
            lifecycle,
            limits,
            work,
            tool_filter,
            subscriptions: settings,
            redactor,
            captures,
            incidents,
            project,
            history,
        } = setup;
        let processes_max = project.map_or(usize::MAX, |project| project.processes_max);
        let viewers = if contexts.impersonates() {
            let reviewer = ClusterReviewer::new(Arc::clone(&contexts));
            let decisions = AccessDecisions::new(reviewer, lifecycle.clone(), metrics.access());
            Viewers::Users(decisions)
        } else {
            Viewers::Everything
        };
        let event_lists = EventLists::new(
            Arc::clone(&contexts),
            lifecycle.clone(),
            metrics.watch().clone(),
            settings.watch_renewal,
        );
        let graphs = Graphs::new(
            Arc::clone(&contexts),
            lifecycle.clone(),
            metrics.watch().clone(),
            metrics.graph().clone(),
            settings.watch_renewal,
            work.graphs(),
        );
        let watches = Watches::new(
            Arc::clone(&contexts),
            lifecycle.clone(),
            metrics.watch().clone(),
            settings.watch_renewal,
            work.watches(),
        );
        let watchers = IncidentWatches::new(
            Arc::clone(&contexts),
            lifecycle.clone(),
            metrics.watch().clone(),
            settings.watch_renewal,
            work.incidents(),
            incidents,
        );
        // With a history the events of each context are watched in any case.
        let watchers = match &history {
            Some(_) => watchers.sharing_events(watches.clone()),
            None => watchers,
        };
        let incidents = Incidents::new(Arc::clone(&contexts), watchers);
        let waits = Waits::new(incidents.clone(), viewers.clone(), metrics.waits());
        let tasks = Tasks::new(lifecycle.clone());
        let ledger = Ledger::new(settings.caps);
        let door = |door: Door, provider: Box<dyn ResourceProvider>| match tool_filter.check(door) {
            Ok(()) => provider,
            Err(why) => Box::new(ClosedResources::new(provider, why)),
        };
        let feeds = SubscriptionFeeds(OwnLedger::new(Arc::clone(&ledger), viewers.clone()));
        providers
            .resources
            .push(door(Door::FeedResource, Box::new(feeds)));
        let (bytes_max, own) = (limits.output_bytes, Arc::clone(&contexts));
        let logs = LogResources {
            contexts: Arc::clone(&contexts),
            follows: LogFollows::new(
                own,
                lifecycle.clone(),
                metrics.follows(),
                work.followed_logs(),
            ),
            tool_filter: tool_filter.clone(),
            bytes_max,
        };
        providers
            .resources
            .push(door(Door::LogResource, Box::new(logs)));
        let graph = GraphResources {
            contexts: Arc::clone(&contexts),
            graphs: graphs.clone(),
            lifecycle: lifecycle.clone(),
            redactor: redactor.clone(),
            tool_filter: tool_filter.clone(),
            viewers: viewers.clone(),
            bytes_max,
        };
        providers
            .resources
            .push(door(Door::GraphResource, Box::new(graph)));
        let incident = IncidentResources {
            contexts: Arc::clone(&contexts),
            incidents: incidents.clone(),
            lifecycle: lifecycle.clone(),
            redactor: redactor.clone(),
            tool_filter: tool_filter.clone(),
            viewers: viewers.clone(),
            bytes_max,
        };
        providers
            .resources
            .push(door(Door::IncidentsResource, Box::new(incident)));
        // The last one: it owns every URI of its scheme that no other provider owns.
        let events = EventResources {
            contexts: Arc::clone(&contexts),
            watches: watches.clone(),
            lifecycle: lifecycle.clone(),
            redactor: redactor.clone(),
            tool_filter: tool_filter.clone(),
            bytes_max,
        };
        providers
            .resources
            .push(door(Door::EventsResource, Box::new(events)));
        let resources = Resources::new(providers.resources, tool_filter.clone(), work.share)
            .seen_by(viewers.clone());
        let evidence = Arc::new(ClusterEvidence::new(Arc::clone(&contexts)));
        let faults = FaultQueue::new(evidence, captures, metrics.captures(), lifecycle.clone());
        if let Some(history) = &history {
            faults.archive_to(Arc::new(FaultArchive {
                history: history.clone(),
                contexts: Arc::clone(&contexts),
            }));
        }
        let updates = resources.updates().clone();
        let caught_up = Arc::<CaughtUp>::default();
        let sources = Sources {
            watches,
            incidents: incidents.clone(),
            faults,
            history: history.clone(),
            caught_up: Arc::clone(&caught_up),
        };
        let subscriptions = Subscriptions::new(settings, ledger, updates, sources, viewers);
        let shared = Shared {
            contexts,
            metrics,
            lifecycle,
            limits,
            work: Work::new(&work, processes_max),
            tool_filter,
            redactor,
            // Publishing only ever puts into outboxes; each transport empties its own.
            logging: LoggingService::new(Delivery::new(OutboxSink)),
            list_changes: ListChanges::new(),
            resources,
            subscriptions,
            event_lists,
            history,
            caught_up,
            graphs,
            incidents,
            waits,
            tasks,
            definitions: DefinitionCache::default(),
            tool_providers: providers.tools,
            project: providers.project,
            replicas: OnceLock::new(),
            cluster_store: OnceLock::new(),
            sessions: OnceLock::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}
