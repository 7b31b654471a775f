//! The rights that a server needs to act as its callers: what doctor says, and what they allow.

use serde_json::{Value, json};
use testbed::{Cluster, Kubeconfig, Options, User, Validity};

use super::{ANN, TokenFile, furnish, grant};
use crate::harness::{File, Http, HttpSession, command, kubeconfig, one_context};

/// The section of the report on acting as callers, and whether all is well.
fn doctor(file: &File) -> Value {
    let tokens = TokenFile::new(&[&format!("ann:{ANN} user=ann")]);
    let done = command()
        .args(["--port", "0", "--cluster-identity", "impersonate"])
        .arg("--auth-token-file")
        .arg(&tokens.path)
        .args(["doctor", "-o", "json", "--kubeconfig"])
        .arg(&file.path)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let sections = report["sections"].as_array().unwrap();
    let about = |one: &&Value| one["about"] == "context dev, acting as callers";
    let found = sections.iter().find(about);
    found.unwrap_or_else(|| panic!("{report:#}")).clone()
}

/// The objects of a manifest.
pub(crate) fn objects(manifest: &Value) -> Vec<Value> {
    let texts = manifest.as_str().unwrap().split("---\n");
    texts
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

#[tokio::test]
async fn doctor_says_how_the_server_may_act() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let constrained = doctor(&one_context(cluster, User::ActsAsCallers));
    assert_eq!(
        constrained["findings"][0]["verdict"], "ok",
        "{constrained:#}"
    );
    assert_eq!(
        constrained["findings"][1]["verdict"], "ok",
        "{constrained:#}"
    );
    assert!(constrained.get("manifest").is_none(), "{constrained:#}");
    // Whoever may do everything may also write as others.
    let plain = doctor(&one_context(cluster, User::Admin));
    let text = plain["findings"][0].to_string();
    assert!(
        text.contains("also to write") && text.contains("take `impersonate` away"),
        "{text}"
    );
}

/// The printed manifest is enough: applied for a user without rights, it makes the user one
/// that may act as callers and nothing else.
#[tokio::test]
async fn the_printed_manifest_is_what_is_missing() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let file = without_rights(cluster);
    let missing = doctor(&file);
    assert_eq!(missing["findings"][0]["verdict"], "fail", "{missing:#}");
    assert_eq!(missing["findings"][1]["verdict"], "fail", "{missing:#}");
    apply(cluster, &missing["manifest"]).await;
    let report = until(&file, "ok");
    assert_eq!(report["findings"][1]["verdict"], "ok", "{report:#}");
}

/// A kubeconfig of a user that has no rights at all.
fn without_rights(cluster: &Cluster) -> File {
    let issued = cluster
        .authority()
        .client("doctored", "idle", Validity::Current);
    let issued = issued.unwrap();
    kubeconfig(|file: Kubeconfig| {
        file.certificate_context("dev", cluster, &issued)
            .current("dev")
    })
}

/// Creates the roles and bindings of a manifest.
async fn apply(cluster: &Cluster, manifest: &Value) {
    let path = "/apis/rbac.authorization.k8s.io/v1";
    for object in objects(manifest) {
        let plural = match object["kind"].as_str().unwrap() {
            "ClusterRole" => "clusterroles",
            "ClusterRoleBinding" => "clusterrolebindings",
            other => panic!("{other}"),
        };
        let created = cluster
            .send("POST", &format!("{path}/{plural}"), &object)
            .await;
        created.unwrap();
    }
}

/// What doctor says as soon as its first finding is this one: the API server follows a change of
/// RBAC within moments.
fn until(file: &File, verdict: &str) -> Value {
    let mut report = doctor(file);
    for _ in 0..100 {
        if report["findings"][0]["verdict"] == verdict {
            break;
        }
        report = doctor(file);
    }
    assert_eq!(report["findings"][0]["verdict"], verdict, "{report:#}");
    report
}

/// Before Kubernetes 1.36 there is only plain impersonation.
#[tokio::test]
async fn an_older_cluster_is_given_what_it_knows() {
    let Some(bed) = testbed::shared() else { return };
    let options = Options {
        api_server_args: vec!["--emulated-version=kube=1.35".to_owned()],
        ..Options::default()
    };
    let (cluster, space) = (&bed.fresh("older", options), "older");
    let file = without_rights(cluster);
    let missing = doctor(&file);
    assert_eq!(missing["findings"][0]["verdict"], "fail", "{missing:#}");
    let manifest = missing["manifest"].as_str().unwrap();
    assert!(
        manifest.contains("[impersonate]") && !manifest.contains("impersonate-on"),
        "{manifest}"
    );
    apply(cluster, &missing["manifest"]).await;
    let report = until(&file, "note");
    let text = report["findings"][0].to_string();
    assert!(
        text.contains("plain impersonation") && text.contains("from Kubernetes 1.36 on"),
        "{text}"
    );
    // That is enough to read as a caller, and only as far as that one may.
    furnish(cluster, space).await;
    grant(cluster, space, "ann", "User", "ann").await;
    let tokens = TokenFile::new(&[&format!("ann:{ANN} user=ann")]);
    let (_server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(&tokens.path),
    );
    let ann = HttpSession::signed(&base, ANN).await;
    let pods = ann.call("pods_list", json!({"namespace": space})).await;
    assert!(pods.ok().text.contains("web"));
    let refused = ann.call("pods_list", json!({"namespace": "default"}));
    refused.await.refused("forbidden", &["ann"]);
}

/// With the credentials of the server nobody can write, whoever is named.
#[tokio::test]
async fn a_stolen_credential_only_reads() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "acting-admins"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "acting-admins"}],
    });
    let path = format!("/apis/{group}/v1/clusterrolebindings");
    cluster.send("POST", &path, &binding).await.unwrap();
    let thief = cluster.client(User::ActsAsCallers).await.unwrap();
    let send = async |method: &str, path: &str, body: Value, groups: &[&str]| {
        let mut request = http::Request::builder().method(method).uri(path);
        request = request.header("content-type", "application/json");
        request = request.header("impersonate-user", "root");
        for group in groups {
            request = request.header("impersonate-group", *group);
        }
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        thief.request_text(request.body(body).unwrap()).await
    };
    let pods = "/api/v1/namespaces/default/pods";
    let admins = &["acting-admins"][..];
    let mut read = send("GET", pods, Value::Null, admins).await;
    for _ in 0..100 {
        if read.is_ok() {
            break;
        }
        read = send("GET", pods, Value::Null, admins).await;
    }
    read.unwrap();
    let map = json!({"metadata": {"name": "stolen"}});
    let written = send("POST", "/api/v1/namespaces/default/configmaps", map, admins).await;
    let error = written.unwrap_err().to_string();
    assert!(error.contains("impersonate"), "{error}");
    let masters = send("GET", pods, Value::Null, &["system:masters"]).await;
    assert!(masters.is_err());
}

/// A server that may not act as its callers says what to do.
#[tokio::test]
async fn a_server_that_may_not_impersonate_says_so() {
    let Some(bed) = testbed::shared() else { return };
    let acting =
        super::Acting::start_as(bed.dev(), User::Reader, &[&format!("ann:{ANN} user=ann")]);
    let ann = HttpSession::signed(&acting.base, ANN).await;
    let answer = ann.call("pods_list", json!({"namespace": "default"})).await;
    answer.refused("forbidden", &["reader", "kubecrier doctor"]);
    acting.wait_for("tool failed");
}
