//! The graph: the tool and the resource, on the real API server.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Cluster, User, namespace, pod};

use crate::harness::{Http, HttpSession, Stream, message, one_context};

/// A shop: ingress, service, autoscaler, deployment, replica set and two pods, made as
/// their controllers would make them.
async fn shop(cluster: &Cluster, space: &str) {
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let labels = json!({"app": "web"});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]},
    });
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    let apps = format!("/apis/apps/v1/namespaces/{space}");
    let deployment = json!({"metadata": {"name": "web"}, "spec": spec});
    create(cluster, &format!("{apps}/deployments"), deployment).await;
    let uid = uid(cluster, &format!("{apps}/deployments/web")).await;
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid}]);
    let set = json!({"metadata": {"name": "web-1", "ownerReferences": owner}, "spec": spec});
    create(cluster, &format!("{apps}/replicasets"), set).await;
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80}]},
    });
    let core = format!("/api/v1/namespaces/{space}");
    create(cluster, &format!("{core}/services"), service).await;
    let backend = |name: &str| json!({"service": {"name": name, "port": {"number": 80}}});
    let path = |name: &str| json!({"path": format!("/{name}"), "pathType": "Prefix", "backend": backend(name)});
    let paths = json!({"paths": [path("web"), path("lost")]});
    let ingress = json!({
        "metadata": {"name": "web"},
        "spec": {"rules": [{"host": "shop.example.com", "http": paths}]},
    });
    let networking = format!("/apis/networking.k8s.io/v1/namespaces/{space}");
    create(cluster, &format!("{networking}/ingresses"), ingress).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let scaler = json!({
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5},
    });
    let scaling = format!("/apis/autoscaling/v2/namespaces/{space}");
    create(
        cluster,
        &format!("{scaling}/horizontalpodautoscalers"),
        scaler,
    )
    .await;
    for name in ["web-1-a", "web-1-b"] {
        add_pod(cluster, space, name).await;
    }
}

async fn add_pod(cluster: &Cluster, space: &str, name: &str) {
    let set = format!("/apis/apps/v1/namespaces/{space}/replicasets/web-1");
    let uid = uid(cluster, &set).await;
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": uid, "controller": true,
    }]);
    let one = json!({
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owner},
        "spec": {
            "nodeName": "node-1",
            "containers": [{
                "name": "c", "image": "registry.example/web:1",
                "envFrom": [{"secretRef": {"name": "keys", "optional": true}}],
            }],
            "volumes": [{"name": "v", "configMap": {"name": "files"}}],
        },
    });
    create(cluster, &format!("/api/v1/namespaces/{space}/pods"), one).await;
}

async fn create(cluster: &Cluster, path: &str, object: Value) {
    cluster.send("POST", path, &object).await.unwrap();
}

async fn patch(cluster: &Cluster, space: &str, pod: &str, object: Value) {
    let path = format!("/api/v1/namespaces/{space}/pods/{pod}");
    cluster.send("PATCH", &path, &object).await.unwrap();
}

async fn delete(cluster: &Cluster, space: &str, pod: &str) {
    let path = format!("/api/v1/namespaces/{space}/pods/{pod}");
    let now = json!({"gracePeriodSeconds": 0});
    cluster.send("DELETE", &path, &now).await.unwrap();
}

async fn uid(cluster: &Cluster, path: &str) -> String {
    let client = cluster.client(User::Admin).await.unwrap();
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let object: Value = client.request(request).await.unwrap();
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_tool_shows_what_is_around_an_object() {
    let Some(bed) = testbed::shared() else { return };
    shop(bed.dev(), "graph-tool").await;
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let ask = async |more: Value| {
        let mut arguments = json!({"namespace": "graph-tool", "kind": "deploy", "name": "web"});
        let fields = arguments.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        http.call("resources_graph", arguments).await
    };
    let tree = ask(json!({"depth": 5})).await.ok();
    let expected = "\
Deployment graph-tool/web  0/2 ready, 0 updated
├─ owns ReplicaSet web-1  0/2 ready
│  ├─ owns Pod web-1-a  Pending, 0/1 ready
│  │  ├─ runs-on Node node-1  Ready
│  │  ├─ mounts ConfigMap files
│  │  ├─ mounts Secret keys
│  │  └─ selected by Service web  ClusterIP
│  │     └─ routed from Ingress web  shop.example.com
│  │        └─ routes Service lost  not found
│  └─ owns Pod web-1-b  Pending, 0/1 ready
│     ├─ runs-on Node node-1  Ready
│     ├─ mounts ConfigMap files
│     ├─ mounts Secret keys
│     └─ selected by Service web  ClusterIP  (see above)
└─ scaled by HorizontalPodAutoscaler web  0 of 2-5
";
    assert_eq!(tree.text, expected);
    let nodes = tree.data["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), tree.data["more"].as_u64()), (11, Some(0)));
    let near = ask(json!({"depth": 1, "output": "json"})).await.ok();
    let data: Value = serde_json::from_str(&near.text).unwrap();
    assert_eq!(data["root"], "Deployment:graph-tool/web");
    let owns = json!({
        "from": "Deployment:graph-tool/web", "type": "owns", "to": "ReplicaSet:graph-tool/web-1",
    });
    assert!(data["edges"].as_array().unwrap().contains(&owns), "{data}");
    let picture = ask(json!({"kind": "ingress", "output": "mermaid", "depth": 1}))
        .await
        .ok();
    assert!(
        picture.text.starts_with("flowchart LR\n  n0[\"Ingress web"),
        "{}",
        picture.text
    );
    assert!(
        picture.text.contains("n0 -->|routes| n1"),
        "{}",
        picture.text
    );
    let node = ask(json!({"kind": "Node", "name": "node-1", "depth": 1}))
        .await
        .ok();
    assert!(
        node.text.contains("runs Pod graph-tool/web-1-a"),
        "{}",
        node.text
    );
    let secret = ask(json!({"kind": "secrets", "name": "keys", "depth": 1}))
        .await
        .ok();
    assert!(
        secret.text.contains("mounted by Pod web-1-b"),
        "{}",
        secret.text
    );
}

#[tokio::test]
async fn a_graph_that_cannot_be_shown_is_an_error_with_a_hint() {
    let Some(bed) = testbed::shared() else { return };
    shop(bed.dev(), "graph-wrong").await;
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &["--max-output-bytes", "4096"]).await;
    let ask = async |arguments: Value| http.call("resources_graph", arguments).await;
    let at =
        |kind: &str, name: &str| json!({"namespace": "graph-wrong", "kind": kind, "name": name});
    let answer = ask(at("deploymnet", "web")).await;
    answer.refused("not_found", &["no such kind", "nearest: deployments.apps"]);
    let answer = ask(at("serviceaccounts", "default")).await;
    answer.refused("invalid", &["the graph has no kind", "resources_get"]);
    let answer = ask(at("pods", "web-1-x")).await;
    answer.refused(
        "not_found",
        &[
            "there is none of that name",
            "nearest: `web-1-a`, `web-1-b`",
        ],
    );
    let answer = ask(at("configmaps", "other")).await;
    answer.refused("not_found", &["no pod there names it", "nearest: `files`"]);
    let answer = ask(json!({"namespace": "graph-nowhere", "kind": "pods", "name": "a"})).await;
    answer.refused("not_found", &["is the namespace right?"]);
    ask(at("", "web"))
        .await
        .refused("invalid", &["`kind` is empty"]);
    ask(at("pods", "a/b"))
        .await
        .refused("invalid", &["cannot use `a/b`"]);
    let mut deep = at("pods", "web-1-a");
    deep["depth"] = 9.into();
    ask(deep).await.refused("invalid", &["from 1 to 5"]);
    for n in 0..30 {
        add_pod(bed.dev(), "graph-wrong", &format!("web-1-n{n}")).await;
    }
    // The response may be older than the watch event of the last one.
    let mut cut = String::new();
    for _ in 0..100 {
        cut = ask(at("rs", "web-1")).await.ok().text;
        if cut.contains(" more; ") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        cut.contains(" more; lower depth") && cut.len() < 4096,
        "{cut}"
    );
}

#[tokio::test]
async fn forbidden_kinds_are_left_out_and_reported() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("team-a", "graph", &["c"]))
        .await
        .unwrap();
    let file = one_context(bed.dev(), User::TeamA);
    let http = Http::start(&file.path, &["--denied-kinds", "services"]).await;
    let arguments = json!({"kind": "pods", "name": "graph", "namespace": "team-a"});
    let answer = http.call("resources_graph", arguments).await.ok();
    for note in [
        "NOTE: nodes are left out: ",
        "NOTE: ingresses are left out: ",
        "NOTE: services are left out: ",
        "`services` is denied by --denied-kinds",
        "runs-on Node node-1  not read",
    ] {
        assert!(answer.text.contains(note), "no `{note}` in {}", answer.text);
    }
    assert_eq!(
        answer.data["notes"].as_array().unwrap().len(),
        5,
        "{}",
        answer.text
    );
    let arguments = json!({"kind": "Node", "name": "node-1"});
    let answer = http.call("resources_graph", arguments).await;
    answer.refused(
        "forbidden",
        &["cannot list pods", "name a namespace you may read"],
    );
}

/// The next update of a resource; `list_changed` notifications are skipped.
async fn update(stream: &mut Stream) -> Value {
    loop {
        let message = stream.next().await;
        match message["method"].as_str().unwrap() {
            "notifications/resources/updated" => return message["params"].clone(),
            method if method.ends_with("/list_changed") => {}
            _ => panic!("{message}"),
        }
    }
}

fn what(update: &Value) -> &Value {
    &update["_meta"]["kubecrier/update"]
}

async fn read(http: &HttpSession, uri: &str) -> Value {
    let answer = http.rpc("resources/read", json!({"uri": uri})).await;
    let text = answer["result"]["contents"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

/// Checks the updates that a subscriber of either era receives.
async fn expect_updates(
    cluster: &Cluster,
    http: &HttpSession,
    stream: &mut Stream,
    space: &str,
    uri: &str,
) {
    let begun = update(stream).await;
    assert_eq!(
        (&begun["uri"], &what(&begun)["reread"]),
        (&json!(uri), &json!(true))
    );
    let before = read(http, uri).await;
    assert_eq!(before["nodes"].as_array().unwrap().len(), 12, "{before}");
    assert!(before["notes"].as_array().unwrap().is_empty());
    add_pod(cluster, space, "web-1-c").await;
    let added = update(stream).await;
    let delta = &what(&added)["delta"];
    assert_eq!(
        delta["added"][0]["id"],
        format!("Pod:{space}/web-1-c"),
        "{added}"
    );
    assert_eq!(delta["edgesAdded"].as_array().unwrap().len(), 5, "{added}");
    assert_eq!(what(&added)["count"], 6);
    assert!(what(&added)["since"].as_u64() <= before["seq"].as_u64());
    let after = read(http, uri).await;
    assert!(after["seq"].as_u64() >= what(&added)["seq"].as_u64());
    assert_ne!(after["hash"], before["hash"]);
    // A change that the graph does not show.
    let note = json!({"metadata": {"annotations": {"note": "nobody sees it"}}});
    patch(cluster, space, "web-1-c", note).await;
    // The update of the next change directly follows the first one.
    let mut last = added;
    for (phase, status) in [
        ("Running", "Running, 0/1 ready"),
        ("Pending", "Pending, 0/1 ready"),
    ] {
        let set = cluster.set_pod_status(space, "web-1-c", json!({"phase": phase}));
        set.await.unwrap();
        let modified = update(stream).await;
        let delta = &what(&modified)["delta"];
        assert_eq!(delta["modified"][0]["status"], status, "{modified}");
        assert_eq!(what(&modified)["since"], what(&last)["seq"]);
        last = modified;
    }
    let noted = read(http, uri).await;
    assert_eq!(noted["hash"], after["hash"], "all is shown as before");
    // Each change has one update: a duplicate would arrive before the next.
    for name in ["web-1-c", "web-1-d"] {
        if name == "web-1-d" {
            add_pod(cluster, space, name).await;
            let added = update(stream).await;
            let id = format!("Pod:{space}/{name}");
            assert_eq!(what(&added)["delta"]["added"][0]["id"], id, "{added}");
        }
        delete(cluster, space, name).await;
        let deleted = update(stream).await;
        let gone = json!([format!("Pod:{space}/{name}")]);
        assert_eq!(what(&deleted)["delta"]["deleted"], gone, "{deleted}");
    }
    let again = read(http, uri).await;
    assert_eq!(
        (&again["hash"], &again["nodes"]),
        (&before["hash"], &before["nodes"])
    );
}

#[tokio::test]
async fn a_session_hears_each_change_once_and_no_change_never() {
    let Some(bed) = testbed::shared() else { return };
    shop(bed.dev(), "graph-session").await;
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let mut stream = http.stream(None).await;
    let uri = "k8s://dev/graph-session/graph";
    let answer = http.rpc("resources/subscribe", json!({"uri": uri})).await;
    assert!(answer.get("result").is_some(), "{answer}");
    expect_updates(bed.dev(), &http, &mut stream, "graph-session", uri).await;
    let pods = "k8s://dev/graph-session/graph?kinds=pods";
    http.rpc("resources/subscribe", json!({"uri": pods})).await;
    assert_eq!(update(&mut stream).await["uri"], pods);
    http.rpc("resources/unsubscribe", json!({"uri": uri})).await;
    // An update of the first would arrive before that of the second.
    for name in ["web-1-b", "web-1-a"] {
        delete(bed.dev(), "graph-session", name).await;
        assert_eq!(update(&mut stream).await["uri"], pods);
    }
    let metrics = http.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("kubecrier_graphs 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_listen_gets_one_update_per_change_and_none_without() {
    let Some(bed) = testbed::shared() else { return };
    shop(bed.dev(), "graph-listen").await;
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let uri = "k8s://dev/graph-listen/graph";
    let wanted = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let mut stream = Stream::new(http.modern("subscriptions/listen", None, wanted).await);
    let ack = stream.next().await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    expect_updates(bed.dev(), &http, &mut stream, "graph-listen", uri).await;
}

#[tokio::test]
async fn a_filter_of_kinds_applies_to_reads_and_updates() {
    let Some(bed) = testbed::shared() else { return };
    shop(bed.dev(), "graph-kinds").await;
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let uri = "k8s://dev/graph-kinds/graph?kinds=deploy,ReplicaSet";
    let content = read(&http, uri).await;
    let ids: Vec<_> = content["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["id"])
        .collect();
    assert_eq!(
        ids,
        ["Deployment:graph-kinds/web", "ReplicaSet:graph-kinds/web-1"]
    );
    assert_eq!(content["edges"].as_array().unwrap().len(), 1);
    let mut stream = http.stream(None).await;
    http.rpc("resources/subscribe", json!({"uri": uri})).await;
    update(&mut stream).await;
    let pods = "k8s://dev/graph-kinds/graph?kinds=pods";
    http.rpc("resources/subscribe", json!({"uri": pods})).await;
    assert_eq!(update(&mut stream).await["uri"], pods);
    // An update of the first would arrive before that of the second.
    for name in ["web-1-c", "web-1-d"] {
        add_pod(bed.dev(), "graph-kinds", name).await;
        assert_eq!(update(&mut stream).await["uri"], pods);
    }
    let wrong = "k8s://dev/graph-kinds/graph?kinds=cows";
    let answer = http.rpc("resources/read", json!({"uri": wrong})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(answer.to_string().contains("nearest: "), "{answer}");
    for wrong in ["k8s://nowhere/default/graph", "k8s://dev/default/graphs"] {
        let answer = http.rpc("resources/read", json!({"uri": wrong})).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        let answer = http
            .modern("resources/read", Some(wrong), json!({"uri": wrong}))
            .await;
        let answer = message(&answer.text().await.unwrap());
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}
