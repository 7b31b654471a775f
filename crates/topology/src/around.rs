//! The neighbourhood of one object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    facts::Id,
    kind::Kind,
    node::{Edge, Node},
    store::Graph,
};

/// An object and what is around it.
#[derive(Clone, Debug)]
pub struct Around {
    pub(super) root: Id,
    pub(super) depth: usize,
    pub(super) found: BTreeMap<Id, Found>,
    /// Between what was found, in order.
    pub(super) edges: Vec<Edge>,
    /// How many were met and left out.
    pub(super) more: usize,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) node: Node,
    /// How many steps away.
    pub(super) depth: usize,
    /// The how manieth it was.
    pub(super) order: usize,
    /// From where.
    pub(super) parent: Option<Id>,
}

impl Graph {
    /// What is around an object, up to so many steps and so many nodes; nothing if it
    /// is not there.
    ///
    /// The walk goes through what many share (a node, a configuration, a volume) only
    /// if it begins there: everything is close to everything else by way of a node.
    pub fn around(&self, root: &Id, depth: usize, nodes_max: usize) -> Option<Around> {
        let mut around = Around {
            root: root.clone(),
            depth,
            found: BTreeMap::new(),
            edges: Vec::new(),
            more: 0,
        };
        around.meet(self.node(root)?, 0, None);
        let mut left_out = BTreeSet::new();
        let mut next = VecDeque::from([root.clone()]);
        while let Some(id) = next.pop_front() {
            let steps = around.found[&id].depth;
            if steps == depth || !around.passes(&id) {
                continue;
            }
            for edge in self.edges_at(&id) {
                let other = if edge.from == id { edge.to } else { edge.from };
                if around.found.contains_key(&other) {
                    continue;
                }
                let Some(node) = self.node(&other) else {
                    continue;
                };
                if around.found.len() >= nodes_max {
                    left_out.insert(other);
                    continue;
                }
                around.meet(node, steps + 1, Some(id.clone()));
                next.push_back(other);
            }
        }
        around.more = left_out.len();
        let edges = around.found.keys().flat_map(|id| self.edges_at(id));
        let inside = |edge: &Edge| {
            around.found.contains_key(&edge.from) && around.found.contains_key(&edge.to)
        };
        let edges: BTreeSet<_> = edges.filter(inside).collect();
        around.edges = edges.into_iter().collect();
        Some(around)
    }
}

// === impl Around ===

impl Around {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none; the object itself is one.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many more were met and left out.
    pub fn more(&self) -> usize {
        self.more
    }

    fn meet(&mut self, node: Node, depth: usize, parent: Option<Id>) {
        let order = self.found.len();
        let found = Found {
            node,
            depth,
            order,
            parent,
        };
        self.found.insert(found.node.id().clone(), found);
    }

    /// Whether the walk goes on from there.
    pub(super) fn passes(&self, id: &Id) -> bool {
        let shared = matches!(id.kind, Kind::Node | Kind::Namespace) || id.kind.is_reference();
        *id == self.root || !shared
    }
}
