//! The objects that are created in the real cluster and copied.

use kube::Client;
use serde_json::{Value, json};

use super::call;

/// Creates the namespace and the objects in it.
pub(crate) async fn make(real: &Client, namespace: &str) {
    create(
        real,
        "/api/v1/namespaces",
        json!({"metadata": {"name": namespace}}),
    )
    .await;
    let core = format!("/api/v1/namespaces/{namespace}");
    let apps = format!("/apis/apps/v1/namespaces/{namespace}");
    let batch = format!("/apis/batch/v1/namespaces/{namespace}");
    let pods = format!("{core}/pods");
    create(
        real,
        &pods,
        pod("web-1", json!({"app": "web", "weight": "3"}), "node-1"),
    )
    .await;
    create(
        real,
        &pods,
        pod("web-2", json!({"app": "web", "weight": "7"}), "node-1"),
    )
    .await;
    create(
        real,
        &pods,
        pod(
            "db-0",
            json!({"app": "db", "example.com/tier": "data"}),
            "node-1",
        ),
    )
    .await;
    create(real, &pods, pod("pending", json!({}), "")).await;
    let mut twins = pod("twins", json!({"app": "twins"}), "node-1");
    twins["spec"]["containers"] =
        json!([{"name": "a", "image": "example/a:1"}, {"name": "b", "image": "example/b:1"}]);
    twins["spec"]["initContainers"] = json!([{"name": "setup", "image": "example/s:1"}]);
    create(real, &pods, twins).await;
    for name in ["web-1", "web-2", "db-0", "twins"] {
        let status = json!({"status": {"phase": "Running", "containerStatuses": statuses(name)}});
        let path = format!("{pods}/{name}/status");
        let patched = call(real, "PATCH", &path, Some(&status)).await;
        assert_eq!(patched.status, 200, "{:?}", patched.body);
    }
    for (name, kind, reason) in [
        ("web-1", "Normal", "Pulled"),
        ("web-1", "Warning", "BackOff"),
        ("db-0", "Normal", "Scheduled"),
    ] {
        create(
            real,
            &format!("{core}/events"),
            event(namespace, name, kind, reason),
        )
        .await;
    }
    let configuration = json!({"metadata": {"name": "settings"}, "data": {"mode": "fast"}});
    create(real, &format!("{core}/configmaps"), configuration).await;
    let secret = json!({"metadata": {"name": "key"}, "stringData": {"key": "a"}});
    create(real, &format!("{core}/secrets"), secret).await;
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    create(real, &format!("{core}/services"), service).await;
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    create(real, &format!("{core}/persistentvolumeclaims"), claim).await;
    for kind in ["deployments", "replicasets", "daemonsets", "statefulsets"] {
        create(real, &format!("{apps}/{kind}"), workload("web")).await;
    }
    let mut job = workload("once");
    job["spec"] = json!({"template": job["spec"]["template"]});
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    let mut cron = json!({"metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * * *"}});
    cron["spec"]["jobTemplate"]["spec"] = job["spec"].clone();
    create(real, &format!("{batch}/jobs"), job).await;
    create(real, &format!("{batch}/cronjobs"), cron).await;
    let ingress = json!({
        "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    });
    create(
        real,
        &format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"),
        ingress,
    )
    .await;
    let scaler = json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
        },
    });
    let scalers = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
    create(real, &scalers, scaler).await;
}

pub(crate) async fn create(real: &Client, path: &str, object: Value) -> Value {
    let made = call(real, "POST", path, Some(&object)).await;
    assert_eq!(made.status, 201, "{path}: {:?}", made.body);
    made.body
}

pub(crate) fn pod(name: &str, labels: Value, node: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example/main:1"}]},
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

pub(crate) fn event(namespace: &str, pod: &str, kind: &str, reason: &str) -> Value {
    json!({
        "metadata": {"generateName": format!("{pod}.")},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": namespace},
        "type": kind,
        "reason": reason,
        "message": format!("{reason} of {pod}"),
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "kubelet", "host": "node-1"},
    })
}

fn statuses(pod: &str) -> Value {
    let names: &[&str] = if pod == "twins" {
        &["a", "b"]
    } else {
        &["main"]
    };
    let one = |name: &&str| {
        json!({
            "name": name, "image": "example/main:1", "imageID": "", "ready": true,
            "restartCount": 1,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "lastState": {"terminated": {"exitCode": 2, "containerID": "containerd://1"}},
        })
    };
    names.iter().map(one).collect()
}

fn workload(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example/main:1"}]},
            },
        },
    })
}
