//! Objects that tests create, with all fields that the server reads.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Namespace, Pod},
};
use serde_json::{Value, json};

/// A namespace.
pub fn namespace(name: &str) -> Namespace {
    typed(json!({"metadata": {"name": name}}))
}

/// An event about `kind/name`, counted once, just now.
///
/// # Panics
///
/// When `object` has no slash.
pub fn event(namespace: &str, object: &str, kind: &str, reason: &str, message: &str) -> Event {
    let (involved, name) = object
        .split_once('/')
        .expect("an object is written kind/name");
    let now = jiff::Timestamp::now();
    typed(json!({
        "metadata": {"namespace": namespace, "generateName": format!("{name}.")},
        "involvedObject": {
            "apiVersion": "v1", "kind": involved, "name": name, "namespace": namespace,
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": "testbed"},
    }))
}

/// A pod on the cluster's node, with these containers.
pub fn pod(namespace: &str, name: &str, containers: &[&str]) -> Pod {
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| json!({"name": name, "image": format!("registry.example/{name}:1")}))
        .collect();
    typed(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {"nodeName": "node-1", "containers": containers},
    }))
}

/// A deployment of one replica.
pub fn deployment(namespace: &str, name: &str) -> Deployment {
    let labels = json!({"app": name});
    typed(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": name, "image": "registry.example/app:1"}]},
            },
        },
    }))
}

fn typed<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("the object is written as the API has it")
}
