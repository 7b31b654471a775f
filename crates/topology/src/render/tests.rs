use proptest::prelude::*;

use crate::{Claim, Facts, Graph, Id, Kind, Labels, Reach, Relation};

fn object(kind: Kind, name: &str, status: &str, claims: Vec<Claim>) -> Facts {
    let mut facts = Facts::new(Id::new(kind, "shop", name)).claiming(claims);
    facts.uid = format!("{kind}-{name}").into();
    facts.status = status.into();
    facts
}

fn owner(kind: Kind, name: &str) -> Claim {
    Claim::owned_by(Id::new(kind, "shop", name), &format!("{kind}-{name}"))
}

fn names(relation: Relation, kind: Kind, name: &str) -> Claim {
    Claim::new(relation, Id::new(kind, "shop", name))
}

/// A shop as they come.
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
    let mut graph = Graph::new(Reach::Everything, 1000);
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_reference()) {
        graph.relist(kind, Vec::new());
    }
    for facts in [
        object(Kind::Node, "node-1", "Ready", Vec::new()),
        object(Kind::Ingress, "web", "shop.example.com", ingress),
        service,
        object(Kind::HorizontalPodAutoscaler, "web", "2 of 1-5", scaled),
        object(Kind::Deployment, "web", "1/2 ready", Vec::new()),
        object(Kind::ReplicaSet, "web-7c9", "1/2 ready", set),
        pod("web-7c9-a", "Running, 1/1 ready"),
        pod("web-7c9-b", "CrashLoopBackOff, 0/1 ready"),
    ] {
        graph.set(facts);
    }
    graph
}

#[test]
fn a_tree_for_people() {
    let deployment = Id::new(Kind::Deployment, "shop", "web");
    let text = shop().around(&deployment, 4, 100).unwrap().text();
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
    let near = shop().around(&deployment, 1, 100).unwrap().text();
    insta::assert_snapshot!(near, @r#"
    Deployment shop/web  1/2 ready
    ├─ owns ReplicaSet web-7c9  1/2 ready
    └─ scaled by HorizontalPodAutoscaler web  2 of 1-5
    "#);
}

#[test]
fn what_many_share_is_a_way_out_only_where_the_walk_begins() {
    let node = Id::new(Kind::Node, "", "node-1");
    let text = shop().around(&node, 1, 100).unwrap().text();
    insta::assert_snapshot!(text, @r#"
    Node node-1  Ready
    ├─ runs Pod shop/web-7c9-a  Running, 1/1 ready
    └─ runs Pod shop/web-7c9-b  CrashLoopBackOff, 0/1 ready
    "#);
    let pod = Id::new(Kind::Pod, "shop", "web-7c9-a");
    let text = shop().around(&pod, 2, 100).unwrap().text();
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
fn a_picture_in_mermaids_words() {
    let ingress = Id::new(Kind::Ingress, "shop", "web");
    let text = shop().around(&ingress, 1, 100).unwrap().mermaid();
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
fn what_is_not_there_has_no_neighbourhood_and_what_is_left_out_is_counted() {
    let graph = shop();
    assert!(
        graph
            .around(&Id::new(Kind::Pod, "shop", "no"), 2, 100)
            .is_none()
    );
    let set = Id::new(Kind::ReplicaSet, "shop", "web-7c9");
    let cut = graph.around(&set, 1, 2).unwrap();
    assert_eq!((cut.len(), cut.more()), (2, 2));
    assert_eq!(cut.data()["more"], 2);
}

proptest! {
    #[test]
    fn fuzz_any_status_stays_in_its_place(status in "\\PC{0,40}|[\"<>#\\[\\]|\\-\n]{0,20}") {
        let mut graph = Graph::new(Reach::Everything, 10);
        graph.set(object(Kind::Pod, "a", &status, Vec::new()));
        let around = graph.around(&Id::new(Kind::Pod, "shop", "a"), 2, 10).unwrap();
        let picture = around.mermaid();
        prop_assert_eq!(picture.lines().count(), 2, "{}", picture);
        prop_assert_eq!(picture.matches('"').count(), 2);
    }
}
