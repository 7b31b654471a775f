//! Incidents and the evidence of faults, across restarts and under other settings.

use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{LogScript, User, event, pod};

use super::{expire, space, start};
use crate::{
    harness::{Http, Subscriber, TIMEOUT, Watch, command, one_context},
    incidents::{break_workload, create_workload, listed as open_now, mend},
};

/// Starts a server that keeps the incidents of a context.
async fn start_with_incidents(kubeconfig: &Path, folder: &Path, more: &[&str]) -> Http {
    let http = start(kubeconfig, folder, more).await;
    until(async || {
        let log = http.server.log();
        log.contains("the history has the incidents of a context")
    })
    .await;
    http
}

async fn until(holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting)
        .await
        .expect("it holds");
}

/// Waits until so many records of a stream are on the disk.
async fn until_kept(http: &Http, stream: &str, count: u64) {
    until(async || {
        let stats: Value = http.get("/stats").await.json().await.unwrap();
        stats["history"]["keptByStream"][stream].as_u64().unwrap() >= count
    })
    .await;
}

/// What was wrong in a namespace, by the name of the workload.
async fn past(http: &Http, space: &str) -> Vec<(String, Value)> {
    let arguments = json!({"namespace": space, "since": "2d"});
    let found = http.call("faults_list", arguments).await.ok();
    let rows = found.data["incidents"].as_array().unwrap().iter();
    rows.map(|row| {
        let object = row["object"].as_str().unwrap();
        (object.rsplit('/').next().unwrap().to_owned(), row.clone())
    })
    .collect()
}

/// Nobody asks for incidents: the server follows them for its history.
#[tokio::test]
async fn incidents_outlive_the_process() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-incidents");
    space(cluster, name).await;
    for workload in ["web", "cart"] {
        create_workload(cluster, name, workload).await;
        let log = LogScript::lines(["starting", "panic: the disk is full"]);
        let container = format!("{name}/{workload}-1-a/app");
        cluster.node().set_log(&container, log);
    }
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    // Only its own incidents, so that they can be counted.
    let confined = ["--allowed-namespaces", name];
    let http = start_with_incidents(&file.path, &folder, &confined).await;
    assert!(past(&http, name).await.is_empty());
    let here = json!({"namespace": name});
    break_workload(cluster, name, "web").await;
    until_kept(&http, "incidents", 1).await;
    mend(cluster, name, "web").await;
    until_kept(&http, "incidents", 2).await;
    break_workload(cluster, name, "cart").await;
    until_kept(&http, "incidents", 3).await;
    until_kept(&http, "faults", 2).await;
    open_now(&http, &here, 1).await;
    let now = past(&http, name).await;
    let names: Vec<_> = now.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["cart", "web"], "what is open comes first");
    assert_eq!(
        (&now[0].1["status"], &now[1].1["status"]),
        (&json!("open"), &json!("resolved"))
    );
    let web = now[1].1["id"].as_str().unwrap().to_owned();
    // Killed, not stopped; what is open ends while no server runs.
    drop(http);
    mend(cluster, name, "cart").await;
    let http = start_with_incidents(&file.path, &folder, &confined).await;
    until_kept(&http, "incidents", 1).await;
    let over = json!({"namespace": name, "includeResolved": true});
    let (_, forgotten) = open_now(&http, &over, 0).await;
    assert_eq!(forgotten["resolved"], json!([]), "memory has nothing");
    let kept = past(&http, name).await;
    let [(cart, gone), (_, resolved)] = &kept[..] else {
        panic!("two incidents: {kept:?}");
    };
    assert_eq!(
        (cart.as_str(), &gone["resolvedAtOrBefore"]),
        ("cart", &json!(true))
    );
    assert_eq!(resolved["id"], *web);
    assert!(
        resolved["durationSeconds"].as_i64().unwrap() >= 0,
        "{resolved}"
    );
    let milliseconds = |row: &Value| {
        let at: Timestamp = row["resolvedAt"].as_str().unwrap().parse().unwrap();
        at.as_millisecond()
    };
    assert_eq!(milliseconds(resolved), milliseconds(&now[1].1), "as it was");
    let text = http.call("faults_list", json!({"namespace": name, "since": "2d"}));
    let text = text.await.ok().text;
    assert!(
        text.contains("or before]") && text.contains("the history begins"),
        "{text}"
    );
    let severe = json!({"namespace": name, "since": "2d", "severity": "critical", "limit": 1});
    let severe = http.call("faults_list", severe).await.ok().data;
    for row in severe["incidents"].as_array().unwrap() {
        assert_eq!(row["severity"], "critical");
    }
    let got = http.call("faults_get", json!({"faultId": web, "namespace": name}));
    let got = got.await.ok();
    assert_eq!(got.data["status"], "resolved");
    assert!(
        got.text.contains("resolved at ") && got.text.contains("panic: the disk is full"),
        "with the log of then: {}",
        got.text
    );
    let url = format!("{}/mcp", http.base);
    let mut watch = Watch::start(command().args([
        "watch",
        "--url",
        &url,
        "-n",
        name,
        "--incidents",
        "--since",
        "2d",
        "-o",
        "json",
    ]));
    let shown = [watch.json(), watch.json()];
    let ids: Vec<_> = shown.iter().map(|one| &one["incident"]["id"]).collect();
    assert_eq!(ids, [&json!(web), &gone["id"]], "the oldest first");
    assert!(shown.iter().all(|one| one["history"] == true));
}

/// What was kept under other settings may be more than those of now allow.
#[tokio::test]
async fn the_settings_of_now_decide_which_incidents_are_shown() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-incident-settings");
    space(cluster, name).await;
    create_workload(cluster, name, "web").await;
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    // Only its own incidents, so that they can be counted.
    let confined = ["--allowed-namespaces", name];
    let http = start_with_incidents(&file.path, &folder, &confined).await;
    break_workload(cluster, name, "web").await;
    until_kept(&http, "incidents", 1).await;
    mend(cluster, name, "web").await;
    until_kept(&http, "incidents", 2).await;
    // Stopped, so that everything is on the disk.
    let Http { mut server, .. } = http;
    server.signal(rustix::process::Signal::TERM);
    assert!(server.exit().await.success());
    let words = async |more: &[&str]| {
        let http = start_with_incidents(&file.path, &folder, more).await;
        let all = http.call("faults_list", json!({"since": "2d", "limit": 200}));
        let all = all.await.ok();
        format!("{}\n{}", all.text, all.data)
    };
    let all = words(&[]).await;
    assert!(all.contains(&format!("{name}/deployment/web")), "{all}");
    assert!(all.contains("lowercase"), "{all}");
    let denied = words(&["--denied-kinds", "deployments"]).await;
    assert!(
        !denied.contains(&format!("{name}/deployment/web")),
        "{denied}"
    );
    let redacted = words(&["--redact", "must be lower[a-z]+"]).await;
    assert!(
        redacted.contains(&format!("{name}/deployment/web")),
        "{redacted}"
    );
    assert!(!redacted.contains("must be lowercase"), "{redacted}");
    let elsewhere = words(&["--allowed-namespaces", "default"]).await;
    assert!(!elsewhere.contains(name), "{elsewhere}");
    let without = Http::start(&file.path, &[]).await;
    let told = without.call("faults_list", json!({"namespace": name, "since": "2d"}));
    let told = told.await.ok();
    assert!(
        told.text.starts_with("Nothing was wrong") && told.text.contains("without --history"),
        "{}",
        told.text
    );
    let wrong = without.call("faults_list", json!({"since": "yesterday"}));
    assert!(wrong.await.is_error);
}

/// The pod and its events are gone, and the server was killed.
#[tokio::test]
async fn the_evidence_of_a_fault_outlives_its_pod_and_the_process() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-evidence");
    space(cluster, name).await;
    cluster.create(&pod(name, "web-0", &["app"])).await.unwrap();
    let lines = ["starting", "password=hunter2hunter2", "panic: no config"];
    let container = format!("{name}/web-0/app");
    cluster.node().set_log(&container, LogScript::lines(lines));
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let confined = ["--allowed-namespaces", name];
    let http = start(&file.path, &folder, &confined).await;
    let mut client = Subscriber::at(&http, Some("warning")).await;
    let arguments = json!({"mode": "faults", "namespace": name});
    http.call("events_subscribe", arguments).await.ok();
    let warning = event(
        name,
        "Pod/web-0",
        "Warning",
        "BackOff",
        "back-off restarting",
    );
    cluster.create(&warning).await.unwrap();
    let pushed = client.message().await;
    let id = pushed["data"]["faultId"].as_str().unwrap().to_owned();
    until_kept(&http, "faults", 1).await;
    drop(http);
    expire(cluster, name).await;
    let path = format!("/api/v1/namespaces/{name}/pods/web-0?gracePeriodSeconds=0");
    cluster.send("DELETE", &path, &json!({})).await.unwrap();
    let http = start(&file.path, &folder, &confined).await;
    let got = http.call("faults_get", json!({"faultId": id})).await.ok();
    assert_eq!(
        got.data["logs"], pushed["data"]["logs"],
        "as it was captured"
    );
    assert!(got.text.contains("panic: no config"), "{}", got.text);
    assert!(!got.text.contains("hunter2hunter2"), "{}", got.text);
    assert_eq!(got.data["event"]["reason"], "BackOff");
    let url = format!("{}/mcp", http.base);
    let mut watch = Watch::start(command().args([
        "watch", "--url", &url, "-n", name, "--faults", "--since", "2d", "-o", "json",
    ]));
    let shown = watch.json();
    assert_eq!(
        (&shown["event"]["reason"], &shown["history"]),
        (&json!("BackOff"), &json!(true)),
        "{shown}"
    );
    drop(watch);
    let elsewhere = json!({"faultId": id, "namespace": "default"});
    assert!(http.call("faults_get", elsewhere).await.is_error);
    drop(http);
    // Logs that are switched off now are not shown of then.
    let silent = ["--allowed-namespaces", name, "--disabled-tools", "pods_log"];
    let http = start(&file.path, &folder, &silent).await;
    let got = http.call("faults_get", json!({"faultId": id})).await.ok();
    assert!(!got.text.contains("panic: no config"), "{}", got.text);
    drop(http);
    let without = Http::start(&file.path, &[]).await;
    assert!(
        without
            .call("faults_get", json!({"faultId": id}))
            .await
            .is_error
    );
}
