//! `kubecrier watch` against a server with a cluster.

use std::{collections::BTreeSet, fs, process::Stdio};

use serde_json::{Value, json};
use testbed::{User, event, namespace, pod};
use tokio::time::{Duration, Instant};

use crate::harness::{Demo, Server, Watch, command, one_context};

#[tokio::test]
async fn a_watch_of_the_kubeconfig_prints_old_and_new_events_of_its_namespace() {
    let Some(bed) = testbed::shared() else { return };
    for space in ["watch-me", "watch-not"] {
        bed.dev()
            .create_cluster_wide(&namespace(space))
            .await
            .unwrap();
    }
    let warn = async |space: &str, reason: &str| {
        let new_event = event(
            space,
            "ConfigMap/settings",
            "Warning",
            reason,
            "it went wrong",
        );
        bed.dev().create(&new_event).await.unwrap();
    };
    warn("watch-me", "Old").await;
    let file = one_context(bed.dev(), User::Reader);
    let mut watch = Watch::start(
        command()
            .arg("watch")
            .arg("--kubeconfig")
            .arg(&file.path)
            .args([
                "-n", "watch-me", "--since", "10m", "--types", "warning", "-o", "json",
            ]),
    );
    let old = watch.json();
    assert_eq!(old["event"]["reason"], "Old");
    assert_eq!(old["history"], true);
    warn("watch-not", "Elsewhere").await;
    warn("watch-me", "New").await;
    let new = watch.json();
    assert_eq!(
        new["event"]["reason"], "New",
        "and nothing from elsewhere: {new}"
    );
    assert_eq!(keys(&old, &["history"]), keys(&new, &[]), "{old} {new}");
    assert_eq!(new["cluster"], "dev");
    assert_eq!(new["event"]["namespace"], "watch-me");
}

/// Every path to a member, but for those of labels, which are data, and those left out.
fn keys(data: &Value, left_out: &[&str]) -> BTreeSet<String> {
    let Value::Object(members) = data else {
        return BTreeSet::new();
    };
    let members = members
        .iter()
        .filter(|(key, _)| !left_out.contains(&key.as_str()));
    let paths = members.flat_map(|(key, value)| {
        let below = keys(value, left_out)
            .into_iter()
            .filter(|_| key != "labels");
        let below = below.map(|path| format!("{key}.{path}"));
        below.chain([key.clone()]).collect::<Vec<_>>()
    });
    paths.collect()
}

#[tokio::test]
async fn a_token_is_needed_where_one_is_asked_for() {
    let Some(bed) = testbed::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, "ops:0123456789abcdef\n").unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let server = Server::start(
        command()
            .args(["--port", "0", "--kubeconfig"])
            .arg(&file.path)
            .arg("--auth-token-file")
            .arg(&tokens)
            .stdin(Stdio::null()),
    );
    let line = server.wait_for("serving MCP over HTTP");
    let url = line.split("url=").nth(1).unwrap().trim().to_owned();
    let refused = command().args(["watch", "--url", &url]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(stderr.contains("--token-file"), "{stderr}");
    let watch = Watch::start(
        command()
            .args(["watch", "-A", "--url", &url])
            .env("KUBECRIER_TOKEN", "0123456789abcdef"),
    );
    assert!(
        watch.note.contains("all namespaces of context dev"),
        "{}",
        watch.note
    );
}

#[test]
fn a_restarted_server_is_watched_again_and_that_is_printed() {
    let first = Demo::start("0", "1");
    let mut watch = Watch::start(command().args(["watch", "-A", "--url", &first.url]));
    let port = first.port().to_owned();
    drop(first);
    watch.server.wait_for("trying again");
    let _second = Demo::start(&port, "1");
    watch.server.wait_for("in a new session");
    watch.server.wait_for("watching events in all namespaces");
    let line = watch.line();
    assert!(line.contains(" shop "), "{line}");
}

#[tokio::test]
async fn a_fault_starts_a_program_with_its_json_on_stdin() {
    let demo = Demo::start("0", "1");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fault");
    // It appears in one piece.
    let script = format!("cat > '{0}.part' && mv '{0}.part' '{0}'", file.display());
    let mut watch = Watch::start(
        command()
            .args(["watch", "-A", "--url", &demo.url])
            .args(["--exec", "sh", "-c", &script])
            .env("PATH", std::env::var_os("PATH").unwrap()),
    );
    let mut lines = vec![watch.line()];
    while !lines.last().unwrap().contains('└') {
        lines.push(watch.line());
    }
    assert!(
        lines[0].contains(" FAULT ") && lines[0].contains(" BackOff "),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.contains("panic")), "{lines:?}");
    let mut tries = 0;
    while !file.exists() {
        tries += 1;
        assert!(tries < 6000, "no program ran: {}", watch.server.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let fault: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(fault["faultId"].is_string(), "{fault}");
    assert_eq!(fault["event"]["reason"], "BackOff");
    assert!(fault["logs"][0]["sample"].is_string(), "{fault}");
}

/// The one that stays ill has its fault first, so that it would be reported first.
#[tokio::test]
async fn a_pod_that_is_ready_again_has_healed_and_the_other_has_not() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "watch-healed");
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let status = |ready: bool| {
        let state = if ready {
            json!({"running": {}})
        } else {
            json!({"waiting": {"reason": "CrashLoopBackOff"}})
        };
        json!({"phase": "Running", "containerStatuses": [{"name": "app", "image": "i",
            "imageID": "", "ready": ready, "restartCount": 1, "state": state}]})
    };
    let file = one_context(cluster, User::Reader);
    let mut watch = Watch::start(
        command()
            .arg("watch")
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["-n", space, "--faults"]),
    );
    for name in ["ill", "well"] {
        cluster.create(&pod(space, name, &["app"])).await.unwrap();
        cluster
            .set_pod_status(space, name, status(false))
            .await
            .unwrap();
        let about = format!("Pod/{name}");
        let warning = event(space, &about, "Warning", "BackOff", "back-off");
        cluster.create(&warning).await.unwrap();
        while !watch
            .line()
            .contains(&format!(" FAULT   BackOff          {space} pod/{name} "))
        {}
    }
    cluster
        .set_pod_status(space, "well", status(true))
        .await
        .unwrap();
    let healed = loop {
        let line = watch.line();
        if line.contains(" healed ") || line.contains(" gone ") {
            break line;
        }
    };
    assert!(
        healed.contains("pod/well  ready again, after the fault of"),
        "{healed}"
    );
}

#[test]
fn a_missing_kubeconfig_is_reported_once() {
    let done = command().arg("watch").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let stderr = String::from_utf8(done.stderr).unwrap();
    let lines: Vec<_> = stderr.lines().collect();
    assert!(
        matches!(lines[..], [error, hint] if error.starts_with("error: cannot reach any cluster")
            && hint.starts_with("hint: ")),
        "{stderr}"
    );
}

#[tokio::test]
async fn forty_contexts_of_which_half_are_dead_are_watched_at_once() {
    let Some(bed) = testbed::shared() else { return };
    let space = "watch-forty";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let (file, names) = crate::doctor::half_dead(bed);
    let mut command = command();
    command.arg("watch").arg("--kubeconfig").arg(&file.path);
    command.args(["-n", space]);
    for name in &names {
        command.args(["--context", name]);
    }
    let began = Instant::now();
    let mut watch = Watch::start(&mut command);
    for _ in 1..20 {
        watch.server.wait_for("-- watching");
    }
    for _ in 0..20 {
        watch.server.wait_for("-- not watching");
    }
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(20),
        "one after the other takes a minute: {took:?}"
    );
    let new_event = event(space, "ConfigMap/x", "Warning", "Forty", "look");
    bed.dev().create(&new_event).await.unwrap();
    for _ in 0..20 {
        let line = watch.line();
        assert!(
            line.contains(" live-") && line.contains(" Forty "),
            "{line}"
        );
    }
}

#[test]
fn an_unreachable_server_is_an_error_at_once() {
    let done = command()
        .args(["watch", "--url", "http://127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(
        stderr.starts_with("error: cannot reach http://127.0.0.1:1/mcp"),
        "{stderr}"
    );
}
