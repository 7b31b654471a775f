//! The part of a state that a reader may see. What is derived from it can tell of nothing else.

use std::{collections::BTreeMap, sync::Arc};

use super::{LogLines, State};
use crate::{objects::Object, store::Store};

/// Says what a reader may see, by the kinds of objects as objects spell them.
pub trait Eyes {
    /// Whether objects of a kind may be seen in a namespace (empty: those without one).
    fn see(&self, kind: &str, namespace: &str) -> bool;

    /// Whether all objects of a kind may be seen, so that what is not there does not exist.
    fn see_all(&self, kind: &str) -> bool;

    /// Whether logs of pods in a namespace may be seen.
    fn see_logs(&self, namespace: &str) -> bool;
}

impl State {
    /// The part that these eyes see. Kinds of which some objects are hidden count as not read.
    #[must_use]
    pub fn seen_by(&self, eyes: &impl Eyes) -> Self {
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
            events,
            log_lines,
        } = self;
        let webhooks = webhooks.iter().filter(|(id, _)| eyes.see(&id.kind, ""));
        Self {
            namespaces: of(namespaces, eyes),
            pods: of(pods, eyes),
            nodes: of(nodes, eyes),
            deployments: of(deployments, eyes),
            replica_sets: of(replica_sets, eyes),
            stateful_sets: of(stateful_sets, eyes),
            daemon_sets: of(daemon_sets, eyes),
            jobs: of(jobs, eyes),
            cron_jobs: of(cron_jobs, eyes),
            claims: of(claims, eyes),
            volumes: of(volumes, eyes),
            storage_classes: of(storage_classes, eyes),
            autoscalers: of(autoscalers, eyes),
            budgets: of(budgets, eyes),
            quotas: of(quotas, eyes),
            services: of(services, eyes),
            slices: of(slices, eyes),
            ingresses: of(ingresses, eyes),
            ingress_classes: of(ingress_classes, eyes),
            revisions: of(revisions, eyes),
            routes: of(routes, eyes),
            webhooks: webhooks
                .map(|(id, hooks)| (id.clone(), Arc::clone(hooks)))
                .collect::<BTreeMap<_, _>>(),
            api_services: of(api_services, eyes),
            events: events.seen(|namespace| eyes.see("Event", namespace)),
            log_lines: lines(log_lines, eyes),
        }
    }

    /// The namespaces that objects are in.
    pub fn namespace_names(&self) -> impl Iterator<Item = &str> {
        // Whatever else there is in a namespace, most have pods or something that makes them.
        let pods = self.pods.namespaces();
        let deployments = self.deployments.namespaces();
        let services = self.services.namespaces();
        pods.chain(deployments)
            .chain(services)
            .chain(self.stateful_sets.namespaces())
            .chain(self.daemon_sets.namespaces())
            .chain(self.jobs.namespaces())
            .chain(self.claims.namespaces())
    }
}

fn of<T: Object>(store: &Store<T>, eyes: &impl Eyes) -> Store<T> {
    let is_known = store.is_known() && eyes.see_all(T::KIND);
    store.seen(|namespace| eyes.see(T::KIND, namespace), is_known)
}

/// A line of a log is one of a pod, which has to be seen as well.
fn lines(all: &Arc<LogLines>, eyes: &impl Eyes) -> Arc<LogLines> {
    let is_seen = |namespace: &str| eyes.see_logs(namespace) && eyes.see("Pod", namespace);
    if all.keys().all(|pod| is_seen(&pod.namespace)) {
        return Arc::clone(all);
    }
    let seen = all.iter().filter(|(pod, _)| is_seen(&pod.namespace));
    let seen = seen.map(|(pod, lines)| (pod.clone(), lines.clone()));
    Arc::new(seen.collect())
}
