//! A graph as one user may see it: derived from the shared one whenever that changes, or a right
//! of the user.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, LazyLock, Weak},
};

use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::watcher::{BATCH_DELAY, GraphWatcher, MIN_INTERVAL};
use crate::{
    error::ClusterError,
    kind_watch::Scope,
    scope_rights::{self, Freshness, RIGHTS_INTERVAL, ScopeRights},
    shared_task::Lease,
};
use kubecrier_core::access::{Action, Clearance, Extent, ScopedAction, Undecided, UserView};
use kubecrier_topology::{GraphChange, GraphSubscriber, Kind, KindExtent, Visibility};

/// What is not known is asked for again after this time.
const UNDECIDED_RETRY: Duration = Duration::from_secs(2);

/// The order in which kinds are asked about: where a user may not list pods, a graph has little
/// to show.
static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let others = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Pod);
    std::iter::once(Kind::Pod).chain(others).collect()
});

static ACTIONS: LazyLock<Arc<[ScopedAction]>> = LazyLock::new(|| {
    let actions = KINDS.iter().map(|kind| ScopedAction {
        action: Action::list(*kind.resource()),
        namespaced: kind.is_namespaced(),
    });
    actions.collect()
});

/// The eyes of a user, on a shared graph.
pub(super) struct GraphEyes {
    pub(super) whole: Arc<GraphWatcher>,
    scope: Scope,
    rights: ScopeRights,
}

/// Wakes the view of a user when the shared graph changes.
struct Waker(Weak<GraphWatcher>);

/// Removes a waker when the view ends.
struct Added<'a> {
    whole: &'a GraphWatcher,
    key: u64,
}

/// What a user may see, by what it may list.
pub(super) fn visibility(clearance: &Clearance) -> Visibility {
    let kinds = KINDS.iter().enumerate().filter_map(|(number, kind)| {
        let extent = match clearance.extent(number)? {
            Extent::Everywhere => KindExtent::Everywhere,
            Extent::In(namespaces) => KindExtent::In(namespaces.clone()),
        };
        Some((*kind, extent))
    });
    Visibility::of(kinds)
}

/// Decides what a user may see of graphs in a scope.
pub(super) fn rights(view: &Arc<UserView>, scope: &Scope) -> ScopeRights {
    ScopeRights::new(view, scope, &ACTIONS)
}

/// Keeps the view of a user up to date; returns only if it never became ready.
pub(super) async fn run(
    watcher: Arc<GraphWatcher>,
    whole: Lease<Arc<GraphWatcher>>,
    key: u64,
) -> ClusterError {
    if let Err(error) = whole.ready().await {
        return error;
    }
    whole.add(key, Arc::new(Waker(Arc::downgrade(&watcher))));
    let _added = Added { whole: &whole, key };
    match first(&watcher).await {
        Err(error) => error,
        Ok(()) => match follow(&watcher).await {},
    }
}

/// Shows what may be seen for the first time.
async fn first(watcher: &GraphWatcher) -> Result<(), ClusterError> {
    if let Some(eyes) = watcher.eyes() {
        let clearance = eyes.some(Freshness::Remembered).await?;
        drop(watcher.adopt(&clearance));
    }
    watcher.begin();
    Ok(())
}

async fn follow(watcher: &GraphWatcher) -> Infallible {
    let mut last = Instant::now();
    loop {
        tokio::select! {
            () = watcher.changed() => {}
            () = sleep(RIGHTS_INTERVAL) => {}
        }
        sleep_until((Instant::now() + BATCH_DELAY).max(last + MIN_INTERVAL)).await;
        let Some(eyes) = watcher.eyes() else { continue };
        match eyes.decide(Freshness::Remembered).await {
            Ok(clearance) => {
                drop(watcher.adopt(&clearance));
                if watcher.notify_once() {
                    last = Instant::now();
                }
            }
            // What was told before is asked about when it is sent or read.
            Err(Undecided) => {
                sleep(UNDECIDED_RETRY).await;
                watcher.wake();
            }
        }
    }
}

// === impl GraphEyes ===

impl GraphEyes {
    pub(super) fn new(whole: &Arc<GraphWatcher>, scope: &Scope, view: &Arc<UserView>) -> Self {
        Self {
            whole: Arc::clone(whole),
            scope: scope.clone(),
            rights: rights(view, scope),
        }
    }

    /// What the user may see.
    pub(super) async fn decide(&self, freshness: Freshness) -> Result<Clearance, Undecided> {
        let namespaces = match self.scope.namespace {
            Some(_) => BTreeSet::new(),
            None => self.whole.namespaces(),
        };
        self.rights.decide(&namespaces, freshness).await
    }

    /// The same, if it is something.
    pub(super) async fn some(&self, freshness: Freshness) -> Result<Clearance, ClusterError> {
        some(self.decide(freshness).await, &self.scope)
    }
}

/// What a user may see, unless that is nothing or cannot be found out.
pub(super) fn some(
    decided: Result<Clearance, Undecided>,
    scope: &Scope,
) -> Result<Clearance, ClusterError> {
    scope_rights::some("graph", decided, scope)
}

impl GraphSubscriber for Waker {
    fn on_change(&self, _change: &GraphChange) {
        if let Some(watcher) = self.0.upgrade() {
            watcher.wake();
        }
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        self.whole.remove(self.key);
    }
}
