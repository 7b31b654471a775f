//! The audit log of the server: who asked for what, and whether it was allowed.

use std::path::Path;

use serde_json::{Value, json};
use testbed::User;

use super::{ANN, BOB, TokenFile, furnish, grant};
use crate::{
    harness::{Http, HttpSession, Stream, TIMEOUT, command, initialize, one_context},
    waits::modern::Modern,
};

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
    // A wait that is a task is refused when it runs.
    let modern = Modern::new(&base, "test", "1").with_token(ANN.to_owned());
    let wait = json!({"namespace": other});
    let task = modern.with_tasks().wait(wait).await["result"].clone();
    assert_eq!(task["resultType"], "task", "{task}");
    let about = json!({"method": "tools/call", "tool": "faults_wait"});
    expected.push((about, "refused", json!("forbidden")));
    // A stream is on record with all that it is about, when it begins.
    let uris: Vec<_> = (0..20)
        .map(|n| format!("k8s://nowhere/a-{n}/graph"))
        .collect();
    let all = [&uris[..], &[format!("k8s://dev/{own}/graph")]].concat();
    let wanted = json!({"notifications": {"resourceSubscriptions": all}});
    let listen = ann.modern("subscriptions/listen", None, wanted).await;
    let mut listen = Stream::new(listen);
    listen.next().await;
    let about = json!({"method": "subscriptions/listen", "resources": all,
                       "notAccepted": uris, "status": 200});
    expected.push((about, "allowed", Value::Null));
    // What there is not was not allowed.
    ann.rpc("tools/list", json!({"cursor": "none"})).await;
    let about = json!({"method": "tools/list"});
    expected.push((about, "failed", json!("invalid")));
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

/// Whatever a client writes that names nothing may be a secret.
#[tokio::test]
async fn a_record_has_no_text_of_a_client_that_names_nothing() {
    const SECRET: &str = "hunter2-4711";
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "recorded-words");
    furnish(cluster, space).await;
    grant(cluster, space, "words", "User", "words").await;
    let file = one_context(cluster, User::Admin);
    let tokens = TokenFile::new(&[&format!("ann:{ANN} user=words")]);
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(&tokens.path)
            .args(["--audit-log", "stderr"]),
    );
    let ann = HttpSession::signed(&base, ANN).await;
    let long = SECRET.repeat(100_000);
    for name in [SECRET, &long, "pods_log", "pods_list"] {
        let arguments = json!({"namespace": space, "name": "web", "grep": SECRET, "x": SECRET});
        let call = json!({"name": name, "arguments": arguments});
        let request =
            |method: &str| json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": call});
        for method in ["tools/call", "prompts/get", SECRET] {
            let answer = ann.post(&request(method)).await;
            assert_eq!(answer.status(), 200, "{method}");
            // Whoever does not wait for the answer has cancelled.
            let _answer = answer.text().await.unwrap();
        }
    }
    ann.call("events_list", json!({"namespace": space}))
        .await
        .ok();
    // The log of the server goes on between the records.
    let records = async {
        loop {
            let log = server.log();
            let lines = log
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            let records: Vec<Value> = lines.collect();
            if records.iter().any(|record| record["tool"] == "events_list") {
                return records;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let records = tokio::time::timeout(TIMEOUT, records).await.unwrap();
    assert!(!server.log().contains(SECRET), "{}", server.log());
    let count = |method: &str, outcome: &str| {
        let is_it = |record: &&Value| record["method"] == method && record["outcome"] == outcome;
        records.iter().filter(is_it).count()
    };
    assert_eq!(count("unknown", "failed"), 4, "{records:?}");
    assert_eq!(count("prompts/get", "failed"), 4, "{records:?}");
    assert_eq!(count("tools/call", "refused"), 2, "{records:?}");
}
