use mcp_notify::Session;

use super::*;
use crate::resources::Resources;
use kubecrier_topology::{Claim, Facts, Graph, Id, Reach, Relation};

/// So many pods, and a node that all of them run on.
fn graph(pods: usize) -> Graph {
    let mut graph = Graph::new(Reach::Everything, 10_000);
    let node = Id::new(Kind::Node, "", "node-1");
    graph.set(Facts::new(node.clone()));
    for n in 0..pods {
        let pod = Facts::new(Id::new(Kind::Pod, "shop", &format!("web-{n:04}")));
        graph.set(pod.claiming([Claim::new(Relation::RunsOn, node.clone())]));
    }
    graph
}

fn seen(graph: &Graph) -> Seen<Snapshot> {
    Seen {
        what: graph.snapshot(&Kinds::all()),
        notes: Vec::new(),
        seq: 3,
    }
}

fn wanted() -> Wanted {
    Wanted::read("k8s://dev/shop/graph").unwrap()
}

#[test]
fn a_graph_that_is_too_large_is_cut_and_every_edge_has_its_ends() {
    let small = content(&wanted(), seen(&graph(3)), 10_000);
    assert_eq!(small["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(small["edges"].as_array().unwrap().len(), 3);
    assert!(small.get("more").is_none());
    let large = content(&wanted(), seen(&graph(500)), 10_000);
    assert!(large.to_string().len() <= 10_500);
    let nodes = large["nodes"].as_array().unwrap();
    let ids: Vec<_> = nodes.iter().map(|node| &node["id"]).collect();
    let edges = large["edges"].as_array().unwrap();
    assert!(
        edges
            .iter()
            .all(|edge| ids.contains(&&edge["from"]) && ids.contains(&&edge["to"]))
    );
    assert!(!edges.is_empty());
    assert_eq!(large["more"]["nodes"], 501 - nodes.len());
    assert_eq!(large["more"]["edges"], 500 - edges.len());
    assert_eq!(
        large["hash"],
        content(&wanted(), seen(&graph(500)), 100_000)["hash"]
    );
}

#[test]
fn kinds_are_read_however_they_are_spelled_and_others_refused() {
    let wanted = Wanted::read("k8s://dev/-/graph?kinds=po,Deployment").unwrap();
    assert!(wanted.kinds.has(Kind::Pod) && !wanted.kinds.has(Kind::Service));
    let error = Wanted::read("k8s://dev/-/graph?kinds=cows").err().unwrap();
    assert!(matches!(error, ResourceError::Invalid(_)), "{error}");
    let error = Wanted::read("k8s://dev/-/events").err().unwrap();
    assert!(matches!(error, ResourceError::NotFound { .. }), "{error}");
}

/// Tells a session of pods.
fn teller(session: &Session) -> Teller {
    let updates = Resources::new(Vec::new()).updates().clone();
    let uri = "k8s://dev/shop/graph".to_owned();
    updates.0.subscribe(session, &uri).unwrap();
    Teller {
        uri,
        kinds: Kinds::parse(["pods"]).unwrap(),
        updates,
        redactor: Redactor::default(),
        told: Mutex::default(),
    }
}

#[tokio::test]
async fn the_words_of_a_cluster_leave_without_their_secrets() {
    let session = Session::new("a");
    teller(&session).say("cannot list pods: webhook said password=swordfish-1; ask the operator");
    let batch = session.outbox().reader().next().await.unwrap();
    let said = format!("{:?}", batch.front().unwrap());
    assert!(said.contains("webhook said"), "{said}");
    assert!(!said.contains("swordfish"), "{said}");
}

/// What is told builds on what was told before, from the word that it began on.
#[test]
fn an_update_says_what_it_builds_upon() {
    let session = Session::new("a");
    let teller = teller(&session);
    let mut graph = graph(1);
    graph.follow();
    let mut tell = |seq: u64, name: &str, kind: Kind| {
        graph.set(Facts::new(Id::new(kind, "shop", name)));
        let delta = graph.take_delta();
        teller.changed(&Told {
            seq,
            delta,
            notes: None,
        });
        (*teller.told.lock(), session.outbox().stats().pushed)
    };
    assert_eq!(tell(2, "a", Kind::Pod), (0, 0), "it has not begun");
    teller.begin(&Seen {
        what: 2,
        notes: Vec::new(),
        seq: 3,
    });
    assert_eq!(tell(3, "late", Kind::Pod), (3, 1), "it began with that");
    assert_eq!(tell(4, "b", Kind::Pod), (4, 2));
    assert_eq!(
        tell(5, "b", Kind::Service),
        (4, 2),
        "nobody asked for services"
    );
    assert_eq!(tell(6, "c", Kind::Pod), (6, 3));
}
