//! `--history`: what is kept beyond the cluster, across restarts, and under which settings it is
//! shown.

mod callers;
mod cursors;
mod disk;
mod folders;
mod incidents;

use std::{path::Path, time::Duration};

use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use testbed::{Cluster, User, event, namespace};

use crate::harness::{Http, Watch, command, one_context};

async fn space(cluster: &Cluster, name: &str) {
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
}

async fn happen(cluster: &Cluster, space: &str, object: &str, reason: &str) -> Event {
    let new_event = event(space, object, "Warning", reason, "it went wrong");
    cluster.create(&new_event).await.unwrap()
}

/// Removes the events of a namespace from the cluster, as it does itself after an hour.
async fn expire(cluster: &Cluster, space: &str) {
    let client = cluster.client(User::Admin).await.unwrap();
    let api: Api<Event> = Api::namespaced(client, space);
    for event in api.list(&ListParams::default()).await.unwrap() {
        let name = event.metadata.name.unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

async fn start(kubeconfig: &Path, folder: &Path, more: &[&str]) -> Http {
    let history = ["--history", folder.to_str().unwrap()];
    let http = Http::start(kubeconfig, &[&history[..], more].concat()).await;
    http.server
        .wait_for("the history has the events of a context");
    http
}

/// The reasons of the events of a namespace, the newest first.
async fn listed(http: &Http, space: &str, mut more: Value) -> Vec<String> {
    more["namespace"] = json!(space);
    let page = http.call("events_list", more).await.ok();
    let rows = page.data["events"].as_array().unwrap().iter();
    rows.map(|row| row["reason"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until the cluster and the history have that many events of a namespace.
async fn until_kept(http: &Http, space: &str, count: usize) -> Vec<String> {
    let kept = async {
        loop {
            let kept = listed(http, space, json!({"since": "2d"})).await;
            if kept.len() >= count {
                return kept;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let kept = tokio::time::timeout(Duration::from_secs(30), kept);
    kept.await.expect("the events are kept")
}

/// Nobody subscribes: the server watches for its history.
#[tokio::test]
async fn events_outlive_the_cluster_and_the_process() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-events");
    space(cluster, name).await;
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    happen(cluster, name, "Pod/web-0", "BeforeTheStart").await;
    let http = start(&file.path, &folder, &[]).await;
    happen(cluster, name, "Pod/web-0", "Early").await;
    happen(cluster, name, "Pod/web-1", "Later").await;
    expire(cluster, name).await;
    assert_eq!(
        listed(&http, name, json!({})).await,
        [""; 0],
        "the cluster has none"
    );
    // So what is listed is on the disk.
    let mut kept = until_kept(&http, name, 3).await;
    kept.sort();
    assert_eq!(kept, ["BeforeTheStart", "Early", "Later"]);
    let filters = [
        (json!({"since": "2d", "for": "pod/web-1"}), 1),
        (json!({"since": "2d", "reason": "Ear"}), 1),
        (json!({"since": "2d", "types": ["Normal"]}), 0),
        (json!({"since": "2d", "limit": 2}), 2),
        (
            json!({"since": "2d", "fieldSelector": "involvedObject.name=web-0"}),
            2,
        ),
    ];
    for (filter, count) in filters {
        let found = listed(&http, name, filter.clone()).await;
        assert_eq!(found.len(), count, "{filter}: {found:?}");
    }
    let url = format!("{}/mcp", http.base);
    let mut watch = Watch::start(command().args([
        "watch", "--url", &url, "-n", name, "--since", "2d", "-o", "json",
    ]));
    let mut shown: Vec<_> = (0..3)
        .map(|_| watch.json()["event"]["reason"].to_string())
        .collect();
    shown.sort();
    assert_eq!(shown, ["\"BeforeTheStart\"", "\"Early\"", "\"Later\""]);
    let log = watch.server.log();
    assert!(log.contains("the history begins"), "{log}");
    drop(watch);
    // Killed, not stopped.
    drop(http);
    happen(cluster, name, "Pod/web-2", "WhileAway").await;
    let http = start(&file.path, &folder, &[]).await;
    let mut kept = until_kept(&http, name, 4).await;
    kept.sort();
    assert_eq!(
        kept,
        ["BeforeTheStart", "Early", "Later", "WhileAway"],
        "each once"
    );
    drop(http);
    let without = Http::start(&file.path, &[]).await;
    let left = listed(&without, name, json!({"since": "2d"})).await;
    assert_eq!(left, ["WhileAway"], "without a history nothing changes");
    let metrics = without.get("/metrics").await.text().await.unwrap();
    assert!(!metrics.contains("kubecrier_history_up{"), "{metrics}");
}

/// What was kept under other settings may be more than those of now allow.
#[tokio::test]
async fn the_settings_of_now_decide_what_is_shown() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-settings");
    space(cluster, name).await;
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let http = start(&file.path, &folder, &[]).await;
    let secret = event(
        name,
        "Pod/web-0",
        "Warning",
        "Told",
        "the word is xyzzy-plugh",
    );
    cluster.create(&secret).await.unwrap();
    happen(cluster, name, "ConfigMap/settings", "Other").await;
    expire(cluster, name).await;
    assert_eq!(until_kept(&http, name, 2).await.len(), 2);
    drop(http);
    let http = start(&file.path, &folder, &["--denied-kinds", "pods"]).await;
    assert_eq!(listed(&http, name, json!({"since": "2d"})).await, ["Other"]);
    drop(http);
    let http = start(&file.path, &folder, &["--redact", "xyzzy-[a-z]+"]).await;
    let page = http.call("events_list", json!({"namespace": name, "since": "2d"}));
    let page = page.await.ok();
    assert!(page.text.contains("the word is"), "{}", page.text);
    assert!(!page.text.contains("plugh") && !page.data.to_string().contains("plugh"));
    drop(http);
    let http = start(&file.path, &folder, &["--allowed-namespaces", "default"]).await;
    let all = http
        .call("events_list", json!({"since": "2d", "limit": 500}))
        .await
        .ok();
    assert!(
        !all.text.contains(name) && !all.data.to_string().contains(name),
        "{}",
        all.text
    );
    let refused = http
        .call("events_list", json!({"since": "2d", "namespace": name}))
        .await;
    assert!(refused.is_error, "{}", refused.text);
    drop(http);
    let http = start(&file.path, &folder, &[]).await;
    assert_eq!(
        listed(&http, name, json!({"since": "2d"})).await.len(),
        2,
        "nothing is lost"
    );
}

/// A cluster that is away has a history.
#[tokio::test]
async fn a_cluster_that_is_away_is_searched_all_the_same() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("kept-away", testbed::Options::default());
    let file = one_context(&cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    let http = start(&file.path, &held.path().join("history"), &[]).await;
    happen(&cluster, "default", "Pod/web-0", "Seen").await;
    // What is not in the cluster any more and is listed all the same is on the disk.
    expire(&cluster, "default").await;
    until_kept(&http, "default", 1).await;
    cluster.kill_api().unwrap();
    let page = http.call(
        "events_list",
        json!({"namespace": "default", "since": "1d"}),
    );
    let page = page.await.ok();
    assert!(
        page.text.contains("Seen") && page.text.contains("only what was kept"),
        "{}",
        page.text
    );
    let now = http
        .call("events_list", json!({"namespace": "default"}))
        .await;
    assert!(now.is_error, "{}", now.text);
    cluster.start_api().await.unwrap();
}
