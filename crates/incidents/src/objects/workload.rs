//! What keeps a number of pods running.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;

use super::{Condition, Meta, nullable, pod::Container};

/// Pods in revisions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Deployment {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ReplicaSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: ReplicaStatus,
}

/// One revision of a Deployment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ReplicaSet {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ReplicaSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: ReplicaStatus,
}

/// Pods with names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct StatefulSet {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ReplicaSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: ReplicaStatus,
}

/// A pod per node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct DaemonSet {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ReplicaSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: DaemonStatus,
}

/// How many pods are wanted, and which.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSpec {
    /// The API server's default is one.
    pub replicas: Option<i64>,
    /// Whether a rollout waits for a person.
    #[serde(deserialize_with = "nullable")]
    pub paused: bool,
    /// The pods that count.
    #[serde(deserialize_with = "nullable")]
    pub selector: Selector,
    /// What its pods are made from.
    #[serde(deserialize_with = "nullable")]
    pub template: PodTemplate,
    /// The Service that names the pods of a StatefulSet.
    #[serde(deserialize_with = "nullable")]
    pub service_name: Arc<str>,
    /// How a StatefulSet or DaemonSet replaces pods.
    #[serde(deserialize_with = "nullable")]
    pub update_strategy: UpdateStrategy,
}

/// Which pods belong to a workload.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// Labels that all of them have.
    #[serde(deserialize_with = "nullable")]
    pub match_labels: BTreeMap<Box<str>, Box<str>>,
}

/// What pods are made from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct PodTemplate {
    /// Labels of the pods.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Meta,
    /// Their containers.
    #[serde(deserialize_with = "nullable")]
    pub spec: TemplateSpec,
}

/// The containers of a template.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateSpec {
    /// Containers that run together.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Empty is `default`.
    #[serde(deserialize_with = "nullable")]
    pub service_account_name: Box<str>,
}

/// How pods are replaced.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// `RollingUpdate` or `OnDelete`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: Box<str>,
    /// The partition of a StatefulSet.
    #[serde(deserialize_with = "nullable")]
    pub rolling_update: RollingUpdate,
}

/// How far a rolling update goes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct RollingUpdate {
    /// Pods below this ordinal keep the old revision.
    #[serde(deserialize_with = "nullable")]
    pub partition: i64,
}

/// How many pods there are.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// The generation that these numbers are about.
    #[serde(deserialize_with = "nullable")]
    pub observed_generation: i64,
    /// All.
    #[serde(deserialize_with = "nullable")]
    pub replicas: i64,
    /// Those of the newest template.
    #[serde(deserialize_with = "nullable")]
    pub updated_replicas: i64,
    /// Those that are ready.
    #[serde(deserialize_with = "nullable")]
    pub ready_replicas: i64,
    /// Those that have been ready for long enough.
    #[serde(deserialize_with = "nullable")]
    pub available_replicas: i64,
    /// `Progressing`, `Available`, `ReplicaFailure`.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// On how many nodes a DaemonSet runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonStatus {
    /// The generation that these numbers are about.
    #[serde(deserialize_with = "nullable")]
    pub observed_generation: i64,
    /// Nodes that should run one.
    #[serde(deserialize_with = "nullable")]
    pub desired_number_scheduled: i64,
    /// Nodes that have one.
    #[serde(deserialize_with = "nullable")]
    pub current_number_scheduled: i64,
    /// Nodes with one of the newest template.
    #[serde(deserialize_with = "nullable")]
    pub updated_number_scheduled: i64,
    /// Nodes with one that is ready.
    #[serde(deserialize_with = "nullable")]
    pub number_ready: i64,
    /// Nodes with one that has been ready for long enough.
    #[serde(deserialize_with = "nullable")]
    pub number_available: i64,
}

/// A template that a StatefulSet or a DaemonSet had, or has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ControllerRevision {
    /// What every object has.
    pub metadata: Meta,
    /// Counts the templates.
    #[serde(deserialize_with = "nullable")]
    pub revision: i64,
    /// The template.
    #[serde(deserialize_with = "nullable")]
    pub data: RevisionData,
}

/// The template in a revision.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct RevisionData {
    /// As in the workload.
    #[serde(deserialize_with = "nullable")]
    pub spec: RevisionSpec,
}

/// The template in a revision.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct RevisionSpec {
    /// What pods are made from.
    #[serde(deserialize_with = "nullable")]
    pub template: PodTemplate,
}

// === impl ReplicaSpec ===

impl ReplicaSpec {
    /// How many pods are wanted.
    pub fn wanted(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }
}
