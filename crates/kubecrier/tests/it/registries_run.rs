//! Running a site's own tools, reading its resources, and projects written for
//! another server.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};

use crate::harness::{
    File, Http, Project, StdioSession, Stream, TIMEOUT, ToolResult, command, kubeconfig,
};

fn two_contexts() -> File {
    kubeconfig(|file| {
        file.server_context("dev", "https://127.0.0.1:1", "")
            .server_context("prod", "https://127.0.0.1:1", "")
            .current("dev")
    })
}

async fn http(file: &File, project: &Project) -> Http {
    Http::start(&file.path, &["--project-root", project.text()]).await
}

async fn file_says(path: &Path) -> String {
    let written = async {
        loop {
            match fs::read_to_string(path) {
                Ok(text) if !text.is_empty() => return text.trim().to_owned(),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(TIMEOUT, written)
        .await
        .expect("a file")
}

async fn is_gone(process: &str) -> bool {
    let gone = async {
        let path = format!("/proc/{process}/status");
        while fs::read_to_string(&path).is_ok_and(|status| !status.contains("State:\tZ")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .is_ok()
}

#[tokio::test]
async fn a_tool_gets_its_arguments_and_the_context_of_the_call() {
    let (file, project) = (two_contexts(), Project::empty());
    let script = "cat; echo; echo $KUBECRIER_ARG_POD $KUBECRIER_CONTEXT $KUBECONFIG; pwd; env | grep -c HOME";
    project.tool("show", script);
    let http = http(&file, &project).await;
    let answer = http.call("show", json!({"pod": "a"})).await;
    // The last command found nothing and exited with an error.
    assert!(answer.is_error);
    let folder = project.path().canonicalize().unwrap().join("tools/show");
    let expected = format!(
        "{{\"pod\":\"a\"}}\na dev {}\n{}\n0\nit ended with exit code 1",
        file.path.display(),
        folder.display()
    );
    assert_eq!(answer.text, expected);
    let answer = http
        .call("show", json!({"pod": "a", "context": "prod"}))
        .await;
    assert!(answer.text.contains("\na prod "), "{}", answer.text);
    let metrics = http.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains(r#"kubecrier_tool_calls_total{tool="file_tool",outcome="failed"} 2"#));
}

#[tokio::test]
async fn the_output_of_a_tool_reaches_the_client_as_it_runs() {
    let (file, project) = (two_contexts(), Project::empty());
    let script = "for n in 1 2 3; do echo $n/3 step $n >&$KUBECRIER_PROGRESS; sleep 0.3; done; \
                  echo careful >&2; echo done";
    project.tool("steps", script);
    let http = http(&file, &project).await;
    let mut stream = http.stream(None).await;
    http.rpc("logging/setLevel", json!({"level": "info"})).await;
    let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": "t"}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut answer = Stream::at(http.post(&call).await, "2025-11-25");
    let mut steps = Vec::new();
    let result = loop {
        let message = answer.next().await;
        if message["method"] == "notifications/progress" {
            assert_eq!(message["params"]["progressToken"], "t");
            steps.push(message["params"]["progress"].as_f64().unwrap());
        } else {
            break message;
        }
    };
    assert_eq!(ToolResult::read(&result).ok().text, "done");
    assert!(!steps.is_empty() && steps.is_sorted(), "{steps:?}");
    assert!(
        steps.iter().all(|step| (1.0..=3.0).contains(step)),
        "{steps:?}"
    );
    let message = loop {
        let message = stream.next().await;
        if message["method"] == "notifications/message" {
            break message;
        }
    };
    assert_eq!(message["params"]["logger"], "steps");
    assert_eq!(message["params"]["data"], "careful");
    http.server.wait_for("careful");
}

#[tokio::test]
async fn a_cancelled_call_ends_its_processes() {
    let (file, project) = (two_contexts(), Project::empty());
    project.tool(
        "stuck",
        "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > me; wait; sleep 1000",
    );
    let http = http(&file, &project).await;
    let params = json!({"name": "stuck", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut answer = Stream::at(http.post(&call).await, "2025-11-25");
    let folder = project.path().join("tools/stuck");
    let (me, child) = (
        file_says(&folder.join("me")).await,
        file_says(&folder.join("child")).await,
    );
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["project"]["processesRunning"], 1);
    let params = json!({"requestId": 7});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    http.post(&cancel).await;
    answer.rest().await;
    assert!(is_gone(&child).await, "the child is gone");
    assert!(
        is_gone(&me).await,
        "one that ignores the request to end is killed"
    );
}

#[tokio::test]
async fn a_tool_that_misbehaves_is_an_answer_and_the_server_goes_on() {
    let (file, project) = (two_contexts(), Project::empty());
    project.tool("flood", "yes");
    project.tool("crash", "kill -ABRT $$");
    project.tool("linger", "sleep 1000 & echo $! > child; echo left");
    project.tool("late", "trap '' TERM; while true; do sleep 1; done");
    project.meta(
        "late",
        &json!({"timeoutSecs": 1, "timeoutHint": "ask for less"}),
    );
    project.tool("full", "echo x > /dev/full");
    project.tool("needs", "true");
    project.meta("needs", &json!({"inputSchema": {"required": ["pod"]}}));
    let http = http(&file, &project).await;
    for (tool, why) in [
        ("flood", "more than 10485760 bytes"),
        ("crash", "signal 6"),
        ("late", "within 1 s, and was stopped\nhint: ask for less"),
        ("full", "No space left on device"),
        ("needs", "the argument `pod` is missing"),
    ] {
        let answer = http.call(tool, json!({})).await;
        assert!(
            answer.is_error && answer.text.contains(why),
            "{tool}: {}",
            answer.text
        );
    }
    assert_eq!(http.call("linger", json!({})).await.ok().text, "left");
    let child = file_says(&project.path().join("tools/linger/child")).await;
    assert!(is_gone(&child).await);
    // Permissions that change after the folder was read count as well.
    let path = project.path().join("tools/linger/tool.sh");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let refused = http
        .rpc("tools/call", json!({"name": "linger", "arguments": {}}))
        .await;
    assert!(refused.to_string().contains("linger"), "{refused}");
    assert!(!refused.to_string().contains("left"), "{refused}");
}

#[tokio::test]
async fn a_subscriber_is_notified_when_a_file_changes() {
    let (file, project) = (two_contexts(), Project::new());
    let http = http(&file, &project).await;
    let mut stream = http.stream(None).await;
    let uri = "file://./resources/one.txt";
    let subscribed = http.rpc("resources/subscribe", json!({"uri": uri})).await;
    assert!(subscribed.get("result").is_some(), "{subscribed}");
    for _ in 0..3 {
        stream.next().await;
    }
    project.write("resources/one.txt", "news", 0o644);
    let update = stream.next().await;
    assert_eq!(
        update["method"], "notifications/resources/updated",
        "and no list changed"
    );
    assert_eq!(update["params"]["uri"], uri);
    let read = http.rpc("resources/read", json!({"uri": uri})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "news");
    // One notification only: the next one is about the next changed list.
    project.tool("marker", "true");
    let next = stream.next().await;
    assert_eq!(next["method"], "notifications/tools/list_changed", "{next}");
}

#[test]
fn projects_written_for_another_server_work_unchanged() {
    let hello = Project::sample("hello");
    let mut session = hello.stdio();
    session.handshake();
    let answer = session.call("say-hello", json!({"who": "Ann"})).ok();
    let expected = json!({"success": true, "result": {"message": "Good morning, Ann"}});
    assert_eq!(answer.data, expected);
    assert!(
        !session.server.log().contains("not served"),
        "{}",
        session.server.log()
    );

    let notes = Project::sample("notes");
    let mut session = notes.stdio();
    session.handshake();
    let mut read = |uri: &str| {
        let answer = session.rpc("resources/read", json!({"uri": uri}));
        answer["result"]["contents"][0]["text"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(
        read("file://./resources/welcome.txt").unwrap(),
        "Welcome to the notes.\n"
    );
    assert_eq!(read("clock://utc").unwrap(), "it is always noon\n");
    assert_eq!(
        read("file://./resources/pages/one.md").unwrap(),
        "# Page one\n"
    );
    assert_eq!(read("file://./resources/pages/two.md"), None);
    let get = |arguments: Value| json!({"name": "notes.summary", "arguments": arguments});
    let prompt = session.rpc("prompts/get", get(json!({"topic": "x", "words": "3"})));
    let text = &prompt["result"]["messages"][0]["content"]["text"];
    assert_eq!(text, "Sum up x in 3 words.\n");
    let missing = session.rpc("prompts/get", get(json!({})));
    assert_eq!(missing["error"]["code"], -32602);
    assert!(
        !session.server.log().contains("not served"),
        "{}",
        session.server.log()
    );

    let manual = Project::sample("manual");
    let mut session = manual.stdio();
    session.handshake();
    assert_eq!(
        session.call("manual-report", json!({})).ok().text,
        "all is well"
    );
    let tools = session.rpc("tools/list", json!({})).to_string();
    assert!(
        !tools.contains("\"ignored\""),
        "what is not registered is not served"
    );
    let page = session.rpc("resources/read", json!({"uri": "page://by-name/page"}));
    assert_eq!(page["result"]["contents"][0]["text"], "One page.\n");
    let prompts = session.rpc("prompts/list", json!({}));
    let prompts = prompts["result"]["prompts"].as_array().unwrap();
    assert_eq!(prompts.last().unwrap()["name"], "manual.prompt");
    assert!(
        !session.server.log().contains("not served"),
        "{}",
        session.server.log()
    );
}

#[test]
fn init_writes_a_project_that_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("site");
    let root = root.to_str().unwrap();
    let done = command().args(["init", root]).output().unwrap();
    let shown = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && shown.contains("/tools/restarts/tool.sh\n"),
        "{done:?}"
    );
    assert!(shown.contains("--project-root"), "and what comes next");
    let again = command().args(["init", root]).output().unwrap();
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("it is there already"));
    let mut session = StdioSession::start(command().args(["--project-root", root]));
    session.handshake();
    let read = session.rpc("resources/read", json!({"uri": "runbook://full-disk"}));
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("# A disk is full"), "{text}");
    assert!(
        session
            .rpc("tools/list", json!({}))
            .to_string()
            .contains("\"restarts\"")
    );
    assert!(
        !session.server.log().contains("not served"),
        "{}",
        session.server.log()
    );
}
