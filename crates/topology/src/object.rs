//! Objects as far as the graph keeps them.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer};

use super::{kind::Kind, labels::Labels, node::Relation};

/// Identifies an object: `Kind:namespace/name`, or `Kind:name` if it is cluster-scoped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// One of the kinds that the graph shows.
    pub kind: Kind,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// Summarises one object: everything of it that the graph keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSummary {
    /// The key of the object in the graph.
    pub id: ObjectId,
    /// Tells an object from an earlier one of the same name.
    pub uid: Box<str>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// One line for readers.
    pub status: Box<str>,
    /// The pod selector of a Service; empty for every other kind.
    pub selector: Labels,
    /// Sorted and without duplicates.
    pub references: Box<[Reference]>,
}

/// Refers from one object to another by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// How the two objects relate.
    pub relation: Relation,
    /// The object that is referred to.
    pub target: ObjectId,
    /// The UID of an owner: a later object of the same name is not the owner.
    pub uid: Option<Box<str>>,
}

// === impl ObjectId ===

impl ObjectId {
    /// Identifies an object; the namespace is ignored for cluster-scoped kinds.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{}:{}", self.kind, self.name),
            namespace => write!(f, "{}:{namespace}/{}", self.kind, self.name),
        }
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl ObjectSummary ===

impl ObjectSummary {
    /// An object of which only the identity is known.
    pub fn new(id: ObjectId) -> Self {
        Self {
            id,
            uid: Box::default(),
            labels: Labels::default(),
            status: Box::default(),
            selector: Labels::default(),
            references: Box::default(),
        }
    }

    /// Replaces the references; duplicates are dropped.
    #[must_use]
    pub fn with_references(mut self, references: impl IntoIterator<Item = Reference>) -> Self {
        let mut references: Vec<_> = references.into_iter().collect();
        references.sort_unstable();
        references.dedup();
        self.references = references.into_boxed_slice();
        self
    }
}

// === impl Reference ===

impl Reference {
    /// A reference by name, whether or not the target exists.
    pub fn new(relation: Relation, target: ObjectId) -> Self {
        Self {
            relation,
            target,
            uid: None,
        }
    }

    /// A reference from a dependent to its owner.
    pub fn owned_by(owner: ObjectId, uid: &str) -> Self {
        Self {
            relation: Relation::Owns,
            target: owner,
            uid: Some(uid.into()),
        }
    }
}
