//! No exit lets out a text that has the form of a secret, and none changes a text that has not.
//! Beside the few secrets here, [`exits`] and [`projects`] send those of the corpus through.

mod corpus;
mod exits;
mod known;
mod planted;
mod projects;
mod unchanged;

use serde_json::{Value, json};
use testbed::{Cluster, LogScript, User, event, namespace, pod};

use crate::{
    harness::{Http, Subscriber, kubeconfig},
    resources::{UpdateStream, subscribe},
};

/// A text that a workload has leaked, and the part of it that must be redacted.
fn planted() -> Vec<(String, String)> {
    let token = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1B2C";
    let github = ["gh", "p_", token].concat();
    let aws = ["AK", "IA", "IOSFODNN7EXAMPLE"].concat();
    let jwt = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJqb2UifQ", "c2lnbmF0dXJl"].join(".");
    let line = format!("MIIEvQ{token}AbCdEfGhIjKlMnOpQrSt");
    let key = |what: &str| ["-----", what, " PRIVATE KEY-----"].concat();
    [
        (
            "login with password=swordfish-1 failed".to_owned(),
            "swordfish-1".to_owned(),
        ),
        (
            "{\"user\":\"joe\",\"password\":\"swordfish-2\"}".to_owned(),
            "swordfish-2".to_owned(),
        ),
        (
            "dial postgres://joe:swordfish-3@db:5432/app".to_owned(),
            "swordfish-3".to_owned(),
        ),
        (format!("Authorization: Bearer {token}"), token.to_owned()),
        (format!("git clone with {github}"), github),
        (format!("signed by {aws}"), aws),
        (format!("session {jwt}"), jwt),
        (
            "pass\u{1b}[31mword=swordfish-4\u{1b}[0m".to_owned(),
            "swordfish-4".to_owned(),
        ),
        ("customer CUST-4711".to_owned(), "CUST-4711".to_owned()),
        (format!("{}\n{line}\n{}", key("BEGIN"), key("END")), line),
    ]
    .into()
}

#[track_caller]
fn is_clean(what: &str, text: &str) {
    for (_, secret) in planted() {
        assert!(
            !text.contains(&secret),
            "{what} lets out `{secret}`:\n{text}"
        );
    }
    assert!(
        !text.contains('\u{1b}') && !text.contains("\\u001b"),
        "{what}: {text}"
    );
}

/// Calls of a tool that meet everything that was planted, and a word that shows
/// that they did.
fn calls(tool: &str) -> Vec<(Value, &'static str)> {
    let log = |more: Value| {
        let mut call = json!({"namespace": "planted", "name": "leaky"});
        call.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        call
    };
    match tool {
        "configuration_contexts_list" => vec![(json!({}), "joe:[redacted password]@127.0.0.1")],
        "changes_list" | "events_list" | "events_poll" | "faults_list" => vec![(
            json!({"namespace": "planted"}),
            "login with password=[redacted",
        )],
        // With the cursor of another process, the answer has what is open.
        "faults_wait" => vec![(
            json!({"namespace": "planted", "cursor": "w-00000000.1"}),
            "login with password=[redacted",
        )],
        "events_list_subscriptions" => vec![(json!({}), "planted")],
        "events_subscribe" => vec![(json!({"namespace": "planted"}), "subscriptionId")],
        "events_unsubscribe" => vec![(json!({"subscriptionId": "sub-1"}), "not found")],
        "faults_get" => vec![
            (json!({"faultId": "FAULT"}), "password=[redacted"),
            (json!({"faultId": "INCIDENT"}), "password=[redacted"),
        ],
        "namespaces_list" => vec![(json!({"labelSelector": "planted=yes"}), "planted")],
        "nodes_list" => vec![(json!({}), "node-1")],
        // This cluster does not serve it; its response would have names and numbers only.
        "nodes_top" | "pods_top" => vec![(json!({}), "metrics.k8s.io")],
        "pods_get" => vec![
            (log(json!({})), "leaky"),
            (
                log(json!({"output": "yaml"})),
                "login with password=[redacted",
            ),
        ],
        "pods_list" => vec![(json!({"namespace": "planted"}), "leaky")],
        "resources_get" => vec![
            (log(json!({"kind": "pods"})), "leaky"),
            (
                log(json!({"kind": "pods", "output": "yaml"})),
                "login with password=[redacted",
            ),
        ],
        "resources_graph" => ["text", "json", "mermaid"]
            .map(|form| (log(json!({"kind": "pods", "output": form})), "leaky"))
            .into(),
        "resources_list" => vec![
            (json!({"kind": "pods", "namespace": "planted"}), "leaky"),
            (
                json!({"kind": "events", "namespace": "planted"}),
                "login with password=[redacted",
            ),
            (
                json!({"kind": "namespaces", "labelSelector": "planted=yes", "output": "yaml"}),
                "login with password=[redacted",
            ),
        ],
        "pods_log" => vec![
            (log(json!({})), "login with password=[redacted"),
            (
                log(json!({"previous": true})),
                "before login with password=[redacted",
            ),
            // Neither truncation nor a filter reveals what is redacted otherwise.
            (log(json!({"limitBytes": 12})), "bytes later"),
            (log(json!({"include": "^MII"})), "0 lines"),
            (log(json!({"include": "swordfish"})), "0 lines"),
            (log(json!({"container": "broken"})), "disk on fire"),
        ],
        other => panic!("plant secrets for the tool `{other}` here: what may it let out?"),
    }
}

/// New events are published in three ways, and all of them are redacted.
async fn notifications_are_clean(http: &Http, cluster: &Cluster, texts: &[String]) {
    let mut client = Subscriber::new(http).await;
    let events = client.subscribe(json!({"namespace": "planted"})).await;
    let faults = json!({"mode": "faults", "namespace": "planted"});
    client.subscribe(faults).await;
    let polled = json!({"namespace": "planted"});
    http.call("events_poll", polled).await.ok();
    for (number, text) in texts.iter().enumerate() {
        let one = event(
            "planted",
            "Pod/leaky",
            "Warning",
            &format!("Failed{number}"),
            text,
        );
        cluster.create(&one).await.unwrap();
    }
    let mut received = String::new();
    for _ in 0..texts.len() * 2 {
        received.push_str(&client.message().await.to_string());
    }
    assert!(
        received.contains("login with password=[redacted"),
        "{received}"
    );
    assert!(received.contains("\"logs\":[{"), "{received}");
    is_clean("a notification", &received);
    let uri = format!("kubecrier://subscriptions/{events}");
    let read = http
        .rpc("resources/read", json!({"uri": uri}))
        .await
        .to_string();
    assert!(read.contains("login with password=[redacted"), "{read}");
    is_clean("a resource", &read);
}

/// Reads of resources, updates of a growing log, and prompts.
async fn resources_are_clean(http: &Http, cluster: &Cluster, texts: &[String]) {
    let log = "k8s://dev/planted/pods/leaky/logs/app";
    for (uri, shows) in [
        (
            "k8s://dev/planted/events".to_owned(),
            "login with password=[redacted",
        ),
        (log.to_owned(), "login with password=[redacted"),
        (
            format!("{log}?previous=true"),
            "before login with password=[redacted",
        ),
        (
            "k8s://dev/planted/pods/leaky/logs/broken".to_owned(),
            "disk on fire",
        ),
    ] {
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        let read = read.to_string();
        assert!(read.contains(shows), "{uri} met nothing: {read}");
        is_clean(&uri, &read);
        assert!(!read.contains("swordfish"), "{uri}: {read}");
    }
    let mut updates = UpdateStream::of(http).await;
    subscribe(http, log).await;
    updates.until("followed from here on").await;
    let lines = texts.iter().flat_map(|text| text.lines());
    for line in lines.chain(["that was all"]) {
        cluster.node().append("planted/leaky/app", line);
    }
    let mut received = String::new();
    while !received.contains("that was all") {
        received.push_str(&updates.update().await.1.to_string());
    }
    assert!(
        received.contains("login with password=[redacted"),
        "{received}"
    );
    is_clean("an update of a log", &received);
    http.rpc("resources/unsubscribe", json!({"uri": log})).await;
    let faults = json!({"namespace": "planted"});
    let faults = http.call("faults_list", faults).await.ok();
    let fault = http.notified_faults().await.swap_remove(0);
    let pod = json!({"namespace": "planted", "name": "leaky"});
    for (name, arguments) in [
        ("cluster_health_check", json!({})),
        ("runbook_crash_loop", pod.clone()),
        ("runbook_image_pull", pod.clone()),
        ("runbook_no_endpoints", pod.clone()),
        ("runbook_pending", pod),
        ("triage_fault", json!({"faultId": fault})),
        (
            "triage_fault",
            json!({"faultId": faults.data["incidents"][0]["id"]}),
        ),
    ] {
        let asked = json!({"name": name, "arguments": arguments});
        let prompt = http.rpc("prompts/get", asked).await.to_string();
        assert!(prompt.contains("\"messages\""), "{name}: {prompt}");
        is_clean(name, &prompt);
        assert!(!prompt.contains("swordfish"), "{name}: {prompt}");
    }
}

/// A label may be a secret too: the graph shows labels in reads and in updates.
async fn the_graph_is_clean(http: &Http, cluster: &Cluster) {
    let uri = "k8s://dev/planted/graph";
    let session = http.another("2025-11-25").await;
    let mut stream = session.stream(None).await;
    session
        .rpc("resources/subscribe", json!({"uri": uri}))
        .await;
    let read = session.rpc("resources/read", json!({"uri": uri})).await;
    let read = read.to_string();
    assert!(read.contains("Pod:planted/leaky"), "{read}");
    is_clean("the graph", &read);
    let token = planted().swap_remove(4).1;
    let mut received = String::new();
    while !received.contains("\"modified\"") {
        received = stream.next().await.to_string();
        is_clean("an update of the graph", &received);
        if received.contains("followed from here on") {
            let labels = json!({"metadata": {"labels": {"token": "none", "another": token}}});
            let path = "/api/v1/namespaces/planted/pods/leaky";
            cluster.send("PATCH", path, &labels).await.unwrap();
        }
    }
    assert!(received.contains("another"), "{received}");
}

#[tokio::test]
async fn no_tool_lets_a_planted_secret_out() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let texts: Vec<_> = planted().into_iter().map(|(text, _)| text).collect();
    let mut space = namespace("planted");
    space.metadata.labels = Some([("planted".to_owned(), "yes".to_owned())].into());
    space.metadata.annotations = Some([("note".to_owned(), texts.join("; "))].into());
    cluster.create_cluster_wide(&space).await.unwrap();
    let mut leaky = pod("planted", "leaky", &["app", "broken"]);
    leaky.metadata.annotations = Some([("note".to_owned(), texts.join("; "))].into());
    let token = planted().swap_remove(4).1;
    leaky.metadata.labels = Some([("token".to_owned(), token)].into());
    cluster.create(&leaky).await.unwrap();
    cluster
        .create(&pod("planted", "stuck", &["app"]))
        .await
        .unwrap();
    let message = "login with password=swordfish-7 was refused";
    let waiting = json!({"waiting": {"reason": "InvalidImageName", "message": message}});
    let status = json!({"phase": "Pending", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": waiting,
    }]});
    let set = cluster.set_pod_status("planted", "stuck", status);
    set.await.unwrap();
    for text in &texts {
        let one = event("planted", "Pod/leaky", "Warning", "Failed", text);
        cluster.create(&one).await.unwrap();
        let reason = "ScalingReplicaSet";
        let one = event("planted", "Deployment/leaky", "Normal", reason, text);
        cluster.create(&one).await.unwrap();
    }
    let lines = |before: &str| {
        let lines: Vec<_> = texts.iter().flat_map(|text| text.lines()).collect();
        let lines = lines.into_iter().map(|line| format!("{before}{line}"));
        LogScript::lines(
            lines.chain(["failed with password=swordfish-5 and 12 bytes later".to_owned()]),
        )
    };
    cluster.node().set_log("planted/leaky/app", lines(""));
    cluster
        .node()
        .set_previous_log("planted/leaky/app", lines("before "));
    let failure = format!("disk on fire: {}", texts.join("; "));
    let failing = LogScript::failing(500, &failure);
    cluster.node().set_log("planted/leaky/broken", failing);
    let file = kubeconfig(|file| {
        let address = "https://joe:swordfish-6@127.0.0.1:1";
        file.context("dev", cluster, User::Reader)
            .server_context("dead", address, cluster.authority_pem())
            .current("dev")
    });
    let http = Http::start(
        &file.path,
        &["--redact", r"CUST-\d+", "--log-level", "debug"],
    )
    .await;
    the_graph_is_clean(&http, cluster).await;
    notifications_are_clean(&http, cluster, &texts).await;
    let tools = http.rpc("tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    assert!(tools.len() >= 5);
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        for (arguments, shows) in calls(name) {
            let arguments = match arguments["faultId"].as_str() {
                Some("FAULT") => {
                    json!({"faultId": http.notified_faults().await[0]})
                }
                Some(_) => {
                    let listed = http
                        .call("faults_list", json!({"namespace": "planted"}))
                        .await;
                    json!({"faultId": listed.ok().data["incidents"][0]["id"]})
                }
                None => arguments,
            };
            let request = json!({"name": name, "arguments": arguments});
            let answer = http.rpc("tools/call", request).await.to_string();
            assert!(
                answer.contains(shows),
                "{name} {arguments} met nothing: {answer}"
            );
            is_clean(name, &answer);
            assert!(!answer.contains("swordfish"), "{name}: {answer}");
        }
    }
    resources_are_clean(&http, cluster, &texts).await;
    is_clean("the log", &http.server.log());
}
