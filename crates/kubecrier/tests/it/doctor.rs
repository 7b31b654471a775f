//! `kubecrier doctor` on real clusters with narrow rights, and on dead ones.

use std::{net::TcpListener, path::Path, process::Output, sync::LazyLock};

use regex::Regex;
use serde_json::Value;
use testbed::{Testbed, User};
use tokio::time::{Duration, Instant};

use crate::harness::{File, Http, command, kubeconfig, one_context};

fn doctor(kubeconfig: &Path, arguments: &[&str]) -> Output {
    command()
        .arg("doctor")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .output()
        .unwrap()
}

/// The report, without what differs from run to run.
fn report(done: &Output) -> String {
    let text = String::from_utf8(done.stdout.clone()).unwrap();
    let text = Regex::new(r"\d+ ms").unwrap().replace_all(&text, "N ms");
    let text = Regex::new(r"v1\.\S+").unwrap().replace_all(&text, "v1.X");
    text.into_owned()
}

#[tokio::test]
async fn who_may_read_everything_is_well() {
    let Some(bed) = testbed::shared() else { return };
    let done = doctor(&one_context(bed.dev(), User::Admin).path, &[]);
    let report = report(&done);
    assert_eq!(done.status.code(), Some(0), "{report}");
    assert!(report.ends_with("all is well\n"), "{report}");
    assert!(
        !report.contains("note") && !report.contains("FAIL"),
        "{report}"
    );
}

#[tokio::test]
async fn who_may_not_read_logs_gets_a_manifest_for_that() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::NoLogs);
    let done = doctor(&file.path, &[]);
    assert_eq!(done.status.code(), Some(1));
    insta::assert_snapshot!(report(&done));
    // The printed manifest can be applied: Kubernetes accepts it for that user.
    let done = doctor(&file.path, &["-o", "json"]);
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["ok"], false);
    let sections = report["sections"].as_array().unwrap();
    let manifest = sections
        .iter()
        .find_map(|one| one["manifest"].as_str())
        .unwrap();
    let manifest: Value = serde_json::from_str(manifest).unwrap();
    let [role, binding] = &manifest["items"].as_array().unwrap()[..] else {
        panic!("{manifest:#}");
    };
    let role: k8s_openapi::api::rbac::v1::ClusterRole =
        serde_json::from_value(role.clone()).unwrap();
    let mut binding: k8s_openapi::api::rbac::v1::ClusterRoleBinding =
        serde_json::from_value(binding.clone()).unwrap();
    // Applied for another user, because other tests rely on the rights of these users.
    binding.subjects.as_mut().unwrap()[0].name = "nobody-else".to_owned();
    bed.dev().create_cluster_wide(&role).await.unwrap();
    bed.dev().create_cluster_wide(&binding).await.unwrap();
}

#[tokio::test]
async fn who_is_kept_to_a_namespace_is_told_to_name_it() {
    let Some(bed) = testbed::shared() else { return };
    let file = kubeconfig(|file| {
        let file = file.context("team", bed.dev(), User::TeamA);
        file.namespace("team-a").current("team")
    });
    let done = doctor(&file.path, &[]);
    assert_eq!(done.status.code(), Some(0), "{}", report(&done));
    insta::assert_snapshot!(report(&done));
    let done = doctor(&file.path, &["-n", "default"]);
    assert_eq!(done.status.code(), Some(1), "{}", report(&done));
}

/// A kubeconfig with forty contexts, and their names. Half of them are dead: refused, or
/// accepted by a listener that never responds.
pub(crate) fn half_dead(bed: &Testbed) -> (File, Vec<String>) {
    static SILENT: LazyLock<TcpListener> =
        LazyLock::new(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let silent = format!("https://{}", SILENT.local_addr().unwrap());
    let pem = bed.dev().authority_pem();
    let mut names = Vec::new();
    let file = kubeconfig(|mut file| {
        for index in 0..20 {
            let (live, dead) = (format!("live-{index}"), format!("dead-{index}"));
            file = file.context(&live, bed.dev(), User::Reader);
            let url = if index % 2 == 0 {
                silent.as_str()
            } else {
                "https://127.0.0.1:1"
            };
            file = file.server_context(&dead, url, pem);
            names.extend([live, dead]);
        }
        file.current("live-0")
    });
    (file, names)
}

#[tokio::test]
async fn forty_contexts_of_which_half_are_dead_are_checked_concurrently() {
    let Some(bed) = testbed::shared() else { return };
    let (file, _) = half_dead(bed);
    let began = Instant::now();
    let done = doctor(&file.path, &[]);
    let took = began.elapsed();
    let report = report(&done);
    assert_eq!(done.status.code(), Some(1), "{report}");
    assert!(report.ends_with("20 of 42 need a look\n"), "{report}");
    for context in ["context live-19\n  ok", "context dead-19\n  FAIL"] {
        assert!(report.contains(context), "no {context} in {report}");
    }
    assert!(
        took < Duration::from_secs(20),
        "one after the other takes a minute: {took:?}"
    );
}

#[tokio::test]
async fn a_connection_is_tried_by_a_push_that_really_comes() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let done = command()
        .args(["doctor", "--url", &http.base])
        .output()
        .unwrap();
    let report = report(&done);
    assert_eq!(done.status.code(), Some(0), "{report}");
    assert!(report.contains("pushes arrive: notifications/"), "{report}");
    let done = command()
        .args(["doctor", "--url", "http://127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
}

/// A server that responds like an MCP server and pushes nothing, like a proxy that buffers
/// streams.
#[tokio::test]
async fn a_connection_that_holds_pushes_back_is_found() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut connections = tokio::task::JoinSet::new();
    connections.spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 8192];
            let count = stream.read(&mut request).await.unwrap();
            let head = String::from_utf8_lossy(&request[..count]).into_owned();
            let body =
                r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","tools":[]}}"#;
            let answer = if head.starts_with("GET") {
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned()
            } else {
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                )
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
            // A stream stays open, and silent.
            if head.starts_with("GET") {
                open.push(stream);
            }
        }
    });
    let done = tokio::process::Command::from(command())
        .args(["doctor", "--url", &url])
        .output()
        .await
        .unwrap();
    let report = report(&done);
    assert_eq!(done.status.code(), Some(1), "{report}");
    assert!(report.contains("no push arrived within 5 s"), "{report}");
    assert!(report.contains("buffering"), "{report}");
}
