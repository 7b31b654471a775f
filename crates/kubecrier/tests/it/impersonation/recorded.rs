//! The audit log of the server: who asked for what, and whether it was allowed.

use std::path::Path;

use serde_json::{Value, json};
use testbed::User;

use super::{ANN, BOB, TokenFile, furnish, grant};
use crate::harness::{Http, HttpSession, TIMEOUT, command, initialize, one_context};

/// The record that is being looked for, as soon as it is there.
async fn record(path: &Path, is_it: impl Fn(&Value) -> bool) -> Value {
    let found = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap();
            // The last line may be half written.
            let mut records = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            if let Some(record) = records.find(|record| is_it(record)) {
                return record;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(TIMEOUT, found).await;
    found.unwrap_or_else(|_| panic!("{}", std::fs::read_to_string(path).unwrap()))
}

#[tokio::test]
async fn each_call_and_subscription_is_on_record_with_whether_it_was_allowed() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, own, other) = (bed.dev(), "recorded-own", "recorded-other");
    for space in [own, other] {
        furnish(cluster, space).await;
    }
    grant(cluster, own, "recorded", "User", "recorded").await;
    let file = one_context(cluster, User::Admin);
    let tokens = TokenFile::new(&[&format!("ann:{ANN} user=recorded"), &format!("bare:{BOB}")]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(&tokens.path)
            .arg("--audit-log")
            .arg(&path)
            .args(["--admin-address", "127.0.0.1:0"]),
    );
    let ann = HttpSession::signed(&base, ANN).await;
    let mut expected = Vec::new();
    for (space, outcome, reason) in [
        (own, "allowed", Value::Null),
        (other, "refused", json!("forbidden")),
    ] {
        let here = json!({"namespace": space});
        ann.call("pods_list", here.clone()).await;
        ann.call("events_subscribe", here).await;
        for tool in ["pods_list", "events_subscribe"] {
            let about = json!({"method": "tools/call", "tool": tool, "namespaces": [space]});
            expected.push((about, outcome, reason.clone()));
        }
        let uri = format!("k8s://dev/{space}/graph");
        for method in ["resources/read", "resources/subscribe"] {
            ann.rpc(method, json!({"uri": uri})).await;
            let about = json!({"method": method, "resources": [uri]});
            expected.push((about, outcome, reason.clone()));
        }
        let modern = ann.modern("resources/read", Some(&uri), json!({"uri": uri}));
        let status = modern.await.status();
        assert!(status.is_success() || status.is_client_error(), "{status}");
    }
    // What does not exist was not refused.
    let uri = format!("k8s://dev/{own}/podlogs/no-such-pod/app");
    ann.rpc("resources/read", json!({"uri": uri})).await;
    let about = json!({"method": "resources/read", "resources": [uri]});
    expected.push((about, "failed", json!("not_found")));
    let prompt = json!({"name": "triage_fault", "arguments": {"faultId": "i-none"}});
    ann.rpc("prompts/get", prompt).await;
    let about = json!({"method": "prompts/get", "prompt": "triage_fault", "name": "i-none"});
    expected.push((about, "failed", json!("not_found")));
    for (about, outcome, reason) in expected {
        let is_it = |record: &Value| {
            let about = about.as_object().unwrap();
            about.iter().all(|(key, value)| record[key] == *value)
        };
        let record = record(&path, is_it).await;
        assert_eq!(record["outcome"], outcome, "{record}");
        // Which rights are missing may stand behind it.
        match (&record["reason"], &reason) {
            (Value::String(told), Value::String(reason)) => {
                let is_refused = outcome == "refused" && told == "refused";
                assert!(told == reason || is_refused, "{record}");
            }
            (told, reason) => assert_eq!(told, reason, "{record}"),
        }
        assert_eq!(record["caller"], "ann", "{record}");
        assert_eq!(record["kubernetesUser"], "recorded", "{record}");
    }
    // Who is nobody in clusters is counted, and is on record.
    let request = reqwest::Client::new().post(format!("{base}/mcp"));
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.bearer_auth(BOB).json(&initialize("2025-11-25"));
    assert_eq!(request.send().await.unwrap().status(), 403);
    let bare = record(&path, |record| record["caller"] == "bare").await;
    assert_eq!(bare["outcome"], "refused", "{bare}");
    assert_eq!(bare["reason"], "no_user", "{bare}");
    assert_eq!(bare["status"], 403, "{bare}");
    let admin = crate::admin::admin_address(&server);
    let metrics = reqwest::get(format!("http://{admin}/metrics"))
        .await
        .unwrap();
    let metrics = metrics.text().await.unwrap();
    let line = "kubecrier_requests_refused_total{reason=\"no_user\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}
