//! Nodes and namespaces.

use jiff::Timestamp;
use serde::Deserialize;

use super::{Condition, Meta, nullable, time};

/// A machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Node {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

/// What is wanted of a node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// Whether it is cordoned.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
    /// What keeps pods away.
    #[serde(deserialize_with = "nullable")]
    pub taints: Vec<Taint>,
}

/// Keeps pods away that do not tolerate it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub key: Box<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "nullable")]
    pub effect: Box<str>,
    /// Since when, for those of the node's own state.
    #[serde(deserialize_with = "time")]
    pub time_added: Option<Timestamp>,
}

/// How a node or a namespace is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct NodeStatus {
    /// `Ready`, `MemoryPressure`, ...
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// A namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Namespace {
    /// What every object has.
    pub metadata: Meta,
    /// What is; the conditions are about its deletion.
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

/// Taints of a machine that is about to go.
const LEAVING: [&str; 4] = [
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination",
];

// === impl Node ===

impl Node {
    /// Whether pods can be sent to it at all.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(Condition::is_true)
    }

    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        super::condition(&self.status.conditions, kind)
    }

    /// Whether an autoscaler or the cloud takes it away.
    pub fn is_leaving(&self) -> bool {
        let mut taints = self.spec.taints.iter();
        self.metadata.is_deleted() || taints.any(|taint| LEAVING.contains(&&*taint.key))
    }
}
