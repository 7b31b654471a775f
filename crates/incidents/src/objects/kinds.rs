//! Each kind as an [`Object`]: its name, the words that somebody else wrote into it, and when
//! something happened to it.

use std::iter::empty;

use jiff::Timestamp;

use super::{
    ApiService, Condition, ContainerState, ContainerStatus, ControllerRevision, CronJob, DaemonSet,
    Deployment, EndpointSlice, Event, HorizontalPodAutoscaler, HttpRoute, Ingress, IngressClass,
    Job, Meta, Namespace, Node, Object, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ReplicaSet, ResourceQuota, Service, StatefulSet, StorageClass,
    storage::VolumeStatus,
};

/// Type and kind, its free texts, the times in its status, and what else it knows.
macro_rules! objects {
    ($($object:ty, $kind:literal, |$one:ident| $texts:expr, $times:expr $(, { $($more:item)+ })?;)+) => {
        $(impl Object for $object {
            const KIND: &'static str = $kind;

            fn meta(&self) -> &Meta {
                &self.metadata
            }

            fn free_texts(&mut self) -> Vec<&mut Box<str>> {
                let $one = self;
                $texts
            }

            fn times(&self) -> impl Iterator<Item = Timestamp> {
                let $one = self;
                $times
            }

            $($($more)+)?
        })+
    };
}

objects! {
    Pod, "Pod", |one| pod(one), pod_times(one), {
        fn is_plain(&self) -> bool {
            Pod::is_plain(self)
        }
    };
    Node, "Node", |one| messages(&mut one.status.conditions), node_times(one), {
        fn remember(&mut self, earlier: &Self) {
            Node::remember(self, earlier);
        }
    };
    Namespace, "Namespace", |one| messages(&mut one.status.conditions), transitions(&one.status.conditions);
    Deployment, "Deployment", |one| messages(&mut one.status.conditions), transitions(&one.status.conditions);
    ReplicaSet, "ReplicaSet", |one| messages(&mut one.status.conditions), transitions(&one.status.conditions);
    StatefulSet, "StatefulSet", |one| messages(&mut one.status.conditions), transitions(&one.status.conditions);
    DaemonSet, "DaemonSet", |one| nothing(one), none(one);
    Job, "Job", |one| messages(&mut one.status.conditions), job_times(one);
    CronJob, "CronJob", |one| nothing(one), cron_job_times(one);
    PersistentVolumeClaim, "PersistentVolumeClaim", |one| volume(&mut one.status), transitions(&one.status.conditions);
    PersistentVolume, "PersistentVolume", |one| volume(&mut one.status), transitions(&one.status.conditions);
    StorageClass, "StorageClass", |one| nothing(one), none(one);
    HorizontalPodAutoscaler, "HorizontalPodAutoscaler", |one| messages(&mut one.status.conditions), transitions(&one.status.conditions);
    PodDisruptionBudget, "PodDisruptionBudget", |one| messages(&mut one.status.conditions), transitions(&one.status.conditions);
    ResourceQuota, "ResourceQuota", |one| nothing(one), none(one);
    Service, "Service", |one| nothing(one), none(one);
    EndpointSlice, "EndpointSlice", |one| nothing(one), none(one);
    Ingress, "Ingress", |one| nothing(one), none(one);
    IngressClass, "IngressClass", |one| nothing(one), none(one);
    ControllerRevision, "ControllerRevision", |one| nothing(one), none(one);
    HttpRoute, "HTTPRoute", |one| route(one), route_times(one);
    ApiService, "APIService", |one| messages(&mut one.status.conditions), transitions(&one.status.conditions);
    Event, "Event", |one| vec![&mut one.message], event_times(one);
}

fn nothing<T>(_object: &mut T) -> Vec<&mut Box<str>> {
    Vec::new()
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

fn none<T>(_object: &T) -> impl Iterator<Item = Timestamp> + use<T> {
    empty()
}

fn transitions(conditions: &[Condition]) -> impl Iterator<Item = Timestamp> {
    conditions.iter().filter_map(|one| one.last_transition_time)
}

fn pod_times(pod: &Pod) -> impl Iterator<Item = Timestamp> {
    let states = pod
        .containers()
        .flat_map(|status| [&status.state, &status.last_state]);
    let containers = states.flat_map(|state| {
        let running = state.running.as_ref().and_then(|one| one.started_at);
        let ended = state.terminated.as_ref();
        let ended = ended.map(|one| [one.started_at, one.finished_at]);
        running
            .into_iter()
            .chain(ended.into_iter().flatten().flatten())
    });
    transitions(&pod.status.conditions)
        .chain(pod.status.start_time)
        .chain(containers)
}

fn node_times(node: &Node) -> impl Iterator<Item = Timestamp> {
    let conditions = node.status.conditions.iter();
    let beats = conditions.filter_map(|one| one.last_heartbeat_time);
    let taints = node.spec.taints.iter().filter_map(|taint| taint.time_added);
    transitions(&node.status.conditions)
        .chain(beats)
        .chain(taints)
}

fn job_times(job: &Job) -> impl Iterator<Item = Timestamp> {
    let status = &job.status;
    let times = [status.start_time, status.completion_time];
    transitions(&status.conditions).chain(times.into_iter().flatten())
}

fn cron_job_times(job: &CronJob) -> impl Iterator<Item = Timestamp> {
    let status = &job.status;
    let times = [status.last_schedule_time, status.last_successful_time];
    times.into_iter().flatten()
}

fn route_times(route: &HttpRoute) -> impl Iterator<Item = Timestamp> {
    let parents = route.status.parents.iter();
    parents.flat_map(|parent| transitions(&parent.conditions))
}

fn event_times(event: &Event) -> impl Iterator<Item = Timestamp> {
    let times = [
        event.first_timestamp,
        event.last_timestamp,
        event.event_time,
        event.series.last_observed_time,
    ];
    times.into_iter().flatten()
}
