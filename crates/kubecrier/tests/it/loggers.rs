//! The loggers by which a client tells messages apart.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use testbed::{Client, Kubeconfig, User, event, namespace, pod};

use crate::harness::{Http, Subscriber, TIMEOUT, command, one_context};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");

/// S3-20, S3-79: all four kinds on one session.
#[tokio::test]
async fn four_kinds_of_messages_are_told_apart_by_their_logger_alone() {
    let Some(bed) = testbed::shared() else { return };
    let space = "loggers";
    for cluster in [bed.dev(), bed.prod()] {
        let one = namespace(space);
        cluster.create_cluster_wide(&one).await.unwrap();
    }
    let web = pod(space, "web-0", &["app"]);
    bed.dev().create(&web).await.unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let mut command = command();
    command
        .env("CONFORMANCE_FIXTURES", "1")
        .arg("--kubeconfig")
        .arg(&file.path);
    let http = Http::start_command(&mut command, "2025-11-25").await;
    let mut client = Subscriber::at(&http, Some("debug")).await;
    client
        .subscribe(json!({"namespace": space, "type": "Normal"}))
        .await;
    client
        .subscribe(json!({"namespace": space, "mode": "faults"}))
        .await;
    http.call("test_tool_with_logging", json!({})).await.ok();
    for (kind, reason) in [("Normal", "Started"), ("Warning", "BackOff")] {
        let one = event(space, "Pod/web-0", kind, reason, "x");
        bed.dev().create(&one).await.unwrap();
    }
    let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut receive = async |count: usize| {
        for _ in 0..count {
            let message = client.message().await;
            let logger = message["logger"].as_str().unwrap().to_owned();
            kinds
                .entry(logger)
                .or_default()
                .push(message["data"].clone());
        }
    };
    receive(5).await;
    // Another cluster at the context: what happened before is not known.
    let elsewhere = Kubeconfig::new().context("dev", bed.prod(), User::Reader);
    elsewhere.current("dev").write(&file.path).unwrap();
    receive(2).await;
    let counts: Vec<_> = kinds
        .iter()
        .map(|(logger, all)| (logger.as_str(), all.len()))
        .collect();
    let expected = [
        ("fixtures", 3),
        ("kubernetes/events", 1),
        ("kubernetes/faults", 1),
        ("kubernetes/subscription_error", 2),
    ];
    assert_eq!(counts, expected, "{kinds:?}");
    for (logger, all) in &kinds {
        for data in all {
            let has = |key: &str| data.get(key).is_some();
            let shape = (has("event"), has("logs"), has("gap"));
            let expected = match logger.as_str() {
                "kubernetes/events" => (true, false, false),
                "kubernetes/faults" => (true, true, false),
                "kubernetes/subscription_error" => (false, false, true),
                _ => (false, false, false),
            };
            assert_eq!(shape, expected, "{logger}: {data}");
        }
    }
}

/// Ends the process with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// S3-78: the client that the documentation shows, word for word.
#[tokio::test]
async fn the_documented_client_tells_events_by_their_logger() {
    let Some(bed) = testbed::shared() else { return };
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, sample) = page.split_once("```python\n").unwrap();
    let (sample, _) = sample.split_once("```").unwrap();
    let space = "logged";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let documented = "http://127.0.0.1:8080/mcp";
    assert!(sample.contains(documented), "{sample}");
    let sample = sample.replace(documented, &format!("{}/mcp", http.base));
    let workplace = tempfile::tempdir().unwrap();
    let script = workplace.path().join("sample.py");
    fs::write(&script, sample).unwrap();
    let client = match Client::Python.command(&script, workplace.path()) {
        Ok(command) => command,
        Err(missing) => return testbed::skip(&missing),
    };
    let mut running = Running(
        Command::new(client.get_program())
            .args(client.get_args())
            .env("PYTHONUNBUFFERED", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let subscribed = async {
        loop {
            let stats: Value = http.get("/stats").await.json().await.unwrap();
            if stats["subscriptions"] == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    (tokio::time::timeout(TIMEOUT, subscribed).await).expect("it subscribes");
    for (kind, reason) in [("Normal", "NotLogged"), ("Warning", "Logged")] {
        let one = event(space, "Pod/web-0", kind, reason, "x");
        bed.dev().create(&one).await.unwrap();
    }
    let stdout = BufReader::new(running.0.stdout.take().unwrap());
    let read = tokio::task::spawn_blocking(move || {
        // Warnings of other tests are in this cluster too.
        let mut lines = stdout.lines().map_while(Result::ok);
        lines.find(|line| line == "event Logged" || line.contains("NotLogged"))
    });
    let line = tokio::time::timeout(TIMEOUT, read).await.expect("a line");
    assert_eq!(line.unwrap().as_deref(), Some("event Logged"));
}
