//! A cluster of many pods with their owners, Services and endpoints, and how they change.

use anyhow::{Result, anyhow};
use demo_cluster::DemoCluster;
use serde_json::{Value, json};

const NAMESPACES: u32 = 20;
const NODES: u32 = 100;

/// Pods of one Deployment.
const REPLICAS: u32 = 10;

/// The namespace and the name of a Deployment.
fn workload(set: u32) -> (String, String) {
    (format!("bench-{}", set % NAMESPACES), format!("web-{set}"))
}

fn pod_name(nth: u32) -> String {
    format!("web-{}-{nth}", nth / REPLICAS)
}

/// Creates everything, in good health.
pub(super) fn fill(cluster: &DemoCluster, pods: u32) -> Result<()> {
    for space in 0..NAMESPACES {
        let metadata = json!({"name": format!("bench-{space}")});
        put(cluster, "v1", "Namespace", json!({"metadata": metadata}))?;
    }
    for nth in 0..NODES {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": OLD});
        let node = json!({
            "metadata": {"name": format!("node-{nth}"), "creationTimestamp": OLD},
            "status": {"conditions": [ready]},
        });
        put(cluster, "v1", "Node", node)?;
    }
    for set in 0..pods.div_ceil(REPLICAS) {
        fill_workload(cluster, set)?;
    }
    for nth in 0..pods {
        fill_pod(cluster, nth)?;
    }
    Ok(())
}

/// Long before any run.
const OLD: &str = "2026-01-01T00:00:00Z";

fn fill_workload(cluster: &DemoCluster, set: u32) -> Result<()> {
    let (space, name) = workload(set);
    let labels = json!({"app": name});
    let metadata =
        json!({"name": name, "namespace": space, "labels": labels, "creationTimestamp": OLD});
    let counts = json!({
        "replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS,
        "updatedReplicas": REPLICAS,
    });
    let container = json!({"name": "app", "image": "registry.example/app:1.27.3"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let spec =
        json!({"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template});
    let deployment = json!({"metadata": metadata, "spec": spec, "status": counts});
    let deployment = put(cluster, "apps/v1", "Deployment", deployment)?;
    let mut owned = metadata.clone();
    owned["ownerReferences"] = owner("Deployment", &deployment);
    let replicas = json!({"metadata": owned, "spec": spec, "status": counts});
    put(cluster, "apps/v1", "ReplicaSet", replicas)?;
    let port = json!({"name": "http", "port": 80, "targetPort": 8080});
    let service = json!({"metadata": metadata, "spec": {"selector": labels, "ports": [port]}});
    put(cluster, "v1", "Service", service)?;
    let endpoints = (0..REPLICAS).map(|replica| {
        let target =
            json!({"kind": "Pod", "namespace": space, "name": pod_name(set * REPLICAS + replica)});
        json!({"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "targetRef": target})
    });
    let mut slice = json!({
        "metadata": metadata, "addressType": "IPv4",
        "endpoints": endpoints.collect::<Vec<_>>(), "ports": [{"name": "http", "port": 8080}],
    });
    slice["metadata"]["labels"]["kubernetes.io/service-name"] = name.into();
    put(cluster, "discovery.k8s.io/v1", "EndpointSlice", slice).map(drop)
}

fn fill_pod(cluster: &DemoCluster, nth: u32) -> Result<()> {
    let (space, set) = workload(nth / REPLICAS);
    let owners = cluster
        .get("replicasets.apps", &space, &set)
        .map(|set| owner("ReplicaSet", &set));
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example/{name}:1.27.3"),
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"periodSeconds": 10, "failureThreshold": 3},
        })
    };
    let pod = json!({
        "metadata": {
            "name": pod_name(nth), "namespace": space, "creationTimestamp": OLD,
            "labels": {"app": set, "app.kubernetes.io/name": "web", "pod-template-hash": "7c9d8f"},
            "annotations": {"checksum/config": "0123456789abcdef".repeat(8)},
            "ownerReferences": owners,
        },
        "spec": {
            "nodeName": format!("node-{}", nth % NODES),
            "containers": [container("app"), container("proxy")],
        },
        "status": well(0),
    });
    put(cluster, "v1", "Pod", pod).map(drop)
}

/// The status of a pod in good health, after so many other changes.
fn well(change: u32) -> Value {
    let running = |name: &str| {
        json!({
            "name": name, "ready": true, "started": true, "restartCount": 0,
            "image": format!("registry.example/{name}:1.27.3"),
            "state": {"running": {"startedAt": OLD}},
        })
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": OLD});
    let mut ready = condition("Ready");
    // A detector reads it, so that no two states are the same.
    ready["message"] = format!("probe {change}").into();
    json!({
        "phase": "Running", "startTime": OLD,
        "conditions": [condition("PodScheduled"), condition("ContainersReady"), ready],
        "containerStatuses": [running("app"), running("proxy")],
    })
}

/// Changes the status of a pod, which stays in good health.
pub(super) fn touch(cluster: &DemoCluster, nth: u32, change: u32) {
    let (space, _) = workload(nth / REPLICAS);
    cluster.modify("pods", &space, &pod_name(nth), |pod| {
        pod["status"] = well(change);
    });
}

/// The first pod of a Deployment.
fn first_of(set: u32, pods: u32) -> u32 {
    set * REPLICAS % pods
}

/// Lets a pod of a Deployment crash; returns what its incident is about.
pub(super) fn crash(cluster: &DemoCluster, set: u32, pods: u32) -> String {
    let nth = first_of(set, pods);
    let (space, name) = workload(nth / REPLICAS);
    let now = cluster.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    cluster.modify("pods", &space, &pod_name(nth), |pod| {
        let ended = json!({
            "exitCode": 2, "reason": "Error", "message": "panic: no provider for eur",
            "startedAt": now, "finishedAt": now,
        });
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": now});
        pod["status"]["conditions"] = json!([ready]);
        pod["status"]["containerStatuses"] = json!([{
            "name": "app", "ready": false, "restartCount": 3, "image": "registry.example/app:1.27.3",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended},
        }]);
    });
    format!("{space}/deployment/{name}")
}

/// Undoes a crash.
pub(super) fn mend(cluster: &DemoCluster, set: u32, pods: u32) {
    touch(cluster, first_of(set, pods), 0);
}

fn owner(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
        "controller": true,
    }])
}

fn put(cluster: &DemoCluster, api: &str, kind: &str, mut object: Value) -> Result<Value> {
    object["apiVersion"] = api.into();
    object["kind"] = kind.into();
    let stored = cluster.put(object);
    let stored = stored.map_err(|error| anyhow!("{kind}: {error}"))?;
    Ok(Value::clone(&stored))
}
