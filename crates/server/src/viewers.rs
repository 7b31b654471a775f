//! Through whose eyes a caller sees what all callers share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{caller::Caller, output::ToolError, resources::ResourceError};
use kubecrier_core::access::{AccessDecisions, Viewer};
use kubecrier_k8s::Contexts;

/// How callers see what is shared. A clone is the same.
#[derive(Clone, Debug)]
pub(super) enum Viewers {
    /// Callers act with the server's rights, and see all that it sees.
    Everything,
    /// Each caller acts as a user, and sees what that user may read.
    Users(AccessDecisions),
}

/// A caller that is no user, where callers have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "callers act as themselves here (--cluster-identity impersonate), and this one has no Kubernetes \
     user: ask whoever runs this server to be mapped to one"
)]
pub(super) struct NoUser;

// === impl Viewers ===

impl Viewers {
    /// Through whose eyes a caller sees.
    pub(super) fn of(&self, caller: &Caller) -> Result<Viewer, NoUser> {
        match self {
            Self::Everything => Ok(Viewer::Everything),
            Self::Users(decisions) => {
                let user = caller.kubernetes_user().ok_or(NoUser)?;
                Ok(decisions.viewer(user))
            }
        }
    }

    /// Forgets what a cluster has answered when its context comes to name another one, until
    /// `stop`.
    pub(super) async fn follow_contexts(self, contexts: Arc<Contexts>, stop: CancellationToken) {
        let Self::Users(decisions) = self else {
            return;
        };
        let mut generation = contexts.generation();
        let mut known = contexts.named_clusters().unwrap_or_default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = contexts.changed_since(generation) => {}
            }
            generation = contexts.generation();
            // One that cannot be read names nothing.
            let Ok(now) = contexts.named_clusters() else {
                continue;
            };
            for context in now.renamed_since(&known) {
                tracing::info!(
                    context,
                    "names another cluster, who may read what is asked again"
                );
                decisions.forget(context);
            }
            known = now.over(known);
        }
    }

    /// Drops the answers that are not good any more.
    pub(super) fn remove_expired(&self) {
        if let Self::Users(decisions) = self {
            decisions.remove_expired();
        }
    }
}

// === impl NoUser ===

impl From<NoUser> for ToolError {
    fn from(error: NoUser) -> Self {
        Self::NotFound(error.to_string())
    }
}

impl From<NoUser> for ResourceError {
    fn from(error: NoUser) -> Self {
        Self::Refused(error.to_string())
    }
}
