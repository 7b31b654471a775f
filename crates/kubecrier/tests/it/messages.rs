//! Messages that are none, that lack something, or that come together.

use std::{
    io::{Read, Write},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::harness::{
    Http, HttpSession, Project, Server, StdioSession, changed, command, initialize, kubeconfig,
};

const LISTS: [&str; 3] = [
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/tools/list_changed",
];

/// Sends a body as it is, in a session; the status, and the answer if it is JSON.
async fn post(session: &HttpSession, kind: &str, body: &str) -> (u16, Value) {
    let request = session.request(&Value::Null).body(body.to_owned());
    let mut request = request.build().unwrap();
    request
        .headers_mut()
        .insert("content-type", kind.parse().unwrap());
    request.headers_mut().remove("content-length");
    let answer = reqwest::Client::new().execute(request).await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_default())
}

/// Lines that are no messages: the text, the id of the answer, its code.
fn wrong() -> Vec<(&'static str, Value, i64)> {
    vec![
        ("hello", Value::Null, -32700),
        ("{\"jsonrpc\":", Value::Null, -32700),
        ("5", Value::Null, -32600),
        ("{}", Value::Null, -32600),
        (r#"{"id":1,"method":"tools/list"}"#, json!(1), -32600),
        (
            r#"{"jsonrpc":"1.0","id":"a","method":"tools/list"}"#,
            json!("a"),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
            Value::Null,
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":3,"method":7}"#, json!(3), -32600),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{}}"#,
            json!(4),
            -32602,
        ),
    ]
}

#[tokio::test]
async fn what_is_no_message_is_answered_as_json_rpc_says() {
    let file = kubeconfig(|file| file);
    let http = Http::start(&file.path, &[]).await;
    for (text, id, code) in wrong() {
        // The last is a message, with a wrong parameter.
        if code == -32602 {
            let answer = http.rpc("tools/call", json!({})).await;
            assert_eq!(answer["error"]["code"], code, "{answer}");
            assert!(
                answer["error"]["message"].to_string().contains("`name`"),
                "{answer}"
            );
            continue;
        }
        let (status, answer) = post(&http, "application/json", text).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (400, &json!(code)),
            "{text}: {answer}"
        );
        assert_eq!(answer.get("id"), Some(&id), "{text}");
        let (status, _) = post(&http, "text/plain", text).await;
        assert_eq!(status, 415, "{text}");
    }
    http.rpc("tools/list", json!({})).await;
    let mut session = StdioSession::start(&mut command());
    for handshake in [false, true] {
        if handshake {
            session.handshake();
        }
        for (text, id, code) in wrong() {
            // Before `initialize`, a request is refused for that.
            if code == -32602 && !handshake {
                continue;
            }
            session.send_line(text);
            let answer = loop {
                let message = session.receive();
                if message.get("method").is_none() {
                    break message;
                }
            };
            assert_eq!(answer["error"]["code"], code, "{text}: {answer}");
            assert_eq!(answer.get("id"), Some(&id), "{text}");
        }
    }
    session.rpc("tools/list", json!({}));
}

#[tokio::test]
async fn an_initialize_may_leave_out_what_is_not_needed() {
    let file = kubeconfig(|file| file);
    let http = Http::start(&file.path, &[]).await;
    let first = |params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    for (params, version) in [
        (json!({}), "2025-11-25"),
        (json!(null), "2025-11-25"),
        (json!({"protocolVersion": "2025-03-26"}), "2025-03-26"),
        (
            json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
            "2025-06-18",
        ),
    ] {
        let answer = http.fresh(&first(params.clone())).await;
        assert_eq!(answer.status(), 200, "{params}");
        assert!(answer.headers().contains_key("mcp-session-id"));
        let answer = crate::harness::message(&answer.text().await.unwrap());
        assert_eq!(answer["result"]["protocolVersion"], version, "{params}");
        let mut session = StdioSession::start(&mut command());
        session.send(&first(params.clone()));
        assert_eq!(
            session.receive()["result"]["protocolVersion"],
            version,
            "{params}"
        );
    }
    for (params, word) in [
        (json!({"protocolVersion": 5}), "`params.protocolVersion`"),
        (json!({"clientInfo": "me"}), "`params.clientInfo`"),
    ] {
        let answer = http.fresh(&first(params.clone())).await;
        assert_eq!(answer.status(), 400);
        let answer: Value = answer.json().await.unwrap();
        let mut session = StdioSession::start(&mut command());
        session.send(&first(params));
        for answer in [answer, session.receive()] {
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&json!(1), &json!(-32602))
            );
            assert!(
                answer["error"]["message"].to_string().contains(word),
                "{answer}"
            );
        }
    }
}

/// Runs the server with all of its input at once, as in `kubecrier <<EOF`.
fn piped(project: &Project, input: &str) -> Vec<Value> {
    let mut command = command();
    command.args(["--project-root", project.text()]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(child.wait().unwrap().success());
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// S4-2, S4-36: document 4's own commands, which give all input at once and close it.
#[test]
fn a_client_that_closes_its_input_gets_everything_first() {
    let with_tool = Project::empty();
    with_tool.tool("test_tool", "echo ok");
    let sequence = |params: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"init\",\"method\":\"initialize\",\"params\":{params}}}\n\
             {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":\"l1\",\"method\":\"tools/list\"}}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":\"l2\",\"method\":\"tools/list\"}}\n"
        )
    };
    for project in [Project::empty(), with_tool] {
        for _ in 0..3 {
            let all = piped(&project, &sequence("{}"));
            assert_eq!(changed(&all), LISTS, "{all:?}");
            let mut answered: Vec<_> = all.iter().filter_map(|one| one["id"].as_str()).collect();
            answered.sort_unstable();
            assert_eq!(answered, ["init", "l1", "l2"]);
        }
        let all = piped(&project, &sequence("{\"protocolVersion\":\"2025-03-26\"}"));
        assert_eq!(changed(&all), [""; 0]);
        assert_eq!(all.len(), 3, "{all:?}");
    }
    // The last line need not end, and `initialized` may be missing.
    let only = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    let all = piped(&Project::empty(), only);
    assert_eq!(all.len(), 1, "{all:?}");
}

/// Requests, a notification, what is no message, and what stands alone.
fn batch() -> Value {
    let request = |id: u64, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method});
    json!([
        request(1, "tools/list"),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        request(2, "no/such"),
        5,
        request(3, "initialize"),
        request(4, "ping"),
    ])
}

fn check_batch(answer: &Value) {
    let answers = answer.as_array().unwrap();
    let of = |id: Value| {
        let mut found = answers.iter().filter(|one| one["id"] == id);
        let first = found
            .next()
            .unwrap_or_else(|| panic!("no {id} in {answer}"));
        assert!(found.next().is_none(), "{id} twice: {answer}");
        first
    };
    assert_eq!(answers.len(), 5, "{answer}");
    assert!(of(json!(1))["result"]["tools"].is_array());
    assert_eq!(of(json!(2))["error"]["code"], -32601);
    assert_eq!(of(Value::Null)["error"]["code"], -32600);
    assert_eq!(of(json!(3))["error"]["code"], -32600);
    assert_eq!(of(json!(4))["result"], json!({}));
}

#[tokio::test]
async fn a_batch_is_answered_by_an_array_at_2025_03_26_and_refused_at_every_other_version() {
    let file = kubeconfig(|file| file);
    let http = Http::start(&file.path, &[]).await;
    let notifications = json!([{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = http.another(version).await;
        let answer = session.post(&batch()).await;
        let mut stdio = StdioSession::start(&mut command());
        stdio.send(&initialize(version));
        stdio.receive();
        stdio.send(&batch());
        let told = stdio.receive();
        if version == "2025-03-26" {
            assert_eq!(answer.status(), 200);
            check_batch(&answer.json().await.unwrap());
            check_batch(&told);
            let none = session.post(&notifications).await;
            assert_eq!(none.status(), 202);
            assert_eq!(none.text().await.unwrap(), "");
            let (status, empty) = post(&session, "application/json", "[]").await;
            assert_eq!((status, &empty["error"]["code"]), (400, &json!(-32600)));
            stdio.send(&notifications);
            stdio.send(&json!([]));
            assert_eq!(
                stdio.receive()["error"]["code"],
                -32600,
                "and nothing before"
            );
            continue;
        }
        assert_eq!(answer.status(), 400, "{version}");
        for refused in [answer.json().await.unwrap(), told] {
            let error: &Value = &refused["error"];
            assert_eq!(
                (&refused["id"], &error["code"]),
                (&Value::Null, &json!(-32600))
            );
            assert!(
                error["message"].to_string().contains("2025-03-26"),
                "{refused}"
            );
        }
        session.rpc("tools/list", json!({})).await;
    }
    // Outside of a session, and in the version without sessions.
    for alone in [
        http.fresh(&batch()).await,
        http.fresh_with(&batch(), "mcp-protocol-version", "2026-07-28")
            .await,
    ] {
        assert_eq!(alone.status(), 400);
        let error: Value = alone.json().await.unwrap();
        assert_eq!(error["error"]["code"], -32600, "{error}");
    }
}

#[tokio::test]
async fn a_server_goes_on_after_a_line_that_is_far_too_long() {
    let mut session = StdioSession::start(&mut command());
    session.handshake();
    session.send_line(&"x".repeat(5 * 1024 * 1024));
    let answer = session.response();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    session.rpc("tools/list", json!({}));
    let server: &mut Server = &mut session.server;
    assert!(server.is_running());
}
