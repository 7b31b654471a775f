//! Changes of a graph, and the updates that subscribers are sent.

use serde::Serialize;
use serde_json::Value;

use super::{
    kind::KindFilter,
    node::{Edge, Node},
    object::ObjectId,
};

/// The number of changes that an update carries; for more, a client reads the graph again.
const CHANGES_MAX: usize = 50;

/// The size of the changes in an update, as JSON.
const CHANGES_BYTES_MAX: usize = 8 * 1024;

/// The number of changes that a summary spells out.
const SUMMARISED_MAX: usize = 3;

/// Lists what was added, modified and deleted between two states of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    /// New nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Node>,
    /// Changed nodes, as they are now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<Node>,
    /// The ids of nodes that no longer exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<ObjectId>,
    /// New edges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges_added: Vec<Edge>,
    /// Edges that no longer exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges_deleted: Vec<Edge>,
}

/// Carries one change of a graph to its subscribers.
#[derive(Clone, Debug)]
pub struct GraphChange {
    /// Numbers the changes; a later read of the graph is not older than this one.
    pub seq: u64,
    /// What changed.
    pub delta: Delta,
    /// The new notes on kinds that are missing or stale, if these have changed too.
    pub notes: Option<Vec<String>>,
}

/// Subscribes to the changes of a graph.
pub trait GraphSubscriber: Send + Sync {
    /// Handles a change. It must not block: it runs on the task that publishes to all
    /// subscribers.
    fn on_change(&self, change: &GraphChange);
}

/// Describes a change in a resource update notification.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphUpdate {
    /// The number of the change.
    pub seq: u64,
    /// The number of the update before it; a client that has seen less reads the graph
    /// again.
    pub since: u64,
    /// The number of changed nodes and edges.
    pub count: usize,
    /// One line for people and models.
    pub summary: String,
    /// The changes, unless they are too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<Value>,
    /// Set if the changes are too many: the client has to read the graph again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reread: bool,
}

// === impl Delta ===

impl Delta {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of changed nodes and edges.
    pub fn len(&self) -> usize {
        let nodes = self.added.len() + self.modified.len() + self.deleted.len();
        nodes + self.edges_added.len() + self.edges_deleted.len()
    }

    /// The changes of these kinds; of edges, both ends have to match.
    #[must_use]
    pub fn filtered(&self, kinds: &KindFilter) -> Self {
        let node = |node: &&Node| kinds.matches(node.id().kind);
        let edge = |edge: &&Edge| kinds.matches(edge.from.kind) && kinds.matches(edge.to.kind);
        let id = |id: &&ObjectId| kinds.matches(id.kind);
        Self {
            added: self.added.iter().filter(node).cloned().collect(),
            modified: self.modified.iter().filter(node).cloned().collect(),
            deleted: self.deleted.iter().filter(id).cloned().collect(),
            edges_added: self.edges_added.iter().filter(edge).cloned().collect(),
            edges_deleted: self.edges_deleted.iter().filter(edge).cloned().collect(),
        }
    }

    /// The changes in one line. Deletions come first: a deleted object cannot be read
    /// any more.
    pub fn summary(&self) -> String {
        let deleted = self.deleted.iter().map(|id| format!("{id} deleted"));
        let node = |node: &Node, change: &str| match node.status() {
            "" => format!("{} {change}", node.id()),
            status => format!("{} {change}: {status}", node.id()),
        };
        let modified = self.modified.iter().map(|one| node(one, "modified"));
        let added = self.added.iter().map(|one| node(one, "added"));
        let edge = |edge: &Edge| format!("{} {} {}", edge.from, edge.relation, edge.to);
        let edges_added = self.edges_added.iter().map(edge);
        let edges_deleted = self.edges_deleted.iter();
        let edges_deleted = edges_deleted.map(|one| format!("no longer {}", edge(one)));
        let all = deleted
            .chain(modified)
            .chain(added)
            .chain(edges_added)
            .chain(edges_deleted);
        let lines: Vec<_> = all.take(SUMMARISED_MAX).collect();
        let mut text = lines.join("; ");
        if self.len() > lines.len() {
            text.push_str(&format!("; {} more", self.len() - lines.len()));
        }
        text
    }
}

// === impl GraphUpdate ===

impl GraphUpdate {
    /// The update for a subscriber to these kinds; `None` if nothing of them changed.
    pub fn new(change: &GraphChange, since: u64, kinds: &KindFilter) -> Option<Self> {
        let delta = change.delta.filtered(kinds);
        let notes = change.notes.as_ref();
        if delta.is_empty() && notes.is_none() {
            return None;
        }
        let count = delta.len();
        let mut summary = delta.summary();
        if let Some(notes) = notes {
            let note = match notes.as_slice() {
                [] => "all of it is up to date again".to_owned(),
                notes => notes.join("; "),
            };
            let separator = if summary.is_empty() { "" } else { "; " };
            summary = format!("{summary}{separator}{note}");
        }
        let fits = |value: &Value| value.to_string().len() <= CHANGES_BYTES_MAX;
        let delta = (count <= CHANGES_MAX)
            .then(|| serde_json::to_value(&delta).unwrap_or_default())
            .filter(fits);
        Some(Self {
            seq: change.seq,
            since,
            count,
            summary,
            reread: delta.is_none(),
            delta,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, GraphScope, Kind, ObjectSummary};

    fn pod(name: &str, status: &str) -> ObjectSummary {
        let mut pod = ObjectSummary::new(ObjectId::new(Kind::Pod, "shop", name));
        pod.status = status.into();
        pod
    }

    fn change(change: impl FnOnce(&mut Graph)) -> GraphChange {
        let mut graph = Graph::new(GraphScope::Cluster, 1000);
        graph.relist(Kind::Pod, vec![pod("a", "Running"), pod("b", "Running")]);
        graph.track_changes();
        change(&mut graph);
        GraphChange {
            seq: 7,
            delta: graph.take_delta(),
            notes: None,
        }
    }

    #[test]
    fn an_update_has_the_changes_in_a_line_and_as_data() {
        let change = change(|graph| {
            graph.apply(pod("a", "Error"));
            graph.delete(&ObjectId::new(Kind::Pod, "shop", "b"));
            graph.apply(pod("c", "Pending"));
        });
        let update = GraphUpdate::new(&change, 5, &KindFilter::all()).unwrap();
        assert_eq!((update.seq, update.since, update.count), (7, 5, 3));
        assert_eq!(
            update.summary,
            "Pod:shop/b deleted; Pod:shop/a modified: Error; Pod:shop/c added: Pending"
        );
        let delta = update.delta.unwrap();
        assert_eq!(delta["deleted"][0], "Pod:shop/b");
        assert_eq!(delta["modified"][0]["status"], "Error");
        assert!(delta.get("edgesAdded").is_none() && !update.reread);
    }

    #[test]
    fn too_many_changes_ask_the_client_to_read_again() {
        let many = |count: usize, status: &str| {
            let change = change(|graph| {
                for n in 0..count {
                    graph.apply(pod(&format!("new-{n:03}"), status));
                }
            });
            GraphUpdate::new(&change, 6, &KindFilter::all()).unwrap()
        };
        let update = many(CHANGES_MAX, "x");
        assert!(update.delta.is_some() && !update.reread);
        let update = many(CHANGES_MAX + 1, "x");
        assert_eq!(
            (update.delta, update.reread, update.count),
            (None, true, 51)
        );
        assert!(update.summary.ends_with("; 48 more"), "{}", update.summary);
        let update = many(40, &"x".repeat(500));
        assert!(update.delta.is_none() && update.reread);
    }

    #[test]
    fn a_subscriber_to_other_kinds_gets_no_update() {
        let change = change(|graph| {
            graph.apply(pod("a", "Error"));
        });
        let services = KindFilter::parse(["services"]).unwrap();
        assert_eq!(GraphUpdate::new(&change, 0, &services), None);
        let noted = GraphChange {
            notes: Some(vec!["pods are old".to_owned()]),
            ..change
        };
        let update = GraphUpdate::new(&noted, 0, &services).unwrap();
        assert_eq!((update.count, &*update.summary), (0, "pods are old"));
    }
}
