use proptest::prelude::*;

use crate::{Graph, GraphScope, Kind, Labels, ObjectId, ObjectSummary, Reference, Relation};

fn object(kind: Kind, name: &str, status: &str, references: Vec<Reference>) -> ObjectSummary {
    let mut object =
        ObjectSummary::new(ObjectId::new(kind, "shop", name)).with_references(references);
    object.uid = format!("{kind}-{name}").into();
    object.status = status.into();
    object
}

fn owner(kind: Kind, name: &str) -> Reference {
    Reference::owned_by(ObjectId::new(kind, "shop", name), &format!("{kind}-{name}"))
}

fn names(relation: Relation, kind: Kind, name: &str) -> Reference {
    Reference::new(relation, ObjectId::new(kind, "shop", name))
}

/// A typical small shop.
fn shop() -> Graph {
    let app: Labels = [("app", "web")].into_iter().collect();
    let pod = |name: &str, status: &str| {
        let mut pod = object(
            Kind::Pod,
            name,
            status,
            vec![
                owner(Kind::ReplicaSet, "web-7c9"),
                names(Relation::RunsOn, Kind::Node, "node-1"),
                names(Relation::Mounts, Kind::ConfigMap, "web"),
            ],
        );
        pod.labels = app.clone();
        pod
    };
    let mut service = object(Kind::Service, "web", "ClusterIP", Vec::new());
    service.selector = app.clone();
    let ingress = vec![
        names(Relation::Routes, Kind::Service, "web"),
        names(Relation::Routes, Kind::Service, "gone"),
    ];
    let set = vec![owner(Kind::Deployment, "web")];
    let scaled = vec![names(Relation::Scales, Kind::Deployment, "web")];
    let mut graph = Graph::new(GraphScope::Cluster, 1000);
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_reference()) {
        graph.relist(kind, Vec::new());
    }
    for object in [
        object(Kind::Node, "node-1", "Ready", Vec::new()),
        object(Kind::Ingress, "web", "shop.example.com", ingress),
        service,
        object(Kind::HorizontalPodAutoscaler, "web", "2 of 1-5", scaled),
        object(Kind::Deployment, "web", "1/2 ready", Vec::new()),
        object(Kind::ReplicaSet, "web-7c9", "1/2 ready", set),
        pod("web-7c9-a", "Running, 1/1 ready"),
        pod("web-7c9-b", "CrashLoopBackOff, 0/1 ready"),
    ] {
        graph.apply(object);
    }
    graph
}

#[test]
fn a_tree_for_people() {
    let deployment = ObjectId::new(Kind::Deployment, "shop", "web");
    let text = shop().neighbourhood(&deployment, 4, 100).unwrap().text();
    insta::assert_snapshot!(text, @r#"
    Deployment shop/web  1/2 ready
    ├─ owns ReplicaSet web-7c9  1/2 ready
    │  ├─ owns Pod web-7c9-a  Running, 1/1 ready
    │  │  ├─ runs-on Node node-1  Ready
    │  │  ├─ mounts ConfigMap web
    │  │  └─ selected by Service web  ClusterIP
    │  │     └─ routed from Ingress web  shop.example.com
    │  └─ owns Pod web-7c9-b  CrashLoopBackOff, 0/1 ready
    │     ├─ runs-on Node node-1  Ready
    │     ├─ mounts ConfigMap web
    │     └─ selected by Service web  ClusterIP  (see above)
    └─ scaled by HorizontalPodAutoscaler web  2 of 1-5
    "#);
    let near = shop().neighbourhood(&deployment, 1, 100).unwrap().text();
    insta::assert_snapshot!(near, @r#"
    Deployment shop/web  1/2 ready
    ├─ owns ReplicaSet web-7c9  1/2 ready
    └─ scaled by HorizontalPodAutoscaler web  2 of 1-5
    "#);
}

#[test]
fn the_walk_passes_shared_objects_only_from_the_root() {
    let node = ObjectId::new(Kind::Node, "", "node-1");
    let text = shop().neighbourhood(&node, 1, 100).unwrap().text();
    insta::assert_snapshot!(text, @r#"
    Node node-1  Ready
    ├─ runs Pod shop/web-7c9-a  Running, 1/1 ready
    └─ runs Pod shop/web-7c9-b  CrashLoopBackOff, 0/1 ready
    "#);
    let pod = ObjectId::new(Kind::Pod, "shop", "web-7c9-a");
    let text = shop().neighbourhood(&pod, 2, 100).unwrap().text();
    insta::assert_snapshot!(text, @r#"
    Pod shop/web-7c9-a  Running, 1/1 ready
    ├─ runs-on Node node-1  Ready
    ├─ mounts ConfigMap web
    ├─ owned by ReplicaSet web-7c9  1/2 ready
    │  ├─ owns Pod web-7c9-b  CrashLoopBackOff, 0/1 ready
    │  └─ owned by Deployment web  1/2 ready
    └─ selected by Service web  ClusterIP
       ├─ selects Pod web-7c9-b  CrashLoopBackOff, 0/1 ready
       └─ routed from Ingress web  shop.example.com
    "#);
}

#[test]
fn a_mermaid_flowchart_with_escaped_labels() {
    let ingress = ObjectId::new(Kind::Ingress, "shop", "web");
    let text = shop().neighbourhood(&ingress, 1, 100).unwrap().mermaid();
    insta::assert_snapshot!(text, @r#"
    flowchart LR
      n0["Ingress web<br/>shop.example.com"]
      n1["Service gone<br/>not found"]
      n2["Service web<br/>ClusterIP"]
      n0 -->|routes| n1
      n0 -->|routes| n2
    "#);
    assert_eq!(
        super::escaped("a\"] --> x[\"<b>#\n"),
        "a#quot;] --#gt; x[#quot;#lt;b#gt;#35; "
    );
}

#[test]
fn an_absent_object_has_no_neighbourhood_and_cut_nodes_are_counted() {
    let graph = shop();
    assert!(
        graph
            .neighbourhood(&ObjectId::new(Kind::Pod, "shop", "no"), 2, 100)
            .is_none()
    );
    let set = ObjectId::new(Kind::ReplicaSet, "shop", "web-7c9");
    let cut = graph.neighbourhood(&set, 1, 2).unwrap();
    assert_eq!((cut.len(), cut.more()), (2, 2));
    assert_eq!(cut.data()["more"], 2);
}

proptest! {
    #[test]
    fn fuzz_any_status_stays_in_its_label(status in "\\PC{0,40}|[\"<>#\\[\\]|\\-\n]{0,20}") {
        let mut graph = Graph::new(GraphScope::Cluster, 10);
        graph.apply(object(Kind::Pod, "a", &status, Vec::new()));
        let around = graph.neighbourhood(&ObjectId::new(Kind::Pod, "shop", "a"), 2, 10).unwrap();
        let picture = around.mermaid();
        prop_assert_eq!(picture.lines().count(), 2, "{}", picture);
        prop_assert_eq!(picture.matches('"').count(), 2);
    }
}
