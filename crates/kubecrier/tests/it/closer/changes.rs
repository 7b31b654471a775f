//! What changed of late.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{User, namespace};

use super::{create, patch};
use crate::harness::{Http, one_context};

#[tokio::test]
async fn changes_say_what_was_done_and_by_whom() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "closer-changes";
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let owner = cluster
        .create(&testbed::deployment(space, "web"))
        .await
        .unwrap();
    let sets = format!("/apis/apps/v1/namespaces/{space}/replicasets");
    for revision in [1, 2] {
        let labels = json!({"app": "web", "pod-template-hash": revision.to_string()});
        let container = json!({"name": "app", "image": format!("registry.example/app:{revision}")});
        create(cluster, &sets, json!({
            "metadata": {
                "name": format!("web-{revision}"), "labels": labels,
                "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner.metadata.uid}],
            },
            "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [container]},
            }},
        })).await;
    }
    let maps = format!("/api/v1/namespaces/{space}/configmaps");
    create(
        cluster,
        &maps,
        json!({"metadata": {"name": "settings"}, "data": {"a": "1"}}),
    )
    .await;
    // Times have whole seconds: what comes in the second of the making is part of it.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let by = |path: &str, who: &str| format!("{path}?fieldManager={who}");
    patch(
        cluster,
        &by(&format!("{maps}/settings"), "kubectl-edit"),
        json!({"data": {"mode": "plain-words"}}),
    )
    .await;
    let web = format!("/apis/apps/v1/namespaces/{space}/deployments/web");
    let replicas = json!({"spec": {"replicas": 3}});
    patch(cluster, &by(&web, "kubectl-scale"), replicas).await;
    let scaled = testbed::event(
        space,
        "Deployment/web",
        "Normal",
        "ScalingReplicaSet",
        "Scaled up replica set web-2 from 1 to 3",
    );
    cluster.create(&scaled).await.unwrap();
    let file = one_context(cluster, User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let changes = http
        .call("changes_list", json!({"namespace": space}))
        .await
        .ok();
    let rows = changes.data["changes"].as_array().unwrap();
    let has = |change: &str, object: &str, by: Value, words: &str| {
        let fits = |row: &Value| {
            row["change"] == change
                && row["object"] == object
                && row["by"] == by
                && row["detail"].as_str().unwrap().contains(words)
        };
        assert!(
            rows.iter().any(fits),
            "{change} {object} {words}: {}",
            changes.text
        );
    };
    has(
        "rollout",
        "Deployment/web",
        Value::Null,
        "revision 2: image of app registry.example/app:1 -> registry.example/app:2",
    );
    has(
        "config",
        "ConfigMap/settings",
        json!("kubectl-edit"),
        "data.mode",
    );
    has(
        "scale",
        "Deployment/web",
        json!("kubectl-scale"),
        "spec.replicas",
    );
    has("scale", "Deployment/web", Value::Null, "from 1 to 3");
    let is_new = |row: &Value| row["change"] == "created" && row["object"] == "ConfigMap/settings";
    assert!(rows.iter().any(is_new), "{}", changes.text);
    assert!(!changes.text.contains("plain-words"), "{}", changes.text);
    let times: Vec<_> = rows.iter().map(|row| row["at"].as_str().unwrap()).collect();
    assert!(
        times.is_sorted_by(|newer, older| newer >= older),
        "{times:?}"
    );
    let one = http
        .call("changes_list", json!({"namespace": space, "limit": 1}))
        .await
        .ok();
    assert!(one.text.contains("more; narrow by since"), "{}", one.text);
    // For a caller without all permissions, the result lists what was left out.
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let part = http
        .call("changes_list", json!({"namespace": space}))
        .await
        .ok();
    assert!(
        part.text.contains("configmaps (forbidden)") && part.text.contains("rollout"),
        "{}",
        part.text
    );
    http.call("changes_list", json!({"since": "yesterday"}))
        .await
        .refused("invalid", &["length of time"]);
}
