//! How much a state holds, for whoever bounds it.

use super::State;

impl State {
    /// How many objects there are, without events.
    pub fn objects_len(&self) -> usize {
        let Self {
            namespaces,
            pods,
            nodes,
            deployments,
            replica_sets,
            stateful_sets,
            daemon_sets,
            jobs,
            cron_jobs,
            claims,
            volumes,
            storage_classes,
            autoscalers,
            budgets,
            quotas,
            services,
            slices,
            ingresses,
            ingress_classes,
            revisions,
            routes,
            webhooks,
            api_services,
            events: _,
            log_lines: _,
        } = self;
        let lengths = [
            namespaces.len(),
            pods.len(),
            nodes.len(),
            deployments.len(),
            replica_sets.len(),
            stateful_sets.len(),
            daemon_sets.len(),
            jobs.len(),
            cron_jobs.len(),
            claims.len(),
            volumes.len(),
            storage_classes.len(),
            autoscalers.len(),
            budgets.len(),
            quotas.len(),
            services.len(),
            slices.len(),
            ingresses.len(),
            ingress_classes.len(),
            revisions.len(),
            routes.len(),
            webhooks.len(),
            api_services.len(),
        ];
        lengths.iter().sum()
    }
}
