//! Creates many objects in a cluster.

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

/// Concurrent calls that create objects.
const MAKING: usize = 32;

/// Creates each object at its path.
pub(crate) async fn make_all(
    admin: &Client,
    all: impl Iterator<Item = (String, Value)>,
) -> Result<()> {
    let make = async |(path, object): (String, Value)| send(admin, "POST", &path, &object).await;
    stream::iter(all.map(make))
        .buffer_unordered(MAKING)
        .try_collect()
        .await
}

/// Sends an object to the API server.
pub(crate) async fn send(admin: &Client, method: &str, path: &str, object: &Value) -> Result<()> {
    let form = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", form);
    let request = request.body(object.to_string().into_bytes())?;
    let sent = admin.request_text(request).await;
    sent.map(drop).with_context(|| format!("{method} {path}"))
}

/// A typical pod of about 8 KiB: annotations, variables, volumes, two containers, and the
/// defaults that the API server adds. It is one of a set of replicas.
pub(crate) fn typical_pod(name: &str, set: u32, node: &str) -> Value {
    let variables: Vec<_> = (0..5)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value number {n} of {set}")}))
        .collect();
    let container = |name: &str| {
        json!({
            "name": name,
            "image": format!("registry.example/{name}:1.27.3"),
            "env": variables,
            "envFrom": [{"configMapRef": {"name": format!("env-{set}")}}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
        })
    };
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "app": format!("web-{set}"), "app.kubernetes.io/name": "web",
                "app.kubernetes.io/instance": format!("web-{set}"), "pod-template-hash": "7c9d8f",
            },
            "annotations": {"checksum/config": "0123456789abcdef".repeat(8), "note": "x".repeat(500)},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{set}"),
                "uid": format!("00000000-0000-0000-0000-{set:012}"), "controller": true,
            }],
        },
        "spec": {
            "nodeName": node,
            "containers": [container("app"), container("proxy")],
            "volumes": [
                {"name": "config", "configMap": {"name": format!("files-{set}")}},
                {"name": "tls", "secret": {"secretName": format!("tls-{set}")}},
            ],
        },
    })
}
