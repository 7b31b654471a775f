//! The incidents that one user may see: derived from the objects that the user may read, by an
//! evaluation of its own. So nothing in them, no cause, count or word, can tell of another
//! object.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use kubecrier_incidents::{Eyes, State};
use kubecrier_k8s_api::kinds;

use super::{evaluator, kinds::KINDS, watcher::IncidentWatcher};
use crate::{
    error::ClusterError,
    kind_watch::Scope,
    scope_rights::{self, Freshness, ScopeRights},
    shared_task::Lease,
};
use kubecrier_core::access::{Action, Clearance, Extent, ScopedAction, Undecided, UserView};

/// The eyes of a user, on the objects of a scope.
pub(super) struct IncidentEyes {
    pub(super) whole: Arc<IncidentWatcher>,
    rights: ScopeRights,
}

/// What a user may read, by kind.
pub(super) struct UserEyes<'a>(pub(super) &'a Clearance);

/// The actions that incidents are made of: to list each kind, pods first, and to read logs.
struct Actions {
    all: Arc<[ScopedAction]>,
    /// By the name of the kind.
    numbers: HashMap<&'static str, usize>,
    logs: usize,
}

static ACTIONS: LazyLock<Actions> = LazyLock::new(|| {
    let others = KINDS.iter().map(|kind| kind.resource);
    let others = others.filter(|kind| **kind != kinds::POD);
    let kinds: Vec<_> = std::iter::once(&kinds::POD).chain(others).collect();
    let listed = kinds.iter().map(|kind| ScopedAction {
        action: Action::list(**kind),
        namespaced: kind.namespaced,
    });
    let logs = ScopedAction {
        action: Action::GET_LOGS,
        namespaced: true,
    };
    let numbers = kinds.iter().enumerate();
    Actions {
        all: listed.chain([logs]).collect(),
        numbers: numbers.map(|(number, kind)| (kind.kind, number)).collect(),
        logs: kinds.len(),
    }
});

/// Removes a view from those that are woken when it ends.
struct Added<'a> {
    whole: &'a IncidentWatcher,
    key: u64,
}

/// Decides what a user may see of incidents in a scope.
pub(super) fn rights(view: &Arc<UserView>, scope: &Scope) -> ScopeRights {
    ScopeRights::new(view, scope, &ACTIONS.all)
}

/// What a user may see, unless that is nothing or cannot be found out.
pub(super) fn some(
    decided: Result<Clearance, Undecided>,
    scope: &Scope,
) -> Result<Clearance, ClusterError> {
    scope_rights::some("incidents", decided, scope)
}

/// Keeps the incidents of a user up to date; returns only if they never became ready.
pub(super) async fn run(
    watcher: Arc<IncidentWatcher>,
    whole: Lease<Arc<IncidentWatcher>>,
    key: u64,
) -> ClusterError {
    if let Err(error) = whole.ready().await {
        return error;
    }
    whole.add_view(key, Arc::downgrade(&watcher));
    let _added = Added { whole: &whole, key };
    if let Some(eyes) = &watcher.eyes {
        let decided = eyes.decide(Freshness::Remembered).await;
        if let Err(error) = some(decided, &watcher.scope) {
            return error;
        }
    }
    match evaluator::run(&watcher).await {}
}

// === impl IncidentEyes ===

impl IncidentEyes {
    pub(super) fn new(whole: &Arc<IncidentWatcher>, view: &Arc<UserView>) -> Self {
        Self {
            whole: Arc::clone(whole),
            rights: rights(view, &whole.scope),
        }
    }

    /// What the user may read now.
    pub(super) async fn decide(&self, freshness: Freshness) -> Result<Clearance, Undecided> {
        let namespaces = match self.whole.scope.namespace {
            Some(_) => BTreeSet::new(),
            None => namespaces(&self.whole.input().state),
        };
        self.rights.decide(&namespaces, freshness).await
    }
}

fn namespaces(state: &State) -> BTreeSet<Arc<str>> {
    state.namespace_names().map(Arc::from).collect()
}

// === impl UserEyes ===

impl UserEyes<'_> {
    fn extent(&self, kind: &str) -> Option<&Extent> {
        self.0.extent(*ACTIONS.numbers.get(kind)?)
    }
}

impl Eyes for UserEyes<'_> {
    fn see(&self, kind: &str, namespace: &str) -> bool {
        let extent = self.extent(kind);
        extent.is_some_and(|extent| extent.contains(namespace))
    }

    fn see_all(&self, kind: &str) -> bool {
        match (self.extent(kind), self.0.namespace()) {
            (Some(extent), Some(namespace)) => extent.contains(namespace),
            (extent, None) => extent == Some(&Extent::Everywhere),
            (None, _) => false,
        }
    }

    fn see_logs(&self, namespace: &str) -> bool {
        let extent = self.0.extent(ACTIONS.logs);
        extent.is_some_and(|extent| extent.contains(namespace))
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        self.whole.remove_view(self.key);
    }
}
