//! What was touched since somebody was last told, and how it was before.

use std::collections::{BTreeMap, BTreeSet};

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
    /// What somebody has read meanwhile that was not told: it is told of in any case,
    /// because what they have seen may be over by then.
    shown: (BTreeSet<Id>, BTreeSet<Edge>),
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

    /// Somebody reads the graph as it is now.
    pub(super) fn show(&mut self, graph: &Graph) {
        let nodes = self.nodes.iter();
        let nodes = nodes.filter(|(id, before)| **before != graph.node(id));
        self.shown.0.extend(nodes.map(|(id, _)| id.clone()));
        let edges = self.edges.iter();
        let edges = edges.filter(|(edge, before)| **before != graph.has_edge(edge));
        self.shown.1.extend(edges.map(|(edge, _)| edge.clone()));
    }

    /// What is otherwise by now. What came and went, or came back to what it was, is
    /// not in it, unless somebody has seen it.
    pub(super) fn against(self, graph: &Graph) -> Delta {
        let mut delta = Delta::default();
        for (id, before) in self.nodes {
            let shown = self.shown.0.contains(&id);
            match (before, graph.node(&id)) {
                (None, Some(node)) => delta.added.push(node),
                (Some(_), None) => delta.deleted.push(id),
                (Some(before), Some(node)) if shown || before != node => delta.modified.push(node),
                (None, None) if shown => delta.deleted.push(id),
                _ => {}
            }
        }
        for (edge, before) in self.edges {
            let shown = self.shown.1.contains(&edge);
            match graph.has_edge(&edge) {
                now if now == before && !shown => {}
                true => delta.edges_added.push(edge),
                false => delta.edges_deleted.push(edge),
            }
        }
        delta
    }
}
