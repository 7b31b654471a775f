//! What one object says, as far as the graph needs it.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer};

use super::{kind::Kind, labels::Labels, node::Relation};

/// Which object: `Kind:namespace/name`, or `Kind:name` where there are no namespaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its kind.
    pub kind: Kind,
    /// Where it lives; empty for what lives in no namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// What one object says: everything of it that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which object.
    pub id: Id,
    /// Of two objects that had the name after each other, which one.
    pub uid: Box<str>,
    /// Its labels.
    pub labels: Labels,
    /// How it is, in one line.
    pub status: Box<str>,
    /// Which pods it sends to, if it is a service.
    pub selector: Labels,
    /// What it names, each once.
    pub claims: Box<[Claim]>,
}

/// Something that an object names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// How they are tied.
    pub relation: Relation,
    /// What is named.
    pub other: Id,
    /// An owner is one object, not whatever has its name by now.
    pub uid: Option<Box<str>>,
}

// === impl Id ===

impl Id {
    /// The id of an object; whatever lives in no namespace has none.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{}:{}", self.kind, self.name),
            namespace => write!(f, "{}:{namespace}/{}", self.kind, self.name),
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl Facts ===

impl Facts {
    /// An object that says nothing yet.
    pub fn new(id: Id) -> Self {
        Self {
            id,
            uid: Box::default(),
            labels: Labels::default(),
            status: Box::default(),
            selector: Labels::default(),
            claims: Box::default(),
        }
    }

    /// It names these; what it names twice counts once.
    #[must_use]
    pub fn claiming(mut self, claims: impl IntoIterator<Item = Claim>) -> Self {
        let mut claims: Vec<_> = claims.into_iter().collect();
        claims.sort_unstable();
        claims.dedup();
        self.claims = claims.into_boxed_slice();
        self
    }
}

// === impl Claim ===

impl Claim {
    /// Something that is named, whether it is there or not.
    pub fn new(relation: Relation, other: Id) -> Self {
        Self {
            relation,
            other,
            uid: None,
        }
    }

    /// The owner.
    pub fn owned_by(owner: Id, uid: &str) -> Self {
        Self {
            relation: Relation::Owns,
            other: owner,
            uid: Some(uid.into()),
        }
    }
}
