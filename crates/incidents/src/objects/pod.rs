//! Pods.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Condition, Meta, env::hosts, nullable, time};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Pod {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatus,
}

/// What a pod is to run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Where it runs, once it is scheduled.
    #[serde(deserialize_with = "nullable")]
    pub node_name: Arc<str>,
    /// Who is to schedule it.
    #[serde(deserialize_with = "nullable")]
    pub scheduler_name: Box<str>,
    /// `Always`, `OnFailure` or `Never`.
    #[serde(deserialize_with = "nullable")]
    pub restart_policy: Box<str>,
    /// Containers that run together.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Containers that run before them, and sidecars.
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    /// What containers may mount.
    #[serde(deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    /// What keeps it from being scheduled.
    #[serde(deserialize_with = "nullable")]
    pub scheduling_gates: Vec<NamedItem>,
    /// Conditions of others that its readiness waits for.
    #[serde(deserialize_with = "nullable")]
    pub readiness_gates: Vec<ReadinessGate>,
}

/// One container of a pod's spec.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Unique in the pod.
    #[serde(deserialize_with = "nullable")]
    pub name: Box<str>,
    /// What it runs.
    #[serde(deserialize_with = "nullable")]
    pub image: Box<str>,
    /// `Always` makes a sidecar of an init container.
    #[serde(deserialize_with = "nullable")]
    pub restart_policy: Box<str>,
    /// Hosts that its environment names.
    #[serde(rename = "env", deserialize_with = "hosts")]
    pub hosts: Vec<Box<str>>,
    /// Ports that it declares.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
    /// Decides whether it gets traffic.
    pub readiness_probe: Option<Probe>,
    /// Decides whether it is restarted.
    pub liveness_probe: Option<Probe>,
    /// Holds the others back while it starts.
    pub startup_probe: Option<Probe>,
    /// What it may use.
    #[serde(deserialize_with = "nullable")]
    pub resources: Resources,
}

/// What a container may use and asks for, as quantities.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Resources {
    /// At most.
    #[serde(deserialize_with = "nullable")]
    pub limits: BTreeMap<Box<str>, Value>,
    /// At least.
    #[serde(deserialize_with = "nullable")]
    pub requests: BTreeMap<Box<str>, Value>,
}

/// A port that a container declares.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// Services may refer to it by name.
    #[serde(deserialize_with = "nullable")]
    pub name: Box<str>,
    /// Its number.
    #[serde(deserialize_with = "nullable")]
    pub container_port: i32,
    /// Empty is `TCP`.
    #[serde(deserialize_with = "nullable")]
    pub protocol: Box<str>,
}

/// How the kubelet finds out about a container.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// Seconds before the first one.
    pub initial_delay_seconds: i64,
    /// Seconds between two.
    pub period_seconds: i64,
    /// So many in a row count.
    pub failure_threshold: i64,
}

/// Something that can be mounted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// A claim.
    pub persistent_volume_claim: Option<ClaimSource>,
}

/// A volume claim by name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSource {
    /// Its name, in the namespace of the pod.
    #[serde(deserialize_with = "nullable")]
    pub claim_name: Arc<str>,
}

/// Something that has a name and nothing else of interest.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct NamedItem {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: Box<str>,
}

/// A condition that the readiness of a pod waits for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadinessGate {
    /// The type of the condition.
    #[serde(deserialize_with = "nullable")]
    pub condition_type: Box<str>,
}

/// What a pod does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub phase: Box<str>,
    /// `Evicted`, `NodeLost`, ...
    #[serde(deserialize_with = "nullable")]
    pub reason: Box<str>,
    /// A sentence for people.
    #[serde(deserialize_with = "nullable")]
    pub message: Box<str>,
    /// `Ready`, `PodScheduled`, ...
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// The states of the containers.
    #[serde(deserialize_with = "nullable")]
    pub container_statuses: Vec<ContainerStatus>,
    /// The states of the init containers.
    #[serde(deserialize_with = "nullable")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// When the kubelet took it on.
    #[serde(deserialize_with = "time")]
    pub start_time: Option<Timestamp>,
    /// A node that the scheduler makes room on.
    #[serde(deserialize_with = "nullable")]
    pub nominated_node_name: Box<str>,
}

/// The state of one container.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// As in the spec.
    #[serde(deserialize_with = "nullable")]
    pub name: Box<str>,
    /// Whether its readiness probe passes.
    #[serde(deserialize_with = "nullable")]
    pub ready: bool,
    /// Whether its start-up probe has passed.
    pub started: Option<bool>,
    /// How often it was started again.
    #[serde(deserialize_with = "nullable")]
    pub restart_count: i64,
    /// Now.
    #[serde(deserialize_with = "nullable")]
    pub state: ContainerState,
    /// Before the last restart.
    #[serde(deserialize_with = "nullable")]
    pub last_state: ContainerState,
}

/// What a container does; at most one of the three.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ContainerState {
    /// It does not run yet, or not again.
    pub waiting: Option<Waiting>,
    /// It runs.
    pub running: Option<Running>,
    /// It has ended.
    pub terminated: Option<Terminated>,
}

/// Why a container does not run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Waiting {
    /// `CrashLoopBackOff`, `ContainerCreating`, ...
    #[serde(deserialize_with = "nullable")]
    pub reason: Box<str>,
    /// A sentence for people.
    #[serde(deserialize_with = "nullable")]
    pub message: Box<str>,
}

/// A container that runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Running {
    /// Since when.
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    /// Zero is success.
    #[serde(deserialize_with = "nullable")]
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// `OOMKilled`, `Error`, `Completed`, ...
    #[serde(deserialize_with = "nullable")]
    pub reason: Box<str>,
    /// What it wrote to its termination log.
    #[serde(deserialize_with = "nullable")]
    pub message: Box<str>,
    /// When it began.
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(deserialize_with = "time")]
    pub finished_at: Option<Timestamp>,
}

// === impl Probe ===

/// The API server's defaults.
impl Default for Probe {
    fn default() -> Self {
        Self {
            initial_delay_seconds: 0,
            period_seconds: 10,
            failure_threshold: 3,
        }
    }
}

impl Probe {
    /// The seconds after which a container that never passes has failed.
    pub fn patience(&self) -> i64 {
        let periods = (self.period_seconds.max(1)).saturating_mul(self.failure_threshold.max(1));
        self.initial_delay_seconds.max(0).saturating_add(periods)
    }
}

// === impl Pod ===

impl Pod {
    /// Whether it is over and done, or runs, is ready and has never been otherwise as far as its
    /// status tells.
    pub(super) fn is_plain(&self) -> bool {
        if self.metadata.is_deleted() {
            return false;
        }
        if &*self.status.phase == "Succeeded" {
            return true;
        }
        let is_calm = |status: &ContainerStatus| {
            let done = status.state.terminated.as_ref();
            let is_done = done.is_none_or(|done| {
                done.exit_code == 0 && status.restart_count == 0 && &*done.reason != "OOMKilled"
            });
            is_done && status.state.waiting.is_none() && status.last_state.terminated.is_none()
        };
        let resizes = |one: &Condition| one.kind.starts_with("PodResize");
        &*self.status.phase == "Running"
            && self.is_ready()
            && self.containers().all(is_calm)
            && !self.status.conditions.iter().any(resizes)
            && self
                .condition("PodScheduled")
                .is_none_or(Condition::is_true)
    }

    /// Whether its containers have ended for good.
    pub fn is_over(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// Whether it passes its readiness.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(Condition::is_true)
    }

    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        super::condition(&self.status.conditions, kind)
    }

    /// The states of all containers, init containers first.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        let init = self.status.init_container_statuses.iter();
        init.chain(&self.status.container_statuses)
    }

    /// The spec of a container.
    pub fn spec_of(&self, name: &str) -> Option<&Container> {
        let all = self.spec.containers.iter();
        let mut all = all.chain(&self.spec.init_containers);
        all.find(|container| &*container.name == name)
    }

    /// Whether a container of this name runs before the others and has to end.
    pub fn is_init(&self, name: &str) -> bool {
        let mut init = self.spec.init_containers.iter();
        init.any(|container| &*container.name == name && &*container.restart_policy != "Always")
    }

    /// The claims that it mounts.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        let volumes = self.spec.volumes.iter();
        volumes
            .filter_map(|volume| volume.persistent_volume_claim.as_ref())
            .map(|claim| &claim.claim_name)
    }

    /// The earliest time that it tells of itself. An object that was restored from a backup
    /// is younger than what it says.
    pub fn born(&self) -> Option<Timestamp> {
        let times = self.status.conditions.iter();
        times
            .filter_map(|condition| condition.last_transition_time)
            .chain(self.metadata.creation_timestamp)
            .chain(self.status.start_time)
            .min()
    }
}

impl Container {
    /// A limit as it is written.
    pub fn limit(&self, resource: &str) -> Option<String> {
        self.resources
            .limits
            .get(resource)
            .map(|limit| match limit {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
    }
}
