//! The objects of a cluster, as far as they were read.

mod size;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;

use crate::objects::{
    ApiService, CronJob, DaemonSet, Deployment, EndpointSlice, Event, HorizontalPodAutoscaler,
    HttpRoute, Ingress, Job, Namespace, Node, ObjectRef, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, ReplicaSet, ResourceQuota, Service, StatefulSet, StorageClass,
    WebhookConfiguration,
};
use crate::store::Store;

/// Events of one object that are kept: more do not explain more.
const EVENTS_MAX: usize = 16;

/// Events of all objects that are kept. An API server keeps those of an hour; when a cluster
/// has more, the older half makes room.
const ALL_EVENTS_MAX: usize = 50_000;

/// Lines of logs that are kept. Those of pods that are gone make room.
const LOG_LINES_MAX: usize = 10_000;

/// Bytes of a line of a log that are kept.
const LOG_LINE_BYTES_MAX: usize = 1024;

/// The kinds that have a store.
const KINDS: [&str; 20] = [
    "Namespace",
    "Pod",
    "Node",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "ResourceQuota",
    "Service",
    "EndpointSlice",
    "Ingress",
    "HTTPRoute",
    "APIService",
];

/// Everything that detectors read.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Namespaces.
    pub namespaces: Store<Namespace>,
    /// Pods.
    pub pods: Store<Pod>,
    /// Nodes.
    pub nodes: Store<Node>,
    /// Deployments.
    pub deployments: Store<Deployment>,
    /// ReplicaSets.
    pub replica_sets: Store<ReplicaSet>,
    /// StatefulSets.
    pub stateful_sets: Store<StatefulSet>,
    /// DaemonSets.
    pub daemon_sets: Store<DaemonSet>,
    /// Jobs.
    pub jobs: Store<Job>,
    /// CronJobs.
    pub cron_jobs: Store<CronJob>,
    /// Volume claims.
    pub claims: Store<PersistentVolumeClaim>,
    /// Volumes.
    pub volumes: Store<PersistentVolume>,
    /// Storage classes.
    pub storage_classes: Store<StorageClass>,
    /// Autoscalers.
    pub autoscalers: Store<HorizontalPodAutoscaler>,
    /// Disruption budgets.
    pub budgets: Store<PodDisruptionBudget>,
    /// Quotas.
    pub quotas: Store<ResourceQuota>,
    /// Services.
    pub services: Store<Service>,
    /// Addresses of Services.
    pub slices: Store<EndpointSlice>,
    /// Ingresses.
    pub ingresses: Store<Ingress>,
    /// Routes of the Gateway API.
    pub routes: Store<HttpRoute>,
    /// Webhooks, by the name of their configuration.
    pub webhooks: BTreeMap<ObjectRef, Arc<WebhookConfiguration>>,
    /// API services.
    pub api_services: Store<ApiService>,
    events: HashMap<ObjectRef, Vec<Arc<Event>>>,
    events_len: usize,
    /// By pod and container.
    log_lines: HashMap<ObjectRef, BTreeMap<Box<str>, Box<str>>>,
}

// === impl State ===

macro_rules! stores {
    ($state:expr, $kind:expr, $store:ident => $body:expr, $otherwise:expr) => {
        match $kind {
            "Namespace" => {
                let $store = &mut $state.namespaces;
                $body
            }
            "Pod" => {
                let $store = &mut $state.pods;
                $body
            }
            "Node" => {
                let $store = &mut $state.nodes;
                $body
            }
            "Deployment" => {
                let $store = &mut $state.deployments;
                $body
            }
            "ReplicaSet" => {
                let $store = &mut $state.replica_sets;
                $body
            }
            "StatefulSet" => {
                let $store = &mut $state.stateful_sets;
                $body
            }
            "DaemonSet" => {
                let $store = &mut $state.daemon_sets;
                $body
            }
            "Job" => {
                let $store = &mut $state.jobs;
                $body
            }
            "CronJob" => {
                let $store = &mut $state.cron_jobs;
                $body
            }
            "PersistentVolumeClaim" => {
                let $store = &mut $state.claims;
                $body
            }
            "PersistentVolume" => {
                let $store = &mut $state.volumes;
                $body
            }
            "StorageClass" => {
                let $store = &mut $state.storage_classes;
                $body
            }
            "HorizontalPodAutoscaler" => {
                let $store = &mut $state.autoscalers;
                $body
            }
            "PodDisruptionBudget" => {
                let $store = &mut $state.budgets;
                $body
            }
            "ResourceQuota" => {
                let $store = &mut $state.quotas;
                $body
            }
            "Service" => {
                let $store = &mut $state.services;
                $body
            }
            "EndpointSlice" => {
                let $store = &mut $state.slices;
                $body
            }
            "Ingress" => {
                let $store = &mut $state.ingresses;
                $body
            }
            "HTTPRoute" => {
                let $store = &mut $state.routes;
                $body
            }
            "APIService" => {
                let $store = &mut $state.api_services;
                $body
            }
            _ => $otherwise,
        }
    };
}

impl State {
    /// Adds an object as the API server prints it. Kinds that no detector reads are left out.
    ///
    /// # Errors
    ///
    /// Says why the object cannot be read.
    pub fn apply_json(&mut self, object: Value) -> Result<(), serde_json::Error> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        match &*kind {
            "Event" => self.apply_event(serde_json::from_value(object)?),
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                let hooks: WebhookConfiguration = serde_json::from_value(object)?;
                let id = ObjectRef::new(kind, "", Arc::clone(&hooks.metadata.name));
                self.webhooks.insert(id, Arc::new(hooks));
            }
            kind => stores!(self, kind, store => {
                store.set_known(true);
                store.apply(serde_json::from_value(object)?);
            }, {}),
        }
        Ok(())
    }

    /// Says that a kind was read, also if there is nothing of it.
    pub fn set_known(&mut self, kind: &str) {
        stores!(self, kind, store => store.set_known(true), {});
    }

    /// Says that all kinds were read.
    pub fn set_all_known(&mut self) {
        for kind in KINDS {
            self.set_known(kind);
        }
    }

    /// Removes an object, and what was noted about it.
    pub fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        match kind {
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                let id = ObjectRef::new(kind.to_owned(), "", name);
                self.webhooks.remove(&id);
            }
            kind => stores!(self, kind, store => drop(store.delete(namespace, name)), {}),
        }
        if kind == "Pod" {
            self.log_lines
                .remove(&ObjectRef::new("Pod", namespace, name));
        }
    }

    /// Adds an event to those of its object; old ones make room.
    pub fn apply_event(&mut self, event: Event) {
        let involved = &event.involved_object;
        let id = ObjectRef::new(
            involved.kind.clone().into_string(),
            &involved.namespace,
            Arc::clone(&involved.name),
        );
        let events = self.events.entry(id).or_default();
        let before = events.len();
        let same = |known: &Arc<Event>| known.metadata.name == event.metadata.name;
        if let Some(known) = events.iter_mut().find(|known| same(known)) {
            *known = Arc::new(event);
        } else {
            events.push(Arc::new(event));
        }
        events.sort_by_key(|event| event.last_seen());
        if events.len() > EVENTS_MAX {
            events.remove(0);
        }
        self.events_len += events.len() - before;
        if self.events_len > ALL_EVENTS_MAX {
            self.forget_older_half();
        }
    }

    /// All events of the objects of a name: also those of an earlier object of the same name.
    /// The newest is the last.
    pub fn events(&self, id: &ObjectRef) -> &[Arc<Event>] {
        self.events.get(id).map_or(&[], Vec::as_slice)
    }

    /// All events.
    pub fn all_events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.values().flatten()
    }

    /// Notes the line of a container's log that says why it ended. Lines of pods that are not
    /// in the state make room.
    pub fn set_log_line(&mut self, namespace: &str, pod: &str, container: &str, line: &str) {
        if self.log_lines.len() >= LOG_LINES_MAX {
            let pods = &self.pods;
            self.log_lines
                .retain(|pod, _| pods.get(&pod.namespace, &pod.name).is_some());
        }
        let pod = ObjectRef::new("Pod", namespace, pod);
        if self.log_lines.len() >= LOG_LINES_MAX && !self.log_lines.contains_key(&pod) {
            return;
        }
        let end = line.floor_char_boundary(LOG_LINE_BYTES_MAX);
        let lines = self.log_lines.entry(pod).or_default();
        lines.insert(container.into(), line[..end].into());
    }

    /// The line of a container's log that says why it ended.
    pub fn log_line(&self, pod: &ObjectRef, container: &str) -> Option<&str> {
        let line = self.log_lines.get(pod)?.get(container)?;
        Some(line)
    }

    /// Drops events that were last seen before a time.
    pub fn forget_events(&mut self, before: Timestamp) {
        self.events.retain(|_, events| {
            events.retain(|event| event.last_seen().is_some_and(|seen| seen >= before));
            !events.is_empty()
        });
        self.events_len = self.events.values().map(Vec::len).sum();
    }

    fn forget_older_half(&mut self) {
        let mut seen: Vec<_> = self.all_events().map(|event| event.last_seen()).collect();
        let half = seen.len() / 2;
        let (_, middle, _) = seen.select_nth_unstable(half);
        // Strictly newer than the middle: also events of one moment make room.
        let after = middle.unwrap_or(Timestamp::MIN);
        self.events.retain(|_, events| {
            events.retain(|event| event.last_seen().is_some_and(|seen| seen > after));
            !events.is_empty()
        });
        self.events_len = self.events.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests;
