//! Service accounts as callers: the rights that doctor prints for them, one by one.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig as File};
use serde_json::{Value, json};
use testbed::{Cluster, Kubeconfig, Validity, namespace};

use super::{grant, setup::objects};
use crate::harness::{command, kubeconfig};

const API: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A kubeconfig of a user who is new to the cluster.
fn user(cluster: &Cluster, name: &str) -> crate::harness::File {
    let issued = cluster.authority().client(name, "idle", Validity::Current);
    let issued = issued.unwrap();
    kubeconfig(|file: Kubeconfig| {
        file.certificate_context("dev", cluster, &issued)
            .current("dev")
    })
}

/// The section of the report on service accounts.
fn doctor(kubeconfig: &Path, identity: &str) -> Value {
    let done = command()
        .args(["--port", "0", "--cluster-identity", identity])
        .args(["--service-account-audience", "crier"])
        .args(["doctor", "-o", "json", "--kubeconfig"])
        .arg(kubeconfig)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let sections = report["sections"].as_array().unwrap();
    let about = |one: &&Value| one["about"] == "context dev, service accounts as callers";
    let found = sections.iter().find(about);
    found.unwrap_or_else(|| panic!("{report:#}")).clone()
}

/// Binds rules to a user.
async fn bind(cluster: &Cluster, name: &str, rules: &[Value]) {
    let group = "rbac.authorization.k8s.io";
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let path = format!("{API}/clusterroles");
    cluster.send("POST", &path, &role).await.unwrap();
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    });
    let path = format!("{API}/clusterrolebindings");
    cluster.send("POST", &path, &binding).await.unwrap();
}

/// Lists pods with the credentials of a file, as a service account.
async fn list_as(file: &Path, space: &str, account: &str) -> Result<String, String> {
    let read = File::read_from(file).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    let request = http::Request::get(format!("/api/v1/namespaces/{space}/pods"))
        .header("impersonate-user", account)
        .body(Vec::new())
        .unwrap();
    let answer = client.request_text(request).await;
    answer.map_err(|error| error.to_string())
}

#[tokio::test]
async fn each_printed_rule_is_needed_and_all_are_enough() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "accounts-act");
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let account = format!("system:serviceaccount:{space}:agent");
    cluster.token_for(space, "agent", "crier").await.unwrap();
    grant(cluster, space, "agent", "User", &account).await;
    let all = user(cluster, "accounts-all");
    let missing = doctor(&all.path, "impersonate");
    for finding in missing["findings"].as_array().unwrap() {
        assert_eq!(finding["verdict"], "fail", "{missing:#}");
    }
    let printed = objects(&missing["manifest"]);
    let rules = printed[0]["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), 3, "{rules:?}");
    let without = |part: &str| -> Vec<Value> {
        let lacks = |rule: &&Value| !rule["verbs"].to_string().contains(part);
        let left: Vec<_> = rules.iter().filter(lacks).cloned().collect();
        assert_eq!(left.len(), 2, "{part} in {rules:?}");
        left
    };
    // What is for users is not for service accounts.
    let for_users = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups"],
         "verbs": ["impersonate:user-info"]},
        {"apiGroups": ["*"], "resources": ["*"],
         "verbs": ["impersonate-on:user-info:get", "impersonate-on:user-info:list"]},
    ]);
    let few = [
        ("accounts-users", for_users.as_array().unwrap().clone()),
        ("accounts-no-as", without("impersonate:serviceaccount")),
        ("accounts-no-on", without("impersonate-on:serviceaccount")),
    ];
    for (name, rules) in &few {
        bind(cluster, name, rules).await;
    }
    // The last one is known last.
    for object in &printed {
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        let path = format!("{API}/{plural}");
        cluster.send("POST", &path, object).await.unwrap();
    }
    let mut listed = list_as(&all.path, space, &account).await;
    for _ in 0..200 {
        if listed.is_ok() {
            break;
        }
        listed = list_as(&all.path, space, &account).await;
    }
    listed.unwrap();
    for (name, _) in &few {
        let file = user(cluster, name);
        let refused = list_as(&file.path, space, &account).await.unwrap_err();
        assert!(refused.contains("impersonate"), "{name}: {refused}");
    }
    // For accounts alone, as which nobody writes.
    let refused = list_as(&all.path, space, "ann").await.unwrap_err();
    assert!(refused.contains("impersonate"), "{refused}");
    let granted = doctor(&all.path, "impersonate");
    for finding in granted["findings"].as_array().unwrap() {
        assert_eq!(finding["verdict"], "ok", "{granted:#}");
    }
    assert!(granted.get("manifest").is_none(), "{granted:#}");
    // Callers who act as the server need no more than that their tokens are known.
    let shared = doctor(&user(cluster, "accounts-none").path, "shared");
    assert_eq!(
        shared["findings"].as_array().unwrap().len(),
        1,
        "{shared:#}"
    );
    let manifest = shared["manifest"].as_str().unwrap();
    assert!(
        manifest.contains("tokenreviews") && !manifest.contains("impersonate"),
        "{manifest}"
    );
}
