//! The corpus of secrets in every place where a workload can put text.

use serde_json::json;
use testbed::{Cluster, LogScript, User, deployment, pod};
use tokio::time::Duration;

use super::corpus::Pack;

/// The namespace of everything.
pub(super) const SPACE: &str = "exits";

/// The pod of a pack.
pub(super) fn pod_of(pack: &Pack) -> String {
    format!("leaky-{}", pack.marker)
}

/// A text that begins with a word of its own, so that an output shows which text it met.
pub(super) fn marked(place: &str, pack: &Pack) -> String {
    format!("{place}-{}\n{}", pack.marker, pack.text)
}

/// Puts a pack wherever a workload can put text, except into events; and a secret that only
/// the field beside it gives away.
pub(super) async fn plant(cluster: &Cluster, pack: &Pack, alone: &str) {
    let name = pod_of(pack);
    let mut leaky = pod(SPACE, &name, &["app", "broken"]);
    let annotations = [("note".to_owned(), marked("annotation", pack))];
    leaky.metadata.annotations = Some(annotations.into());
    let mut value = json!(leaky);
    value["spec"]["containers"][0]["env"] = json!([
        {"name": "MARKER", "value": format!("env-{}", pack.marker)},
        {"name": "NOTE", "value": pack.text},
        {"name": "DB_PASSWORD", "value": alone},
    ]);
    value["spec"]["containers"][0]["args"] = json!(["--password", alone, pack.text]);
    let pods = format!("/api/v1/namespaces/{SPACE}/pods");
    cluster.send("POST", &pods, &value).await.unwrap();
    let waiting =
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": marked("waiting", pack)}});
    let ended =
        json!({"terminated": {"exitCode": 1, "reason": "Error", "message": marked("ended", pack)}});
    let status = json!({
        "phase": "Running",
        "message": marked("status", pack),
        "conditions": [{"type": "Ready", "status": "False", "reason": "Broken", "message": marked("condition", pack)}],
        "containerStatuses": [{
            "name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
            "state": waiting, "lastState": ended,
        }],
    });
    cluster.set_pod_status(SPACE, &name, status).await.unwrap();
    let lines = |place: &str| LogScript::lines(marked(place, pack).lines());
    let log = format!("{SPACE}/{name}/app");
    cluster.node().set_log(&log, lines("log"));
    cluster.node().set_previous_log(&log, lines("previous"));
    let failure = format!("disk on fire: {}", marked("failure", pack));
    let failing = LogScript::failing(500, &failure);
    cluster
        .node()
        .set_log(&format!("{SPACE}/{name}/broken"), failing);
    let mut rollout = deployment(SPACE, &name);
    let cause = "kubernetes.io/change-cause".to_owned();
    rollout.metadata.annotations = Some([(cause, marked("cause", pack))].into());
    cluster.create(&rollout).await.unwrap();
    let config = json!({
        "metadata": {"name": name},
        "data": {"marker": format!("config-{}", pack.marker), "app.conf": pack.text, "password": alone},
    });
    let path = format!("/api/v1/namespaces/{SPACE}/configmaps");
    cluster.send("POST", &path, &config).await.unwrap();
    let custom = json!({
        "apiVersion": "exits.example/v1", "kind": "Leak", "metadata": {"name": name},
        "spec": {"marker": format!("custom-{}", pack.marker), "settings": {"text": pack.text, "apiKey": alone}},
        "status": {"message": pack.text},
    });
    let path = format!("/apis/exits.example/v1/namespaces/{SPACE}/leaks");
    cluster.send("POST", &path, &custom).await.unwrap();
}

/// A pod whose image cannot be: an incident at once, with the words of a pack.
pub(super) async fn plant_incident(cluster: &Cluster, pack: &Pack) {
    let name = format!("tardy-{}", pack.marker);
    cluster.create(&pod(SPACE, &name, &["app"])).await.unwrap();
    let waiting =
        json!({"waiting": {"reason": "InvalidImageName", "message": marked("image", pack)}});
    let status = json!({
        "phase": "Pending",
        "containerStatuses": [{
            "name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": waiting,
        }],
    });
    cluster.set_pod_status(SPACE, &name, status).await.unwrap();
}

/// A kind whose objects may hold anything, and show it in a column.
pub(super) async fn define_kind(cluster: &Cluster) {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let column = json!({"name": "Message", "type": "string", "jsonPath": ".status.message"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "leaks.exits.example"},
        "spec": {
            "group": "exits.example", "scope": "Namespaced",
            "names": {"kind": "Leak", "plural": "leaks", "singular": "leak", "listKind": "LeakList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [column], "schema": {"openAPIV3Schema": anything},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.send("POST", path, &definition).await.unwrap();
    // It is served a moment later.
    let client = cluster.client(User::Admin).await.unwrap();
    let path = format!("/apis/exits.example/v1/namespaces/{SPACE}/leaks");
    loop {
        let request = http::Request::get(&path).body(Vec::new()).unwrap();
        match client.request_text(request).await {
            Ok(_list) => return,
            Err(_not_yet) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
