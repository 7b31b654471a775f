//! `faults_wait`: who waits is answered when something is wrong, on every transport and in both
//! eras, and leaves nothing behind when it goes.

mod lists;
pub(crate) mod modern;
mod tasks;

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Cluster, User, namespace};

use self::modern::Modern;
use crate::{
    harness::{Http, HttpSession, StdioSession, TIMEOUT, ToolResult, command, one_context},
    incidents::{break_workload, create_workload, listed, mend},
};

/// The call of a wait in a namespace.
fn wait(id: u64, arguments: &Value) -> Value {
    let params = json!({"name": "faults_wait", "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// A namespace with a healthy Deployment `web`.
async fn healthy(cluster: &Cluster, space: &str) {
    (cluster.create_cluster_wide(&namespace(space)))
        .await
        .unwrap();
    create_workload(cluster, space, "web").await;
}

/// Waits until so many callers wait.
async fn until_waiting(session: &HttpSession, count: usize) {
    let line = format!("kubecrier_waits {count}\n");
    let reached = async {
        loop {
            let metrics = session.get("/metrics").await.text().await.unwrap();
            if metrics.contains(&line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    reached.unwrap_or_else(|_| panic!("not {count} waits"));
}

fn is_opened(answer: &ToolResult, space: &str) {
    let (text, data) = (&answer.text, &answer.data);
    assert_eq!(data["transition"], "opened", "{text}");
    let object = format!("{space}/deployment/web");
    assert_eq!(data["incident"]["object"], object.as_str());
    assert_eq!(data["status"], "open");
    assert!(
        data["symptoms"][0]["why"]
            .to_string()
            .contains("image name"),
        "{data}"
    );
    assert!(data["next"][0]["tool"].is_string(), "{data}");
    let cursor = data["cursor"].as_str().unwrap();
    for part in [
        "Opened ",
        " ago: ",
        &object,
        "What is seen:",
        "invalid reference",
        cursor,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_wait_is_answered_with_the_evidence_and_the_next_tells_what_was_missed() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "wait-told");
    healthy(cluster, space).await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let here = json!({"namespace": space});

    let begin = wait(1, &json!({"namespace": space, "timeoutSeconds": 1}));
    let quiet = ToolResult::read(&json_of(http.post(&begin).await).await).ok();
    assert_eq!(quiet.data["transition"], Value::Null);
    assert!(
        quiet
            .text
            .starts_with("Nothing yet: no incident was opened"),
        "{}",
        quiet.text
    );
    assert!(
        quiet.text.contains("call faults_wait with this cursor"),
        "{}",
        quiet.text
    );

    let (waited, ()) = tokio::join!(http.call("faults_wait", here.clone()), async {
        until_waiting(&http, 1).await;
        break_workload(cluster, space, "web").await;
    });
    let waited = waited.ok();
    is_opened(&waited, space);
    assert_eq!(waited.data["gap"], Value::Null);
    until_waiting(&http, 0).await;

    // Nobody waits: it is over, and there again.
    mend(cluster, space, "web").await;
    listed(&http, &here, 0).await;
    break_workload(cluster, space, "web").await;
    listed(&http, &here, 1).await;
    let missed = json!({"namespace": space, "cursor": waited.data["cursor"]});
    let missed = http.call("faults_wait", missed).await.ok();
    is_opened(&missed, space);
    assert_eq!(missed.data["missed"][0]["transition"], "resolved");
    let (first, second) = missed.text.split_once("Opened ").unwrap();
    assert!(
        first.starts_with("Since the last wait:\n- "),
        "missed comes first: {first}"
    );
    assert!(first.contains("resolved after") && !second.contains("resolved after"));

    // Who begins now is told what is open already, in a line.
    let open = json!({"namespace": space, "timeoutSeconds": 1});
    let open = http.call("faults_wait", open).await.ok();
    assert!(
        open.text
            .starts_with("1 open in all (faults_list); the worst: wait-told/"),
        "{}",
        open.text
    );
    assert_eq!(open.data["open"], 1);
    let lost = json!({"namespace": space, "cursor": "w-00000000.3"});
    let lost = http.call("faults_wait", lost).await.ok();
    assert_eq!(lost.data["gap"], "restarted");
    assert!(
        lost.text
            .starts_with("GAP: this cursor is of another process"),
        "{}",
        lost.text
    );
    assert!(
        lost.text.contains("- wait-told/deployment/web: "),
        "{}",
        lost.text
    );
    for (wrong, word) in [
        (json!({"cursor": "yesterday"}), "no cursor of faults_wait"),
        (json!({"timeoutSeconds": 50_000}), "43200"),
        (json!({"types": ["Warning"]}), "`types`"),
    ] {
        http.call("faults_wait", wrong)
            .await
            .refused("invalid", &[word]);
    }
}

async fn json_of(answer: reqwest::Response) -> Value {
    crate::harness::message(&answer.text().await.unwrap())
}

#[tokio::test]
async fn a_wait_that_is_cancelled_or_whose_client_is_gone_is_gone_at_once() {
    let Some(bed) = testbed::shared() else { return };
    healthy(bed.dev(), "wait-gone").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let here = json!({"namespace": "wait-gone", "timeoutSeconds": 43_200});

    // Cancelled in a session.
    let call = wait(7, &here);
    let cancelled = http.post(&call);
    let cancel = async {
        until_waiting(&http, 1).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 7}});
        assert_eq!(http.post(&cancel).await.status(), 202);
        until_waiting(&http, 0).await;
    };
    let (_answer, ()) = tokio::join!(cancelled, cancel);

    // The session ends.
    let other = http.another("2025-06-18").await;
    let call = wait(8, &here);
    let ended = other.post(&call);
    let end = async {
        until_waiting(&http, 1).await;
        other.delete().await;
        until_waiting(&http, 0).await;
    };
    let (_answer, ()) = tokio::join!(ended, end);

    // Without a session, the client closes the connection.
    let modern = Modern::new(&http.base, "test", "1");
    let call = json!({"name": "faults_wait", "arguments": here});
    let waiting = modern.send("tools/call", Some("faults_wait"), call);
    tokio::select! {
        _answer = waiting => panic!("it waits"),
        () = until_waiting(&http, 1) => {}
    }
    until_waiting(&http, 0).await;
}

#[test]
fn on_stdio_both_eras_wait() {
    let Some(bed) = testbed::shared() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = bed.dev();
    runtime.block_on(healthy(cluster, "wait-stdio"));
    let file = one_context(cluster, User::Reader);
    let mut client = StdioSession::start(command().arg("--kubeconfig").arg(&file.path));
    client.handshake();
    let quiet = json!({"namespace": "wait-stdio", "timeoutSeconds": 1});
    let quiet = client.call("faults_wait", quiet).ok();
    assert!(quiet.text.starts_with("Nothing yet"), "{}", quiet.text);
    let on = json!({"namespace": "wait-stdio", "cursor": quiet.data["cursor"]});
    client.send(&wait(90, &on));
    let mut modern = wait(91, &on);
    let key = |key: &str| format!("io.modelcontextprotocol/{key}");
    modern["params"]["_meta"] = json!({
        key("protocolVersion"): "2026-07-28",
        key("clientCapabilities"): {},
        key("clientInfo"): {"name": "test", "version": "1"},
    });
    client.send(&modern);
    // It answers others meanwhile.
    client.send(&json!({"jsonrpc": "2.0", "id": 92, "method": "tools/list", "params": {}}));
    assert_eq!(client.response()["id"], 92);
    runtime.block_on(break_workload(cluster, "wait-stdio", "web"));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = client.response();
        ids.push(answer["id"].as_u64().unwrap());
        is_opened(&ToolResult::read(&answer).ok(), "wait-stdio");
    }
    ids.sort_unstable();
    assert_eq!(ids, [90, 91]);
}

#[tokio::test]
async fn a_client_that_drops_notifications_is_told_so_and_how_to_wait() {
    let Some(bed) = testbed::shared() else { return };
    healthy(bed.dev(), "wait-named").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    for (name, title) in [("claude-code", Some("Claude Code")), ("test", None)] {
        let modern = Modern::new(&http.base, name, "1");
        let call = json!({"name": "events_subscribe", "arguments": {"namespace": "wait-named"}});
        let answer = modern
            .rpc("tools/call", Some("events_subscribe"), call)
            .await;
        let data = ToolResult::read(&answer).ok().data;
        assert_eq!(data["delivery"]["pushed"], false);
        assert_eq!(data["delivery"]["wait"]["tool"], "faults_wait");
        let warnings = data["warnings"].to_string();
        assert!(warnings.contains("faults_wait"), "{warnings}");
        let named = title.is_some_and(|title| warnings.contains(title));
        assert_eq!(named, title.is_some(), "{warnings}");
        assert_eq!(
            warnings.contains("shows no notification"),
            named,
            "{warnings}"
        );
    }
}
