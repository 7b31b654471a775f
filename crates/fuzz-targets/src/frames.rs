//! The frames of a watch: the bytes of an API server's response become events, or objects of
//! a graph.
//!
//! If the first line of the input is a kind of the graph, the rest is a watch of that kind;
//! every other input is a watch of events.

use kubecrier_k8s::fuzzing;
use kubecrier_redact::neutralise;
use kubecrier_topology::{Kind, KindFilter};
use serde_json::Value;

/// As much of a graph as a tool shows.
const DEPTH: usize = 3;
const NODES_MAX: usize = 50;

/// Watches, and renders what came.
///
/// # Panics
///
/// If something does not hold.
pub fn frames(input: &[u8]) {
    let end_of_line = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (first, rest) = input.split_at(end_of_line);
    let kind = std::str::from_utf8(first)
        .ok()
        .and_then(|word| Kind::parse(word).ok());
    match kind {
        Some(kind) => graph(kind, rest),
        None => events(input),
    }
}

fn events(body: &[u8]) {
    for event in fuzzing::watched_events(body) {
        assert_eq!(neutralise(&event.message), event.message);
        let text = serde_json::to_string(&event.payload()).expect("an event can be written");
        let written: Value = serde_json::from_str(&text).expect("as JSON");
        assert_eq!(written["message"], event.message.as_str());
        assert!(event.members().bytes_len() > text.len() && !event.summary().is_empty());
    }
}

fn graph(kind: Kind, body: &[u8]) {
    let mut graph = fuzzing::watched_graph(kind, body);
    let shown = graph.snapshot(&KindFilter::all());
    for node in &shown.nodes {
        assert_eq!(neutralise(node.status()), node.status());
        let near = graph
            .neighbourhood(node.id(), DEPTH, NODES_MAX)
            .expect("a node of the graph has a neighbourhood");
        assert!((1..=NODES_MAX).contains(&near.len()));
        assert!(!near.text().is_empty() && !near.mermaid().is_empty());
    }
    for edge in &shown.edges {
        for end in [&edge.from, &edge.to] {
            assert!(shown.nodes.iter().any(|node| node.id() == end), "{end}");
        }
    }
    let _summary = graph.take_delta().summary();
}
