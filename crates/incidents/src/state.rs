//! The objects of a cluster, as far as they were read.

mod size;
mod visible;

pub use self::visible::Eyes;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;

use crate::objects::{
    ApiService, ControllerRevision, CronJob, DaemonSet, Deployment, EndpointSlice, Event,
    HorizontalPodAutoscaler, HttpRoute, Ingress, IngressClass, Job, Namespace, Node, ObjectRef,
    PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ResourceQuota,
    Service, StatefulSet, StorageClass, WebhookConfiguration,
};
use crate::{event_log::EventLog, store::Store};

/// Lines of logs that are kept. Those of pods that are gone make room.
const LOG_LINES_MAX: usize = 10_000;

/// Bytes of a line of a log that are kept.
const LOG_LINE_BYTES_MAX: usize = 1024;

/// The kinds that have a store.
pub(crate) const KINDS: [&str; 22] = [
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
    "IngressClass",
    "ControllerRevision",
    "HTTPRoute",
    "APIService",
];

/// Lines of logs, by pod and container.
type LogLines = HashMap<ObjectRef, BTreeMap<Box<str>, Box<str>>>;

/// Everything that detectors read. A clone costs next to nothing: it shares what is not changed.
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
    /// Who serves Ingresses.
    pub ingress_classes: Store<IngressClass>,
    /// Templates of StatefulSets and DaemonSets.
    pub revisions: Store<ControllerRevision>,
    /// Routes of the Gateway API.
    pub routes: Store<HttpRoute>,
    /// Webhooks, by the name of their configuration.
    pub webhooks: BTreeMap<ObjectRef, Arc<WebhookConfiguration>>,
    /// API services.
    pub api_services: Store<ApiService>,
    events: EventLog,
    /// By pod and container. A clone shares it until one of the two changes something.
    log_lines: Arc<LogLines>,
}

// === impl State ===

/// Does something with the store of a kind.
macro_rules! stores {
    ($state:expr, $kind:expr, $store:ident => $body:expr, $otherwise:expr) => {
        stores! { @all $state, $kind, $store => $body, $otherwise;
            "Namespace" namespaces
            "Pod" pods
            "Node" nodes
            "Deployment" deployments
            "ReplicaSet" replica_sets
            "StatefulSet" stateful_sets
            "DaemonSet" daemon_sets
            "Job" jobs
            "CronJob" cron_jobs
            "PersistentVolumeClaim" claims
            "PersistentVolume" volumes
            "StorageClass" storage_classes
            "HorizontalPodAutoscaler" autoscalers
            "PodDisruptionBudget" budgets
            "ResourceQuota" quotas
            "Service" services
            "EndpointSlice" slices
            "Ingress" ingresses
            "IngressClass" ingress_classes
            "ControllerRevision" revisions
            "HTTPRoute" routes
            "APIService" api_services
        }
    };
    (@all $state:expr, $kind:expr, $store:ident => $body:expr, $otherwise:expr; $($name:literal $field:ident)+) => {
        match $kind {
            $($name => {
                let $store = &mut $state.$field;
                $body
            })+
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
        let pod = ObjectRef::new("Pod", namespace, name);
        if kind == "Pod" && self.log_lines.contains_key(&pod) {
            Arc::make_mut(&mut self.log_lines).remove(&pod);
        }
    }

    /// Adds an event to those of its object; old ones make room.
    pub fn apply_event(&mut self, event: Event) {
        self.events.apply(event);
    }

    /// All events of the objects of a name: also those of an earlier object of the same name.
    /// The newest is the last.
    pub fn events(&self, id: &ObjectRef) -> &[Arc<Event>] {
        self.events.of(id)
    }

    /// All events.
    pub fn all_events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter()
    }

    /// The oldest and the newest time of all events, of those that are not after `before`.
    pub(crate) fn event_times(&self, before: Timestamp) -> Option<(Timestamp, Timestamp)> {
        self.events.times(before)
    }

    /// Notes the line of a container's log that says why it ended. Lines of pods that are not
    /// in the state make room.
    pub fn set_log_line(&mut self, namespace: &str, pod: &str, container: &str, line: &str) {
        let pods = &self.pods;
        let log_lines = Arc::make_mut(&mut self.log_lines);
        if log_lines.len() >= LOG_LINES_MAX {
            log_lines.retain(|pod, _| pods.get(&pod.namespace, &pod.name).is_some());
        }
        let pod = ObjectRef::new("Pod", namespace, pod);
        if log_lines.len() >= LOG_LINES_MAX && !log_lines.contains_key(&pod) {
            return;
        }
        let end = line.floor_char_boundary(LOG_LINE_BYTES_MAX);
        let lines = log_lines.entry(pod).or_default();
        lines.insert(container.into(), line[..end].into());
    }

    /// The line of a container's log that says why it ended.
    pub fn log_line(&self, pod: &ObjectRef, container: &str) -> Option<&str> {
        let line = self.log_lines.get(pod)?.get(container)?;
        Some(line)
    }

    /// Drops events that were last seen before a time.
    pub fn forget_events(&mut self, before: Timestamp) {
        self.events.forget(before);
    }
}

#[cfg(test)]
mod tests;
