//! What a server is made of.

use std::sync::{Arc, OnceLock};

use mcp_notify::{RootsTracker, Session};

use super::{Clients, Server, Shared};
use crate::{
    caller::Caller,
    catalog::Catalog,
    offer::Offer,
    peers::Peers,
    project,
    push::Push,
    resources::{Events, Family, GraphResources, PodLogs, Resources, SubscriptionFeeds},
    subscriptions::{SubscriptionSettings, Subscriptions},
};
use kubecrier_core::{
    faults::{captures::CaptureLimits, desk::Desk},
    metrics::Metrics,
    slices::Slices,
    subscriptions::Ledger,
};
use kubecrier_k8s::{Contexts, Follows, Graphs, Investigators, Watches};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_project::{self, Project};
use kubecrier_redact::Redactor;

/// What a tool may answer.
#[derive(Clone, Copy, Debug)]
pub struct ToolLimits {
    /// The size of an answer.
    pub output_bytes: usize,
}

/// What a server needs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The clusters.
    pub contexts: Arc<Contexts>,
    /// What is counted.
    pub metrics: Metrics,
    /// The process's own.
    pub lifecycle: Lifecycle,
    /// What tools may answer.
    pub limits: ToolLimits,
    /// Which tools there are.
    pub offer: Offer,
    /// How many subscriptions, and what they remember.
    pub subscriptions: SubscriptionSettings,
    /// What must not leave.
    pub redactor: Redactor,
    /// What the evidence of faults may take.
    pub captures: CaptureLimits,
    /// The site's own tools, resources and prompts.
    pub project: Option<kubecrier_project::Config>,
}

/// What is served besides our own tools.
#[derive(Default)]
pub(super) struct More {
    pub(super) families: Vec<Box<dyn Family>>,
    pub(super) catalogs: Vec<Box<dyn Catalog>>,
    pub(super) project: Option<Project>,
}

impl Server {
    /// A server over these clusters.
    pub fn new(setup: Setup) -> Self {
        let mut more = More::default();
        if let Some(config) = &setup.project {
            let served = project::Served::new(config.clone(), &setup);
            more.project = Some(served.project().clone());
            more.families.push(Box::new(served.clone()));
            more.catalogs.push(Box::new(served));
        }
        #[cfg(feature = "conformance-fixtures")]
        if let Some((family, catalog)) = crate::fixtures::switched_on() {
            more.families.push(family);
            more.catalogs.push(catalog);
        }
        Self::with(setup, more)
    }

    pub(super) fn with(setup: Setup, mut more: More) -> Self {
        let Setup {
            contexts,
            metrics,
            lifecycle,
            limits,
            offer,
            subscriptions: settings,
            redactor,
            captures,
            project: _,
        } = setup;
        let graphs = Graphs::new(
            Arc::clone(&contexts),
            lifecycle.clone(),
            metrics.watch().clone(),
            metrics.graph().clone(),
            settings.watch_renewal,
        );
        let slices = Slices::from_now();
        let ledger = Ledger::new(settings.caps);
        let feeds = SubscriptionFeeds(Arc::clone(&ledger));
        more.families.push(Box::new(feeds));
        let watches = Watches::new(
            Arc::clone(&contexts),
            lifecycle.clone(),
            metrics.watch().clone(),
            settings.watch_renewal,
            slices,
        );
        let (bytes_max, own) = (limits.output_bytes, Arc::clone(&contexts));
        more.families.push(Box::new(PodLogs {
            contexts: Arc::clone(&contexts),
            follows: Follows::new(own, lifecycle.clone(), metrics.follows()),
            bytes_max,
        }));
        more.families.push(Box::new(GraphResources {
            contexts: Arc::clone(&contexts),
            graphs: graphs.clone(),
            lifecycle: lifecycle.clone(),
            redactor: redactor.clone(),
            bytes_max,
        }));
        // The last: it has every URI of its scheme that no other family has.
        more.families.push(Box::new(Events {
            contexts: Arc::clone(&contexts),
            watches: watches.clone(),
            lifecycle: lifecycle.clone(),
            redactor: redactor.clone(),
            bytes_max,
        }));
        let (push, resources) = (Push::new(), Resources::new(more.families));
        let investigators =
            Investigators::new(Arc::clone(&contexts), captures, metrics.captures().clone());
        let faults = Desk::new(Arc::new(investigators), lifecycle.clone());
        let updates = resources.updates().clone();
        let subscriptions = Subscriptions::new(settings, ledger, watches, updates, faults);
        let peers = Peers::default();
        let shared = Shared {
            contexts,
            metrics,
            lifecycle,
            limits,
            offer,
            redactor,
            push,
            resources,
            subscriptions,
            graphs,
            slices,
            catalogs: more.catalogs,
            project: more.project,
            roots: RootsTracker::new(peers.clone()),
            peers,
            sessions: OnceLock::new(),
        };
        Self {
            shared: Arc::new(shared),
            clients: Clients::One(Session::new("none")),
            caller: Caller::current(),
        }
    }
}
