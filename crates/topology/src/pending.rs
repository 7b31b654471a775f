//! Changes since the last delta was taken, and the state before them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    delta::Delta,
    node::{Edge, Node},
    object::ObjectId,
    store::Graph,
};

/// Remembers the state before the first change of each node and edge. It cannot outgrow
/// the graph: a node or an edge is in here once, however often it changes.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    nodes_before: BTreeMap<ObjectId, Option<Node>>,
    edges_before: BTreeMap<Edge, bool>,
    /// Changes that a reader has seen before subscribers were notified of them. The next
    /// delta has them in any case, because they may be reverted by then.
    read: (BTreeSet<ObjectId>, BTreeSet<Edge>),
}

// === impl PendingChanges ===

impl PendingChanges {
    pub(super) fn has_node(&self, id: &ObjectId) -> bool {
        self.nodes_before.contains_key(id)
    }

    /// Records a node as it is before its first change.
    pub(super) fn record_node(&mut self, id: &ObjectId, before: Option<Node>) {
        self.nodes_before.entry(id.clone()).or_insert(before);
    }

    /// Records whether an edge existed before its first change.
    pub(super) fn record_edge(&mut self, edge: Edge, existed: bool) {
        self.edges_before.entry(edge).or_insert(existed);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes_before.is_empty() && self.edges_before.is_empty()
    }

    /// Marks what has changed by now as read.
    pub(super) fn mark_read(&mut self, graph: &Graph) {
        let nodes = self.nodes_before.iter();
        let nodes = nodes.filter(|(id, before)| **before != graph.node(id));
        self.read.0.extend(nodes.map(|(id, _)| id.clone()));
        let edges = self.edges_before.iter();
        let edges = edges.filter(|(edge, existed)| **existed != graph.has_edge(edge));
        self.read.1.extend(edges.map(|(edge, _)| edge.clone()));
    }

    /// The difference to the graph as it is now. A change that was reverted is not in it,
    /// unless a reader has seen it.
    pub(super) fn into_delta(self, graph: &Graph) -> Delta {
        let mut delta = Delta::default();
        for (id, before) in self.nodes_before {
            let read = self.read.0.contains(&id);
            match (before, graph.node(&id)) {
                (None, Some(node)) => delta.added.push(node),
                (Some(_), None) => delta.deleted.push(id),
                (Some(before), Some(node)) if read || before != node => delta.modified.push(node),
                (None, None) if read => delta.deleted.push(id),
                _ => {}
            }
        }
        for (edge, existed) in self.edges_before {
            let read = self.read.1.contains(&edge);
            match graph.has_edge(&edge) {
                exists if exists == existed && !read => {}
                true => delta.edges_added.push(edge),
                false => delta.edges_deleted.push(edge),
            }
        }
        delta
    }
}
