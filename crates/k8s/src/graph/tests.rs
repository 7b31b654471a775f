//! Whole graphs over a cluster in memory, on paused time.

use demo_cluster::{DemoCluster, Fault, RequestMatcher};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use parking_lot::Mutex;

use super::*;
use kubecrier_core::metrics::Metrics;
use kubecrier_topology::{GraphChange, Relation};

const RENEWAL: Duration = Duration::from_mins(1);

/// KindFilter that are watched.
const WATCHED: usize = 12;

#[derive(Default)]
struct Ears(Mutex<Vec<GraphChange>>);

impl GraphSubscriber for Ears {
    fn on_change(&self, told: &GraphChange) {
        self.0.lock().push(told.clone());
    }
}

impl Ears {
    /// What was told since this was last asked, in a line each.
    fn heard(&self) -> Vec<String> {
        let told = std::mem::take(&mut *self.0.lock());
        told.iter()
            .map(|told| match &told.notes {
                Some(notes) => format!("{} {notes:?}", told.delta.summary()),
                None => told.delta.summary(),
            })
            .collect()
    }
}

struct World {
    cluster: DemoCluster,
    graphs: Graphs,
    ears: Arc<Ears>,
}

// === impl World ===

impl World {
    /// A pod of a replica set, on a node, behind a service, in the namespace `shop`.
    fn new() -> Self {
        let cluster = DemoCluster::default();
        let owner = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}]);
        let put = |api: &str, kind: &str, mut object: Value| {
            object["apiVersion"] = api.into();
            object["kind"] = kind.into();
            cluster.put(object).unwrap()
        };
        let named = |name: &str| json!({"name": name, "namespace": "shop"});
        put("v1", "Namespace", json!({"metadata": {"name": "shop"}}));
        put("v1", "Node", json!({"metadata": {"name": "node-1"}}));
        put("v1", "Node", json!({"metadata": {"name": "node-2"}}));
        let spec = json!({"selector": {"app": "web"}, "type": "ClusterIP"});
        put(
            "v1",
            "Service",
            json!({"metadata": named("web"), "spec": spec}),
        );
        let spec = json!({"replicas": 1});
        let one = put(
            "apps/v1",
            "Deployment",
            json!({"metadata": named("web"), "spec": spec}),
        );
        let mut metadata = named("web-1");
        let uid = one["metadata"]["uid"].as_str().unwrap();
        metadata["ownerReferences"] = owner("Deployment", "web", uid);
        let one = put(
            "apps/v1",
            "ReplicaSet",
            json!({"metadata": metadata, "spec": spec}),
        );
        let mut metadata = named("web-1-a");
        let uid = one["metadata"]["uid"].as_str().unwrap();
        metadata["ownerReferences"] = owner("ReplicaSet", "web-1", uid);
        metadata["labels"] = json!({"app": "web"});
        let spec = json!({
            "nodeName": "node-1",
            "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "key"}}]}],
        });
        put(
            "v1",
            "Pod",
            json!({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}),
        );
        let contexts = Contexts::of_demo(&cluster);
        let metrics = Metrics::new();
        let (watch, graph) = (metrics.watch().clone(), metrics.graph().clone());
        Self {
            graphs: Graphs::new(contexts, Lifecycle::default(), watch, graph, RENEWAL),
            cluster,
            ears: Arc::default(),
        }
    }

    async fn join(&self) -> Result<GraphView, ClusterError> {
        let shop = Name::label("namespace", "shop").unwrap();
        let ears = Arc::clone(&self.ears) as _;
        self.graphs.join(None, Some(&shop), Some(ears)).await
    }

    fn label(&self, value: &str) {
        let changed = self.cluster.modify("pods", "shop", "web-1-a", |pod| {
            pod["metadata"]["labels"]["app"] = value.into();
        });
        assert!(changed.is_some());
    }

    /// Lets time pass in small steps, so that everything that is due happens.
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
    let seen = view.snapshot(&KindFilter::all());
    seen.what
        .nodes
        .iter()
        .map(|node| node.id().to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_graph_is_seen_when_every_kind_has_been_listed() {
    let world = World::new();
    let slow = RequestMatcher::any().verb("list").resource("pods");
    world
        .cluster
        .fail_next(slow, 1, Fault::Delay(Duration::from_secs(3)));
    let began = Instant::now();
    let view = world.join().await.unwrap();
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
    let seen = view.snapshot(&KindFilter::all());
    assert_eq!((seen.what.edges.len(), seen.notes.len()), (5, 0));
    let secrets =
        world.cluster.requests("list", "secrets") + world.cluster.requests("get", "secrets");
    assert_eq!(secrets, 0, "a secret is known by its name only");
    world.settle().await;
    assert!(world.ears.heard().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_once_and_no_change_never() {
    let world = World::new();
    let view = world.join().await.unwrap();
    world.label("other");
    world.settle().await;
    let heard = world.ears.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains("Pod:shop/web-1-a modified"), "{heard:?}");
    assert!(
        heard[0].contains("no longer Service:shop/web selects Pod:shop/web-1-a"),
        "{heard:?}"
    );
    // An annotation is nothing that the graph shows, and neither is a change undone.
    world.cluster.modify("pods", "shop", "web-1-a", |pod| {
        pod["metadata"]["annotations"] = json!({"seen": "yes"});
    });
    world.label("web");
    world.label("other");
    // A node that nothing here runs on is none of this graph's.
    world.cluster.modify("nodes", "", "node-2", |node| {
        node["spec"] = json!({"unschedulable": true});
    });
    world.settle().await;
    assert_eq!(world.ears.heard(), [""; 0]);
    assert!(world.cluster.delete("pods", "shop", "web-1-a"));
    world.settle().await;
    let heard = world.ears.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(
        heard[0]
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

/// Whoever reads between two words has what was never told, and must hear that it is over.
#[tokio::test(start_paused = true)]
async fn what_somebody_has_read_is_told_of_even_if_it_is_over() {
    let world = World::new();
    let view = world.join().await.unwrap();
    world.label("first");
    world.settle().await;
    world.label("second");
    world.settle().await;
    assert_eq!(world.ears.heard().len(), 2);
    // A word was just said, so the next one takes a while.
    world.label("third");
    world.pass(Duration::from_millis(100)).await;
    assert_eq!(world.ears.heard().len(), 1);
    world.label("web");
    world.pass(Duration::from_millis(100)).await;
    let seen = view.snapshot(&KindFilter::all());
    let selects = |seen: &GraphRead<Snapshot>| {
        let mut edges = seen.what.edges.iter();
        edges.any(|edge| edge.relation == Relation::Selects)
    };
    assert!(selects(&seen) && world.ears.heard().is_empty());
    world.label("third");
    world.settle().await;
    let heard = world.ears.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(
        heard[0].contains("no longer Service:shop/web selects Pod:shop/web-1-a"),
        "{heard:?}"
    );
    let later = view.snapshot(&KindFilter::all());
    assert!(!selects(&later) && later.seq > seen.seq);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_told_at_most_twice_a_second() {
    let world = World::new();
    let _view = world.join().await.unwrap();
    for n in 0..100 {
        world.label(&format!("v{n}"));
        world.pass(Duration::from_millis(50)).await;
    }
    world.settle().await;
    let times = world.ears.heard().len();
    assert!((8..=12).contains(&times), "told {times} times in 5 s");
}

/// The history is gone while nobody could look: a list finds what it would have told.
#[tokio::test(start_paused = true)]
async fn a_relist_tells_of_what_is_gone_exactly_once() {
    let world = World::new();
    let view = world.join().await.unwrap();
    world.cluster.refuse();
    world.cluster.cut_connections();
    world.settle().await;
    assert!(world.cluster.delete("pods", "shop", "web-1-a"));
    world.cluster.skip_versions(1000);
    world.cluster.compact();
    world.cluster.accept();
    world.pass(Duration::from_secs(40)).await;
    let heard = world.ears.heard();
    let gone = heard
        .iter()
        .filter(|line| line.contains("Pod:shop/web-1-a deleted"));
    assert_eq!(gone.count(), 1, "{heard:?}");
    world.cluster.expire_watches();
    world.pass(Duration::from_secs(40)).await;
    assert_eq!(world.ears.heard(), [""; 0]);
    assert!(!ids(&view).contains(&"Pod:shop/web-1-a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_left_out_and_comes_when_it_may() {
    let world = World::new();
    world
        .cluster
        .deny(RequestMatcher::any().resource("replicasets.apps"));
    let view = world.join().await.unwrap();
    let seen = view.snapshot(&KindFilter::all());
    assert_eq!(seen.notes.len(), 1, "{:?}", seen.notes);
    assert!(
        seen.notes[0].starts_with("replicasets are left out: "),
        "{:?}",
        seen.notes
    );
    // The pod names it, so it is known that there is one.
    let set = ObjectId::new(Kind::ReplicaSet, "shop", "web-1");
    let node = seen
        .what
        .nodes
        .iter()
        .find(|node| *node.id() == set)
        .unwrap();
    assert_eq!(node.status(), "not read");
    world.cluster.allow_everything();
    world
        .pass(Duration::from_mins(5) + Duration::from_secs(2))
        .await;
    let heard = world.ears.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(
        heard[0].contains("ReplicaSet:shop/web-1 modified: 0/1 ready"),
        "{heard:?}"
    );
    assert!(view.snapshot(&KindFilter::all()).notes.is_empty());
}

/// Rights that are taken away later, and rights to list only.
#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_any_more_is_left_out_and_what_may_only_be_listed_stays_out() {
    let world = World::new();
    let view = world.join().await.unwrap();
    let sets = || RequestMatcher::any().resource("replicasets.apps");
    let status = |view: &GraphView| {
        let seen = view.snapshot(&KindFilter::parse(["replicasets"]).unwrap());
        assert_eq!(seen.what.nodes.len(), 1);
        (seen.what.nodes[0].status().to_owned(), seen.notes.len())
    };
    assert_eq!(status(&view), ("0/1 ready".to_owned(), 0));
    world.cluster.deny(sets());
    world.cluster.close_watches();
    world.pass(Duration::from_secs(40)).await;
    let not_read = ("not read".to_owned(), 1);
    assert_eq!(status(&view), not_read);
    let heard = world.ears.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains("replicasets are left out"), "{heard:?}");
    world.cluster.allow_everything();
    world.cluster.deny(sets().verb("watch"));
    world.pass(Duration::from_mins(11)).await;
    assert_eq!(status(&view), not_read);
    let heard = world.ears.heard();
    assert!(
        heard.iter().all(|line| !line.contains("ReplicaSet:")),
        "{heard:?}"
    );
    world.cluster.allow_everything();
    world.pass(Duration::from_mins(6)).await;
    assert_eq!(status(&view), ("0/1 ready".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_that_may_be_read_is_an_error_and_the_next_one_tries_again() {
    let world = World::new();
    world.cluster.deny(RequestMatcher::any());
    let error = world.join().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    world.settle().await;
    assert_eq!(world.graphs.len(), 0, "nothing is kept of it");
    world.cluster.allow_everything();
    world.cluster.refuse();
    let error = world.join().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    world.cluster.accept();
    assert_eq!(ids(&world.join().await.unwrap()).len(), 7);
}

#[tokio::test(start_paused = true)]
async fn one_set_of_watches_serves_everybody_and_ends_after_the_last() {
    let world = World::new();
    let views = [world.join().await.unwrap(), world.join().await.unwrap()];
    world.settle().await;
    assert_eq!(
        (world.cluster.open_watches(), world.graphs.len()),
        (WATCHED, 1)
    );
    assert_eq!(world.cluster.requests("list", "pods"), 1);
    drop(views);
    world.pass(LINGER / 2).await;
    assert_eq!(world.graphs.len(), 1, "the next one may come at once");
    drop(world.join().await.unwrap());
    assert_eq!(world.cluster.requests("list", "pods"), 1);
    world.pass(LINGER * 9 / 10).await;
    assert_eq!(world.graphs.len(), 1, "that one counts anew");
    world.pass(LINGER / 5).await;
    assert_eq!((world.cluster.open_watches(), world.graphs.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_graph_that_cannot_be_followed_says_so_and_when_it_can_again() {
    let world = World::new();
    let view = world.join().await.unwrap();
    let pods = || RequestMatcher::any().verb("watch").resource("pods");
    world.cluster.fail_next(pods(), 6, Fault::Unavailable);
    world.cluster.close_watches();
    world.pass(Duration::from_secs(50)).await;
    let heard = world.ears.heard();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains("pods may be out of date: "), "{heard:?}");
    world.pass(Duration::from_mins(1)).await;
    assert_eq!(world.ears.heard(), [" []"]);
    assert!(view.snapshot(&KindFilter::all()).notes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn more_graphs_than_there_may_be_are_refused_unless_one_is_unused() {
    let world = World::new();
    let mut views = Vec::new();
    for n in 0..GRAPHS_MAX {
        let name = Name::label("namespace", &format!("ns-{n}")).unwrap();
        views.push(world.graphs.join(None, Some(&name), None).await.unwrap());
    }
    let notes = views[0].snapshot(&KindFilter::all()).notes;
    assert_eq!(notes, ["there is no namespace `ns-0` yet"]);
    let error = world.join().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    views.pop();
    let view = world.join().await.unwrap();
    assert_eq!((ids(&view).len(), world.graphs.len()), (7, GRAPHS_MAX));
}

/// One object of a form that nobody has thought of costs no more than what it says.
#[tokio::test(start_paused = true)]
async fn an_odd_object_takes_nothing_else_away() {
    let world = World::new();
    let pod = |name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": "shop"});
        let status = json!({"phase": "Pending"});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
        world.cluster.put(object).unwrap();
    };
    pod("listed", json!({"containers": "none"}));
    let view = world.join().await.unwrap();
    let pods = |view: &GraphView| {
        let nodes = view
            .snapshot(&KindFilter::parse(["pods"]).unwrap())
            .what
            .nodes;
        let said = nodes.iter();
        let said = said.map(|node| format!("{} {}", node.id().name, node.status()));
        said.collect::<Vec<_>>()
    };
    let first = ["listed not understood", "web-1-a Running, 0/1 ready"];
    assert_eq!(pods(&view), first);
    drop(view);
    world.pass(LINGER + Duration::from_secs(2)).await;
    assert!(world.cluster.delete("pods", "shop", "listed"));
    let view = world.join().await.unwrap();
    let lists = world.cluster.requests("list", "pods");
    let volume = json!({"name": "v", "projected": {"sources": null}});
    pod("null", json!({"volumes": [volume]}));
    pod("seen", json!({"containers": "none"}));
    pod("later", json!({}));
    world.settle().await;
    let all = [
        "later Pending, 0/0 ready",
        "null Pending, 0/0 ready",
        "seen not understood",
        "web-1-a Running, 0/1 ready",
    ];
    assert_eq!(pods(&view), all);
    assert!(world.cluster.delete("pods", "shop", "seen"));
    world.settle().await;
    assert_eq!(pods(&view).len(), 3);
    assert_eq!(world.cluster.requests("list", "pods"), lists);
}
