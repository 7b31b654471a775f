//! Nodes and edges, as they are shown.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use sha2::{Digest, Sha256};

use super::{
    facts::{Facts, Id},
    labels::Labels,
};

/// How two objects are tied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// From an owner to what it made.
    Owns,
    /// From a service to a pod.
    Selects,
    /// From an ingress to a service.
    Routes,
    /// From an autoscaler to what it scales.
    Scales,
    /// From a pod to its node.
    RunsOn,
    /// From a pod to what it reads or keeps.
    Mounts,
}

/// One tie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Edge {
    /// From here.
    pub from: Id,
    /// How.
    #[serde(rename = "type")]
    pub relation: Relation,
    /// To there.
    pub to: Id,
}

/// An object as it is shown.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) id: Id,
    pub(super) seen: Seen,
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// The object itself.
    Object(Arc<Facts>),
    /// Something names it, and its kind is never read.
    Named,
    /// Something names it, and it is not there.
    Missing,
    /// Something names it, and its kind may not be read.
    Unread,
}

/// Everything, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Sorted.
    pub nodes: Vec<Node>,
    /// Sorted.
    pub edges: Vec<Edge>,
}

// === impl Snapshot ===

impl Snapshot {
    /// The hash of what is shown: the same for the same content, whatever the order in
    /// which it came.
    pub fn hash(&self) -> String {
        // One at a time: all of it as text would be larger than the graph.
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
    /// As an edge says it.
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

    /// The same, seen from the other end.
    pub fn backwards(self) -> &'static str {
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
    /// Which one.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// How it is, in one line; empty for what is never read.
    pub fn status(&self) -> &str {
        match &self.seen {
            Seen::Object(facts) => &facts.status,
            Seen::Named => "",
            Seen::Missing => "not found",
            Seen::Unread => "not read",
        }
    }

    /// Its labels, if it was read.
    pub fn labels(&self) -> Option<&Labels> {
        match &self.seen {
            Seen::Object(facts) => Some(&facts.labels),
            _ => None,
        }
    }

    /// Whether the object is there, as far as anybody looked.
    pub fn is_missing(&self) -> bool {
        matches!(self.seen, Seen::Missing)
    }
}

/// What is shown decides; what nobody sees makes no difference.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.status() == other.status() && self.labels() == other.labels()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Id {
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
