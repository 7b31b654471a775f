use serde_json::{Value, json};

use super::*;

fn read_facts(status: Value) -> PodFacts {
    let pod = json!({
        "metadata": {"name": "web", "uid": "u-1", "ownerReferences": []},
        "spec": {
            "nodeName": "node-1",
            "initContainers": [{"name": "setup", "image": "i/setup:1"}],
            "containers": [{"name": "app", "image": "i/app:1"}, {"name": "proxy", "image": "i/proxy:1"}],
        },
        "status": status,
    });
    let pod = serde_json::from_value(pod).unwrap();
    let owner = PodOwner {
        kind: "Job".to_owned(),
        name: "j".to_owned(),
    };
    facts(pod, vec![owner], &Redactor::default())
}

fn names(facts: &PodFacts) -> Vec<(&str, bool)> {
    facts
        .containers
        .iter()
        .map(|one| (one.name.as_str(), one.restarted))
        .collect()
}

#[test]
fn failing_containers_come_first_and_restarted_ones_are_known() {
    let quiet = read_facts(json!({}));
    assert_eq!(
        names(&quiet),
        [("app", false), ("proxy", false), ("setup", false)]
    );
    let crashing = read_facts(json!({"containerStatuses": [
        {"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
        {"name": "proxy", "image": "", "imageID": "", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ]}));
    assert_eq!(
        names(&crashing),
        [("proxy", true), ("app", false), ("setup", false)]
    );
    let init = read_facts(json!({"initContainerStatuses": [
        {"name": "setup", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 1}}},
    ]}));
    assert_eq!(names(&init)[0], ("setup", false));
    let starting = read_facts(json!({"containerStatuses": [
        {"name": "proxy", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}},
    ]}));
    assert_eq!(
        names(&starting)[0].0,
        "app",
        "a container that is being created does not fail"
    );
}

#[test]
fn the_context_says_how_it_ended_without_secrets() {
    let facts = read_facts(json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "token=abc123def \u{1b}[31mred"}],
        "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 7,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "password=hunter2", "finishedAt": "2026-01-01T00:00:00Z"}}}],
    }));
    let context = serde_json::to_value(&facts.context).unwrap();
    assert_eq!(
        context["containers"][0],
        json!({"name": "app", "image": "i/app:1", "state": "CrashLoopBackOff", "restartCount": 7,
        "lastTermination": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "password=[redacted password]", "finishedAt": "2026-01-01T00:00:00Z"}})
    );
    assert_eq!(
        context["conditions"][0]["message"],
        "token=[redacted token] red"
    );
    assert_eq!(
        (&context["phase"], &context["node"], &context["owners"]),
        (
            &json!("Running"),
            &json!("node-1"),
            &json!([{"kind": "Job", "name": "j"}])
        )
    );
    assert_eq!(facts.uid, "u-1");
}
