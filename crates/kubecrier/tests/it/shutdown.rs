//! Signals, drains and exit codes.

use std::{net::TcpListener, process::Stdio, time::Duration};

use rustix::process::Signal;
use serde_json::json;
use testbed::{LogScript, User, pod};
use tokio::time::Instant;

use crate::harness::{Http, Server, StdioSession, command, one_context};

#[tokio::test]
async fn a_stop_waits_for_running_calls() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("default", "slow", &["app"]))
        .await
        .unwrap();
    let slow = LogScript::lines(["the end"]).delayed(Duration::from_secs(2));
    bed.dev().node().set_log("default/slow/app", slow);
    let file = one_context(bed.dev(), User::Reader);
    let mut http = Http::start(&file.path, &[]).await;
    // An open stream must not hold the stop up.
    let _stream = http.stream(None).await;
    let (answer, ()) = tokio::join!(http.call("pods_log", json!({"name": "slow"})), async {
        while !asked_for(bed, "default/slow/app") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        http.server.signal(Signal::TERM);
    });
    assert_eq!(answer.ok().data["log"], "the end\n");
    let began = Instant::now();
    assert_eq!(http.server.exit().await.code(), Some(0));
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "took {:?}",
        began.elapsed()
    );
    assert!(
        http.server.log().contains("draining"),
        "{}",
        http.server.log()
    );
}

#[tokio::test]
async fn a_stop_waits_for_a_call_on_stdio_too() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("default", "slow-stdio", &["app"]))
        .await
        .unwrap();
    let slow = LogScript::lines(["the end"]).delayed(Duration::from_secs(1));
    bed.dev().node().set_log("default/slow-stdio/app", slow);
    let file = one_context(bed.dev(), User::Reader);
    let mut session = StdioSession::start(command().arg("--kubeconfig").arg(&file.path));
    session.handshake();
    let call = json!({"name": "pods_log", "arguments": {"name": "slow-stdio"}});
    session.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}));
    while !asked_for(bed, "default/slow-stdio/app") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    session.server.signal(Signal::TERM);
    let answer = session.response();
    assert_eq!(answer["result"]["structuredContent"]["log"], "the end\n");
    assert_eq!(session.server.exit().await.code(), Some(0));
}

fn stuck_requests(bed: &testbed::Testbed) -> usize {
    let all = bed.dev().node().requests();
    all.iter()
        .filter(|one| one.container == "default/stuck/app")
        .count()
}

fn asked_for(bed: &testbed::Testbed, container: &str) -> bool {
    bed.dev()
        .node()
        .requests()
        .iter()
        .any(|one| one.container == container)
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever_and_a_second_signal_not_at_all() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("default", "stuck", &["app"]))
        .await
        .unwrap();
    let stuck = LogScript::lines(["never"]).delayed(Duration::from_hours(1));
    bed.dev().node().set_log("default/stuck/app", stuck);
    let file = one_context(bed.dev(), User::Reader);
    let arguments = [
        "--request-timeout-seconds",
        "60",
        "--drain-timeout-seconds",
        "2",
    ];
    for (signals, code) in [(1, 0), (2, 1)] {
        let mut http = Http::start(&file.path, &arguments).await;
        let before = stuck_requests(bed);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "pods_log", "arguments": {"name": "stuck"}}});
        let request = http.request(&body);
        let mut calls = tokio::task::JoinSet::new();
        calls.spawn(async move { request.send().await.map(drop) });
        while stuck_requests(bed) == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let began = Instant::now();
        http.server.signal(Signal::TERM);
        http.server.wait_for("draining");
        if signals == 2 {
            http.server.signal(Signal::INT);
        }
        assert_eq!(http.server.exit().await.code(), Some(code));
        let took = began.elapsed();
        let expected = if signals == 2 { 0.0..1.5 } else { 1.0..4.0 };
        assert!(
            expected.contains(&took.as_secs_f64()),
            "{signals} signals took {took:?}"
        );
    }
}

#[tokio::test]
async fn stdio_ends_with_its_client_and_on_a_signal() {
    let mut session = StdioSession::start(&mut command());
    session.handshake();
    session.close();
    assert_eq!(session.server.exit().await.code(), Some(0));
    let mut session = StdioSession::start(&mut command());
    session.handshake();
    session.server.signal(Signal::TERM);
    assert_eq!(session.server.exit().await.code(), Some(0));
    // Before `initialize`, too.
    let mut session = StdioSession::start(&mut command());
    session.server.wait_for("serving MCP on stdin");
    session.server.signal(Signal::TERM);
    assert_eq!(session.server.exit().await.code(), Some(0));
}

#[tokio::test]
async fn bad_usage_is_64_and_a_failure_is_1() {
    let code = async |arguments: &[&str]| {
        let mut server = Server::start(command().args(arguments).stdin(Stdio::null()));
        let code = server.exit().await.code();
        (code, server)
    };
    assert_eq!(code(&["--prot", "1"]).await.0, Some(64));
    assert_eq!(code(&["--port", "70000"]).await.0, Some(64));
    assert_eq!(code(&["--config", "/no/such.toml"]).await.0, Some(64));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (failed, server) = code(&["--port", &port]).await;
    assert_eq!(failed, Some(1));
    let line = server.wait_for("cannot listen");
    assert!(line.contains(&port), "{line}");
    server.wait_for("choose one with --port");
}
