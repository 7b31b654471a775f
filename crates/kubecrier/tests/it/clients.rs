//! The official clients, as agents ship them.

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use testbed::{Client, User, event, namespace, pod};

use crate::harness::{Http, ToolResult, one_context};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

/// `None` if the client is not installed.
pub(crate) fn run(
    client: Client,
    script: &str,
    target: &str,
    era: &str,
    calls: &Value,
) -> Option<Value> {
    let workplace = tempfile::tempdir().unwrap();
    let command: Command = match client.command(&Path::new(SCRIPTS).join(script), workplace.path())
    {
        Ok(command) => command,
        Err(missing) => {
            testbed::skip(&missing);
            return None;
        }
    };
    // A client without a notification would wait without end: `timeout` ends it.
    let mut bounded = Command::new("timeout");
    bounded
        .arg("60")
        .arg(command.get_program())
        .args(command.get_args());
    let done = bounded
        .args([target, era, &calls.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{script} ({era}) failed:\n{text}\n{error}"
    );
    // On stdio, the server's own log is in it.
    if target.starts_with("http") {
        assert!(error.is_empty(), "{script} ({era}) complains:\n{error}");
    }
    Some(serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}\n{error}")))
}

async fn check(client: Client, script: &str, eras: &[&str]) {
    let Some(bed) = testbed::shared() else { return };
    let space = script.split('.').next().unwrap();
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    bed.dev()
        .create(&pod(space, "web-0", &["app"]))
        .await
        .unwrap();
    bed.dev()
        .create(&event(space, "Pod/web-0", "Warning", "BackOff", "again"))
        .await
        .unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let stdio = json!({
        "command": env!("CARGO_BIN_EXE_kubecrier"),
        "args": ["--kubeconfig", file.path],
    });
    let calls = json!([
        {"name": "pods_list", "arguments": {"namespace": space}},
        {"name": "events_list", "arguments": {"namespace": space, "types": ["Warning"]}},
        {"name": "pods_list", "arguments": {"nonsense": true}},
        {"name": "faults_wait", "arguments": {"namespace": space, "timeoutSeconds": 1}},
        {"name": "events_subscribe", "arguments": {"namespace": space, "types": ["Normal"]}},
    ]);
    // Creates events all the time, so that one follows soon after each subscription.
    let mut happening = tokio::task::JoinSet::new();
    happening.spawn({
        let space = space.to_owned();
        async move {
            for number in 0.. {
                let new_event = event(
                    &space,
                    &format!("Pod/web-{number}"),
                    "Normal",
                    "Started",
                    "x",
                );
                bed.dev().create(&new_event).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
    });
    for target in [format!("{}/mcp", http.base), stdio.to_string()] {
        for era in eras {
            let Some(found) = run(client, script, &target, era, &calls) else {
                return;
            };
            assert_eq!(found["server"], "kubecrier", "{target} {era}");
            // Without sessions, who has just come has the lists of now.
            let is_told = *era == "legacy";
            assert_eq!(found["toolsChanged"], is_told, "{target} {era}");
            let tools: Vec<_> = found["tools"].as_array().unwrap().iter().collect();
            for tool in ["namespaces_list", "pods_list", "pods_log", "events_list"] {
                assert!(tools.contains(&&json!(tool)), "{tools:?}");
            }
            let answer =
                |index: usize| ToolResult::read(&json!({"result": found["answers"][index]}));
            assert_eq!(answer(0).ok().data["pods"][0]["name"], "web-0");
            assert_eq!(answer(1).ok().data["events"][0]["reason"], "BackOff");
            answer(2).refused("invalid", &["`nonsense`"]);
            let cursor = answer(3).ok().data["cursor"].to_string();
            assert!(cursor.starts_with("\"w-"), "{target} {era}: {cursor}");
            if target.starts_with("http") {
                answer(4).ok();
            } else {
                answer(4).refused("unsupported", &["--port"]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_client_is_notified_lists_calls_and_subscribes_in_both_eras() {
    check(Client::TypeScript, "typescript.mjs", &["legacy", "auto"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_typescript_client_is_notified_lists_calls_and_subscribes() {
    check(
        Client::TypeScript,
        "typescript-first-generation.mjs",
        &["legacy"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_is_told_lists_calls_and_subscribes_in_both_eras() {
    check(Client::Python, "python.py", &["legacy", "auto"]).await;
}
