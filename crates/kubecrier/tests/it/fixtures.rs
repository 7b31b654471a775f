//! The notifications that a client can receive: the project of the conformance suite has
//! tools and resources that cause each of them.

use serde_json::{Value, json};

use crate::harness::{Http, Project, Stream, message};

const WATCHED: &str = "test://watched-resource";

/// No test of this file needs a cluster.
pub(crate) async fn start() -> (Project, Http) {
    let project = Project::sample("conformance");
    let http = project.http(&[]).await;
    (project, http)
}

fn names<'a>(answer: &'a Value, list: &str) -> Vec<&'a str> {
    let list = answer["result"][list].as_array().unwrap();
    list.iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect()
}

/// Every message of a stream up to the answer.
async fn until_answer(stream: &mut Stream) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        all.push(stream.next().await);
        if all.last().unwrap().get("id").is_some() {
            return all;
        }
    }
}

fn of<'a>(messages: &'a [Value], method: &str) -> Vec<&'a Value> {
    let fitting = messages.iter().filter(|one| one["method"] == method);
    fitting.map(|one| &one["params"]).collect()
}

/// Skips the `list_changed` notifications that every session receives first.
async fn settled(http: &Http) -> Stream {
    let mut stream = http.stream(None).await;
    for _list in 0..3 {
        stream.next().await;
    }
    stream
}

/// Changes the list of tools, which works once; its notification is the next message.
async fn change_tools<'a>(http: &Http, streams: impl IntoIterator<Item = &'a mut Stream>) {
    http.call("test_trigger_tool_change", json!({})).await.ok();
    for stream in streams {
        let notification = stream.next().await;
        assert_eq!(
            notification["method"], "notifications/tools/list_changed",
            "{notification}"
        );
    }
}

#[tokio::test]
async fn a_session_is_notified_only_of_its_subscriptions() {
    let (_file, http) = start().await;
    let mut stream = settled(&http).await;
    let trigger = async || http.call("test_trigger_resource_update", json!({})).await;
    let other = http.another("2025-11-25").await;
    let mut quiet = other.stream(None).await;
    let unknown = http
        .rpc("resources/subscribe", json!({"uri": "test://none"}))
        .await;
    assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
    for _twice in 0..2 {
        let answer = http
            .rpc("resources/subscribe", json!({"uri": WATCHED}))
            .await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    trigger().await.ok();
    let notification = stream.next().await;
    assert_eq!(notification["method"], "notifications/resources/updated");
    assert_eq!(notification["params"]["uri"], WATCHED);
    http.rpc("resources/unsubscribe", json!({"uri": WATCHED}))
        .await;
    for _list in 0..3 {
        let notification = quiet.next().await;
        assert!(
            notification["method"]
                .as_str()
                .unwrap()
                .ends_with("list_changed")
        );
    }
    trigger().await.ok();
    change_tools(&http, [&mut stream, &mut quiet]).await;
}

#[tokio::test]
async fn a_listen_is_acknowledged_and_notified_of_exactly_its_uris() {
    let (_file, http) = start().await;
    let wanted = json!({"notifications": {"resourceSubscriptions": [WATCHED, "test://none"]}});
    let mut stream = Stream::new(http.modern("subscriptions/listen", None, wanted).await);
    let ack = stream.next().await;
    let honoured = json!({"resourceSubscriptions": [WATCHED]});
    assert_eq!(ack["params"]["notifications"], honoured);
    let mark = stream.next().await;
    assert_eq!(mark["params"]["uri"], WATCHED, "{mark}");
    // The listener did not subscribe to new tools; the session is notified of them.
    let mut session = settled(&http).await;
    change_tools(&http, [&mut session]).await;
    for _ in 0..2 {
        http.call("test_trigger_resource_update", json!({}))
            .await
            .ok();
        let notification = stream.next().await;
        assert_eq!(notification["params"]["uri"], WATCHED, "{notification}");
    }
    http.server.signal(rustix::process::Signal::TERM);
    assert_eq!(stream.next().await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_changed_list_is_notified_at_once() {
    let (_file, http) = start().await;
    let mut stream = settled(&http).await;
    for kind in ["tool", "prompt"] {
        let trigger = format!("test_trigger_{kind}_change");
        http.call(&trigger, json!({})).await.ok();
        let notification = stream.next().await;
        assert_eq!(
            notification["method"],
            format!("notifications/{kind}s/list_changed")
        );
    }
    let tools = http.rpc("tools/list", json!({})).await;
    assert!(names(&tools, "tools").contains(&"test_another_tool"));
}

#[tokio::test]
async fn progress_goes_onto_the_stream_of_the_answer_and_rises() {
    let (_file, http) = start().await;
    let mut common = settled(&http).await;
    let call = json!({
        "name": "test_tool_with_progress",
        "arguments": {},
        "_meta": {"progressToken": "p-1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": call});
    let legacy = http.post(&body).await;
    let modern = http
        .modern("tools/call", Some("test_tool_with_progress"), call)
        .await;
    for response in [legacy, modern] {
        let mut answer = Stream::at(response, "2025-11-25");
        let messages = until_answer(&mut answer).await;
        let progress = of(&messages, "notifications/progress");
        let values: Vec<_> = progress
            .iter()
            .map(|one| one["progress"].as_f64())
            .collect();
        assert_eq!(values, [Some(0.0), Some(50.0), Some(100.0)]);
        assert!(progress.iter().all(|one| one["progressToken"] == "p-1"));
        assert_eq!(messages.len(), 4);
    }
    // A request without a progress token gets no progress notifications.
    let answer = http.call("test_tool_with_progress", json!({})).await;
    assert!(!answer.is_error);
    change_tools(&http, [&mut common]).await;
}

#[tokio::test]
async fn a_session_hears_log_messages_by_its_level() {
    let (_file, http) = start().await;
    let mut stream = settled(&http).await;
    http.call("test_tool_with_logging", json!({})).await.ok();
    http.rpc("logging/setLevel", json!({"level": "info"})).await;
    http.call("test_tool_with_logging", json!({})).await.ok();
    for text in ["started", "working", "done"] {
        let notification = stream.next().await;
        assert_eq!(notification["method"], "notifications/message");
        let expected = json!({"level": "info", "logger": "test_tool_with_logging", "data": text});
        assert_eq!(notification["params"], expected);
    }
    http.rpc("logging/setLevel", json!({"level": "warning"}))
        .await;
    http.call("test_tool_with_logging", json!({})).await.ok();
    // Three messages in all: further ones would be due to the first or the last call.
    change_tools(&http, [&mut stream]).await;
}

#[tokio::test]
async fn a_request_without_a_session_gets_log_messages_only_on_request() {
    let (_file, http) = start().await;
    http.rpc("logging/setLevel", json!({"level": "debug"}))
        .await;
    let ask = async |level: Option<&str>| {
        let mut call = json!({"name": "test_logging_tool", "arguments": {}});
        if let Some(level) = level {
            call["_meta"] = json!({"io.modelcontextprotocol/logLevel": level});
        }
        http.modern("tools/call", Some("test_logging_tool"), call)
            .await
    };
    let messages = until_answer(&mut Stream::new(ask(Some("info")).await)).await;
    assert_eq!(
        of(&messages, "notifications/message").len(),
        3,
        "{messages:?}"
    );
    for level in [None, Some("error")] {
        let answer = ask(level).await.text().await.unwrap();
        assert!(
            !answer.contains("notifications/message"),
            "{level:?}: {answer}"
        );
        assert_eq!(message(&answer)["result"]["resultType"], "complete");
    }
    let refused = message(&ask(Some("loud")).await.text().await.unwrap());
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`loud`")
    );
}

#[tokio::test]
async fn stdio_has_all_of_it_too() {
    let project = Project::sample("conformance");
    let mut session = project.stdio();
    session.handshake();
    for _list in 0..3 {
        session.receive();
    }
    session.rpc("logging/setLevel", json!({"level": "debug"}));
    session.rpc("resources/subscribe", json!({"uri": WATCHED}));
    let call = json!({"name": "test_trigger_resource_update", "arguments": {}});
    session.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": call}));
    // The update and the response take different paths, so either may arrive first.
    let both = [session.receive(), session.receive()];
    let notification = both.iter().find(|one| one["id"] != 8).unwrap();
    assert_eq!(notification["params"]["uri"], WATCHED, "{both:?}");
    session.call("test_tool_with_logging", json!({})).ok();
    let mut call = json!({"name": "test_tool_with_progress", "arguments": {}});
    call["_meta"] = json!({"progressToken": 5});
    session.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call}));
    let mut received = Vec::new();
    while received.last().is_none_or(|last: &Value| last["id"] != 9) {
        received.push(session.receive());
    }
    let progress = of(&received, "notifications/progress");
    assert_eq!(progress.len(), 3, "{received:?}");
    assert!(progress.iter().all(|one| one["progressToken"] == 5));
}
