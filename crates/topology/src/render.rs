//! A neighbourhood for people, for programs and as a picture.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    around::{Around, Found},
    facts::Id,
    node::{Edge, Relation},
};

/// A step of the tree: how, and to whom.
struct Step<'a> {
    word: &'static str,
    relation: Relation,
    forwards: bool,
    to: &'a Found,
}

impl Around {
    /// A tree that begins at the object.
    pub fn text(&self) -> String {
        let root = &self.found[&self.root];
        let mut text = format!("{}\n", self.line(root, true));
        let mut shown = BTreeSet::from([&self.root]);
        self.branch(&self.root, "", &mut shown, &mut text);
        text
    }

    fn branch<'a>(
        &'a self,
        id: &'a Id,
        indent: &str,
        shown: &mut BTreeSet<&'a Id>,
        text: &mut String,
    ) {
        let steps = self.steps(id);
        let last = steps.len().saturating_sub(1);
        for (nth, step) in steps.into_iter().enumerate() {
            let to = step.to.node.id();
            let (corner, below) = if nth == last {
                ("└─", "   ")
            } else {
                ("├─", "│  ")
            };
            let child = step.to.parent.as_ref() == Some(id);
            let first = child && shown.insert(to);
            let line = self.line(step.to, false);
            let elsewhere = match () {
                () if first || !self.goes_on(step.to) => "",
                () if shown.contains(to) => "  (see above)",
                () => "  (see below)",
            };
            text.push_str(&format!(
                "{indent}{corner} {} {line}{elsewhere}\n",
                step.word
            ));
            if first {
                self.branch(to, &format!("{indent}{below}"), shown, text);
            }
        }
    }

    fn goes_on(&self, found: &Found) -> bool {
        let id = found.node.id();
        found.depth < self.depth && self.passes(id) && !self.steps(id).is_empty()
    }

    /// Where the tree goes from a node: to what was found from there, and along each
    /// other edge once, at the end that was found first.
    fn steps(&self, id: &Id) -> Vec<Step<'_>> {
        let here = &self.found[id];
        if here.depth == self.depth || !self.passes(id) {
            return Vec::new();
        }
        let step = |edge: &Edge| {
            let forwards = edge.from == *id;
            let other = match forwards {
                true => &edge.to,
                false if edge.to == *id => &edge.from,
                false => return None,
            };
            let to = &self.found[other];
            let child = to.parent.as_ref() == Some(id);
            let parent = here.parent.as_ref() == Some(other);
            let later = to.order > here.order;
            (child || (!parent && later)).then_some(Step {
                word: if forwards {
                    edge.relation.as_str()
                } else {
                    edge.relation.backwards()
                },
                relation: edge.relation,
                forwards,
                to,
            })
        };
        let mut steps: Vec<_> = self.edges.iter().filter_map(step).collect();
        steps.sort_by_key(|step| (!step.forwards, step.relation, step.to.order));
        steps
    }

    /// What the tree says of a node; namespaces only where they differ.
    fn line(&self, found: &Found, whole: bool) -> String {
        let id = found.node.id();
        let elsewhere = whole || id.namespace != self.root.namespace;
        let place = match &*id.namespace {
            namespace if elsewhere && !namespace.is_empty() => format!("{namespace}/"),
            _ => String::new(),
        };
        let status = match found.node.status() {
            "" => String::new(),
            status => format!("  {status}"),
        };
        format!("{} {place}{}{status}", id.kind, id.name)
    }

    /// The same as data.
    pub fn data(&self) -> Value {
        let mut found: Vec<_> = self.found.values().collect();
        found.sort_by_key(|one| one.order);
        let nodes: Vec<_> = found.into_iter().map(|one| &one.node).collect();
        json!({
            "root": self.root,
            "depth": self.depth,
            "nodes": nodes,
            "edges": self.edges,
            "more": self.more,
        })
    }

    /// The same as a picture, in Mermaid's words.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        let mut found: Vec<_> = self.found.values().collect();
        found.sort_by_key(|one| one.order);
        for one in found {
            let id = one.node.id();
            let status = match one.node.status() {
                "" => String::new(),
                status => format!("<br/>{}", escaped(status)),
            };
            let (order, name) = (one.order, escaped(&id.name));
            text.push_str(&format!("  n{order}[\"{} {name}{status}\"]\n", id.kind));
        }
        for edge in &self.edges {
            let (from, to) = (&self.found[&edge.from], &self.found[&edge.to]);
            let (from, to) = (from.order, to.order);
            text.push_str(&format!("  n{from} -->|{}| n{to}\n", edge.relation));
        }
        text
    }
}

/// A text that cannot end the place it stands in.
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
