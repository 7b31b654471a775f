//! Which callers need which watches: each has a share of them, and what a subscription
//! needs counts for its caller before anything is asked of a cluster.

use kubecrier_core::{
    filters::Filters,
    shares::{Claim, LimitName, LimitReached, ShareKey},
};

use super::{Watches, scope::Scope, source::WatchStart};
use crate::error::ClusterError;

/// The words of the limit.
pub(super) const LIMIT: LimitName = LimitName::new("watches", "--max-watches");

/// A watch that is needed. What a watch of a whole cluster turns out to be may depend on
/// the filters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WatchNeed {
    scope: Scope,
    filters: Option<String>,
}

/// The watches that a caller needs, counted until this is dropped.
#[derive(Debug)]
pub struct WatchClaim {
    _claim: Claim<WatchNeed>,
}

// === impl WatchNeed ===

impl WatchNeed {
    fn new(scope: Scope, filters: &Filters) -> Self {
        let whole = scope.namespace.is_none();
        Self {
            scope,
            filters: whole.then(|| serde_json::to_string(filters).unwrap_or_default()),
        }
    }

    /// One that is what it is.
    fn of(scope: Scope) -> Self {
        Self {
            scope,
            filters: None,
        }
    }
}

impl Watches {
    /// Counts what these filters need for a caller.
    pub fn claim(
        &self,
        caller: &ShareKey,
        context: &str,
        filters: &Filters,
    ) -> Result<WatchClaim, LimitReached> {
        let needs = Scope::of(context, filters).into_iter();
        let needs = needs.map(|scope| WatchNeed::new(scope, filters)).collect();
        let claim = self.shared.claims.claim(caller, needs)?;
        Ok(WatchClaim { _claim: claim })
    }

    /// Counts what the scopes of these filters turned out to be.
    pub(super) fn resolve_claims(
        &self,
        scopes: &[Scope],
        starts: &[(Scope, WatchStart)],
        filters: &Filters,
    ) -> Result<(), ClusterError> {
        // Only a single one becomes another, or several.
        let [scope] = scopes else {
            return Ok(());
        };
        let parts = starts.iter().map(|(scope, _)| WatchNeed::of(scope.clone()));
        let need = WatchNeed::new(scope.clone(), filters);
        let resolved = self.shared.claims.resolve(&need, parts.collect());
        resolved.map_err(|reached| ClusterError::limit("cannot watch events", &reached))
    }
}
