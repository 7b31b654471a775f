//! The table of detectors. Each is a pure function of the state and the time.

mod admission;
mod context;
pub(crate) mod dependencies;
mod entries;
mod jobs;
mod missing;
mod namespaces;
mod network;
mod nodes;
mod pods;
mod storage;
mod workloads;

use jiff::SignedDuration;

pub use self::context::Context;
use crate::symptom::{Hold, Symptom};

/// One row of the table.
#[derive(Debug)]
pub struct Detector {
    /// Names it in settings and in data.
    pub name: &'static str,
    /// What it finds and what it lets pass, for people.
    pub sentence: &'static str,
    /// The kinds that it cannot work without.
    pub kinds: &'static [&'static str],
    /// How long its state has to be there.
    pub hold: Hold,
    /// Which of two symptoms of one pod is told: the higher one.
    pub rank: u8,
}

macro_rules! detectors {
    ($($name:literal $rank:literal $open:literal $close:literal [$($kind:literal),*] $sentence:literal)+) => {
        /// All detectors.
        pub const DETECTORS: &[Detector] = &[$(Detector {
            name: $name,
            sentence: $sentence,
            kinds: &[$($kind),*],
            hold: Hold {
                open: SignedDuration::from_secs($open),
                close: SignedDuration::from_secs($close),
            },
            rank: $rank,
        }),+];
    };
}

// Name, rank, seconds before it opens and before it closes, kinds, sentence.
detectors! {
    "image-pull" 90 30 0 ["Pod"]
        "A container's image cannot be pulled. The registry's own words are kept when the kubelet only says that it backs off."
    "image-name" 91 0 0 ["Pod"]
        "A container's image has a name that no registry can have."
    "config-missing" 85 30 0 ["Pod"]
        "A container cannot be created: a ConfigMap, a Secret or a key of one is missing."
    "cannot-start" 84 0 0 ["Pod"]
        "A container cannot be started: its command does not exist, or a hook fails."
    "oom-loop" 83 0 30 ["Pod"]
        "A container is killed for its memory again and again."
    "crash-loop" 80 0 30 ["Pod"]
        "A container ends and is restarted again and again; it may be running, even ready, at the moment. One restart is no loop."
    "liveness" 79 0 30 ["Pod"]
        "A container is restarted by its liveness or start-up probe again and again."
    "exit" 70 0 0 ["Pod"]
        "A container ended with an error and stays so. Pods of Jobs are judged by their Job."
    "refused" 68 0 60 ["Pod"]
        "A node refuses pods that were sent to it: it has no room, or does not fit."
    "namespace" 38 600 0 ["Namespace"]
        "A namespace is still there ten minutes after it was deleted."
    "mount" 65 120 0 ["Pod"]
        "A pod's volumes or network cannot be set up."
    "init-hangs" 60 900 0 ["Pod"]
        "An init container runs for so long that the others never start."
    "unschedulable" 55 15 0 ["Pod"]
        "No node fits a pod. An autoscaler that has begun to add one gets five minutes."
    "scheduling-gate" 10 900 0 ["Pod"]
        "A pod is held back by a scheduling gate."
    "not-ready" 50 0 30 ["Pod"]
        "A pod runs and does not become ready for longer than its own probes allow."
    "terminating" 40 120 0 ["Pod"]
        "A pod is still there two minutes after it should be gone."
    "resize" 13 60 60 ["Pod", "PersistentVolumeClaim"]
        "A running pod or a claim cannot get the size that it was given. A pod that waits for room gets five minutes."
    "evicted" 20 0 0 ["Pod"]
        "Pods were evicted or preempted in the last half hour. Those of a drain do not count."
    "oom" 15 0 0 ["Pod"]
        "A container was killed for its memory in the last hour and runs again."
    "rollout" 45 0 60 ["Deployment"]
        "A Deployment did not get on within its progress deadline."
    "replicas" 44 60 60 ["Deployment", "StatefulSet", "DaemonSet"]
        "A workload has fewer pods available than it wants: at once if none is, after five minutes otherwise. Rollouts under way do not count."
    "scaled-to-zero" 43 60 30 ["Deployment", "StatefulSet", "Service"]
        "A workload is scaled to zero while a Service leads to it and nothing scales it back."
    "cannot-create" 75 30 0 ["ReplicaSet"]
        "A controller may not create pods: quota, admission, webhook or service account."
    "job" 72 0 0 ["Job"]
        "A Job failed. A later success of its CronJob ends it."
    "cron-job" 30 120 0 ["CronJob"]
        "A CronJob's last run did not succeed, or it missed its time."
    "claim" 66 120 0 ["PersistentVolumeClaim"]
        "A volume claim is lost, or pending although nothing has to use it first."
    "volume" 67 0 0 ["PersistentVolume"]
        "A volume failed."
    "autoscaler" 25 300 60 ["HorizontalPodAutoscaler"]
        "An autoscaler gets no metrics, or cannot scale its target."
    "autoscaler-limit" 12 900 300 ["HorizontalPodAutoscaler"]
        "An autoscaler wants more pods than it may have."
    "service" 35 120 30 ["Service", "EndpointSlice", "Pod"]
        "A Service selects no pod, has no ready endpoint, or leads to a port that no container has; or it is missing, though a workload of its name runs and the environment of another one asks for it."
    "route" 34 60 0 ["Ingress", "Service"]
        "An Ingress or an HTTPRoute leads to a Service or a port that is not there, or an Ingress asks for a class that is not there and has no address."
    "load-balancer" 36 300 60 ["Service"]
        "A Service gets no address from a load balancer, and whoever should give it one says why. Without such words it is normal: many clusters have no load balancer."
    "node" 100 60 60 ["Node"]
        "A node is not ready, unreachable or without network."
    "node-pressure" 95 120 120 ["Node"]
        "A node is short of memory, disk or process ids."
    "node-flapping" 93 0 300 ["Node"]
        "A node became ready or stopped being so more than twice in a quarter of an hour, as far as it was watched, or its events tell of three reboots or losses within an hour."
    "quota" 11 900 60 ["ResourceQuota"]
        "A quota is used up."
    "api-service" 96 60 60 ["APIService"]
        "A part of the API does not answer."
    "webhook" 94 60 60 ["Service", "EndpointSlice"]
        "A webhook that must agree has nobody to answer."
    "budget" 33 600 60 ["PodDisruptionBudget", "Pod", "Node"]
        "A disruption budget keeps a drain from getting on."
}

/// The row of a detector.
pub fn detector(name: &str) -> Option<&'static Detector> {
    DETECTORS.iter().find(|detector| detector.name == name)
}

/// Everything that any detector finds.
pub fn symptoms(context: &Context<'_>) -> Vec<Symptom> {
    let mut found = Vec::new();
    nodes::detect(context, &mut found);
    pods::detect(context, &mut found);
    workloads::detect(context, &mut found);
    jobs::detect(context, &mut found);
    storage::detect(context, &mut found);
    network::detect(context, &mut found);
    entries::detect(context, &mut found);
    missing::detect(context, &mut found);
    admission::detect(context, &mut found);
    namespaces::detect(context, &mut found);
    dependencies::link(context, &mut found);
    found
}

#[cfg(test)]
mod tests;
