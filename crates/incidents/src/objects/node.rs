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
    /// When it became ready or stopped being so, as far as it was watched; the newest last.
    #[serde(skip)]
    pub ready_changes: Vec<Timestamp>,
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

/// Changes of the readiness of a node that are remembered.
const READY_CHANGES_MAX: usize = 8;

// === impl Node ===

impl Node {
    /// Remembers the changes of an earlier state of the same node.
    pub(super) fn remember(&mut self, earlier: &Self) {
        if self.metadata.uid != earlier.metadata.uid {
            return;
        }
        let ready = |node: &Self| {
            let ready = node.condition("Ready");
            ready.map(|one| (one.status.clone(), one.last_transition_time))
        };
        self.ready_changes.clone_from(&earlier.ready_changes);
        let (now, before) = (ready(self), ready(earlier));
        if let Some((_, Some(at))) = now.as_ref().filter(|_| now != before) {
            self.ready_changes.push(*at);
        }
        if self.ready_changes.len() > READY_CHANGES_MAX {
            self.ready_changes.remove(0);
        }
    }

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
