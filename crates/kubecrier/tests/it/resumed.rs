//! Answers to a POST whose connection is lost, or closed by the server: the client gets the
//! rest with `Last-Event-ID`, and nobody else does.

use std::{path::PathBuf, time::Duration};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Http, HttpSession, Project, Proxy, Stream, TIMEOUT, ToolResult};

/// The text of the large answer: much more than the buffers of a connection.
pub(super) const LARGE: usize = 40_000;

/// A project with a tool that reports progress and then waits for a file, and one whose
/// answer is large.
pub(super) fn slow_tools() -> Project {
    let project = Project::empty();
    let wait = "while [ ! -e go ]; do sleep 0.05; done";
    let script = format!(
        "echo 1/2 first >&$KUBECRIER_PROGRESS; {wait}; \
         echo 2/2 second >&$KUBECRIER_PROGRESS; sleep 0.5; echo finished"
    );
    project.tool("slow", &script);
    project.tool(
        "large",
        &format!("{wait}; yes word | tr '\\n' ' ' | head -c {LARGE}"),
    );
    project
}

/// Lets the tool go on.
pub(super) fn go(project: &Project, tool: &str) -> PathBuf {
    project.write(&format!("tools/{tool}/go"), "", 0o644)
}

fn call(id: u64, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Calls a tool and loses the connection as soon as the answer has begun; returns the id of
/// the last event that was seen.
pub(super) async fn call_and_lose(session: &HttpSession, id: u64, tool: &str) -> String {
    let mut answer = session.post(&call(id, tool)).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let first = answer.chunk().await.unwrap().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    assert!(first.contains("retry: 1000"), "{first}");
    let id = first.lines().find_map(|line| line.strip_prefix("id: "));
    let id = id.expect("the answer begins with an id").to_owned();
    assert!(id.ends_with("-0"), "{first}");
    id
}

/// Waits until `/metrics` says that so many bytes are parked.
async fn until_parked(session: &HttpSession, is_enough: impl Fn(u64) -> bool) -> u64 {
    let parked = async {
        loop {
            let metrics = session.get("/metrics").await.text().await.unwrap();
            let mut lines = metrics.lines();
            let bytes = lines.find_map(|line| line.strip_prefix("kubecrier_parked_answer_bytes "));
            let bytes = bytes.unwrap().parse().unwrap();
            if is_enough(bytes) {
                return bytes;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    (tokio::time::timeout(TIMEOUT, parked).await).expect("it is parked, or no longer")
}

/// Waits until `/metrics` has these lines.
pub(super) async fn until_metrics(session: &HttpSession, lines: &[&str]) {
    let counted = async {
        loop {
            let metrics = session.get("/metrics").await.text().await.unwrap();
            if lines.iter().all(|line| metrics.contains(line)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    (tokio::time::timeout(TIMEOUT, counted).await).expect("they are counted");
}

/// The messages until the stream ends, and their ids.
pub(super) async fn resume(session: &HttpSession, id: &str) -> (Vec<Value>, Vec<String>) {
    let mut stream = session.stream(Some(id)).await;
    let mut messages = Vec::new();
    while let Some(message) = stream.until_end().await {
        messages.push(message);
    }
    // The first one repeats where the client is.
    if stream.ids.first().is_some_and(|first| first == id) {
        stream.ids.remove(0);
    }
    (messages, stream.ids)
}

pub(super) fn text(answer: &Value) -> String {
    ToolResult::read(answer).ok().text
}

#[tokio::test]
async fn a_lost_connection_is_resumed_with_progress_and_answer_once() {
    let project = slow_tools();
    let http = project.http(&[]).await;
    let primed = call_and_lose(&http, 7, "slow").await;
    // It runs on; what it sends meanwhile is kept.
    let mut again = http.stream(Some(&primed)).await;
    let first = again.next().await;
    assert_eq!(first["params"]["progress"], 1.0, "{first}");
    let seen = again.ids.last().unwrap().clone();
    drop(again);
    go(&project, "slow");
    let parked = until_parked(&http, |bytes| bytes > 0).await;
    assert!(parked < 2000, "{parked}");
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["parkedAnswerBytes"], parked);
    for _ in 0..2 {
        let (messages, ids) = resume(&http, &seen).await;
        let steps: Vec<_> = (messages.iter())
            .filter_map(|one| one["params"]["progress"].as_f64())
            .collect();
        assert_eq!(steps, [2.0], "what it has seen is not sent again");
        assert_eq!((messages.len(), ids.len()), (2, 2));
        assert_eq!(messages[1]["id"], 7);
        assert_eq!(text(&messages[1]), "finished");
    }
    let (all, ids) = resume(&http, &primed).await;
    assert_eq!(all.len(), 3, "{all:?}");
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), 3, "{ids:?}");
    // It has everything.
    let (rest, _) = resume(&http, ids.last().unwrap()).await;
    assert!(rest.is_empty(), "{rest:?}");
    let metrics = http.get("/metrics").await.text().await.unwrap();
    for line in [
        "kubecrier_parked_answers 1",
        "kubecrier_answers_resumed_total 5",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    assert_eq!(http.delete().await, StatusCode::NO_CONTENT);
    until_parked(&http, |bytes| bytes == 0).await;
}

#[tokio::test]
async fn a_newer_connection_takes_over_and_the_session_s_own_stream_is_another() {
    let project = slow_tools();
    let http = project.http(&[]).await;
    let mut own = http.stream(None).await;
    let mut post = Stream::at(http.post(&call(1, "slow")).await, "2025-11-25");
    assert_eq!(post.next().await["params"]["progress"], 1.0);
    let primed = post.ids[0].clone();
    // The client believes that its connection is lost.
    let mut first = http.stream(Some(&primed)).await;
    assert_eq!(first.next().await["params"]["progress"], 1.0);
    let second = http.stream(Some(&primed)).await;
    assert!(post.until_end().await.is_none() && first.until_end().await.is_none());
    drop(second);
    go(&project, "slow");
    let (messages, _) = resume(&http, &primed).await;
    assert_eq!(messages.last().unwrap()["id"], 1);
    let mut methods = std::collections::BTreeSet::new();
    for _ in 0..3 {
        methods.insert(own.next().await["method"].to_string());
    }
    assert_eq!(
        methods.len(),
        3,
        "nothing of the answer came here: {methods:?}"
    );
}

#[tokio::test]
async fn another_session_and_another_caller_get_nothing() {
    let project = slow_tools();
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let token = |name: &str| format!("{name}-0123456789abcdef");
    let lines = ["ann", "bob"].map(|name| format!("{name}:{}\n", token(name)));
    std::fs::write(tokens.path(), lines.concat()).unwrap();
    let file = crate::shares::no_cluster();
    let arguments = [
        "--auth-token-file",
        tokens.path().to_str().unwrap(),
        "--project-root",
        project.text(),
    ];
    let http = Http::start_with_token(&file.path, &arguments, &token("ann")).await;
    let mine = HttpSession::begin_as(&http.base, &token("ann")).await;
    let other = HttpSession::begin_as(&http.base, &token("ann")).await;
    let primed = call_and_lose(&mine, 1, "slow").await;
    go(&project, "slow");
    // An id of one session means nothing in another one, of the same caller or not.
    assert_eq!(
        other.open(Some(&primed)).await.status(),
        StatusCode::BAD_REQUEST
    );
    let stolen = mine.open_as(&token("bob"), &primed).await;
    assert_eq!(stolen.status(), StatusCode::NOT_FOUND);
    let beyond = primed.replace("-0", "-99");
    for wrong in ["9-0", "0-0", "2-", "2-x", "-2-0", &beyond] {
        let refused = mine.open(Some(wrong)).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{wrong}");
    }
    let (messages, _) = resume(&mine, &primed).await;
    assert_eq!(text(messages.last().unwrap()), "finished");
    // What a revoked caller has parked goes with it.
    std::fs::write(tokens.path(), &lines[1]).unwrap();
    let gone = async {
        while mine.open(Some(&primed)).await.status() != StatusCode::UNAUTHORIZED {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    (tokio::time::timeout(TIMEOUT, gone).await).expect("the token is revoked");
}

/// Resumes an answer that is gone; returns the error that takes its place.
async fn lost(session: &HttpSession, id: &str, request: u64) -> Value {
    let (messages, _) = resume(session, id).await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["id"], request);
    let message = messages[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("send the request again"), "{message}");
    messages[0]["error"].clone()
}

#[tokio::test]
async fn an_expired_and_a_cancelled_answer_are_told_as_such() {
    let project = slow_tools();
    let http = project.http(&["--parked-answer-timeout", "1s"]).await;
    let cancelled = call_and_lose(&http, 1, "slow").await;
    let params = json!({"requestId": 1});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(http.post(&cancel).await.status(), StatusCode::ACCEPTED);
    assert_eq!(
        lost(&http, &cancelled, 1).await["data"]["reason"],
        "cancelled"
    );
    let expired = call_and_lose(&http, 2, "slow").await;
    go(&project, "slow");
    until_parked(&http, |bytes| bytes > 0).await;
    // By the sweep, whether anybody resumes it or not.
    until_parked(&http, |bytes| bytes == 0).await;
    assert_eq!(lost(&http, &expired, 2).await["data"]["reason"], "expired");
}

/// Neither side learns that the connection is lost: the answer is written into nothing.
#[tokio::test]
async fn what_was_written_to_a_silently_lost_connection_is_resumed() {
    let project = slow_tools();
    let http = project.http(&[]).await;
    let proxy = Proxy::start(&http.base).await;
    let far = http.moved_to(&format!("http://{}", proxy.address));
    let mut post = Stream::at(far.post(&call(1, "slow")).await, "2025-11-25");
    assert_eq!(post.next().await["params"]["progress"], 1.0);
    proxy.lose_open();
    // A connection that has just brought a request would count as healthy.
    tokio::time::sleep(Duration::from_secs(1)).await;
    go(&project, "slow");
    until_parked(&http, |bytes| bytes > 0).await;
    let (messages, _) = resume(&http, post.ids.last().unwrap()).await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(text(&messages[1]), "finished");
}

#[tokio::test]
async fn an_answer_that_a_healthy_connection_took_is_not_kept() {
    let project = Project::empty();
    let http = project.http(&[]).await;
    let mut ids = Vec::new();
    // A busy machine may take so long that the connection counts as silent.
    let mut is_quick = false;
    while ids.len() < 20 || !is_quick {
        let request = ids.len();
        assert!(request < 100, "the last 80 took a second each");
        let began = tokio::time::Instant::now();
        let ping = json!({"jsonrpc": "2.0", "id": request, "method": "ping", "params": {}});
        let body = http.post(&ping).await.text().await.unwrap();
        is_quick = began.elapsed() < Duration::from_secs(1);
        let mut seen = body.lines().filter_map(|line| line.strip_prefix("id: "));
        let primed = seen.next().unwrap().to_owned();
        assert_eq!(seen.next(), Some(&*primed.replace("-0", "-1")), "{body}");
        ids.push(primed);
    }
    // To resume it nevertheless says what happened.
    let last = ids.len() as u64 - 1;
    let told = lost(&http, ids.last().unwrap(), last).await;
    assert_eq!(told["data"]["reason"], "written");
}

#[tokio::test]
async fn older_clients_get_answers_without_ids() {
    let project = slow_tools();
    project.tool("quick", "echo ok");
    let http = project.http(&[]).await;
    for version in ["2025-03-26", "2025-06-18"] {
        let old = http.another(version).await;
        let body = old.post(&call(1, "quick")).await.text().await.unwrap();
        assert!(body.starts_with("data: {"), "{body}");
        for word in ["id: ", "retry: ", "data: \n"] {
            assert!(!body.contains(word), "{version}: {body}");
        }
        drop(old.post(&call(2, "slow")).await);
        assert_eq!(
            old.open(Some("2-0")).await.status(),
            StatusCode::BAD_REQUEST
        );
    }
    go(&project, "slow");
    let off = project.http(&["--parked-answer-timeout", "0s"]).await;
    let body = off.post(&call(1, "quick")).await.text().await.unwrap();
    assert!(body.starts_with("data: {"), "{body}");
}

#[tokio::test]
async fn a_stop_waits_for_an_answer_that_is_resumed() {
    let project = slow_tools();
    let mut http = project.http(&[]).await;
    let primed = call_and_lose(&http, 1, "slow").await;
    let mut resumed = http.stream(Some(&primed)).await;
    assert_eq!(resumed.next().await["params"]["progress"], 1.0);
    http.server.signal(rustix::process::Signal::TERM);
    http.server.wait_for("drain");
    go(&project, "slow");
    let answer = loop {
        let message = resumed.next().await;
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(text(&answer), "finished");
    assert!(http.server.exit().await.success());
}

#[tokio::test]
async fn the_server_closes_and_the_client_polls_until_the_answer_is_there() {
    let project = slow_tools();
    let http = project.http(&["--poll-answers-after", "1s"]).await;
    let mut post = Stream::at(http.post(&call(1, "slow")).await, "2025-11-25");
    assert_eq!(post.next().await["params"]["progress"], 1.0);
    assert!(post.until_end().await.is_none(), "closed without an answer");
    let seen = post.ids.last().unwrap().clone();
    let (messages, _) = resume(&http, &seen).await;
    assert!(messages.is_empty(), "and again: {messages:?}");
    go(&project, "slow");
    let (messages, _) = resume(&http, &seen).await;
    assert_eq!(text(messages.last().unwrap()), "finished");
}

/// An official client against a server that closes its connection before the answer is there.
async fn polls(client: testbed::Client, script: &str) {
    let project = Project::empty();
    project.tool("slow", "sleep 3; echo finished");
    let http = project.http(&["--poll-answers-after", "1s"]).await;
    let calls = json!([{"name": "slow", "arguments": {}}]);
    let target = format!("{}/mcp", http.base);
    let Some(found) = crate::clients::run(client, script, &target, "legacy", &calls) else {
        return;
    };
    assert_eq!(text(&json!({"result": found["answers"][0]})), "finished");
    let metrics = http.get("/metrics").await.text().await.unwrap();
    let resumed = metrics
        .lines()
        .find_map(|line| line.strip_prefix("kubecrier_answers_resumed_total "));
    assert_ne!(resumed, Some("0"), "it polled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_client_polls_for_its_answer() {
    polls(testbed::Client::TypeScript, "resumes.mjs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_polls_for_its_answer() {
    polls(testbed::Client::Python, "resumes.py").await;
}
