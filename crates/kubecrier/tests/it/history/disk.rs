//! A disk that fails under a running server, and has room again.

use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use testbed::User;

use super::{happen, listed, space};
use crate::harness::{Http, Subscriber, TIMEOUT, one_context};

/// From here on no byte of any file of a process can be written; `None` takes the limit away.
fn limit_files(http: &Http, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(http.server.id()).unwrap());
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

async fn until(http: &Http, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let waiting = async {
        loop {
            last = http.get("/stats").await.json().await.unwrap();
            if holds(&last["history"]) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let reached = tokio::time::timeout(TIMEOUT, waiting).await;
    assert!(reached.is_ok(), "{what}: {last}\n{}", http.server.log());
    last
}

#[tokio::test]
async fn a_disk_that_fails_is_said_and_takes_what_waited_when_it_has_room() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "kept-disk");
    space(cluster, name).await;
    let file = one_context(cluster, User::Reader);
    let held = tempfile::tempdir().unwrap();
    // The signal that comes with the limit ends a process that does not ignore it; a disk that is
    // full sends none.
    let mut command = Command::new("/bin/sh");
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("NO_COLOR", "1")
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_kubecrier"))
        .arg("--kubeconfig")
        .arg(&file.path)
        .args(["--allowed-namespaces", name, "--history"])
        .arg(held.path().join("history"));
    let http = Http::start_command(&mut command, "2025-11-25").await;
    http.server
        .wait_for("the history has the events of a context");
    happen(cluster, name, "Pod/web-0", "BeforeItFails").await;
    until(&http, "it is kept", |history| {
        history["keptByStream"]["events"] == 1
    })
    .await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({"namespace": name})).await;
    limit_files(&http, Some(4096));
    happen(cluster, name, "Pod/web-0", "WhileItFails").await;
    let failing = until(&http, "it fails", |history| !history["error"].is_null()).await;
    let error = failing["history"]["error"].as_str().unwrap();
    assert!(error.contains("cannot be written"), "{error}");
    let ready = http.get("/readyz").await;
    assert_eq!(ready.status(), 200, "clients lose nothing");
    let ready = ready.text().await.unwrap();
    assert!(ready.contains("the history is not being kept"), "{ready}");
    let metrics = http.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("kubecrier_history_up{} 0"), "{metrics}");
    // Pushes go on, also in a session that begins now.
    let pushed = client.event(&id).await;
    assert_eq!(pushed["event"]["reason"], "WhileItFails");
    let begun = http.another("2025-11-25").await;
    let mut late = Subscriber::new(&begun).await;
    let subscribed = begun.call("events_subscribe", json!({"namespace": name}));
    let subscribed = subscribed.await.ok();
    assert!(
        subscribed.text.contains("the subscription ends with it"),
        "{}",
        subscribed.text
    );
    let late_id = subscribed.data["subscriptionId"].as_str().unwrap();
    happen(cluster, name, "Pod/web-0", "AlsoWhileItFails").await;
    for (client, id) in [(&mut client, id.as_str()), (&mut late, late_id)] {
        let pushed = client.event(id).await;
        assert_eq!(pushed["event"]["reason"], "AlsoWhileItFails");
    }
    // Lists go on from the cluster, and say what is missing.
    let now = http.call("events_list", json!({"namespace": name, "since": "2d"}));
    let now = now.await.ok();
    assert!(now.text.contains("WhileItFails"), "{}", now.text);
    assert!(now.text.contains("the history is not open"), "{}", now.text);
    limit_files(&http, None);
    until(&http, "it is kept again", |history| {
        history["error"].is_null() && history["keptByStream"]["events"] == 3
    })
    .await;
    assert_eq!(http.get("/readyz").await.text().await.unwrap(), "ok\n");
    let metrics = http.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("kubecrier_history_up{} 1"), "{metrics}");
    assert!(
        !metrics.contains("kubecrier_history_failures_total{} 0"),
        "{metrics}"
    );
    super::expire(cluster, name).await;
    let mut kept = listed(&http, name, json!({"since": "2d"})).await;
    kept.sort();
    let all = ["AlsoWhileItFails", "BeforeItFails", "WhileItFails"];
    assert_eq!(kept, all, "nothing is lost");
}
