//! The rights of a user that something needs which is derived from many kinds in one scope: a
//! graph, or incidents.

#[cfg(test)]
pub(crate) mod fixture;

use std::{collections::BTreeSet, sync::Arc};

use tokio::time::{Duration, Instant};

use crate::{
    error::{ClusterError, ErrorKind},
    kind_watch::Scope,
};
use kubecrier_core::access::{Clearance, ScopedAction, Undecided, UserView, Within};

/// How often a user's rights are looked at while nothing changes: what is remembered is asked
/// for again in time, so that a right that goes is noticed within half a minute.
pub(crate) const RIGHTS_INTERVAL: Duration = Duration::from_secs(5);

/// An answer is made with rights that are not older than this. It needs many of them, and a
/// client that asks for several things at once should not ask for all of them again each time.
const ANSWER_AGE_MAX: Duration = Duration::from_millis(500);

/// Users of one scope: each has its own view of it, which costs far less than the scope itself.
pub(crate) const USERS_PER_SCOPE: usize = 64;

/// How old a right may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// For what is pushed: what is remembered counts, and is asked for again when it is sent.
    Remembered,
    /// For an answer.
    Asked,
}

/// Decides what a user may read of some kinds in a scope.
#[derive(Clone)]
pub(crate) struct ScopeRights {
    view: Arc<UserView>,
    scope: Scope,
    actions: Arc<[ScopedAction]>,
}

// === impl ScopeRights ===

impl ScopeRights {
    pub(crate) fn new(view: &Arc<UserView>, scope: &Scope, actions: &Arc<[ScopedAction]>) -> Self {
        Self {
            view: Arc::clone(view),
            scope: scope.clone(),
            actions: Arc::clone(actions),
        }
    }

    /// What the user may read, in a cluster that has objects in these namespaces.
    pub(crate) async fn decide(
        &self,
        namespaces: &BTreeSet<Arc<str>>,
        freshness: Freshness,
    ) -> Result<Clearance, Undecided> {
        let within = match &self.scope.namespace {
            Some(namespace) => Within::Namespace(namespace),
            None => Within::Cluster(namespaces),
        };
        let now = Instant::now();
        let since = match freshness {
            Freshness::Remembered => None,
            Freshness::Asked => Some(now.checked_sub(ANSWER_AGE_MAX).unwrap_or(now)),
        };
        let context = &self.scope.context;
        let deciding = Clearance::decide(&self.view, context, &self.actions, within, since);
        // It asks many things at once, and is a small part of what waits for it.
        Box::pin(deciding).await
    }
}

/// What a user may see, unless that is nothing or cannot be found out.
pub(crate) fn some(
    what: &str,
    decided: Result<Clearance, Undecided>,
    scope: &Scope,
) -> Result<Clearance, ClusterError> {
    match decided {
        Ok(clearance) if clearance.is_nothing() => Err(nothing_allowed(what, scope)),
        Ok(clearance) => Ok(clearance),
        Err(error) => Err(undecided(what, scope, error)),
    }
}

/// The error of a user that may read nothing of a scope; the same whether there is anything.
fn nothing_allowed(what: &str, scope: &Scope) -> ClusterError {
    let hint = "ask for the right to list pods there, or name a namespace in which you have it";
    ClusterError::new(
        ErrorKind::Forbidden,
        format!("cannot read the {what} of {scope}"),
        "you may not list anything there",
        Some(hint.to_owned()),
    )
}

/// The error of rights that cannot be found out.
fn undecided(what: &str, scope: &Scope, error: Undecided) -> ClusterError {
    ClusterError::new(
        ErrorKind::Timeout,
        format!("cannot read the {what} of {scope}"),
        error.to_string(),
        Some("ask again in a moment".to_owned()),
    )
}

/// What a reader should know who may not read all of a scope. It follows from the rights alone,
/// so that it tells nothing about what there is.
pub(crate) fn notes(clearance: &Clearance) -> Vec<String> {
    let missing: Vec<_> = clearance.missing().map(ToString::to_string).collect();
    let mut notes = Vec::new();
    if !missing.is_empty() {
        notes.push(format!(
            "parts are left out, you may not: {}",
            missing.join(", ")
        ));
    }
    if clearance.is_cut() {
        notes.push("there are more namespaces than are looked at for you: name one".to_owned());
    }
    notes
}
