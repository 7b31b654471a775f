//! Names of objects are never redacted, however much they look like tokens, and times and
//! sizes of events are bounded.

use serde_json::{Value, json};
use testbed::{LogScript, User, event, namespace, pod};

use crate::{
    harness::{Http, Subscriber, one_context},
    resources::{UpdateStream, subscribe},
};

/// Names that rules for secrets in free text take for tokens.
const NASTY: [&str; 6] = [
    "sk-learn-inference-7d9f8c6b5d-abcde",
    "sk-learn-inference-7d9f8c6b5d-fghij",
    "pypi-server-deployment-7c9d8f6b5c-x2x9k",
    "glpat-abcdefghij0123456789",
    "xoxb-123456789012-123456789012-abcdefghijkl",
    "custom-0042-token-password-6b7f9d8c5",
];

/// A pattern of the operator, which would hide every one of these names.
const PATTERN: &str = r"(?:sk|pypi|glpat|xoxb|custom)-[a-z0-9-]+";

const SPACE: &str = "custom-0042-space";

/// Creates the pods: each has a container of the same name, with a log of its own.
async fn create(bed: &testbed::Testbed) {
    let cluster = bed.dev();
    let space = namespace(SPACE);
    cluster.create_cluster_wide(&space).await.unwrap();
    for name in NASTY {
        let container = container(name);
        cluster
            .create(&pod(SPACE, name, &[container]))
            .await
            .unwrap();
        let log = LogScript::lines([format!("panic: {} here", mark(name))]);
        let path = format!("{SPACE}/{name}/{container}");
        cluster.node().set_log(&path, log);
    }
}

/// The name of a container has at most 63 characters.
fn container(name: &str) -> &str {
    name[..name.len().min(30)].trim_end_matches('-')
}

/// A word that only the log of this pod has.
fn mark(name: &str) -> String {
    let index = NASTY.iter().position(|one| *one == name).unwrap();
    format!("mark{index}")
}

#[track_caller]
fn shows(what: &str, text: &str, name: &str) {
    assert!(text.contains(name), "{what} does not show `{name}`: {text}");
}

/// Every tool and resource shows the names.
async fn everything_shows_them(http: &Http) {
    for (tool, arguments) in [
        ("pods_list", json!({"namespace": SPACE})),
        ("events_list", json!({"namespace": SPACE})),
        ("changes_list", json!({"namespace": SPACE})),
        (
            "resources_list",
            json!({"kind": "pods", "namespace": SPACE}),
        ),
        (
            "resources_list",
            json!({"kind": "events", "namespace": SPACE}),
        ),
        (
            "resources_list",
            json!({"kind": "pods", "namespace": SPACE, "output": "yaml"}),
        ),
    ] {
        let answer = http.call(tool, arguments).await.ok();
        for name in NASTY {
            // Pods leave no traces of a change, but their scaling does.
            let name = if tool == "changes_list" { SCALED } else { name };
            shows(tool, &answer.text, name);
            shows(tool, &answer.data.to_string(), name);
        }
    }
    for name in NASTY {
        let one = json!({"namespace": SPACE, "name": name});
        let with = |more: Value| {
            let mut call = one.clone();
            let more = more.as_object().unwrap().clone();
            call.as_object_mut().unwrap().extend(more);
            call
        };
        for (tool, arguments) in [
            ("pods_get", one.clone()),
            ("pods_get", with(json!({"output": "yaml"}))),
            ("pods_log", one.clone()),
            ("resources_get", with(json!({"kind": "pods"}))),
            ("resources_graph", with(json!({"kind": "pods"}))),
            (
                "resources_graph",
                with(json!({"kind": "pods", "output": "mermaid"})),
            ),
        ] {
            let answer = http.call(tool, arguments).await.ok();
            shows(tool, &answer.text, name);
            shows(tool, &answer.data.to_string(), name);
        }
        let log = http.call("pods_log", one.clone()).await.ok();
        shows("pods_log", &log.text, container(name));
        shows("pods_log", &log.text, &mark(name));
        let missing = json!({"namespace": SPACE, "name": format!("{name}-gone")});
        let refused = http.call("pods_get", missing).await;
        let text = format!("pods \"{name}-gone\" not found");
        refused.refused("not_found", &[&text]);
        let uri = format!("k8s://dev/{SPACE}/pods/{name}/logs/{}", container(name));
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        shows("a log", &read.to_string(), &mark(name));
        let uri = format!("k8s://dev/{SPACE}/pods/{name}/logs/other");
        let refused = http.rpc("resources/read", json!({"uri": uri})).await;
        shows("an error", &refused.to_string(), container(name));
        let prompt = json!({"name": "runbook_crash_loop", "arguments": one});
        let prompt = http.rpc("prompts/get", prompt).await;
        shows("a prompt", &prompt.to_string(), &mark(name));
        let completed = http
            .rpc(
                "completion/complete",
                json!({
                    "ref": {"type": "ref/resource", "uri": "k8s://{context}/{namespace}/pods/{pod}/logs/{container}{?previous,tail,since}"},
                    "argument": {"name": "pod", "value": &name[..4]},
                    "context": {"arguments": {"context": "dev", "namespace": SPACE}},
                }),
            )
            .await;
        let values = completed["result"]["completion"]["values"].to_string();
        shows("a completion", &values, name);
    }
    for uri in ["events", "graph"] {
        let uri = format!("k8s://dev/{SPACE}/{uri}");
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        for name in NASTY {
            shows(&uri, &read.to_string(), name);
        }
    }
}

/// A Deployment that was scaled.
const SCALED: &str = "custom-0042-scaled";

#[tokio::test]
async fn a_pod_that_is_named_like_a_token_works_from_end_to_end() {
    let Some(bed) = testbed::shared() else { return };
    create(bed).await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &["--redact", PATTERN]).await;
    let mut client = Subscriber::new(&http).await;
    for name in NASTY {
        let wanted = json!({"namespace": SPACE, "involvedName": name});
        let id = client.subscribe(wanted).await;
        let labelled = json!({"namespace": SPACE, "labelSelector": format!("app={name}")});
        let labelled = client.subscribe(labelled).await;
        // Of all pods, only this one's events match.
        for other in NASTY.iter().filter(|other| **other != name).chain([&name]) {
            let note = event(SPACE, &format!("Pod/{other}"), "Normal", "Noted", other);
            bed.dev().create(&note).await.unwrap();
        }
        for _ in 0..2 {
            let data = client.message().await["data"].clone();
            assert!(
                [&id, &labelled].contains(&&data["subscriptionId"].as_str().unwrap().to_owned())
            );
            assert_eq!(data["event"]["involvedObject"]["name"], name, "{data}");
            assert_eq!(data["event"]["labels"]["app"], name, "{data}");
            // The message is free text, in which the operator wants it hidden.
            let message = data["event"]["message"].as_str().unwrap();
            assert!(message.starts_with("[redacted "), "{data}");
        }
        for id in [id, labelled] {
            http.call("events_unsubscribe", json!({"subscriptionId": id}))
                .await
                .ok();
        }
    }
    let faults = json!({"mode": "faults", "namespace": SPACE});
    client.subscribe(faults).await;
    let mut ids = Vec::new();
    for name in NASTY {
        let mut warning = event(
            SPACE,
            &format!("Pod/{name}"),
            "Warning",
            "BackOff",
            "failing",
        );
        let path = format!("spec.containers{{{}}}", container(name));
        warning.involved_object.field_path = Some(path.clone());
        bed.dev().create(&warning).await.unwrap();
        // A sibling is no repetition: each arrives, with its own log.
        let data = client.message().await["data"].clone();
        let object = &data["event"]["involvedObject"];
        assert_eq!(object["name"], name, "{data}");
        assert_eq!(object["fieldPath"], path, "{data}");
        let logs = data["logs"].to_string();
        shows("a fault", &logs, container(name));
        shows("a fault", &logs, &mark(name));
        ids.push(data["faultId"].as_str().unwrap().to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), NASTY.len());
    for id in ids {
        let fault = http.call("faults_get", json!({"faultId": id})).await.ok();
        assert!(
            NASTY.iter().any(|name| fault.text.contains(name)),
            "{}",
            fault.text
        );
    }
    let about = format!("Deployment/{SCALED}");
    let scaled = event(SPACE, &about, "Normal", "ScalingReplicaSet", "Scaled up");
    bed.dev().create(&scaled).await.unwrap();
    everything_shows_them(&http).await;
    let session = http.another("2025-11-25").await;
    let mut updates = UpdateStream::of(&session).await;
    subscribe(&session, &format!("k8s://dev/{SPACE}/graph")).await;
    updates.until("followed from here on").await;
    let path = format!("/api/v1/namespaces/{SPACE}/pods/{}", NASTY[0]);
    let labels = json!({"metadata": {"labels": {"seen": "yes"}}});
    bed.dev().send("PATCH", &path, &labels).await.unwrap();
    let (_, update) = updates.update().await;
    shows("an update", update["summary"].as_str().unwrap(), NASTY[0]);
    shows("an update", &update["delta"].to_string(), NASTY[0]);
}

/// Whoever may create events cannot keep others from being seen.
#[tokio::test]
async fn an_event_of_the_future_or_of_a_megabyte_hides_no_other() {
    let Some(bed) = testbed::shared() else { return };
    let space = "hostile-events";
    let cluster = bed.dev();
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({"namespace": space})).await;
    let first = event(space, "Pod/web", "Warning", "First", "it was there before");
    cluster.create(&first).await.unwrap();
    let far = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * 365 * 70);
    let mut hostile = event(space, "Pod/web", "Warning", "Hostile", &"x".repeat(1 << 20));
    for time in [&mut hostile.first_timestamp, &mut hostile.last_timestamp] {
        time.as_mut().unwrap().0 = far;
    }
    let old = jiff::Timestamp::now();
    for _ in 0..3 {
        cluster.create(&hostile).await.unwrap();
    }
    // Some clocks are a little ahead.
    let mut last = event(space, "Pod/web", "Warning", "Last", "the newest");
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(60);
    last.last_timestamp.as_mut().unwrap().0 = soon;
    cluster.create(&last).await.unwrap();
    for reason in ["First", "Hostile", "Hostile", "Hostile", "Last"] {
        let data = client.event(&id).await;
        assert_eq!(data["event"]["reason"], reason);
        if reason == "Hostile" {
            let message = data["event"]["message"].as_str().unwrap();
            assert!(message.len() < 4200, "{}", message.len());
            assert!(
                message.ends_with("… [cut: 1044480 bytes]"),
                "{}",
                &message[4000..]
            );
            let seen: jiff::Timestamp = data["event"]["timestamp"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            assert!((old.as_second() - 5..old.as_second() + 60).contains(&seen.as_second()));
        }
    }
    let kept = json!({"subscriptionId": id});
    let polled = http.call("events_poll", kept).await.ok();
    shows("the feed", &polled.text, "First");
    let listed = http
        .call("events_list", json!({"namespace": space}))
        .await
        .ok();
    assert_eq!(
        listed.data["events"][0]["reason"], "Last",
        "{}",
        listed.text
    );
}
