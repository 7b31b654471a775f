//! A server in a pod: no kubeconfig, the environment of a container, the mount of a kubelet.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::json;
use testbed::{Cluster, Mount, event, namespace, pod};
use tokio::time::{Duration, Instant};

use crate::harness::{Http, StdioSession, Subscriber, TIMEOUT, command};

/// The server as a container of a pod starts it.
pub(crate) fn in_pod(cluster: &Cluster, mount: &Path) -> Command {
    let mut command = command();
    command.envs(cluster.pod_environment());
    command.env("TESTBED_SERVICE_ACCOUNT", mount);
    command
}

/// A namespace whose ServiceAccount `crier` may read it, and nothing else.
async fn home(cluster: &Cluster, name: &str) {
    let created = cluster.create_cluster_wide(&namespace(name)).await;
    created.unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "crier", "namespace": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "testbed-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "crier", "namespace": name}],
    }))
    .unwrap();
    cluster.create(&binding).await.unwrap();
    cluster.create(&pod(name, "web-0", &["web"])).await.unwrap();
}

#[tokio::test]
async fn a_server_in_a_pod_serves_its_own_cluster_from_its_own_namespace() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    home(cluster, "pod-home").await;
    let token = cluster.bound_token("pod-home", "crier").await.unwrap();
    let mount = Mount::new(cluster, "pod-home", &token).unwrap();
    let http = Http::start_command(&mut in_pod(cluster, mount.path()), "2025-11-25").await;
    let contexts = http.call("configuration_contexts_list", json!({})).await;
    let contexts = contexts.ok().data["contexts"].clone();
    let own = json!([{"name": "in-cluster", "server": cluster.url(), "namespace": "pod-home",
                      "default": true}]);
    assert_eq!(contexts, own);
    // No namespace is named: it is that of the pod.
    let seen = http.call("pods_get", json!({"name": "web-0"})).await;
    assert_eq!(seen.ok().data["namespace"], "pod-home");
    assert_eq!(http.get("/readyz").await.status(), 200);
    let refused = http
        .call("pods_list", json!({"namespace": "default"}))
        .await;
    refused.refused("forbidden", &["to the ServiceAccount of the pod"]);
    let report = in_pod(cluster, mount.path())
        .arg("doctor")
        .output()
        .unwrap();
    let text = String::from_utf8(report.stdout).unwrap();
    assert_eq!(report.status.code(), Some(0), "{text}");
    for part in ["context in-cluster", "only in pod-home"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[tokio::test]
async fn a_renewed_token_is_used_without_a_restart() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    home(cluster, "pod-renewed").await;
    let first = cluster.bound_token("pod-renewed", "crier").await.unwrap();
    let mount = Mount::new(cluster, "pod-renewed", &first).unwrap();
    let http = Http::start_command(&mut in_pod(cluster, mount.path()), "2025-11-25").await;
    let mut client = Subscriber::new(&http).await;
    let made = json!({"namespace": "pod-renewed", "reason": "AfterRenewal"});
    let made = http.call("events_subscribe", made).await.ok().data;
    let read = async || http.call("pods_get", json!({"name": "web-0"})).await;
    read().await.ok();
    // The API server remembers a token that it has accepted for some seconds.
    cluster.revoke(&first).await.unwrap();
    let began = Instant::now();
    while !read().await.is_error {
        assert!(began.elapsed() < TIMEOUT, "a revoked token is accepted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let hint = "the token of the pod's ServiceAccount is not accepted";
    read().await.refused("unauthorized", &[hint]);
    let second = cluster.bound_token("pod-renewed", "crier").await.unwrap();
    mount.renew(&second).unwrap();
    read().await.ok();
    let event = event("pod-renewed", "Pod/web-0", "Warning", "AfterRenewal", "x");
    cluster.create(&event).await.unwrap();
    // Its watch was refused as well, and has found the new token by itself.
    loop {
        let message = client.message().await;
        let data = &message["data"];
        if data["subscriptionId"] == made["subscriptionId"] && data.get("event").is_some() {
            assert_eq!(data["event"]["reason"], "AfterRenewal");
            break;
        }
    }
}

#[tokio::test]
async fn half_a_mount_is_named_by_every_answer_and_mended_without_a_restart() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    home(cluster, "pod-half").await;
    let token = cluster.bound_token("pod-half", "crier").await.unwrap();
    let mount = Mount::new(cluster, "pod-half", &token).unwrap();
    let authority = mount.path().join("ca.crt");
    fs::remove_file(&authority).unwrap();
    let words = authority.display().to_string();
    let report = in_pod(cluster, mount.path())
        .arg("doctor")
        .output()
        .unwrap();
    let text = String::from_utf8(report.stdout).unwrap();
    assert_eq!(report.status.code(), Some(1), "{text}");
    assert!(text.contains(&words), "{text}");
    let mut session = StdioSession::start(&mut in_pod(cluster, mount.path()));
    session.handshake();
    let mut read = || session.call("pods_get", json!({"name": "web-0"}));
    read().refused(
        "kubeconfig",
        &[
            &words,
            "the cluster that this pod runs in",
            "automountServiceAccountToken",
        ],
    );
    fs::write(&authority, cluster.authority_pem()).unwrap();
    read().ok();
    // A kubeconfig that is named and not there is a mistake that the mount does not hide.
    let mut named = in_pod(cluster, mount.path());
    named.args(["--kubeconfig", "/nonexistent/config"]);
    let mut session = StdioSession::start(named.stdin(Stdio::piped()));
    session.handshake();
    let refused = session.call("pods_get", json!({"name": "web-0"}));
    refused.refused("kubeconfig", &["/nonexistent/config"]);
}
