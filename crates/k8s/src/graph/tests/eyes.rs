//! A graph through the eyes of users, whose rights come and go.

use super::*;
use crate::scope_rights::fixture::Grants;

/// A right that is gone is noticed within this time.
const NOTICED: Duration = Duration::from_secs(31);

fn shop() -> Name {
    Name::label("namespace", "shop").unwrap()
}

async fn read(fixture: &Fixture, viewer: &Viewer) -> Result<GraphView, ClusterError> {
    let caller = ShareKey::Process;
    (fixture.graphs)
        .read(&caller, viewer, None, Some(&shop()))
        .await
}

fn grant(grants: &Grants, plurals: &[&str], is_granted: bool) {
    for plural in plurals {
        grants.set("ann", &format!("list {plural} in `shop`"), is_granted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_sees_the_kinds_that_it_may_list() {
    let (fixture, grants) = (Fixture::new(), Grants::default());
    grant(&grants, &["pods", "services", "deployments.apps"], true);
    let (ann, bob) = (grants.viewer("ann"), grants.viewer("bob"));
    let view = read(&fixture, &ann).await.unwrap();
    let expected = [
        "Service:shop/web",
        "Deployment:shop/web",
        "Pod:shop/web-1-a",
    ];
    assert_eq!(ids(&view), expected);
    let GraphRead { what, notes, .. } = view.snapshot(&KindFilter::all());
    // What owns the pod and where it runs is not told, nor what it mounts.
    let edges: Vec<_> = what.edges.iter().map(|edge| edge.relation).collect();
    assert_eq!(edges, [Relation::Selects]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    for part in ["parts are left out", "list nodes", "list replicasets.apps"] {
        assert!(notes[0].contains(part), "no {part} in {notes:?}");
    }
    assert!(!notes[0].contains("node-1") && !notes[0].contains("list pods"));
    let pod = ObjectId::new(Kind::Pod, "shop", "web-1-a");
    let around = view.around(&pod, 5, 100).unwrap().what;
    assert_eq!(around.len(), 2, "{around:?}");
    // The same error whether it exists or not.
    for name in ["key", "another"] {
        let secret = ObjectId::new(Kind::Secret, "shop", name);
        let error = view.around(&secret, 2, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
        assert!(
            error.to_string().contains("may not list secrets"),
            "{error}"
        );
    }
    // Who may see nothing is refused, and nothing is listed for it.
    let other = Fixture::new();
    let error = read(&other, &bob).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert_eq!(other.cluster.requests("list", "pods"), 0);
    let all = read(&fixture, &Viewer::Everything).await.unwrap();
    assert_eq!((ids(&all).len(), fixture.graphs.len()), (7, 1));
}

#[tokio::test(start_paused = true)]
async fn a_user_is_told_of_what_it_sees_and_of_rights_that_come_and_go() {
    let (fixture, grants) = (Fixture::new(), Grants::default());
    grant(&grants, &["pods", "services"], true);
    let ann = grants.viewer("ann");
    let subscriber = Arc::clone(&fixture.subscriber) as _;
    let followed = fixture
        .graphs
        .follow(&ann, None, Some(&shop()), subscriber)
        .await;
    let _followed = followed.unwrap();
    let seq = |view: &GraphView| view.count().seq;
    let before = seq(&read(&fixture, &ann).await.unwrap());
    // What is hidden changes: nothing is told, and no number tells of it.
    fixture.cluster.modify("deployments", "shop", "web", |one| {
        one["metadata"]["labels"] = json!({"tier": "front"});
    });
    fixture.settle().await;
    assert_eq!(fixture.subscriber.summaries(), [""; 0]);
    let view = read(&fixture, &ann).await.unwrap();
    assert_eq!(seq(&view), before);
    fixture.label("other");
    fixture.settle().await;
    let told = fixture.subscriber.summaries().join("\n");
    for part in [
        "Pod:shop/web-1-a modified",
        "no longer Service:shop/web selects",
    ] {
        assert!(told.contains(part), "no {part} in {told}");
    }
    assert!(!told.contains("ReplicaSet"), "{told}");
    grant(&grants, &["deployments.apps"], true);
    fixture.pass(NOTICED).await;
    let told = fixture.subscriber.summaries().join("\n");
    assert!(told.contains("Deployment:shop/web added"), "{told}");
    // An answer knows at once, what is followed soon.
    grant(&grants, &["pods"], false);
    fixture.pass(Duration::from_secs(1)).await;
    let view = read(&fixture, &ann).await.unwrap();
    assert_eq!(ids(&view), ["Service:shop/web", "Deployment:shop/web"]);
    fixture.pass(NOTICED).await;
    let told = fixture.subscriber.summaries().join("\n");
    assert!(told.contains("Pod:shop/web-1-a deleted"), "{told}");
    fixture.label("hidden");
    fixture.settle().await;
    assert_eq!(fixture.subscriber.summaries(), [""; 0]);
    grant(&grants, &["services", "deployments.apps"], false);
    fixture.pass(Duration::from_secs(1)).await;
    let error = read(&fixture, &ann).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    fixture.pass(NOTICED).await;
    let told = fixture.subscriber.summaries().join("\n");
    assert!(told.contains("Service:shop/web deleted"), "{told}");
}

/// In a whole cluster, a user sees its namespaces.
#[tokio::test(start_paused = true)]
async fn a_user_of_one_namespace_sees_that_part_of_the_cluster() {
    let (fixture, grants) = (Fixture::new(), Grants::default());
    let other = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs", "namespace": "other"},
        "spec": {"nodeName": "node-1", "containers": []}, "status": {"phase": "Running"},
    });
    fixture.cluster.put(other).unwrap();
    grant(&grants, &["pods", "services"], true);
    grants.set("bob", "list pods in the whole cluster", true);
    let caller = ShareKey::Process;
    let read = async |viewer: &Viewer| fixture.graphs.read(&caller, viewer, None, None).await;
    let view = read(&grants.viewer("ann")).await.unwrap();
    assert_eq!(ids(&view), ["Service:shop/web", "Pod:shop/web-1-a"]);
    let view = read(&grants.viewer("bob")).await.unwrap();
    assert_eq!(ids(&view), ["Pod:other/theirs", "Pod:shop/web-1-a"]);
    let error = read(&grants.viewer("eve")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
}
