//! What pods and nodes use. The metrics API is served by the real API server, from
//! custom resources of its group.

use serde_json::{Value, json};
use testbed::User;

use super::{CUSTOM, create, custom, patch, until_ok};
use crate::harness::{Http, ToolResult, kubeconfig};

#[tokio::test]
async fn usage_is_shown_where_the_metrics_api_is_and_missed_clearly_where_not() {
    let Some(bed) = testbed::shared() else { return };
    let (without, with) = (bed.dev(), bed.prod());
    let file = kubeconfig(|file| {
        file.context("without", without, User::Admin)
            .context("with", with, User::Admin)
            .current("with")
    });
    let http = Http::start(&file.path, &[]).await;
    for tool in ["pods_top", "nodes_top"] {
        http.call(tool, json!({"context": "without"}))
            .await
            .refused("not_found", &["no metrics API", "metrics-server"]);
    }
    for (kind, plural, scope) in [
        ("PodMetrics", "pods", "Namespaced"),
        ("NodeMetrics", "nodes", "Cluster"),
    ] {
        create(
            with,
            CUSTOM,
            custom("metrics.k8s.io", "v1beta1", kind, plural, scope, json!([])),
        )
        .await;
    }
    until_ok(&http, "pods_top", json!({})).await;
    until_ok(&http, "nodes_top", json!({})).await;
    let allocatable = json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}});
    patch(with, "/api/v1/nodes/node-1/status", allocatable).await;
    let root = "/apis/metrics.k8s.io/v1beta1";
    let object = |kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}});
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        object
    };
    for (name, cpu, memory) in [("small", "10m", "900Mi"), ("large", "1500000000n", "5Mi")] {
        let containers = json!([
            {"name": "app", "usage": {"cpu": cpu, "memory": memory}},
            {"name": "proxy", "usage": {"cpu": "1m", "memory": "1Mi"}},
        ]);
        let path = format!("{root}/namespaces/default/pods");
        create(
            with,
            &path,
            object("PodMetrics", name, json!({"containers": containers})),
        )
        .await;
    }
    let usage = json!({"usage": {"cpu": "500m", "memory": "1Gi"}});
    create(
        with,
        &format!("{root}/nodes"),
        object("NodeMetrics", "node-1", usage),
    )
    .await;
    let names = |answer: &ToolResult| -> Vec<String> {
        let pods = answer.data["pods"].as_array().unwrap().iter();
        pods.map(|pod| pod["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let pods = http
        .call("pods_top", json!({"namespace": "default"}))
        .await
        .ok();
    assert_eq!(names(&pods), ["large", "small"], "{}", pods.text);
    assert!(
        pods.text.contains("1501m") && pods.text.contains("proxy 1m 1Mi"),
        "{}",
        pods.text
    );
    let pods = json!({"sortBy": "memory", "limit": 1});
    let pods = http.call("pods_top", pods).await.ok();
    assert_eq!(names(&pods), ["small"]);
    assert!(pods.text.contains("... 1 more"), "{}", pods.text);
    let nodes = http.call("nodes_top", json!({})).await.ok();
    let node = nodes
        .text
        .lines()
        .find(|line| line.starts_with("node-1"))
        .unwrap();
    let cells: Vec<_> = node.split_whitespace().collect();
    assert_eq!(cells, ["node-1", "500m", "25%", "1024Mi", "25%"]);
}
