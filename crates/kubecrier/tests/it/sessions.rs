//! Sessions over HTTP and what is pushed to them.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{Kubeconfig, LogScript, User, pod};
use tokio::time::timeout;

use crate::harness::{File, Http, MARKER, Project, Stream, initialize, kubeconfig, one_context};

fn no_cluster() -> File {
    kubeconfig(|file| {
        file.server_context("dev", "https://127.0.0.1:1", "")
            .current("dev")
    })
}

const ALL_LISTS: [&str; 3] = [
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/tools/list_changed",
];

async fn methods(stream: &mut Stream, count: usize) -> Vec<String> {
    let mut methods = Vec::new();
    for _ in 0..count {
        methods.push(stream.next().await["method"].as_str().unwrap().to_owned());
    }
    methods.sort();
    methods
}

#[tokio::test]
async fn a_fresh_session_is_told_of_each_list_once_and_no_more() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let mut stream = http.stream(None).await;
    assert_eq!(methods(&mut stream, 3).await, ALL_LISTS);
    for _ in 0..3 {
        http.rpc("tools/list", json!({})).await;
    }
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
    // A reconnect does not repeat the notifications.
    drop(stream);
    let mut stream = http.stream(None).await;
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
}

#[tokio::test]
async fn a_session_of_an_old_version_is_told_nothing() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let old = http.another("2025-03-26").await;
    let mut quiet = old.stream(None).await;
    // Another session in the same process, by its own rule.
    let new = http.another("2025-06-18").await;
    let mut stream = new.stream(None).await;
    assert_eq!(methods(&mut stream, 3).await, ALL_LISTS);
    project.expect_nothing_before_marker(&old, &mut quiet).await;
}

#[tokio::test]
async fn a_changed_list_is_told_once() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let project = Project::new();
    let http = Http::start(&file.path, &["--project-root", project.text()]).await;
    let mut stream = http.stream(None).await;
    methods(&mut stream, 3).await;
    // A second context: the tools now take one.
    let more = Kubeconfig::new()
        .context("dev", bed.dev(), User::Reader)
        .context("dev-2", bed.dev(), User::Reader)
        .current("dev");
    more.write(&file.path).unwrap();
    assert_eq!(
        stream.next().await["method"],
        "notifications/tools/list_changed"
    );
    // Written again with the same content: no change.
    more.write(&file.path).unwrap();
    http.rpc("tools/list", json!({})).await;
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
    // And back, which is one.
    let less = Kubeconfig::new().context("dev", bed.dev(), User::Reader);
    less.current("dev").write(&file.path).unwrap();
    assert_eq!(
        stream.next().await["method"],
        "notifications/tools/list_changed"
    );
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
}

#[tokio::test]
async fn the_newest_stream_receives_and_the_older_one_ends_with_a_reason() {
    let file = no_cluster();
    let http = Http::start(&file.path, &[]).await;
    let mut first = http.stream(None).await;
    methods(&mut first, 3).await;
    let mut second = http.stream(None).await;
    let end = first.rest().await;
    assert!(
        end.contains(": a newer stream of this session has taken over"),
        "{end:?}"
    );
    let more = Kubeconfig::new()
        .server_context("dev", "https://127.0.0.1:1", "")
        .server_context("more", "https://127.0.0.1:1", "")
        .current("dev");
    more.write(&file.path).unwrap();
    assert_eq!(
        second.next().await["method"],
        "notifications/tools/list_changed"
    );
}

#[tokio::test]
async fn a_cancelled_request_ends_its_answer_and_frees_its_id() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("default", "cancelled", &["app"]))
        .await
        .unwrap();
    let stuck = LogScript::lines(["never"]).delayed(Duration::from_hours(1));
    bed.dev().node().set_log("default/cancelled/app", stuck);
    let file = one_context(bed.dev(), User::Reader);
    let mut http = Http::start(&file.path, &["--request-timeout-seconds", "60"]).await;
    let call = |id: u64| {
        let params = json!({"name": "pods_log", "arguments": {"name": "cancelled"}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let mut answer = Stream::at(http.post(&call(70)).await, "2025-11-25");
    // The id is taken while the request runs.
    let twice = crate::harness::message(&http.post(&call(70)).await.text().await.unwrap());
    assert_eq!(twice["error"]["code"], -32600, "{twice}");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 70}});
    assert_eq!(http.post(&cancel).await.status(), StatusCode::ACCEPTED);
    let rest = answer.rest().await;
    assert!(
        !rest.contains("\"id\":70"),
        "a cancelled request is not answered: {rest}"
    );
    // MCP forbids a client to use an id twice. Where one does, what the cancelled call still
    // says is not taken for the answer to the later request.
    let again = json!({"jsonrpc": "2.0", "id": 70, "method": "tools/list", "params": {}});
    let again = crate::harness::message(&http.post(&again).await.text().await.unwrap());
    assert!(again["result"]["tools"].is_array(), "{again}");
    let over = async {
        loop {
            let stats: Value = http.get("/stats").await.json().await.unwrap();
            if stats["callsRunning"] == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    (timeout(Duration::from_secs(20), over).await).expect("a cancelled call ends");
    // No request is left that a shutdown would wait for.
    http.server.signal(rustix::process::Signal::TERM);
    let ended = timeout(Duration::from_secs(8), http.server.exit()).await;
    assert!(ended.expect("a stop does not wait for it").success());
}

#[tokio::test]
async fn a_session_that_ends_lets_its_running_requests_go() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("default", "abandoned", &["app"]))
        .await
        .unwrap();
    let stuck = LogScript::lines(["never"]).delayed(Duration::from_hours(1));
    bed.dev().node().set_log("default/abandoned/app", stuck);
    let file = one_context(bed.dev(), User::Reader);
    let arguments = ["--request-timeout-seconds", "60", "--max-sessions", "1"];
    let http = Http::start(&file.path, &arguments).await;
    let params = json!({"name": "pods_log", "arguments": {"name": "abandoned"}});
    let call = json!({"jsonrpc": "2.0", "id": 70, "method": "tools/call", "params": params});
    let mut answer = Stream::at(http.post(&call).await, "2025-11-25");
    assert_eq!(http.delete().await, StatusCode::NO_CONTENT);
    let began = tokio::time::Instant::now();
    answer.rest().await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "its answer ends with it"
    );
    let next = http.fresh(&initialize("2025-11-25")).await;
    assert_eq!(next.status(), StatusCode::OK, "its place is free at once");
}

#[tokio::test]
async fn a_stream_resumes_after_the_last_event_id() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let mut first = http.stream(None).await;
    methods(&mut first, 3).await;
    let ids = first.ids.clone();
    assert_eq!(ids, ["1", "2", "3"]);
    drop(first);
    let mut resumed = http.stream(Some("1")).await;
    methods(&mut resumed, 2).await;
    assert_eq!(resumed.ids, ["2", "3"], "after the id, not from it");
    project
        .expect_nothing_before_marker(&http, &mut resumed)
        .await;
    assert_eq!(resumed.ids[2], "4", "and then what is new");
}

#[tokio::test]
async fn a_session_ends_when_its_client_deletes_it() {
    let file = no_cluster();
    let http = Http::start(&file.path, &[]).await;
    let mut stream = http.stream(None).await;
    methods(&mut stream, 3).await;
    assert_eq!(http.delete().await, StatusCode::NO_CONTENT);
    assert!(stream.rest().await.contains(": the session has ended"));
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}});
    assert_eq!(http.post(&list).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(http.delete().await, StatusCode::NOT_FOUND);
    assert_eq!(http.open(None).await.status(), StatusCode::NOT_FOUND);
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["sessions"], 0);
}

#[tokio::test]
async fn an_open_stream_is_a_sign_of_life_and_nothing_else_is() {
    let file = no_cluster();
    let http = Http::start(&file.path, &["--session-idle-timeout", "4s"]).await;
    let quiet = http.another("2025-11-25").await;
    let listening = http.another("2025-11-25").await;
    let mut stream = listening.stream(None).await;
    methods(&mut stream, 3).await;
    let gone = async || {
        // A request in the session would count as activity, so this reads `/stats`.
        let gone = async {
            loop {
                let stats: Value = http.get("/stats").await.json().await.unwrap();
                if stats["sessions"] == 1 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(20), gone)
            .await
            .expect("idle sessions end");
    };
    gone().await;
    // One that begins now idles away as well, and the older one with a stream is left.
    http.another("2025-11-25").await;
    gone().await;
    listening.rpc("tools/list", json!({})).await;
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}});
    assert_eq!(quiet.post(&list).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_full_server_says_when_to_come_back() {
    let file = no_cluster();
    let http = Http::start(&file.path, &["--max-sessions", "1"]).await;
    let refused = http.fresh(&initialize("2025-11-25")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "30");
    assert!(refused.text().await.unwrap().contains("--max-sessions"));
    http.delete().await;
    assert_eq!(
        http.fresh(&initialize("2025-11-25")).await.status(),
        StatusCode::OK
    );
    let http = Http::start(&file.path, &["--max-session-rate", "1"]).await;
    // On a busy machine there can be more than a second between two.
    let mut refused = http.fresh(&initialize("2025-11-25")).await;
    for _ in 0..20 {
        if refused.status() != StatusCode::OK {
            break;
        }
        refused = http.fresh(&initialize("2025-11-25")).await;
    }
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
}

#[tokio::test]
async fn log_levels_are_eight_and_a_ninth_is_an_error() {
    let file = no_cluster();
    let http = Http::start(&file.path, &[]).await;
    for level in [
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    ] {
        let answer = http.rpc("logging/setLevel", json!({"level": level})).await;
        assert_eq!(answer["result"], json!({}), "{level}: {answer}");
    }
    let answer = http.rpc("logging/setLevel", json!({"level": "loud"})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("emergency"),
        "{answer}"
    );
    // The newest protocol has none of these, whatever their parameters are.
    for (method, params) in [
        ("logging/setLevel", json!({"level": "info"})),
        ("initialize", json!({})),
        ("resources/subscribe", json!({})),
        ("resources/unsubscribe", json!({})),
    ] {
        let modern = http.modern(method, None, params).await;
        assert_eq!(modern.status(), StatusCode::NOT_FOUND, "{method}");
        let answer = crate::harness::message(&modern.text().await.unwrap());
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
}

#[tokio::test]
async fn a_listen_gets_what_it_asked_for_and_a_graceful_end() {
    let project = Project::new();
    let mut http = project.http(&[]).await;
    let wanted = json!({"notifications": {
        "toolsListChanged": true, "resourceSubscriptions": [MARKER],
    }});
    let response = http.modern("subscriptions/listen", None, wanted).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut stream = Stream::new(response);
    let ack = stream.next().await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        ack["params"]["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": [MARKER]})
    );
    let updated = "notifications/resources/updated";
    let tools = "notifications/tools/list_changed";
    assert_eq!(methods(&mut stream, 2).await, [updated, tools]);
    // It gets no notification about another prompt.
    project.prompt("another", "text");
    for _ in 0..2 {
        project.mark();
        assert_eq!(stream.next().await["method"], updated);
    }
    http.server.signal(rustix::process::Signal::TERM);
    let end = stream.next().await;
    assert_eq!(end["result"]["resultType"], "complete", "{end}");
    assert!(http.server.exit().await.success());
}
