//! Sinks: incidents that leave the real server without any client, to real receivers.

mod alertmanager;
mod delivered;
pub(crate) mod receiver;
mod signed;

use serde_json::json;
use testbed::{Cluster, namespace, pod};

/// What no sink may be told.
const SECRET: &str = "hunter2-verysecret";

/// A namespace with healthy pods.
async fn set_up(cluster: &Cluster, space: &str, pods: &[&str]) {
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    for name in pods {
        cluster.create(&pod(space, name, &["app"])).await.unwrap();
    }
}

/// A pod whose image has a name that no registry can have, and a secret in the message.
pub(crate) async fn break_pod(cluster: &Cluster, space: &str, pod: &str) {
    let message = format!("couldn't parse image name, password={SECRET}");
    let state = json!({"waiting": {"reason": "InvalidImageName", "message": message}});
    set_state(cluster, space, pod, state).await;
}

async fn mend_pod(cluster: &Cluster, space: &str, pod: &str) {
    let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    set_state(cluster, space, pod, state).await;
}

async fn set_state(cluster: &Cluster, space: &str, pod: &str, state: serde_json::Value) {
    let container = json!({
        "name": "app", "image": "web", "imageID": "", "restartCount": 0, "ready": false,
        "state": state,
    });
    let status = json!({"phase": "Pending", "containerStatuses": [container]});
    cluster.set_pod_status(space, pod, status).await.unwrap();
}
