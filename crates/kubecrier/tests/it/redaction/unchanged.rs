//! Names of workloads and ordinary lines come out of every exit as they went in.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testbed::{Cluster, LogScript, User, event, namespace, pod};

use super::corpus::{nasty_names, ordinary_lines};
use crate::{
    harness::{Http, Subscriber, Watch, command, one_context},
    resources::{UpdateStream, subscribe},
};

const SPACE: &str = "unchanged";

/// Between two lines that have nothing to do with one another.
const BETWEEN: &str = "-- another line --";

/// A pod with the name, and ordinary lines of its log and of its events.
struct Workload {
    name: String,
    log: Vec<String>,
    events: Vec<(&'static str, String)>,
}

fn workloads() -> Vec<Workload> {
    const REASONS: [&str; 3] = ["Failed", "Unhealthy", "BackOff"];
    let names = nasty_names(12);
    let mut lines = ordinary_lines(names.len() * 20).into_iter();
    let workload = |name| Workload {
        name,
        log: lines.by_ref().take(17).collect(),
        events: REASONS.into_iter().zip(lines.by_ref().take(3)).collect(),
    };
    names.into_iter().map(workload).collect()
}

/// Checks that one string of a message has this text; text in JSON is unescaped by that.
#[track_caller]
fn shows(what: &str, message: &Value, text: &str) {
    let mut rest = vec![message];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(string) if string.contains(text) => return,
            Value::Array(values) => rest.extend(values),
            Value::Object(fields) => rest.extend(fields.values()),
            _ => {}
        }
    }
    panic!("{what} does not show `{text}`: {message}");
}

async fn call(http: &Http, tool: &str, arguments: Value) -> Value {
    let asked = json!({"name": tool, "arguments": arguments});
    http.rpc("tools/call", asked).await
}

async fn plant(cluster: &Cluster, workload: &Workload) {
    let new_pod = pod(SPACE, &workload.name, &["app"]);
    cluster.create(&new_pod).await.unwrap();
    // It crashes again and again, and runs at the moment, so that its log can be followed.
    let ended = Timestamp::now() - SignedDuration::from_mins(1);
    let status = json!({"phase": "Running", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 4,
        "state": {"running": {"startedAt": ended}},
        "lastState": {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": ended}},
    }]});
    let set = cluster.set_pod_status(SPACE, &workload.name, status);
    set.await.unwrap();
    let lines = workload.log.iter().map(String::as_str);
    let log = LogScript::lines(lines.flat_map(|line| [line, BETWEEN]));
    let container = format!("{SPACE}/{}/app", workload.name);
    cluster.node().set_log(&container, log.clone());
    cluster.node().set_previous_log(&container, log);
}

/// The pushed events and faults; creates the events.
async fn pushes_are_whole(http: &Http, cluster: &Cluster, workloads: &[Workload]) {
    let mut client = Subscriber::new(http).await;
    client.subscribe(json!({"namespace": SPACE})).await;
    let faults = json!({"mode": "faults", "namespace": SPACE});
    let faults = client.subscribe(faults).await;
    http.call("events_poll", json!({"namespace": SPACE}))
        .await
        .ok();
    let mut awaited = Vec::new();
    for workload in workloads {
        for (reason, line) in &workload.events {
            let object = format!("Pod/{}", workload.name);
            let one = event(SPACE, &object, "Warning", reason, line);
            cluster.create(&one).await.unwrap();
            awaited.extend([false, true].map(|fault| (workload, line, fault)));
        }
    }
    let mut received = Vec::new();
    while received.len() < awaited.len() {
        received.push(client.message().await);
    }
    for (workload, line, fault) in awaited {
        let is_it = |message: &&Value| {
            let text = message.to_string();
            let wanted = json!(line).to_string();
            (message["data"]["subscriptionId"] == *faults) == fault
                && text.contains(&workload.name)
                && text.contains(wanted.trim_matches('"'))
        };
        let found = received.iter().find(is_it);
        let message = found.unwrap_or_else(|| {
            panic!(
                "no push (fault: {fault}) of {} with `{line}`",
                workload.name
            )
        });
        if fault {
            for line in &workload.log {
                shows("a fault", message, line);
            }
        }
    }
}

async fn tools_are_whole(http: &Http, workloads: &[Workload]) {
    let pods = call(http, "pods_list", json!({"namespace": SPACE})).await;
    let objects = json!({"kind": "pods", "namespace": SPACE});
    let objects = call(http, "resources_list", objects).await;
    let polled = json!({"namespace": SPACE, "limit": 500});
    let polled = call(http, "events_poll", polled).await;
    let faults = json!({"namespace": SPACE, "limit": 200});
    let faults = call(http, "faults_list", faults).await;
    for workload in workloads {
        let name = &workload.name;
        shows("pods_list", &pods, name);
        shows("resources_list", &objects, name);
        shows("faults_list", &faults, name);
        let named = json!({"namespace": SPACE, "name": name});
        for previous in [false, true] {
            let mut asked = named.clone();
            asked["previous"] = previous.into();
            let log = call(http, "pods_log", asked).await;
            for line in &workload.log {
                shows("pods_log", &log, line);
            }
        }
        for (tool, key, value) in [
            ("pods_get", "output", "table"),
            ("pods_get", "output", "yaml"),
            ("resources_get", "kind", "pods"),
            ("resources_graph", "kind", "pods"),
        ] {
            let mut asked = named.clone();
            asked[key] = value.into();
            shows(tool, &call(http, tool, asked).await, name);
        }
        let about = json!({"namespace": SPACE, "for": format!("pod/{name}")});
        let events = call(http, "events_list", about).await;
        for (_, line) in &workload.events {
            shows("events_list", &events, line);
            shows("events_poll", &polled, line);
        }
        shows("events_list", &events, name);
    }
    let incidents = &faults["result"]["structuredContent"]["incidents"];
    for incident in incidents.as_array().unwrap() {
        let asked = json!({"faultId": incident["id"], "namespace": SPACE});
        let story = call(http, "faults_get", asked).await;
        let name = incident["object"].as_str().unwrap();
        shows("faults_get", &story, name);
        shows(
            "faults_get",
            &story["result"]["content"],
            name.rsplit('/').next().unwrap(),
        );
    }
    for fault in http.notified_faults().await {
        let evidence = call(http, "faults_get", json!({"faultId": fault})).await;
        let text = evidence.to_string();
        let workload = workloads.iter().find(|one| text.contains(&one.name));
        let workload = workload.unwrap_or_else(|| panic!("of which pod? {text}"));
        for line in &workload.log {
            shows("faults_get", &evidence, line);
        }
    }
}

async fn resources_are_whole(http: &Http, workloads: &[Workload]) {
    let read = async |uri: &str| http.rpc("resources/read", json!({"uri": uri})).await;
    let graph = read(&format!("k8s://dev/{SPACE}/graph")).await;
    let events = read(&format!("k8s://dev/{SPACE}/events?limit=500")).await;
    // A resource is text that holds JSON.
    let events = events["result"]["contents"][0]["text"].as_str().unwrap();
    let events: Value = serde_json::from_str(events).unwrap();
    let completed = async |name: &str| {
        let asked = json!({
            "ref": {"type": "ref/prompt", "name": "runbook_crash_loop"},
            "argument": {"name": "name", "value": name},
            "context": {"arguments": {"namespace": SPACE}},
        });
        http.rpc("completion/complete", asked).await
    };
    for workload in workloads {
        let name = &workload.name;
        shows("the graph", &graph, name);
        shows("the events", &events, name);
        for (_, line) in &workload.events {
            shows("the events", &events, line);
        }
        let uri = format!("k8s://dev/{SPACE}/pods/{name}/logs/app");
        let log = read(&uri).await;
        for line in &workload.log {
            shows("a log", &log, line);
        }
        shows("a completion", &completed(name).await, name);
        let arguments = json!({"namespace": SPACE, "name": name});
        let asked = json!({"name": "runbook_crash_loop", "arguments": arguments});
        let prompt = http.rpc("prompts/get", asked).await;
        shows("a prompt", &prompt, name);
        for line in &workload.log {
            shows("a prompt", &prompt, line);
        }
    }
}

/// Lines that a log gets while it is followed.
async fn follows_are_whole(http: &Http, cluster: &Cluster, workloads: &[Workload]) {
    let session = http.another("2025-11-25").await;
    let mut updates = UpdateStream::of(&session).await;
    for workload in workloads.iter().step_by(3) {
        let container = format!("{SPACE}/{}/app", workload.name);
        let uri = format!("k8s://dev/{SPACE}/pods/{}/logs/app", workload.name);
        subscribe(&session, &uri).await;
        updates.until("followed from here on").await;
        for line in &workload.log {
            cluster.node().append(&container, line);
            cluster.node().append(&container, BETWEEN);
        }
        cluster.node().append(&container, "that was all");
        let received = updates.up_to("that was all").await;
        let received = json!(received);
        for line in &workload.log {
            shows("an update", &received, line);
        }
        shows("an update", &received, &workload.name);
        session
            .rpc("resources/unsubscribe", json!({"uri": uri}))
            .await;
    }
}

fn watches_are_whole(kubeconfig: &Path, workloads: &[Workload]) {
    for output in ["text", "json"] {
        let mut watch = command();
        watch.arg("watch").arg("--kubeconfig").arg(kubeconfig);
        watch.args(["-n", SPACE, "--since", "1h", "-o", output]);
        let mut watch = Watch::start(&mut watch);
        let mut awaited: Vec<_> = workloads
            .iter()
            .flat_map(|one| one.events.iter().map(|(_, line)| (&one.name, line)))
            .collect();
        let mut printed = String::new();
        for _ in 0..awaited.len() {
            printed.push_str(&watch.line());
            printed.push('\n');
        }
        awaited.retain(|(name, line)| {
            let line = match output {
                "json" => json!(line).to_string().trim_matches('"').to_owned(),
                _ => (*line).clone(),
            };
            let whole = |row: &str| row.contains(name.as_str()) && row.contains(&line);
            !printed.lines().any(whole)
        });
        assert!(
            awaited.is_empty(),
            "watch -o {output} lacks {awaited:?} in:\n{printed}"
        );
    }
}

#[tokio::test]
async fn names_and_ordinary_lines_come_through_unchanged() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let workloads = workloads();
    let space = namespace(SPACE);
    cluster.create_cluster_wide(&space).await.unwrap();
    for workload in &workloads {
        plant(cluster, workload).await;
    }
    let file = one_context(cluster, User::Admin);
    let http = Http::start(&file.path, &[]).await;
    pushes_are_whole(&http, cluster, &workloads).await;
    tools_are_whole(&http, &workloads).await;
    resources_are_whole(&http, &workloads).await;
    follows_are_whole(&http, cluster, &workloads).await;
    watches_are_whole(&file.path, &workloads);
}
