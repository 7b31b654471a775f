//! What was touched since somebody was last told, and how it was before.

use std::collections::BTreeMap;

use super::{
    delta::Delta,
    facts::Id,
    node::{Edge, Node},
    store::Graph,
};

/// How everything was that has been touched since. It cannot outgrow the graph: a
/// node or an edge is in here once, however often it changes.
#[derive(Debug, Default)]
pub(super) struct Touched {
    nodes: BTreeMap<Id, Option<Node>>,
    edges: BTreeMap<Edge, bool>,
}

// === impl Touched ===

impl Touched {
    pub(super) fn knows(&self, id: &Id) -> bool {
        self.nodes.contains_key(id)
    }

    /// How a node is before it changes for the first time.
    pub(super) fn node(&mut self, id: &Id, before: Option<Node>) {
        self.nodes.entry(id.clone()).or_insert(before);
    }

    /// Whether an edge was there before it changed for the first time.
    pub(super) fn edge(&mut self, edge: Edge, before: bool) {
        self.edges.entry(edge).or_insert(before);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.edges.is_empty()
    }

    /// What is otherwise by now. What came and went, or came back to what it was, is
    /// not in it.
    pub(super) fn against(self, graph: &Graph) -> Delta {
        let mut delta = Delta::default();
        for (id, before) in self.nodes {
            match (before, graph.node(&id)) {
                (None, Some(node)) => delta.added.push(node),
                (Some(_), None) => delta.deleted.push(id),
                (Some(before), Some(node)) if before != node => delta.modified.push(node),
                _ => {}
            }
        }
        for (edge, before) in self.edges {
            match (before, graph.has_edge(&edge)) {
                (false, true) => delta.edges_added.push(edge),
                (true, false) => delta.edges_deleted.push(edge),
                _ => {}
            }
        }
        delta
    }
}
