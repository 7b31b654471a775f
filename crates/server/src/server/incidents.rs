//! Incidents for the process itself, without a client: for its sinks.

use std::{fmt, sync::Arc};

use super::Server;
use crate::incidents::IncidentRead;
use kubecrier_core::{access::Viewer, filters::Filters, shares::ShareKey};
use kubecrier_incidents::Incident;
use kubecrier_k8s::{ClusterError, IncidentFollower};

/// The incidents of a context, kept up to date while this is held.
pub struct FollowedIncidents(IncidentRead);

impl Server {
    /// What tells the cluster of a context from all others, on every server.
    pub async fn cluster_id(&self, context: &str) -> Result<Arc<str>, ClusterError> {
        self.contexts().cluster_id(context).await
    }

    /// Follows the incidents of a context that filters are about. The watches are those that
    /// clients share.
    pub async fn follow_incidents(
        &self,
        context: Option<&str>,
        filters: &Filters,
        follower: &Arc<dyn IncidentFollower>,
    ) -> Result<FollowedIncidents, ClusterError> {
        let context = self.contexts().resolve(context)?;
        let incidents = &self.shared.incidents;
        let read = incidents.follow(
            (&ShareKey::Process, &Viewer::Everything),
            &context,
            filters,
            follower,
        );
        Ok(FollowedIncidents(Box::pin(read).await?))
    }
}

// === impl FollowedIncidents ===

impl FollowedIncidents {
    /// The name of the context.
    pub fn context(&self) -> &str {
        &self.0.context
    }

    /// What is open now.
    pub fn open(&self) -> Vec<Arc<Incident>> {
        self.0.open_now()
    }
}

impl fmt::Debug for FollowedIncidents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FollowedIncidents")
            .field(&self.0.context)
            .finish()
    }
}
