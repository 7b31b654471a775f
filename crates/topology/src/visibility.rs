//! What a reader may see of a graph: objects by kind and namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{kind::Kind, object::ObjectId};

/// Says which objects a reader may see. By default all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visibility(Option<BTreeMap<Kind, KindExtent>>);

/// Says where objects of a kind may be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindExtent {
    /// Everywhere.
    Everywhere,
    /// In these namespaces.
    In(BTreeSet<Arc<str>>),
}

// === impl Visibility ===

impl Visibility {
    /// All objects.
    pub fn everything() -> Self {
        Self(None)
    }

    /// Objects of these kinds, and of no other.
    pub fn of(kinds: impl IntoIterator<Item = (Kind, KindExtent)>) -> Self {
        Self(Some(kinds.into_iter().collect()))
    }

    /// Whether an object may be seen.
    pub fn shows(&self, id: &ObjectId) -> bool {
        let Some(kinds) = &self.0 else {
            return true;
        };
        match kinds.get(&id.kind) {
            None => false,
            Some(KindExtent::Everywhere) => true,
            Some(KindExtent::In(namespaces)) => namespaces.contains(&id.namespace),
        }
    }

    /// Whether any object of a kind may be seen.
    pub fn shows_kind(&self, kind: Kind) -> bool {
        let Some(kinds) = &self.0 else {
            return true;
        };
        match kinds.get(&kind) {
            None => false,
            Some(KindExtent::Everywhere) => true,
            Some(KindExtent::In(namespaces)) => !namespaces.is_empty(),
        }
    }
}
