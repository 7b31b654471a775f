//! Faults, end to end: a warning about a pod arrives with its evidence.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{LogScript, User, event, namespace, pod};

use crate::harness::{Http, Subscriber, one_context};

async fn warn(space: &str, pod: &str, reason: &str) {
    let bed = testbed::shared().unwrap();
    let new_event = event(
        space,
        &format!("Pod/{pod}"),
        "Warning",
        reason,
        "back-off restarting",
    );
    bed.dev().create(&new_event).await.unwrap();
}

/// A pod whose containers were restarted so often.
async fn restarted(space: &str, name: &str, containers: &[&str], restarts: i32) {
    let bed = testbed::shared().unwrap();
    bed.dev()
        .create(&pod(space, name, containers))
        .await
        .unwrap();
    let statuses: Vec<_> = (containers.iter())
        .map(|name| {
            json!({
                "name": name, "image": "x", "imageID": "", "ready": false, "restartCount": restarts,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": if restarts > 0 {
                    json!({"terminated": {"exitCode": 2, "reason": "Error"}})
                } else {
                    json!({})
                },
            })
        })
        .collect();
    let status = json!({"phase": "Running", "containerStatuses": statuses});
    bed.dev().set_pod_status(space, name, status).await.unwrap();
}

fn logs(data: &Value) -> &Vec<Value> {
    data["logs"].as_array().unwrap()
}

/// S3-26 to S3-30, S3-35, S3-36, S3-38, D9: document 3's scenarios of a crash loop.
#[tokio::test]
async fn a_crash_loop_arrives_with_both_logs_and_once() {
    let Some(bed) = testbed::shared() else { return };
    let space = "fault-crash";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    restarted(space, "web-0", &["app"], 3).await;
    let node = bed.dev().node();
    let many = (0..2000).map(|n| format!("line {n} of a log that is longer than what is sent"));
    node.set_log(&format!("{space}/web-0/app"), LogScript::lines(many));
    let crash = [
        "starting",
        "token=abcdef1234567890abcdef",
        "panic: no config",
        "goroutine 1 [running]:",
    ];
    node.set_previous_log(&format!("{space}/web-0/app"), LogScript::lines(crash));
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    // Warnings are faults; info is not needed.
    let mut client = Subscriber::at(&http, Some("warning")).await;
    let arguments = json!({"mode": "faults", "namespace": space});
    let made = http.call("events_subscribe", arguments).await.ok().data;
    assert_eq!(
        (&made["mode"], &made["warnings"]),
        (&json!("faults"), &json!([]))
    );
    warn(space, "web-0", "BackOff").await;
    let message = client.message().await;
    assert_eq!(message["logger"], "kubernetes/faults");
    assert_eq!(message["level"], "warning");
    let data = &message["data"];
    assert_eq!(data["event"]["reason"], "BackOff");
    assert_eq!(data["event"]["involvedObject"]["name"], "web-0");
    assert_eq!(data["faultId"].as_str().unwrap().len(), 16, "{data}");
    assert!(data["note"].as_str().unwrap().contains("untrusted"));
    let [current, previous] = logs(data).as_slice() else {
        panic!("two logs: {data}");
    };
    assert_eq!(
        (&current["container"], &current["previous"]),
        (&json!("app"), &json!(false))
    );
    assert_eq!(
        (&current["hasPanic"], &current["truncated"]),
        (&json!(false), &json!(true))
    );
    let sample = current["sample"].as_str().unwrap();
    assert!(
        sample.len() <= 10_240 && sample.starts_with("line "),
        "{sample}"
    );
    assert!(
        sample
            .trim_end()
            .ends_with("line 1999 of a log that is longer than what is sent")
    );
    assert_eq!(
        (&previous["previous"], &previous["hasPanic"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(previous["signature"]["line"], "panic: no config");
    assert!(!data.to_string().contains("abcdef1234567890"), "{data}");
    let context = &data["context"];
    assert_eq!(context["phase"], "Running", "{context}");
    // A duplicate, as another event of the same count, is not reported for a minute. Faults
    // of one pod arrive in order, so that it would arrive before the next.
    warn(space, "web-0", "BackOff").await;
    warn(space, "web-0", "Unhealthy").await;
    assert_eq!(
        client.message().await["data"]["event"]["reason"],
        "Unhealthy"
    );
    let poll = json!({"subscriptionId": made["subscriptionId"]});
    let poll = http.call("events_poll", poll).await.ok();
    assert_eq!(poll.data["events"][0], *data, "push and poll show the same");
    assert!(poll.text.contains("| panic: no config"), "{}", poll.text);
}

/// S3-33, C27: N subscribers, one capture; S3-32 and S3-31 by their flags.
#[tokio::test]
async fn many_subscribers_cause_one_capture_and_flags_bound_it() {
    let Some(bed) = testbed::shared() else { return };
    let space = "fault-shared";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let names = ["a", "b", "c", "d"];
    restarted(space, "many", &names, 0).await;
    for name in names {
        let long = (0..200).map(|n| format!("{name} {n}"));
        bed.dev()
            .node()
            .set_log(&format!("{space}/many/{name}"), LogScript::lines(long));
    }
    let file = one_context(bed.dev(), User::Reader);
    let flags = [
        "--max-containers-per-notification",
        "2",
        "--max-log-bytes-per-container",
        "300",
    ];
    let http = Http::start(&file.path, &flags).await;
    let mut first = Subscriber::new(&http).await;
    let other = http.another("2025-11-25").await;
    let mut second = Subscriber::new(&other).await;
    for client in [&first, &second] {
        client
            .subscribe(json!({"mode": "faults", "namespace": space}))
            .await;
        client
            .subscribe(json!({"mode": "faults", "namespaceSelector": ["fault-sh*"]}))
            .await;
    }
    warn(space, "many", "BackOff").await;
    for client in [&mut first, &mut second] {
        for _ in 0..2 {
            let data = client.message().await["data"].clone();
            assert_eq!(logs(&data).len(), 2, "{data}");
            assert_eq!(data["containersOmitted"], json!(["c", "d"]));
            for log in logs(&data) {
                assert!(log["sample"].as_str().unwrap().len() <= 300);
            }
        }
    }
    let path = format!("{space}/many/");
    let asked = bed.dev().node().requests();
    let asked = asked
        .iter()
        .filter(|one| one.container.starts_with(&path))
        .count();
    assert_eq!(asked, 2, "one log of each of two containers, once");
}

/// S3-34, S3-37: evidence that cannot be fetched is reported as such.
#[tokio::test]
async fn logs_that_cannot_be_had_are_errors_and_never_left_out() {
    let Some(bed) = testbed::shared() else { return };
    let space = "fault-denied";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    restarted(space, "web-0", &["app"], 0).await;
    let file = one_context(bed.dev(), User::NoLogs);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    client
        .subscribe(json!({"mode": "faults", "namespace": space}))
        .await;
    warn(space, "web-0", "BackOff").await;
    let denied = client.message().await["data"].clone();
    assert_eq!(logs(&denied)[0]["error"], "forbidden", "{denied}");
    assert_eq!(logs(&denied)[0].get("sample"), None);
    warn(space, "gone", "BackOff").await;
    let gone = client.message().await["data"].clone();
    assert_eq!(logs(&gone).len(), 1);
    let entry = &logs(&gone)[0];
    assert_eq!(
        (&entry["error"], &entry["container"]),
        (&json!("not_found"), &json!(""))
    );
}

/// Waits until that many captures are under way.
async fn until_captures(http: &Http, count: usize) {
    let wanted = format!("kubecrier_log_captures_in_flight {count}\n");
    let there = async {
        loop {
            let text = http.get("/metrics").await.text().await.unwrap();
            if text.contains(&wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    (tokio::time::timeout(Duration::from_secs(20), there).await).expect(&wanted);
}

/// S3-22, S3-28: caps, owners, the end in the middle of a capture, and the same event.
#[tokio::test]
async fn a_fault_subscription_begins_and_ends_as_one_of_events() {
    let Some(bed) = testbed::shared() else { return };
    let space = "fault-life";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    for name in ["web-0", "slow"] {
        restarted(space, name, &["app"], 0).await;
    }
    let slow = LogScript::lines(["x"]).delayed(Duration::from_secs(2));
    bed.dev().node().set_log(&format!("{space}/slow/app"), slow);
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--max-subscriptions-per-session", "2"]).await;
    let mut client = Subscriber::new(&http).await;
    let filters = json!({"mode": "faults", "namespace": space});
    let faults = client.subscribe(filters.clone()).await;
    let events = json!({"namespace": space, "type": "Warning"});
    let events = client.subscribe(events).await;
    let third = http.call("events_subscribe", filters.clone()).await;
    third.refused("limit", &["--max-subscriptions-per-session"]);
    let other = http.another("2025-11-25").await;
    let foreign = json!({"subscriptionId": faults});
    let foreign = other.call("events_unsubscribe", foreign).await;
    foreign.refused("not_found", &["subscription not found"]);
    warn(space, "web-0", "BackOff").await;
    let mut both = [client.message().await, client.message().await];
    both.sort_by_key(|one| one["logger"].to_string());
    let [event, fault] = both.map(|message| message["data"].clone());
    assert_eq!(
        (&event["subscriptionId"], &fault["subscriptionId"]),
        (&json!(events), &json!(faults))
    );
    assert_eq!(event["event"], fault["event"], "the same fields");
    assert!(fault["logs"].is_array() && event.get("logs").is_none());
    // It ends while its logs are being fetched: nothing more is sent for it.
    warn(space, "slow", "BackOff").await;
    client.event(&events).await;
    until_captures(&http, 1).await;
    for already in [false, true] {
        let ended = http.call("events_unsubscribe", json!({"subscriptionId": faults}));
        assert_eq!(ended.await.ok().data["alreadyEnded"], already);
    }
    until_captures(&http, 0).await;
    warn(space, "web-0", "Marker").await;
    assert_eq!(client.event(&events).await["event"]["reason"], "Marker");
    // It ends with its session.
    other.call("events_subscribe", filters).await.ok();
    let subscriptions = async || {
        let stats: Value = http.get("/stats").await.json().await.unwrap();
        stats["subscriptions"].clone()
    };
    assert_eq!(subscriptions().await, 2);
    assert!(other.delete().await.is_success());
    assert_eq!(subscriptions().await, 1);
}

/// S3-68 to S3-70, S3-74: over the limit a fault is reported as `throttled`.
#[tokio::test]
async fn captures_over_the_cap_are_throttled_in_plain_sight() {
    throttled_by("--max-log-captures-per-cluster", "fault-throttled").await;
    throttled_by("--max-log-captures-global", "fault-throttled-all").await;
}

async fn throttled_by(flag: &str, space: &str) {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    for name in ["slow", "next"] {
        restarted(space, name, &["app"], 0).await;
        let script = LogScript::lines(["x"]).delayed(Duration::from_secs(3));
        bed.dev()
            .node()
            .set_log(&format!("{space}/{name}/app"), script);
    }
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[flag, "1"]).await;
    let mut client = Subscriber::new(&http).await;
    client
        .subscribe(json!({"mode": "faults", "namespace": space}))
        .await;
    warn(space, "slow", "BackOff").await;
    until_captures(&http, 1).await;
    let late = json!({"mode": "faults", "namespace": space, "reason": "Never"});
    let late = http.call("events_subscribe", late).await.ok();
    let warning = late.data["warnings"].to_string();
    assert!(
        warning.contains("throttled") && warning.contains(flag),
        "it names the limit: {warning}"
    );
    warn(space, "next", "BackOff").await;
    let first = client.message().await["data"].clone();
    assert_eq!(
        first["event"]["involvedObject"]["name"], "next",
        "it did not wait"
    );
    assert_eq!(logs(&first)[0]["error"], "throttled", "{first}");
    let second = client.message().await["data"].clone();
    assert_eq!(logs(&second)[0]["sample"], "x\n", "{second}");
    let text = http.get("/metrics").await.text().await.unwrap();
    assert!(
        text.contains("kubecrier_log_captures_throttled_total 1"),
        "{text}"
    );
}

/// For a client that connects late, or that only polls.
#[tokio::test]
async fn faults_are_listed_and_their_evidence_is_had_without_a_subscription() {
    let Some(bed) = testbed::shared() else { return };
    let space = "fault-late";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    restarted(space, "web-0", &["app"], 4).await;
    let crash = LogScript::lines(["panic: late"]);
    bed.dev()
        .node()
        .set_previous_log(&format!("{space}/web-0/app"), crash);
    for _ in 0..3 {
        warn(space, "web-0", "BackOff").await;
    }
    warn(space, "web-0", "Unhealthy").await;
    let normal = event(space, "Pod/web-0", "Normal", "Pulled", "x");
    bed.dev().create(&normal).await.unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let listed = http
        .call("faults_list", json!({"namespace": space}))
        .await
        .ok();
    let rows = listed.data["incidents"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{}", listed.text);
    assert_eq!(rows[0]["object"], "fault-late/pod/web-0");
    assert!(listed.text.contains("panic: late"), "{}", listed.text);
    // Another server was notified of the fault: its id is the same here.
    let other = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&other).await;
    client
        .subscribe(json!({"mode": "faults", "namespace": space}))
        .await;
    warn(space, "web-0", "BackOff").await;
    let notified = client.message().await["data"].clone();
    let id = notified["faultId"].as_str().unwrap();
    let found = http
        .call("faults_get", json!({"faultId": id}))
        .await
        .ok()
        .data;
    assert_eq!(
        (&found["faultId"], &found["event"]["reason"]),
        (&json!(id), &json!("BackOff"))
    );
    let panics = found["logs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|log| log["hasPanic"] == true);
    assert_eq!(panics.count(), 1, "{found}");
    let unknown = http
        .call("faults_get", json!({"faultId": "0000000000000000"}))
        .await;
    unknown.refused("not_found", &["faults_list"]);
}
