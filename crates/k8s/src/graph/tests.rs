//! Whole graphs over a cluster in memory, on paused time.

use demo_cluster::{DemoCluster, Fault, RequestMatcher};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use parking_lot::Mutex;

use super::*;
use kubecrier_core::metrics::Metrics;
use kubecrier_topology::{GraphChange, Relation};

mod eyes;
mod limits;

const RENEWAL: Duration = Duration::from_mins(1);

/// Kinds that are watched.
const WATCHED: usize = 12;

#[derive(Default)]
struct RecordingSubscriber(Mutex<Vec<GraphChange>>);

impl GraphSubscriber for RecordingSubscriber {
    fn on_change(&self, change: &GraphChange) {
        self.0.lock().push(change.clone());
    }
}

impl RecordingSubscriber {
    /// The changes since the last call, one line each.
    fn summaries(&self) -> Vec<String> {
        let changes = std::mem::take(&mut *self.0.lock());
        changes
            .iter()
            .map(|change| match &change.notes {
                Some(notes) => format!("{} {notes:?}", change.delta.summary()),
                None => change.delta.summary(),
            })
            .collect()
    }
}

struct Fixture {
    cluster: DemoCluster,
    graphs: Graphs,
    subscriber: Arc<RecordingSubscriber>,
}

// === impl Fixture ===

impl Fixture {
    /// A pod of a replica set, on a node, behind a service, in the namespace `shop`.
    fn new() -> Self {
        let cluster = DemoCluster::default();
        let owner = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}]);
        let put_object = |api: &str, kind: &str, mut object: Value| {
            object["apiVersion"] = api.into();
            object["kind"] = kind.into();
            cluster.put(object).unwrap()
        };
        let metadata_of = |name: &str| json!({"name": name, "namespace": "shop"});
        put_object("v1", "Namespace", json!({"metadata": {"name": "shop"}}));
        put_object("v1", "Node", json!({"metadata": {"name": "node-1"}}));
        put_object("v1", "Node", json!({"metadata": {"name": "node-2"}}));
        let spec = json!({"selector": {"app": "web"}, "type": "ClusterIP"});
        put_object(
            "v1",
            "Service",
            json!({"metadata": metadata_of("web"), "spec": spec}),
        );
        let spec = json!({"replicas": 1});
        let one = put_object(
            "apps/v1",
            "Deployment",
            json!({"metadata": metadata_of("web"), "spec": spec}),
        );
        let mut metadata = metadata_of("web-1");
        let uid = one["metadata"]["uid"].as_str().unwrap();
        metadata["ownerReferences"] = owner("Deployment", "web", uid);
        let one = put_object(
            "apps/v1",
            "ReplicaSet",
            json!({"metadata": metadata, "spec": spec}),
        );
        let mut metadata = metadata_of("web-1-a");
        let uid = one["metadata"]["uid"].as_str().unwrap();
        metadata["ownerReferences"] = owner("ReplicaSet", "web-1", uid);
        metadata["labels"] = json!({"app": "web"});
        let spec = json!({
            "nodeName": "node-1",
            "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "key"}}]}],
        });
        put_object(
            "v1",
            "Pod",
            json!({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}),
        );
        let contexts = Contexts::of_demo(&cluster);
        let metrics = Metrics::new();
        let (watch, graph) = (metrics.watch().clone(), metrics.graph().clone());
        Self {
            graphs: Graphs::new(
                contexts,
                Lifecycle::default(),
                watch,
                graph,
                RENEWAL,
                limits::LIMITS,
            ),
            cluster,
            subscriber: Arc::default(),
        }
    }

    async fn join(&self) -> Result<GraphView, ClusterError> {
        let shop = Name::label("namespace", "shop").unwrap();
        let subscriber = Arc::clone(&self.subscriber) as _;
        let everything = &Viewer::Everything;
        (self.graphs)
            .follow(everything, None, Some(&shop), subscriber)
            .await
    }

    fn label(&self, value: &str) {
        let changed = self.cluster.modify("pods", "shop", "web-1-a", |pod| {
            pod["metadata"]["labels"]["app"] = value.into();
        });
        assert!(changed.is_some());
    }

    /// Advances the time in small steps, so that every due timer fires.
    async fn pass(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            advance(Duration::from_millis(50)).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn settle(&self) {
        self.pass(Duration::from_secs(2)).await;
    }
}

fn ids(view: &GraphView) -> Vec<String> {
    let snapshot = view.snapshot(&KindFilter::all());
    snapshot
        .what
        .nodes
        .iter()
        .map(|node| node.id().to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_graph_is_seen_when_every_kind_has_been_listed() {
    let fixture = Fixture::new();
    let slow = RequestMatcher::any().verb("list").resource("pods");
    fixture
        .cluster
        .fail_next(slow, 1, Fault::Delay(Duration::from_secs(3)));
    let began = Instant::now();
    let view = fixture.join().await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(3));
    let expected = [
        "Namespace:shop",
        "Node:node-1",
        "Service:shop/web",
        "Deployment:shop/web",
        "ReplicaSet:shop/web-1",
        "Pod:shop/web-1-a",
        "Secret:shop/key",
    ];
    assert_eq!(ids(&view), expected);
    let snapshot = view.snapshot(&KindFilter::all());
    assert_eq!((snapshot.what.edges.len(), snapshot.notes.len()), (5, 0));
    let secrets =
        fixture.cluster.requests("list", "secrets") + fixture.cluster.requests("get", "secrets");
    assert_eq!(secrets, 0, "a secret is known by its name only");
    fixture.settle().await;
    assert!(fixture.subscriber.summaries().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_once_and_no_change_never() {
    let fixture = Fixture::new();
    let view = fixture.join().await.unwrap();
    fixture.label("other");
    fixture.settle().await;
    let summaries = fixture.subscriber.summaries();
    assert_eq!(summaries.len(), 1, "{summaries:?}");
    assert!(
        summaries[0].contains("Pod:shop/web-1-a modified"),
        "{summaries:?}"
    );
    assert!(
        summaries[0].contains("no longer Service:shop/web selects Pod:shop/web-1-a"),
        "{summaries:?}"
    );
    // The graph shows no annotations, and a change that is undone is no change.
    fixture.cluster.modify("pods", "shop", "web-1-a", |pod| {
        pod["metadata"]["annotations"] = json!({"seen": "yes"});
    });
    fixture.label("web");
    fixture.label("other");
    // A node without pods of this graph is not part of the graph.
    fixture.cluster.modify("nodes", "", "node-2", |node| {
        node["spec"] = json!({"unschedulable": true});
    });
    fixture.settle().await;
    assert_eq!(fixture.subscriber.summaries(), [""; 0]);
    assert!(fixture.cluster.delete("pods", "shop", "web-1-a"));
    fixture.settle().await;
    let summaries = fixture.subscriber.summaries();
    assert_eq!(summaries.len(), 1, "{summaries:?}");
    assert!(
        summaries[0]
            .starts_with("Node:node-1 deleted; Pod:shop/web-1-a deleted; Secret:shop/key deleted")
    );
    let snapshot = view.snapshot(&KindFilter::all());
    assert_eq!((snapshot.seq, snapshot.what.nodes.len()), (3, 4));
    assert!(
        snapshot
            .what
            .edges
            .iter()
            .all(|edge| edge.relation == Relation::Owns)
    );
}

/// A read between two updates shows a state that was never published; its end is published.
#[tokio::test(start_paused = true)]
async fn what_somebody_has_read_is_told_of_even_if_it_is_over() {
    let fixture = Fixture::new();
    let view = fixture.join().await.unwrap();
    fixture.label("first");
    fixture.settle().await;
    fixture.label("second");
    fixture.settle().await;
    assert_eq!(fixture.subscriber.summaries().len(), 2);
    // An update was just published, so the next one is delayed.
    fixture.label("third");
    fixture.pass(Duration::from_millis(100)).await;
    assert_eq!(fixture.subscriber.summaries().len(), 1);
    fixture.label("web");
    fixture.pass(Duration::from_millis(100)).await;
    let snapshot = view.snapshot(&KindFilter::all());
    let selects = |snapshot: &GraphRead<Snapshot>| {
        let mut edges = snapshot.what.edges.iter();
        edges.any(|edge| edge.relation == Relation::Selects)
    };
    assert!(selects(&snapshot) && fixture.subscriber.summaries().is_empty());
    fixture.label("third");
    fixture.settle().await;
    let summaries = fixture.subscriber.summaries();
    assert_eq!(summaries.len(), 1, "{summaries:?}");
    assert!(
        summaries[0].contains("no longer Service:shop/web selects Pod:shop/web-1-a"),
        "{summaries:?}"
    );
    let later = view.snapshot(&KindFilter::all());
    assert!(!selects(&later) && later.seq > snapshot.seq);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_told_at_most_twice_a_second() {
    let fixture = Fixture::new();
    let _view = fixture.join().await.unwrap();
    for n in 0..100 {
        fixture.label(&format!("v{n}"));
        fixture.pass(Duration::from_millis(50)).await;
    }
    fixture.settle().await;
    let times = fixture.subscriber.summaries().len();
    assert!((8..=12).contains(&times), "told {times} times in 5 s");
}

/// The history expires while the cluster is unreachable: a relist finds the changes.
#[tokio::test(start_paused = true)]
async fn a_relist_tells_of_what_is_gone_exactly_once() {
    let fixture = Fixture::new();
    let view = fixture.join().await.unwrap();
    fixture.cluster.refuse();
    fixture.cluster.cut_connections();
    fixture.settle().await;
    assert!(fixture.cluster.delete("pods", "shop", "web-1-a"));
    fixture.cluster.skip_versions(1000);
    fixture.cluster.compact();
    fixture.cluster.accept();
    fixture.pass(Duration::from_secs(40)).await;
    let summaries = fixture.subscriber.summaries();
    let gone = summaries
        .iter()
        .filter(|line| line.contains("Pod:shop/web-1-a deleted"));
    assert_eq!(gone.count(), 1, "{summaries:?}");
    fixture.cluster.expire_watches();
    fixture.pass(Duration::from_secs(40)).await;
    assert_eq!(fixture.subscriber.summaries(), [""; 0]);
    assert!(!ids(&view).contains(&"Pod:shop/web-1-a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_left_out_and_comes_when_it_may() {
    let fixture = Fixture::new();
    fixture
        .cluster
        .deny(RequestMatcher::any().resource("replicasets.apps"));
    let view = fixture.join().await.unwrap();
    let snapshot = view.snapshot(&KindFilter::all());
    assert_eq!(snapshot.notes.len(), 1, "{:?}", snapshot.notes);
    assert!(
        snapshot.notes[0].starts_with("replicasets are left out: "),
        "{:?}",
        snapshot.notes
    );
    // The pod refers to it, so it is part of the graph.
    let set = ObjectId::new(Kind::ReplicaSet, "shop", "web-1");
    let node = snapshot
        .what
        .nodes
        .iter()
        .find(|node| *node.id() == set)
        .unwrap();
    assert_eq!(node.status(), "not read");
    fixture.cluster.allow_everything();
    fixture
        .pass(Duration::from_mins(5) + Duration::from_secs(2))
        .await;
    let summaries = fixture.subscriber.summaries();
    assert_eq!(summaries.len(), 1, "{summaries:?}");
    assert!(
        summaries[0].contains("ReplicaSet:shop/web-1 modified: 0/1 ready"),
        "{summaries:?}"
    );
    assert!(view.snapshot(&KindFilter::all()).notes.is_empty());
}

/// Permissions that are revoked later, and permissions to list only.
#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_any_more_is_left_out_and_what_may_only_be_listed_stays_out() {
    let fixture = Fixture::new();
    let view = fixture.join().await.unwrap();
    let sets = || RequestMatcher::any().resource("replicasets.apps");
    let status = |view: &GraphView| {
        let snapshot = view.snapshot(&KindFilter::parse(["replicasets"]).unwrap());
        assert_eq!(snapshot.what.nodes.len(), 1);
        (
            snapshot.what.nodes[0].status().to_owned(),
            snapshot.notes.len(),
        )
    };
    assert_eq!(status(&view), ("0/1 ready".to_owned(), 0));
    fixture.cluster.deny(sets());
    fixture.cluster.close_watches();
    fixture.pass(Duration::from_secs(40)).await;
    let not_read = ("not read".to_owned(), 1);
    assert_eq!(status(&view), not_read);
    let summaries = fixture.subscriber.summaries();
    assert_eq!(summaries.len(), 1, "{summaries:?}");
    assert!(
        summaries[0].contains("replicasets are left out"),
        "{summaries:?}"
    );
    fixture.cluster.allow_everything();
    fixture.cluster.deny(sets().verb("watch"));
    fixture.pass(Duration::from_mins(11)).await;
    assert_eq!(status(&view), not_read);
    let summaries = fixture.subscriber.summaries();
    assert!(
        summaries.iter().all(|line| !line.contains("ReplicaSet:")),
        "{summaries:?}"
    );
    fixture.cluster.allow_everything();
    fixture.pass(Duration::from_mins(6)).await;
    assert_eq!(status(&view), ("0/1 ready".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_that_may_be_read_is_an_error_and_the_next_one_tries_again() {
    let fixture = Fixture::new();
    fixture.cluster.deny(RequestMatcher::any());
    let error = fixture.join().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    fixture.settle().await;
    assert_eq!(fixture.graphs.len(), 0, "nothing is kept of it");
    fixture.cluster.allow_everything();
    fixture.cluster.refuse();
    let error = fixture.join().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    fixture.cluster.accept();
    assert_eq!(ids(&fixture.join().await.unwrap()).len(), 7);
}

#[tokio::test(start_paused = true)]
async fn one_set_of_watches_serves_everybody_and_ends_after_the_last() {
    let fixture = Fixture::new();
    let views = [fixture.join().await.unwrap(), fixture.join().await.unwrap()];
    fixture.settle().await;
    assert_eq!(
        (fixture.cluster.open_watches(), fixture.graphs.len()),
        (WATCHED, 1)
    );
    assert_eq!(fixture.cluster.requests("list", "pods"), 1);
    drop(views);
    fixture.pass(LINGER / 2).await;
    assert_eq!(fixture.graphs.len(), 1, "the next one may come at once");
    drop(fixture.join().await.unwrap());
    assert_eq!(fixture.cluster.requests("list", "pods"), 1);
    fixture.pass(LINGER * 9 / 10).await;
    assert_eq!(fixture.graphs.len(), 1, "that one counts anew");
    fixture.pass(LINGER / 5).await;
    assert_eq!(
        (fixture.cluster.open_watches(), fixture.graphs.len()),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_graph_that_cannot_be_followed_says_so_and_when_it_can_again() {
    let fixture = Fixture::new();
    let view = fixture.join().await.unwrap();
    let pods = || RequestMatcher::any().verb("watch").resource("pods");
    fixture.cluster.fail_next(pods(), 6, Fault::Unavailable);
    fixture.cluster.close_watches();
    fixture.pass(Duration::from_secs(50)).await;
    let summaries = fixture.subscriber.summaries();
    assert_eq!(summaries.len(), 1, "{summaries:?}");
    assert!(
        summaries[0].contains("pods may be out of date: "),
        "{summaries:?}"
    );
    fixture.pass(Duration::from_mins(1)).await;
    assert_eq!(fixture.subscriber.summaries(), [" []"]);
    assert!(view.snapshot(&KindFilter::all()).notes.is_empty());
}

/// One object of an unexpected form loses only its own details.
#[tokio::test(start_paused = true)]
async fn an_odd_object_takes_nothing_else_away() {
    let fixture = Fixture::new();
    let pod = |name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": "shop"});
        let status = json!({"phase": "Pending"});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
        fixture.cluster.put(object).unwrap();
    };
    pod("listed", json!({"containers": "none"}));
    let view = fixture.join().await.unwrap();
    let pods = |view: &GraphView| {
        let nodes = view
            .snapshot(&KindFilter::parse(["pods"]).unwrap())
            .what
            .nodes;
        let lines = nodes.iter();
        let lines = lines.map(|node| format!("{} {}", node.id().name, node.status()));
        lines.collect::<Vec<_>>()
    };
    let first = ["listed not understood", "web-1-a Running, 0/1 ready"];
    assert_eq!(pods(&view), first);
    drop(view);
    fixture.pass(LINGER + Duration::from_secs(2)).await;
    assert!(fixture.cluster.delete("pods", "shop", "listed"));
    let view = fixture.join().await.unwrap();
    let lists = fixture.cluster.requests("list", "pods");
    let volume = json!({"name": "v", "projected": {"sources": null}});
    pod("null", json!({"volumes": [volume]}));
    pod("seen", json!({"containers": "none"}));
    pod("later", json!({}));
    fixture.settle().await;
    let all = [
        "later Pending, 0/0 ready",
        "null Pending, 0/0 ready",
        "seen not understood",
        "web-1-a Running, 0/1 ready",
    ];
    assert_eq!(pods(&view), all);
    assert!(fixture.cluster.delete("pods", "shop", "seen"));
    fixture.settle().await;
    assert_eq!(pods(&view).len(), 3);
    assert_eq!(fixture.cluster.requests("list", "pods"), lists);
}
