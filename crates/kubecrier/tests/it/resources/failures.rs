//! Updates that cannot be delivered: a build for tests has a transport that fails on
//! purpose.

use std::{fs, time::Duration};

use serde_json::Value;
use testbed::{Cluster, User, event, pod};

use super::{UpdateStream, create_pod_with_log};
use crate::harness::{FailureCounts, File, Http, TIMEOUT, command, one_context};

/// A resource, and what makes it change.
struct Case {
    resource_type: &'static str,
    path: &'static str,
    change: Change,
}

#[derive(Clone, Copy)]
enum Change {
    Event,
    Line,
    Pod,
}

/// Every type of resource that is counted.
const CASES: &[Case] = &[
    Case {
        resource_type: "events",
        path: "events",
        change: Change::Event,
    },
    Case {
        resource_type: "podlogs",
        path: "pods/web-0/logs/app",
        change: Change::Line,
    },
    Case {
        resource_type: "graph",
        path: "graph",
        change: Change::Pod,
    },
];

/// A server whose sends fail as a file specifies.
struct Bench {
    _file: File,
    dir: tempfile::TempDir,
    http: Http,
    space: String,
}

// === impl Bench ===

impl Bench {
    async fn new(cluster: &Cluster, space: &str) -> Self {
        create_pod_with_log(cluster, space).await;
        let file = one_context(cluster, User::Reader);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("plan"), "").unwrap();
        let mut command = command();
        let command = command
            .env("FAILING_SENDS", dir.path().join("plan"))
            .args(["--log-format", "json", "--kubeconfig"])
            .arg(&file.path);
        Self {
            http: Http::start_command(command, "2025-11-25").await,
            _file: file,
            dir,
            space: space.to_owned(),
        }
    }

    fn plan(&self, plan: &str) {
        fs::write(self.dir.path().join("plan"), plan).unwrap();
    }

    fn uri(&self, case: &Case) -> String {
        format!("k8s://dev/{}/{}", self.space, case.path)
    }

    async fn change(&self, cluster: &Cluster, case: &Case, word: &str) {
        match case.change {
            Change::Event => {
                let one = event(&self.space, "Pod/web-0", "Warning", "Failed", word);
                cluster.create(&one).await.unwrap();
            }
            Change::Line => {
                let container = format!("{}/web-0/app", self.space);
                cluster.node().append(&container, word);
            }
            Change::Pod => {
                let one = pod(&self.space, word, &["app"]);
                cluster.create(&one).await.unwrap();
            }
        }
    }

    /// The records of the log with this text.
    fn records(&self, says: &str) -> Vec<Value> {
        let log = self.http.server.log();
        let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
        records
            .filter(|record: &Value| record.to_string().contains(says))
            .collect()
    }

    /// Waits until that many records have the text.
    async fn recorded(&self, says: &str, count: usize) -> Vec<Value> {
        let reached = async {
            while self.records(says).len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        assert!(reached.is_ok(), "{says}: {}", self.http.server.log());
        self.records(says)
    }

    /// Waits until no listener is left: only the session of this test.
    async fn alone(&self) {
        let reached = async {
            loop {
                let metrics = self.http.get("/metrics").await.text().await.unwrap();
                if metrics.lines().any(|line| line == "kubecrier_sessions 1") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        assert!(reached.is_ok(), "a listen that was left stays");
    }
}

/// When a record was written, in milliseconds.
fn when(record: &Value) -> i128 {
    let time = record["timestamp"].as_str().unwrap();
    let time: jiff::Timestamp = time.parse().unwrap();
    time.as_nanosecond() / 1_000_000
}

/// 100, 200, 400 ms lie between sends, and no less; how much more is up to the
/// machine.
fn paused(sends: &[Value]) {
    for (pair, pause) in sends.windows(2).zip([100, 200, 400]) {
        let gap = when(&pair[1]) - when(&pair[0]);
        assert!(gap >= pause - 1, "{pause}: {gap} ms");
    }
}

#[tokio::test]
async fn a_send_that_fails_for_a_moment_is_repeated_and_nobody_hears_of_it() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let bench = Bench::new(cluster, "transient").await;
    for case in CASES {
        let uri = bench.uri(case);
        let mut updates = UpdateStream::listen(&bench.http, &[&uri]).await;
        updates.update().await;
        for (error, times) in [("network", 1), ("timeout", 3)] {
            let before = bench.records("a send fails on purpose").len();
            bench.plan(&format!("{} {error} {times}\n", case.resource_type));
            bench
                .change(cluster, case, &format!("at-last-{error}"))
                .await;
            updates.until(&format!("at-last-{error}")).await;
            let sends = bench.records("a send fails on purpose");
            assert_eq!(
                sends.len() - before,
                times,
                "{} {error}",
                case.resource_type
            );
            paused(&sends[before..]);
        }
        bench.plan("");
    }
    assert!(bench.records("\"ERROR\"").is_empty(), "no error was logged");
    assert_eq!(FailureCounts::scrape(&bench.http).await.all(), 0);
}

#[tokio::test]
async fn a_send_that_fails_for_ever_is_one_record_and_one_count() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let bench = Bench::new(cluster, "permanent").await;
    let (mut failures, mut sends_so_far) = (0, 0);
    for case in CASES {
        let Case { resource_type, .. } = case;
        let uri = bench.uri(case);
        for (error, attempts, sends) in [
            ("network", 3, 4),
            ("timeout", 3, 4),
            ("serialization", 1, 1),
            ("other", 1, 1),
        ] {
            // A subscriber that was removed after a failed connection subscribes again.
            let mut updates = UpdateStream::listen(&bench.http, &[&uri]).await;
            updates.update().await;
            let before = bench.records("a send fails on purpose").len();
            assert_eq!(before, sends_so_far, "what was given up is not sent again");
            bench.plan(&format!("{resource_type} {error} ever\n"));
            bench
                .change(cluster, case, &format!("lost-to-{error}"))
                .await;
            failures += 1;
            let records = bench.recorded("\"ERROR\"", failures).await;
            let record = &records[failures - 1];
            assert_eq!(record["level"], "ERROR");
            assert_eq!(record["resource_type"], *resource_type, "{record}");
            assert_eq!(record["uri"], uri, "{record}");
            assert_eq!(record["attempt_number"], attempts, "{record}");
            assert!(record["error_message"].is_string(), "{record}");
            // Those four, and what every record has: time, level, target and text.
            assert_eq!(record.as_object().unwrap().len(), 8, "{record}");
            let sent = bench.records("a send fails on purpose").split_off(before);
            assert_eq!(sent.len(), sends, "given up: {error}");
            sends_so_far += sends;
            paused(&sent);
            let counts = FailureCounts::scrape(&bench.http).await;
            let counted = (counts.all(), counts.of(resource_type, error));
            assert_eq!(counted, (failures as u64, 1), "{resource_type} {error}");
            bench.plan("");
            drop(updates);
            // Otherwise its sends would count for the next case.
            bench.alone().await;
        }
    }
    let counts = FailureCounts::scrape(&bench.http).await;
    for Case { resource_type, .. } in CASES {
        assert_eq!(counts.of_type(resource_type), 4, "{counts:?}");
        let records = bench.records("\"ERROR\"");
        let own = format!("\"resource_type\":\"{resource_type}\"");
        let own = records.iter().filter(|one| one.to_string().contains(&own));
        assert_eq!(own.count(), 4, "told apart by that field alone");
    }
    for error in ["network", "timeout", "serialization", "other"] {
        assert_eq!(counts.of_error(error), 3, "{counts:?}");
    }
}
