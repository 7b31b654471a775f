//! What objects tell: their kind, and the words that somebody else wrote into them.

use super::{
    ApiService, Condition, ContainerState, ContainerStatus, CronJob, DaemonSet, Deployment,
    EndpointSlice, Event, HorizontalPodAutoscaler, HttpRoute, Ingress, Job, Meta, Namespace, Node,
    Object, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet,
    ResourceQuota, Service, StatefulSet, StorageClass, storage::VolumeStatus,
};

/// Type, kind, and what yields its free texts.
macro_rules! objects {
    ($($object:ty, $kind:literal, $texts:expr;)+) => {
        $(impl Object for $object {
            const KIND: &'static str = $kind;

            fn meta(&self) -> &Meta {
                &self.metadata
            }

            fn free_texts(&mut self) -> Vec<&mut Box<str>> {
                let texts: fn(&mut Self) -> Vec<&mut Box<str>> = $texts;
                texts(self)
            }
        })+
    };
}

objects! {
    Pod, "Pod", pod;
    Node, "Node", |one| messages(&mut one.status.conditions);
    Namespace, "Namespace", |one| messages(&mut one.status.conditions);
    Deployment, "Deployment", |one| messages(&mut one.status.conditions);
    ReplicaSet, "ReplicaSet", |one| messages(&mut one.status.conditions);
    StatefulSet, "StatefulSet", |one| messages(&mut one.status.conditions);
    DaemonSet, "DaemonSet", |_| Vec::new();
    Job, "Job", |one| messages(&mut one.status.conditions);
    CronJob, "CronJob", |_| Vec::new();
    PersistentVolumeClaim, "PersistentVolumeClaim", |one| volume(&mut one.status);
    PersistentVolume, "PersistentVolume", |one| volume(&mut one.status);
    StorageClass, "StorageClass", |_| Vec::new();
    HorizontalPodAutoscaler, "HorizontalPodAutoscaler", |one| messages(&mut one.status.conditions);
    PodDisruptionBudget, "PodDisruptionBudget", |one| messages(&mut one.status.conditions);
    ResourceQuota, "ResourceQuota", |_| Vec::new();
    Service, "Service", |_| Vec::new();
    EndpointSlice, "EndpointSlice", |_| Vec::new();
    Ingress, "Ingress", |_| Vec::new();
    HttpRoute, "HTTPRoute", route;
    ApiService, "APIService", |one| messages(&mut one.status.conditions);
    Event, "Event", |one| vec![&mut one.message];
}

fn messages(conditions: &mut [Condition]) -> Vec<&mut Box<str>> {
    conditions.iter_mut().map(|one| &mut one.message).collect()
}

fn volume(status: &mut VolumeStatus) -> Vec<&mut Box<str>> {
    let mut texts = messages(&mut status.conditions);
    texts.push(&mut status.message);
    texts
}

fn route(route: &mut HttpRoute) -> Vec<&mut Box<str>> {
    let parents = route.status.parents.iter_mut();
    parents
        .flat_map(|parent| messages(&mut parent.conditions))
        .collect()
}

fn pod(pod: &mut Pod) -> Vec<&mut Box<str>> {
    let status = &mut pod.status;
    let mut texts = messages(&mut status.conditions);
    texts.push(&mut status.message);
    let containers = status.init_container_statuses.iter_mut();
    for container in containers.chain(&mut status.container_statuses) {
        let ContainerStatus {
            state, last_state, ..
        } = container;
        texts.extend(container_state(state));
        texts.extend(container_state(last_state));
    }
    texts
}

fn container_state(state: &mut ContainerState) -> impl Iterator<Item = &mut Box<str>> {
    let waiting = state.waiting.as_mut().map(|one| &mut one.message);
    let terminated = state.terminated.as_mut().map(|one| &mut one.message);
    waiting.into_iter().chain(terminated)
}
