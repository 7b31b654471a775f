//! Notifications that no client can be sent, on every transport: the fixtures publish
//! updates that have no bytes, and of any type.

use std::{fs, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    FailureCounts, Http, Project, Server, StdioSession, Stream, TIMEOUT, changed, command,
};

const WATCHED: &str = "test://watched-resource";
const TYPES: [&str; 3] = ["events", "graph", "podlogs"];

fn fixtures() -> std::process::Command {
    let mut command = command();
    command
        .env("CONFORMANCE_FIXTURES", "1")
        .args(["--log-format", "json"]);
    command
}

/// The call that publishes an update of a type.
fn trigger(resource_type: &str, unserialisable: bool) -> Value {
    json!({"resourceType": resource_type, "unserialisable": unserialisable})
}

/// The record of an update that could not be serialised, and nothing but its four fields.
#[track_caller]
fn check_record(record: &Value, resource_type: &str) {
    let every_record = ["level", "message", "span", "spans", "target", "timestamp"];
    let names = record.as_object().unwrap().keys().map(String::as_str);
    let own: Vec<_> = names.filter(|name| !every_record.contains(name)).collect();
    let expected = ["attempt_number", "error_message", "resource_type", "uri"];
    assert_eq!(own, expected, "{record}");
    assert_eq!(record["resource_type"], resource_type, "{record}");
    assert_eq!(record["uri"], WATCHED, "{record}");
    assert_eq!(
        record["attempt_number"], 1,
        "it was not tried again: {record}"
    );
    let error = record["error_message"].as_str().unwrap();
    assert!(error.contains("no bytes, on purpose"), "{record}");
}

/// One record and one count for each type, on a stream that then goes on.
async fn check_stream(http: &Http, stream: &mut Stream, failures: &mut usize, gap: bool) {
    for resource_type in TYPES {
        let before = FailureCounts::scrape(http).await;
        http.call("test_trigger_resource_update", trigger(resource_type, true))
            .await
            .ok();
        *failures += 1;
        // A pending update would be merged with the next one of the same resource.
        let records = http.server.recorded("ERROR", *failures).await;
        assert_eq!(records.len(), *failures, "{records:?}");
        check_record(records.last().unwrap(), resource_type);
        let counts = FailureCounts::scrape(http).await;
        let new = |get: fn(&FailureCounts, &str) -> u64| {
            get(&counts, resource_type) - get(&before, resource_type)
        };
        assert_eq!(new(|counts, one| counts.of(one, "serialization")), 1);
        assert_eq!(counts.all(), before.all() + 1, "{counts:?}");
        if gap {
            let gap = stream.next().await;
            assert_eq!(gap["method"], "notifications/stream/gap", "{gap}");
            assert_eq!(gap["params"], json!({"missing": 1}));
        }
        // The payload was at fault: the client is told of the next one.
        http.call(
            "test_trigger_resource_update",
            trigger(resource_type, false),
        )
        .await
        .ok();
        let update = stream.next().await;
        assert_eq!(update["params"]["uri"], WATCHED, "{update}");
        assert_eq!(update["params"]["_meta"]["kubecrier/fixture"], true);
    }
}

/// S0-1, S0-3, S0-24, S1-1, S1-2, S1-7, S1-14: the stream of a session, and a listen.
#[tokio::test]
async fn an_update_without_bytes_is_one_record_and_one_count_over_http() {
    let http = Http::start_command(&mut fixtures(), "2025-11-25").await;
    let mut stream = http.stream(None).await;
    for _list in 0..3 {
        stream.next().await;
    }
    let mut failures = 0;
    let watched = json!({"uri": WATCHED});
    http.rpc("resources/subscribe", watched.clone()).await;
    check_stream(&http, &mut stream, &mut failures, true).await;
    http.rpc("resources/unsubscribe", watched).await;
    let wanted = json!({"notifications": {"resourceSubscriptions": [WATCHED]}});
    let mut listen = Stream::new(http.modern("subscriptions/listen", None, wanted).await);
    for method in [
        "notifications/subscriptions/acknowledged",
        "notifications/resources/updated",
    ] {
        assert_eq!(listen.next().await["method"], method);
    }
    check_stream(&http, &mut listen, &mut failures, false).await;
}

/// The same on stdio, which has no page of metrics.
#[tokio::test]
async fn an_update_without_bytes_is_one_record_on_stdio() {
    let mut session = StdioSession::start(&mut fixtures());
    session.handshake();
    for _list in 0..3 {
        session.receive();
    }
    session.rpc("resources/subscribe", json!({"uri": WATCHED}));
    for (nth, resource_type) in TYPES.into_iter().enumerate() {
        session
            .call("test_trigger_resource_update", trigger(resource_type, true))
            .ok();
        let records = session.server.recorded("ERROR", nth + 1).await;
        assert_eq!(records.len(), nth + 1, "{records:?}");
        check_record(&records[nth], resource_type);
        let call = json!({"name": "test_trigger_resource_update",
            "arguments": trigger(resource_type, false)});
        session.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call}));
        let both = [session.receive(), session.receive()];
        let update = both.iter().find(|one| one["id"] != 9).unwrap();
        assert_eq!(update["params"]["uri"], WATCHED, "{both:?}");
    }
}

/// S0-13 to S0-23: retries, classes and records of failed sends are the same on stdio.
#[tokio::test]
async fn on_stdio_a_send_is_repeated_and_given_up_by_the_same_rules() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan");
    fs::write(&plan, "").unwrap();
    let mut session = StdioSession::start(fixtures().env("FAILING_SENDS", &plan));
    session.handshake();
    for _list in 0..3 {
        session.receive();
    }
    let (mut failed, mut given_up) = (0, 0);
    for (error, times, sends, attempt_number) in [
        ("network", "2", 2, 0),
        ("timeout", "ever", 4, 3),
        ("other", "ever", 1, 1),
        ("network", "3", 3, 0),
    ] {
        // A client whose connection failed for good is removed, and subscribes again.
        session.rpc("resources/subscribe", json!({"uri": WATCHED}));
        fs::write(&plan, format!("events {error} {times}\n")).unwrap();
        let call = json!({"name": "test_trigger_resource_update",
            "arguments": trigger("events", false)});
        session.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call}));
        let first = session.receive();
        if attempt_number == 0 {
            let both = [first, session.receive()];
            let update = both.iter().find(|one| one["id"] != 9).unwrap();
            assert_eq!(update["params"]["uri"], WATCHED, "{both:?}");
        } else {
            given_up += 1;
            assert_eq!(first["id"], 9, "the update does not arrive: {first}");
            let records = session.server.recorded("ERROR", given_up).await;
            let record = &records[given_up - 1];
            assert_eq!(record["attempt_number"], attempt_number, "{record}");
            assert_eq!(record["resource_type"], "events", "{record}");
        }
        failed += sends;
        assert_eq!(failures_on_purpose(&session.server, failed).await, failed);
    }
    assert_eq!(session.server.records("ERROR").len(), given_up);
}

/// The number of sends that failed on purpose, when there are at least so many.
async fn failures_on_purpose(server: &Server, least: usize) -> usize {
    let count = || {
        let records = server.records("INFO");
        let said = records
            .iter()
            .filter(|one| one["message"] == "a send fails on purpose");
        said.count()
    };
    let reached = async {
        while count() < least {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    assert!(reached.is_ok(), "{least}: {}", server.log());
    count()
}

/// S2-18, S2-25, S2-36; C9: a client whose connection failed for good is removed from
/// everything that notifies, and from nothing less.
#[tokio::test]
async fn a_listener_that_failed_is_notified_of_no_list_any_more() {
    let project = Project::new();
    let plan = project.path().join("plan");
    fs::write(&plan, "").unwrap();
    let mut command = fixtures();
    command
        .env("FAILING_SENDS", &plan)
        .args(["--project-root", project.text()]);
    let mut http = Http::start_command(&mut command, "2025-11-25").await;
    let mut session = http.stream(None).await;
    let lists = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
    });
    let listen = async |uris: &[&str]| {
        let mut wanted = lists.clone();
        wanted["resourceSubscriptions"] = json!(uris);
        let wanted = json!({"notifications": wanted});
        let mut stream = Stream::new(http.modern("subscriptions/listen", None, wanted).await);
        for _ack_lists_and_marks in 0..4 + uris.len() {
            stream.next().await;
        }
        stream
    };
    let mut sound = listen(&[]).await;
    let mut failing = listen(&[WATCHED]).await;
    for _list in 0..3 {
        session.next().await;
    }
    fs::write(&plan, "events network ever\n").unwrap();
    http.call("test_trigger_resource_update", trigger("events", false))
        .await
        .ok();
    check_given_up(&http.server).await;
    fs::write(&plan, "").unwrap();
    for round in ["one-more", "and-another"] {
        project.tool(round, "true");
        project.resource(round, "text");
        project.prompt(round, "text");
        for stream in [&mut session, &mut sound] {
            let mut received = Vec::new();
            while received.len() < 3 {
                received.push(stream.next().await);
            }
            assert_eq!(changed(&received).len(), 3, "{received:?}");
        }
    }
    http.server.signal(Signal::TERM);
    let end = failing.next().await;
    assert_eq!(
        end["result"]["resultType"], "complete",
        "nothing before: {end}"
    );
    assert!(http.server.exit().await.success());
}

async fn check_given_up(server: &Server) {
    let records = server.recorded("ERROR", 1).await;
    assert_eq!(records[0]["attempt_number"], 3, "{records:?}");
}
