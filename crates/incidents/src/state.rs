//! The objects of a cluster, as far as they were read.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;

use crate::objects::{
    ApiService, CronJob, DaemonSet, Deployment, EndpointSlice, Event, HorizontalPodAutoscaler,
    HttpRoute, Ingress, Job, Meta, Namespace, Node, Object, ObjectRef, OwnerReference,
    PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ResourceQuota,
    Service, StatefulSet, StorageClass, WebhookConfiguration,
};

/// Events of one object that are kept.
const EVENTS_MAX: usize = 16;

/// Owners between an object and the one on top of it, at most.
const OWNERS_MAX: usize = 6;

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

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// Objects of one kind.
#[derive(Clone, Debug)]
pub struct Store<T> {
    objects: BTreeMap<Key, Arc<T>>,
    is_known: bool,
}

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
    log_lines: HashMap<(ObjectRef, Box<str>), Box<str>>,
}

// === impl Store ===

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            is_known: false,
        }
    }
}

impl<T: Object> Store<T> {
    /// Whether the kind could be read: what is not in the store then does not exist.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Says that the kind was read, also if there is nothing of it.
    pub fn set_known(&mut self, is_known: bool) {
        self.is_known = is_known;
    }

    /// Adds or replaces an object.
    pub fn apply(&mut self, object: T) {
        let meta = object.meta();
        let key = (Arc::clone(&meta.namespace), Arc::clone(&meta.name));
        self.objects.insert(key, Arc::new(object));
    }

    /// Replaces everything.
    pub fn replace(&mut self, objects: impl IntoIterator<Item = T>) {
        self.objects.clear();
        self.is_known = true;
        for object in objects {
            self.apply(object);
        }
    }

    /// Removes an object.
    pub fn delete(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.objects.remove(&(namespace.into(), name.into()))
    }

    /// An object by its name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.objects.get(&(namespace.into(), name.into()))
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.values()
    }

    /// The objects of a namespace.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<T>> {
        let from: Key = (namespace.into(), "".into());
        let all = self.objects.range(from..);
        all.take_while(move |(key, _)| &*key.0 == namespace)
            .map(|(_, object)| object)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
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

    /// Adds an event to those of its object; old ones make room.
    pub fn apply_event(&mut self, event: Event) {
        let involved = &event.involved_object;
        let id = ObjectRef::new(
            involved.kind.clone().into_string(),
            &involved.namespace,
            Arc::clone(&involved.name),
        );
        let events = self.events.entry(id).or_default();
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
    }

    /// The events of an object, the newest last. Those of an earlier object of the same name
    /// are left out.
    pub fn events<'a>(
        &'a self,
        id: &ObjectRef,
        meta: &'a Meta,
    ) -> impl DoubleEndedIterator<Item = &'a Event> + Clone {
        let events = self.events.get(id).map_or(&[][..], Vec::as_slice);
        let uid = &*meta.uid;
        events.iter().map(|event| &**event).filter(move |event| {
            let about = &*event.involved_object.uid;
            about.is_empty() || uid.is_empty() || about == uid
        })
    }

    /// The newest warning of an object with one of these reasons.
    pub fn warning<'a>(
        &'a self,
        id: &ObjectRef,
        meta: &'a Meta,
        reasons: &[&str],
    ) -> Option<&'a Event> {
        let events = self.events(id, meta).rev();
        let mut warnings = events.filter(|event| event.is_warning());
        warnings.find(|event| reasons.contains(&&*event.reason))
    }

    /// Notes the line of a container's log that says why it ended.
    pub fn set_log_line(&mut self, namespace: &str, pod: &str, container: &str, line: &str) {
        let pod = ObjectRef::new("Pod", namespace, pod);
        self.log_lines.insert((pod, container.into()), line.into());
    }

    /// The line of a container's log that says why it ended.
    pub fn log_line(&self, pod: &ObjectRef, container: &str) -> Option<&str> {
        let line = self.log_lines.get(&(pod.clone(), container.into()))?;
        Some(line)
    }

    /// Drops events that were last seen before a time.
    pub fn forget_events(&mut self, before: Timestamp) {
        self.events.retain(|_, events| {
            events.retain(|event| event.last_seen().is_some_and(|seen| seen >= before));
            !events.is_empty()
        });
    }

    /// The object on top of the owners of one: the Deployment of a pod.
    pub fn top_owner(&self, id: &ObjectRef, meta: &Meta) -> ObjectRef {
        let mut top = id.clone();
        let mut owner = meta.controller().cloned();
        for _ in 0..OWNERS_MAX {
            let Some(up) = owner else { break };
            // A node "owns" its static pods; they stand for themselves.
            if &*up.kind == "Node" {
                break;
            }
            let known = |kind: &'static str| ObjectRef::new(kind, &id.namespace, up.name.clone());
            let (next, above) = match &*up.kind {
                "ReplicaSet" => (
                    known("ReplicaSet"),
                    above(&self.replica_sets, &id.namespace, &up.name),
                ),
                "Deployment" => (
                    known("Deployment"),
                    above(&self.deployments, &id.namespace, &up.name),
                ),
                "StatefulSet" => (
                    known("StatefulSet"),
                    above(&self.stateful_sets, &id.namespace, &up.name),
                ),
                "DaemonSet" => (
                    known("DaemonSet"),
                    above(&self.daemon_sets, &id.namespace, &up.name),
                ),
                "Job" => (known("Job"), above(&self.jobs, &id.namespace, &up.name)),
                "CronJob" => (known("CronJob"), None),
                other => (
                    ObjectRef::new(other.to_owned(), &id.namespace, up.name.clone()),
                    None,
                ),
            };
            top = next;
            owner = above;
        }
        top
    }

    /// The pods that belong to a workload, directly or through its ReplicaSets or Jobs.
    pub fn pods_of<'a>(&'a self, workload: &'a ObjectRef) -> impl Iterator<Item = &'a Arc<Pod>> {
        let pods = self.pods.in_namespace(&workload.namespace);
        pods.filter(move |pod| self.top_owner(&pod.object_ref(), &pod.metadata) == *workload)
    }
}

/// The workload above an object. A custom resource above a Deployment configures it, and is no
/// workload.
fn above<T: Object>(store: &Store<T>, namespace: &str, name: &str) -> Option<OwnerReference> {
    let owner = store.get(namespace, name)?.meta().controller()?;
    let is_workload = matches!(
        &*owner.kind,
        "Deployment" | "StatefulSet" | "DaemonSet" | "Job" | "CronJob" | "ReplicaSet"
    );
    is_workload.then(|| owner.clone())
}
