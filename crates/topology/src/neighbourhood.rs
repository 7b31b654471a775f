//! The neighbourhood of one object: a breadth-first walk with limits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    kind::Kind,
    node::{Edge, Node},
    object::ObjectId,
    store::Graph,
};

/// Holds an object, the nodes around it and the edges between them.
#[derive(Clone, Debug)]
pub struct Neighbourhood {
    pub(super) root: ObjectId,
    pub(super) depth: usize,
    pub(super) visited: BTreeMap<ObjectId, Visited>,
    /// Sorted; both ends were visited.
    pub(super) edges: Vec<Edge>,
    /// Nodes that were reached and left out for lack of room.
    pub(super) more: usize,
}

/// A node that the walk has visited.
#[derive(Clone, Debug)]
pub(super) struct Visited {
    pub(super) node: Node,
    /// Steps from the root.
    pub(super) depth: usize,
    /// Position in the walk, from 0.
    pub(super) order: usize,
    /// The node from which the walk came; the root has none.
    pub(super) parent: Option<ObjectId>,
}

impl Graph {
    /// Walks at most `depth` steps and `nodes_max` nodes from an object; `None` if the
    /// graph has no such node.
    ///
    /// The walk passes through objects that many share (a node, a configuration, a volume)
    /// only if it begins there: by way of a node every pod is close to every other pod.
    pub fn neighbourhood(
        &self,
        root: &ObjectId,
        depth: usize,
        nodes_max: usize,
    ) -> Option<Neighbourhood> {
        let mut near = Neighbourhood {
            root: root.clone(),
            depth,
            visited: BTreeMap::new(),
            edges: Vec::new(),
            more: 0,
        };
        near.visit(self.node(root)?, 0, None);
        let mut left_out = BTreeSet::new();
        let mut next = VecDeque::from([root.clone()]);
        while let Some(id) = next.pop_front() {
            let steps = near.visited[&id].depth;
            if steps == depth || !near.passes_through(&id) {
                continue;
            }
            for edge in self.edges_at(&id) {
                let other = if edge.from == id { edge.to } else { edge.from };
                if near.visited.contains_key(&other) {
                    continue;
                }
                let Some(node) = self.node(&other) else {
                    continue;
                };
                if near.visited.len() >= nodes_max {
                    left_out.insert(other);
                    continue;
                }
                near.visit(node, steps + 1, Some(id.clone()));
                next.push_back(other);
            }
        }
        near.more = left_out.len();
        let edges = near.visited.keys().flat_map(|id| self.edges_at(id));
        let inside = |edge: &Edge| {
            near.visited.contains_key(&edge.from) && near.visited.contains_key(&edge.to)
        };
        let edges: BTreeSet<_> = edges.filter(inside).collect();
        near.edges = edges.into_iter().collect();
        Some(near)
    }
}

// === impl Neighbourhood ===

impl Neighbourhood {
    /// The number of nodes, with the root.
    pub fn len(&self) -> usize {
        self.visited.len()
    }

    /// Never true: the root is always visited.
    pub fn is_empty(&self) -> bool {
        self.visited.is_empty()
    }

    /// The number of nodes that were reached and left out for lack of room.
    pub fn more(&self) -> usize {
        self.more
    }

    fn visit(&mut self, node: Node, depth: usize, parent: Option<ObjectId>) {
        let order = self.visited.len();
        let visited = Visited {
            node,
            depth,
            order,
            parent,
        };
        self.visited.insert(visited.node.id().clone(), visited);
    }

    /// Whether the walk goes on from a node.
    pub(super) fn passes_through(&self, id: &ObjectId) -> bool {
        let shared = matches!(id.kind, Kind::Node | Kind::Namespace) || id.kind.is_reference();
        *id == self.root || !shared
    }
}
