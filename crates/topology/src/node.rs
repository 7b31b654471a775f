//! Nodes and edges, as clients read them.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use sha2::{Digest, Sha256};

use super::{
    labels::Labels,
    object::{ObjectId, ObjectSummary},
};

/// Relates two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// From an owner to its dependent.
    Owns,
    /// From a Service to a Pod.
    Selects,
    /// From an Ingress to a Service.
    Routes,
    /// From an autoscaler to its scale target.
    Scales,
    /// From a Pod to its Node.
    RunsOn,
    /// From a Pod to a ConfigMap, a Secret or a volume claim.
    Mounts,
}

/// Connects two nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Edge {
    /// The source of the relation.
    pub from: ObjectId,
    /// Called `type` on the wire.
    #[serde(rename = "type")]
    pub relation: Relation,
    /// The target of the relation.
    pub to: ObjectId,
}

/// Shows an object, or the target of a reference that was not read.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) id: ObjectId,
    pub(super) state: NodeState,
}

/// Says how much is known of a node.
#[derive(Clone, Debug)]
pub(super) enum NodeState {
    Present(Arc<ObjectSummary>),
    /// It is referred to, and objects of its kind are never read.
    Referenced,
    /// It is referred to and does not exist.
    NotFound,
    /// It is referred to, and its kind may not be read.
    Unreadable,
}

/// Holds all nodes and edges at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Sorted by id.
    pub nodes: Vec<Node>,
    /// Sorted.
    pub edges: Vec<Edge>,
}

// === impl Snapshot ===

impl Snapshot {
    /// The SHA-256 of the content; the order in which objects arrived does not count.
    pub fn hash(&self) -> String {
        // One at a time: the whole snapshot as text would be larger than the graph.
        let mut hash = Sha256::new();
        let mut add = |json: serde_json::Result<Vec<u8>>| {
            hash.update(json.unwrap_or_default());
            hash.update(b"\n");
        };
        for node in &self.nodes {
            add(serde_json::to_vec(node));
        }
        for edge in &self.edges {
            add(serde_json::to_vec(edge));
        }
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

// === impl Relation ===

impl Relation {
    /// The relation from source to target.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owns => "owns",
            Self::Selects => "selects",
            Self::Routes => "routes",
            Self::Scales => "scales",
            Self::RunsOn => "runs-on",
            Self::Mounts => "mounts",
        }
    }

    /// The relation from target to source.
    pub fn inverse(self) -> &'static str {
        match self {
            Self::Owns => "owned by",
            Self::Selects => "selected by",
            Self::Routes => "routed from",
            Self::Scales => "scaled by",
            Self::RunsOn => "runs",
            Self::Mounts => "mounted by",
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Node ===

impl Node {
    /// The object that the node stands for.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// One line for readers; empty for kinds that are never read.
    pub fn status(&self) -> &str {
        match &self.state {
            NodeState::Present(object) => &object.status,
            NodeState::Referenced => "",
            NodeState::NotFound => "not found",
            NodeState::Unreadable => "not read",
        }
    }

    /// The labels of an object that was read.
    pub fn labels(&self) -> Option<&Labels> {
        match &self.state {
            NodeState::Present(object) => Some(&object.labels),
            _ => None,
        }
    }
}

/// Compares what clients see; other parts of an object make no difference.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.status() == other.status() && self.labels() == other.labels()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ObjectId {
            kind,
            namespace,
            name,
        } = &self.id;
        let labels = self.labels().filter(|labels| !labels.is_empty());
        let mut node = serializer.serialize_struct("Node", 6)?;
        node.serialize_field("id", &self.id)?;
        node.serialize_field("kind", kind)?;
        if !namespace.is_empty() {
            node.serialize_field("namespace", &**namespace)?;
        }
        node.serialize_field("name", &**name)?;
        if let Some(labels) = labels {
            node.serialize_field("labels", labels)?;
        }
        if !self.status().is_empty() {
            node.serialize_field("status", self.status())?;
        }
        node.end()
    }
}
