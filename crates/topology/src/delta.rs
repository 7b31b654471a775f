//! What has changed, and how it is told.

use serde::Serialize;
use serde_json::Value;

use super::{
    facts::Id,
    kind::Kinds,
    node::{Edge, Node},
};

/// As many changes as an update carries; whoever wants more reads the graph again.
const CHANGES_MAX: usize = 50;

/// The same in bytes, as JSON.
const CHANGES_BYTES_MAX: usize = 8 * 1024;

/// Changes that are named in a summary.
const NAMED_MAX: usize = 3;

/// What is otherwise than it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    /// Nodes that are new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Node>,
    /// Nodes that are otherwise, as they are now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<Node>,
    /// Nodes that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<Id>,
    /// Edges that are new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges_added: Vec<Edge>,
    /// Edges that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges_deleted: Vec<Edge>,
}

/// What those who follow a graph hear.
#[derive(Clone, Debug)]
pub struct Told {
    /// Which one; whoever reads the graph later sees at least this.
    pub seq: u64,
    /// What is otherwise.
    pub delta: Delta,
    /// What a reader has to know by now, if that has changed too.
    pub notes: Option<Vec<String>>,
}

/// Somebody who follows a graph.
pub trait Follower: Send + Sync {
    /// It has changed. Must not wait.
    fn changed(&self, told: &Told);
}

/// What an update says about what changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// Which one.
    pub seq: u64,
    /// What it builds upon: whoever has seen less than that reads the graph again.
    pub since: u64,
    /// How many changes it is about.
    pub count: usize,
    /// One line.
    pub summary: String,
    /// The changes, unless they are too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<Value>,
    /// They are too many: read the graph again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reread: bool,
}

// === impl Delta ===

impl Delta {
    /// Whether nothing is otherwise.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much is otherwise.
    pub fn len(&self) -> usize {
        let nodes = self.added.len() + self.modified.len() + self.deleted.len();
        nodes + self.edges_added.len() + self.edges_deleted.len()
    }

    /// The part of it that is about these kinds.
    #[must_use]
    pub fn of(&self, kinds: &Kinds) -> Self {
        let node = |node: &&Node| kinds.has(node.id().kind);
        let edge = |edge: &&Edge| kinds.has(edge.from.kind) && kinds.has(edge.to.kind);
        let id = |id: &&Id| kinds.has(id.kind);
        Self {
            added: self.added.iter().filter(node).cloned().collect(),
            modified: self.modified.iter().filter(node).cloned().collect(),
            deleted: self.deleted.iter().filter(id).cloned().collect(),
            edges_added: self.edges_added.iter().filter(edge).cloned().collect(),
            edges_deleted: self.edges_deleted.iter().filter(edge).cloned().collect(),
        }
    }

    /// In one line: what is gone first, because nobody can look at it any more.
    pub fn summary(&self) -> String {
        let deleted = self.deleted.iter().map(|id| format!("{id} deleted"));
        let state = |node: &Node, otherwise: &str| match node.status() {
            "" => format!("{} {otherwise}", node.id()),
            status => format!("{} {otherwise}: {status}", node.id()),
        };
        let modified = self.modified.iter().map(|node| state(node, "modified"));
        let added = self.added.iter().map(|node| state(node, "added"));
        let tie = |edge: &Edge| format!("{} {} {}", edge.from, edge.relation, edge.to);
        let tied = self.edges_added.iter().map(tie);
        let untied = self.edges_deleted.iter();
        let untied = untied.map(|edge| format!("no longer {}", tie(edge)));
        let all = deleted
            .chain(modified)
            .chain(added)
            .chain(tied)
            .chain(untied);
        let named: Vec<_> = all.take(NAMED_MAX).collect();
        let mut text = named.join("; ");
        if self.len() > named.len() {
            text.push_str(&format!("; {} more", self.len() - named.len()));
        }
        text
    }
}

// === impl Update ===

impl Update {
    /// What somebody who wants these kinds is told; nothing if nothing of theirs is
    /// otherwise.
    pub fn new(told: &Told, since: u64, kinds: &Kinds) -> Option<Self> {
        let delta = told.delta.of(kinds);
        let notes = told.notes.as_ref();
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
            let between = if summary.is_empty() { "" } else { "; " };
            summary = format!("{summary}{between}{note}");
        }
        let fits = |value: &Value| value.to_string().len() <= CHANGES_BYTES_MAX;
        let few = count <= CHANGES_MAX;
        let delta = few.then(|| serde_json::to_value(&delta).unwrap_or_default());
        let delta = delta.filter(fits);
        Some(Self {
            seq: told.seq,
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
    use crate::{Facts, Graph, Kind, Reach};

    fn pod(name: &str, status: &str) -> Facts {
        let mut facts = Facts::new(Id::new(Kind::Pod, "shop", name));
        facts.status = status.into();
        facts
    }

    fn told(change: impl FnOnce(&mut Graph)) -> Told {
        let mut graph = Graph::new(Reach::Everything, 1000);
        graph.relist(Kind::Pod, vec![pod("a", "Running"), pod("b", "Running")]);
        graph.follow();
        change(&mut graph);
        Told {
            seq: 7,
            delta: graph.take_delta(),
            notes: None,
        }
    }

    #[test]
    fn an_update_says_what_changed_in_a_line_and_as_data() {
        let told = told(|graph| {
            graph.set(pod("a", "Error"));
            graph.remove(&Id::new(Kind::Pod, "shop", "b"));
            graph.set(pod("c", "Pending"));
        });
        let update = Update::new(&told, 5, &Kinds::all()).unwrap();
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
    fn too_many_changes_are_for_reading_again() {
        let many = |count: usize, status: &str| {
            let update = told(|graph| {
                for n in 0..count {
                    graph.set(pod(&format!("new-{n:03}"), status));
                }
            });
            Update::new(&update, 6, &Kinds::all()).unwrap()
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
    fn whoever_wants_other_kinds_is_not_told() {
        let told = told(|graph| {
            graph.set(pod("a", "Error"));
        });
        let services = Kinds::parse(["services"]).unwrap();
        assert_eq!(Update::new(&told, 0, &services), None);
        let noted = Told {
            notes: Some(vec!["pods are old".to_owned()]),
            ..told
        };
        let update = Update::new(&noted, 0, &services).unwrap();
        assert_eq!((update.count, &*update.summary), (0, "pods are old"));
    }
}
