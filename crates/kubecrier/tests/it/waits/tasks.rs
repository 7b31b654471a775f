//! A wait as a task of the protocol.

use serde_json::{Value, json};
use testbed::User;

use super::{Modern, healthy, is_opened, until_waiting};
use crate::{
    harness::{Http, HttpSession, Project, Stream, TIMEOUT, ToolResult, one_context},
    incidents::break_workload,
};

/// The id of the task that a call was answered with.
fn task_id(answer: &Value) -> String {
    let task = &answer["result"];
    assert_eq!(task["resultType"], "task", "{answer}");
    assert_eq!(task["status"], "working");
    assert_eq!(task["pollIntervalMs"], 2000);
    assert!(task["ttlMs"].as_u64().unwrap() > 43_200_000, "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

/// Polls as a client does, until the task has ended.
async fn ended(client: &Modern, id: &str) -> Value {
    let ended = async {
        loop {
            let task = client.task("tasks/get", id).await["result"].clone();
            if task["status"] != "working" {
                return task;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, ended).await.expect("it ends")
}

#[tokio::test]
async fn a_client_that_declares_tasks_polls_or_listens_for_the_answer() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "wait-task");
    healthy(cluster, space).await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let claude = Modern::new(&http.base, "claude-code", "2.1.325").with_tasks();
    let discovered = claude.rpc("server/discover", None, json!({})).await;
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert_eq!(*extensions, json!({"io.modelcontextprotocol/tasks": {}}));

    // Once the namespace is watched: what is there before is not announced.
    let plain = Modern::new(&http.base, "test", "1");
    let first = json!({"namespace": space, "timeoutSeconds": 1});
    ToolResult::read(&plain.wait(first).await).ok();
    let here = json!({"namespace": space});
    let ids = [
        task_id(&claude.wait(here.clone()).await),
        task_id(&claude.wait(here.clone()).await),
    ];
    assert_ne!(ids[0], ids[1]);
    until_waiting(&http, 2).await;
    // A listen is told of its caller's tasks, and of no others.
    let wanted =
        json!({"notifications": {"taskIds": [ids[0], "task-0"], "toolsListChanged": true}});
    let mut listen = Stream::new(claude.send("subscriptions/listen", None, wanted).await);
    let acknowledged = listen.next().await;
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    break_workload(cluster, space, "web").await;
    let notified = listen.next().await;
    assert_eq!(notified["method"], "notifications/tasks", "{notified}");
    let told = &notified["params"];
    assert_eq!(told["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    assert_eq!(
        (&told["taskId"], &told["status"]),
        (&json!(ids[0]), &json!("completed"))
    );
    for id in &ids {
        let task = ended(&claude, id).await;
        assert_eq!(task["resultType"], "complete");
        assert_eq!(task["status"], "completed");
        is_opened(
            &ToolResult::read(&json!({"result": task["result"]})).ok(),
            space,
        );
    }
    until_waiting(&http, 0).await;
    let unknown = claude.task("tasks/get", "task-0").await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    // A bad call is a completed task with an error, and nothing waits.
    let refused = task_id(&claude.wait(json!({"cursor": "yesterday"})).await);
    let refused = ended(&claude, &refused).await;
    assert_eq!(refused["result"]["isError"], true);
}

#[tokio::test]
async fn a_cancelled_task_frees_its_wait_and_who_refuses_tasks_gets_a_call() {
    let Some(bed) = testbed::shared() else { return };
    healthy(bed.dev(), "wait-cancelled").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let client = Modern::new(&http.base, "test", "1").with_tasks();
    let id = task_id(&client.wait(json!({"namespace": "wait-cancelled"})).await);
    until_waiting(&http, 1).await;
    for _ in 0..2 {
        let cancelled = client.task("tasks/cancel", &id).await;
        assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    }
    until_waiting(&http, 0).await;
    assert_eq!(ended(&client, &id).await["status"], "cancelled");

    let short = json!({"namespace": "wait-cancelled", "timeoutSeconds": 1});
    let copilot = Modern::new(&http.base, "copilot-cli", "1.0.102").with_tasks();
    let plain = Modern::new(&http.base, "test", "1");
    for client in [copilot, plain] {
        let answer = client.wait(short.clone()).await;
        let answer = ToolResult::read(&answer).ok();
        assert!(answer.text.starts_with("Nothing yet"), "{}", answer.text);
    }
    // Nor does a session get one, whatever it declares.
    let plain = Modern::new(&http.base, "test", "1");
    let refused = plain.task("tasks/get", &id).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

fn token(caller: &str) -> String {
    format!("{caller}-0123456789abcdef")
}

/// A caller's tasks are its own, its waits have a share, and neither takes the place of calls.
#[tokio::test]
async fn waits_have_a_share_of_their_own_and_tasks_an_owner() {
    let Some(bed) = testbed::shared() else { return };
    healthy(bed.dev(), "wait-shares").await;
    let file = one_context(bed.dev(), User::Reader);
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let lines = ["greedy", "modest"].map(|caller| format!("{caller}:{}\n", token(caller)));
    std::fs::write(tokens.path(), lines.concat()).unwrap();
    let path = tokens.path().to_str().unwrap();
    let limits = ["--max-waits", "4", "--max-concurrent-requests", "4"];
    let arguments = [&["--auth-token-file", path], &limits[..]].concat();
    let http = Http::start_with_token(&file.path, &arguments, &token("modest")).await;
    let modest = HttpSession::begin_as(&http.base, &token("modest")).await;
    let client = |caller: &str| {
        let client = Modern::new(&http.base, "test", "1").with_tasks();
        client.with_token(token(caller))
    };
    let (greedy, other) = (client("greedy"), client("modest"));
    let here = json!({"namespace": "wait-shares"});
    let first = task_id(&greedy.wait(here.clone()).await);
    let call = Modern::new(&http.base, "test", "1").with_token(token("greedy"));
    let waiting = call.wait(here.clone());
    let greed = async {
        until_waiting(&modest, 2).await;
        let call = json!({"name": "faults_wait", "arguments": here});
        let refused = greedy.send("tools/call", Some("faults_wait"), call).await;
        assert_eq!(refused.status(), 429);
        let text = refused.text().await.unwrap();
        assert!(
            text.contains("2 waits for incidents") && text.contains("--max-waits"),
            "{text}"
        );
        // What is not a wait runs, also the caller's own.
        let list = json!({"name": "faults_list", "arguments": here});
        for client in [&greedy, &other] {
            let answer = client
                .rpc("tools/call", Some("faults_list"), list.clone())
                .await;
            ToolResult::read(&answer).ok();
        }
        let own = task_id(&other.wait(here.clone()).await);
        for (caller, id) in [(&other, &first), (&greedy, &own)] {
            for method in ["tasks/get", "tasks/cancel"] {
                let stranger = caller.task(method, id).await;
                assert_eq!(stranger["error"]["code"], -32602, "{stranger}");
            }
        }
        let state = greedy.task("tasks/get", &first).await;
        assert_eq!(state["result"]["status"], "working");
    };
    tokio::select! {
        answer = waiting => panic!("nothing happens: {answer}"),
        () = greed => {}
    }
}

/// A project says which of its tools take long.
#[tokio::test]
async fn a_tool_of_a_project_can_be_a_task() {
    let project = Project::new();
    project.tool("slow", "echo computed");
    project.meta("slow", &json!({"task": "optional"}));
    project.tool("slower", "sleep 3600");
    project.meta("slower", &json!({"task": "required", "timeoutSecs": 3600}));
    let http = project.http(&[]).await;
    let (plain, tasks) = (
        Modern::new(&http.base, "test", "1"),
        Modern::new(&http.base, "test", "1").with_tasks(),
    );
    let call = async |client: &Modern, tool: &str| {
        let params = json!({"name": tool, "arguments": {}});
        client.rpc("tools/call", Some(tool), params).await
    };
    let task = call(&tasks, "slow").await["result"].clone();
    assert_eq!(task["resultType"], "task", "{task}");
    let task = ended(&tasks, task["taskId"].as_str().unwrap()).await;
    assert_eq!(task["result"]["content"][0]["text"], "computed", "{task}");
    let answer = call(&plain, "slow").await;
    assert_eq!(
        answer["result"]["content"][0]["text"], "computed",
        "{answer}"
    );

    let refused = call(&plain, "slower").await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let id = call(&tasks, "slower").await["result"]["taskId"].clone();
    let id = id.as_str().unwrap();
    tasks.task("tasks/cancel", id).await;
    assert_eq!(ended(&tasks, id).await["status"], "cancelled");
}
