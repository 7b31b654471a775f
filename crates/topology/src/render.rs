//! A neighbourhood as a tree of text, as data and as a Mermaid flowchart.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    neighbourhood::{Neighbourhood, Visited},
    node::{Edge, Relation},
    object::ObjectId,
};

/// A branch of the tree: an edge, seen from the node that it branches off from.
struct Branch<'a> {
    label: &'static str,
    relation: Relation,
    forwards: bool,
    to: &'a Visited,
}

impl Neighbourhood {
    /// A tree for people that begins at the object.
    pub fn text(&self) -> String {
        let root = &self.visited[&self.root];
        let mut text = format!("{}\n", self.line(root, true));
        let mut shown = BTreeSet::from([&self.root]);
        self.write_branches(&self.root, "", &mut shown, &mut text);
        text
    }

    fn write_branches<'a>(
        &'a self,
        id: &'a ObjectId,
        indent: &str,
        shown: &mut BTreeSet<&'a ObjectId>,
        text: &mut String,
    ) {
        let branches = self.branches(id);
        let last = branches.len().saturating_sub(1);
        for (nth, branch) in branches.into_iter().enumerate() {
            let to = branch.to.node.id();
            let (corner, below) = if nth == last {
                ("└─", "   ")
            } else {
                ("├─", "│  ")
            };
            let child = branch.to.parent.as_ref() == Some(id);
            let first = child && shown.insert(to);
            let line = self.line(branch.to, false);
            let elsewhere = match () {
                () if first || !self.has_branches(branch.to) => "",
                () if shown.contains(to) => "  (see above)",
                () => "  (see below)",
            };
            text.push_str(&format!(
                "{indent}{corner} {} {line}{elsewhere}\n",
                branch.label
            ));
            if first {
                self.write_branches(to, &format!("{indent}{below}"), shown, text);
            }
        }
    }

    fn has_branches(&self, visited: &Visited) -> bool {
        !self.branches(visited.node.id()).is_empty()
    }

    /// The branches of a node: the nodes that were visited from there, and each other
    /// edge once, at the end that was visited first.
    fn branches(&self, id: &ObjectId) -> Vec<Branch<'_>> {
        let here = &self.visited[id];
        if here.depth == self.depth || !self.passes_through(id) {
            return Vec::new();
        }
        let branch = |edge: &Edge| {
            let forwards = edge.from == *id;
            let other = match forwards {
                true => &edge.to,
                false if edge.to == *id => &edge.from,
                false => return None,
            };
            let to = &self.visited[other];
            let child = to.parent.as_ref() == Some(id);
            let parent = here.parent.as_ref() == Some(other);
            let later = to.order > here.order;
            (child || (!parent && later)).then_some(Branch {
                label: if forwards {
                    edge.relation.as_str()
                } else {
                    edge.relation.inverse()
                },
                relation: edge.relation,
                forwards,
                to,
            })
        };
        let mut branches: Vec<_> = self.edges.iter().filter_map(branch).collect();
        branches.sort_by_key(|one| (!one.forwards, one.relation, one.to.order));
        branches
    }

    /// The line of a node; the namespace only for the root and where it differs.
    fn line(&self, visited: &Visited, is_root: bool) -> String {
        let id = visited.node.id();
        let qualified = is_root || id.namespace != self.root.namespace;
        let prefix = match &*id.namespace {
            namespace if qualified && !namespace.is_empty() => format!("{namespace}/"),
            _ => String::new(),
        };
        let status = match visited.node.status() {
            "" => String::new(),
            status => format!("  {status}"),
        };
        format!("{} {prefix}{}{status}", id.kind, id.name)
    }

    /// The nodes and edges as data.
    pub fn data(&self) -> Value {
        let nodes: Vec<_> = self.in_order().map(|one| &one.node).collect();
        json!({
            "root": self.root,
            "depth": self.depth,
            "nodes": nodes,
            "edges": self.edges,
            "more": self.more,
        })
    }

    /// The nodes in the order of the walk.
    fn in_order(&self) -> impl Iterator<Item = &Visited> {
        let mut visited: Vec<_> = self.visited.values().collect();
        visited.sort_by_key(|one| one.order);
        visited.into_iter()
    }

    /// A Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        for one in self.in_order() {
            let id = one.node.id();
            let status = match one.node.status() {
                "" => String::new(),
                status => format!("<br/>{}", escaped(status)),
            };
            let (order, name) = (one.order, escaped(&id.name));
            text.push_str(&format!("  n{order}[\"{} {name}{status}\"]\n", id.kind));
        }
        for edge in &self.edges {
            let (from, to) = (&self.visited[&edge.from], &self.visited[&edge.to]);
            let (from, to) = (from.order, to.order);
            text.push_str(&format!("  n{from} -->|{}| n{to}\n", edge.relation));
        }
        text
    }
}

/// Escapes a text so that it cannot end the Mermaid label it stands in.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => safe.push_str("#quot;"),
            '#' => safe.push_str("#35;"),
            '<' => safe.push_str("#lt;"),
            '>' => safe.push_str("#gt;"),
            '`' | '\\' => safe.push('\''),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
