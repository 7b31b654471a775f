use mcp_notify::Session;

use super::*;
use crate::resources::Resources;
use kubecrier_core::shares::CallerShare;
use kubecrier_k8s::ErrorKind;
use kubecrier_topology::{Graph, GraphScope, ObjectId, ObjectSummary, Reference, Relation};

/// A graph of some pods, and a node that all of them run on.
fn graph(pods: usize) -> Graph {
    let mut graph = Graph::new(GraphScope::Cluster, 10_000);
    let node = ObjectId::new(Kind::Node, "", "node-1");
    graph.apply(ObjectSummary::new(node.clone()));
    for n in 0..pods {
        let pod = ObjectSummary::new(ObjectId::new(Kind::Pod, "shop", &format!("web-{n:04}")));
        graph.apply(pod.with_references([Reference::new(Relation::RunsOn, node.clone())]));
    }
    graph
}

fn seen(graph: &Graph) -> GraphRead<Snapshot> {
    GraphRead {
        what: graph.snapshot(&KindFilter::all()),
        notes: Vec::new(),
        seq: 3,
    }
}

fn request() -> GraphRequest {
    GraphRequest::read("k8s://dev/shop/graph").unwrap()
}

#[test]
fn a_graph_that_is_too_large_is_cut_and_every_edge_has_its_ends() {
    let small = content(&request(), seen(&graph(3)), 10_000);
    assert_eq!(small["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(small["edges"].as_array().unwrap().len(), 3);
    assert!(small.get("more").is_none());
    let large = content(&request(), seen(&graph(500)), 10_000);
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
        content(&request(), seen(&graph(500)), 100_000)["hash"]
    );
}

#[test]
fn kinds_are_read_however_they_are_spelled_and_others_refused() {
    let wanted = GraphRequest::read("k8s://dev/-/graph?kinds=po,Deployment").unwrap();
    assert!(wanted.kinds.matches(Kind::Pod) && !wanted.kinds.matches(Kind::Service));
    let error = GraphRequest::read("k8s://dev/-/graph?kinds=cows")
        .err()
        .unwrap();
    assert!(matches!(error, ResourceError::Invalid(_)), "{error}");
    let error = GraphRequest::read("k8s://dev/-/events").err().unwrap();
    assert!(matches!(error, ResourceError::NotFound { .. }), "{error}");
}

/// A notifier of pods for a session.
fn notifier(session: &Session) -> GraphNotifier {
    let updates = Resources::new(Vec::new(), ToolFilter::default(), CallerShare::default())
        .updates()
        .clone();
    let uri = "k8s://dev/shop/graph".to_owned();
    updates.subscriptions().subscribe(session, &uri).unwrap();
    GraphNotifier {
        uri,
        kinds: KindFilter::parse(["pods"]).unwrap(),
        updates,
        sight: None,
        redactor: Redactor::default(),
        last_seq: Mutex::default(),
    }
}

#[tokio::test]
async fn the_words_of_a_cluster_leave_without_their_secrets() {
    let session = Session::new("a");
    let (doing, reason) = ("cannot list pods", "webhook said password=swordfish-1");
    let hint = Some("ask the operator".to_owned());
    let error = ClusterError::new(ErrorKind::Other, doing, reason, hint);
    notifier(&session).publish_failure(&error);
    let batch = session.outbox().reader().next().await.unwrap();
    let said = format!("{:?}", batch.front().unwrap());
    assert!(said.contains("webhook said"), "{said}");
    assert!(!said.contains("swordfish"), "{said}");
}

/// Every update builds on the one before, from the first.
#[test]
fn an_update_says_what_it_builds_upon() {
    let session = Session::new("a");
    let notifier = notifier(&session);
    let mut graph = graph(1);
    graph.track_changes();
    let mut tell = |seq: u64, name: &str, kind: Kind| {
        graph.apply(ObjectSummary::new(ObjectId::new(kind, "shop", name)));
        let delta = graph.take_delta();
        notifier.on_change(&GraphChange {
            seq,
            delta,
            notes: None,
        });
        (*notifier.last_seq.lock(), session.outbox().stats().pushed)
    };
    assert_eq!(tell(2, "a", Kind::Pod), (0, 0), "it has not begun");
    notifier.publish_start(&GraphRead {
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
