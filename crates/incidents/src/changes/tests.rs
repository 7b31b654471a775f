use serde_json::{Value, json};

use super::*;
use crate::{Incident, State, incidents};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn deployment() -> Value {
    json!({
        "kind": "Deployment",
        "metadata": {"name": "payment", "namespace": "shop", "uid": "d", "creationTimestamp": at(-90_000)},
        "spec": {"replicas": 1},
        "status": {"conditions": [{"type": "Available", "status": "False", "lastTransitionTime": at(-230)}]},
    })
}

fn set(revision: u32, image: &str, created: i64) -> Value {
    json!({
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("payment-{revision}"), "namespace": "shop", "creationTimestamp": at(created),
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
            "ownerReferences": [{"kind": "Deployment", "name": "payment", "controller": true}],
        },
        "spec": {"replicas": 1, "template": {"spec": {"containers": [
            {"name": "app", "image": format!("registry.example/shop/{image}")},
        ]}}},
    })
}

fn pod(revision: u32) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {
            "name": format!("payment-{revision}-x"), "namespace": "shop", "creationTimestamp": at(-239),
            "ownerReferences": [{"kind": "ReplicaSet", "name": format!("payment-{revision}"), "controller": true}],
        },
        "spec": {"nodeName": "worker", "restartPolicy": "Always", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "startTime": at(-239), "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at(-239)},
        ], "containerStatuses": [{"name": "app", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 2, "startedAt": at(-60), "finishedAt": at(-59), "message": "panic: no provider for eur"}},
        }]},
    })
}

fn node(reason: &str, seen: i64) -> [Value; 2] {
    [
        json!({
            "kind": "Node", "metadata": {"name": "worker", "uid": "n", "creationTimestamp": at(-90_000)},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(-90_000)}]},
        }),
        json!({
            "kind": "Event", "type": "Normal", "reason": reason, "message": "worker",
            "metadata": {"name": reason}, "firstTimestamp": at(seen), "lastTimestamp": at(seen),
            "involvedObject": {"kind": "Node", "name": "worker", "uid": "worker"},
        }),
    ]
}

fn incident(objects: impl IntoIterator<Item = Value>) -> Incident {
    let mut state = State::default();
    for object in objects {
        state.apply_json(object).unwrap();
    }
    let found = incidents(&state, at(0));
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

fn changes(incident: &Incident) -> Vec<String> {
    let changes = incident.changes.iter();
    changes
        .map(|one| format!("{} {}", one.object, one.what))
        .collect()
}

#[test]
fn the_rollout_that_a_pod_belongs_to_is_in_the_headline() {
    let sets = || {
        [
            set(3, "payment:1.8.0", -90_000),
            set(4, "payment:1.9.0", -240),
        ]
    };
    let new = incident([deployment(), pod(4)].into_iter().chain(sets()));
    assert_eq!(
        new.headline,
        "shop/deployment/payment: its pod crashes at start (exit 2): panic: no provider for eur, \
         since rollout to payment:1.9.0 3 min ago"
    );
    assert_eq!(
        changes(&new),
        ["shop/deployment/payment rollout to payment:1.9.0"]
    );
    // A pod of the revision before is not broken by the new one.
    let old = incident([deployment(), pod(3)].into_iter().chain(sets()));
    assert!(old.headline.ends_with(", for 3 min"), "{}", old.headline);
    assert_eq!(
        changes(&old),
        ["shop/deployment/payment rollout to payment:1.9.0"]
    );
}

#[test]
fn only_what_changed_shortly_before_is_told() {
    let long_ago = [
        deployment(),
        pod(4),
        set(3, "payment:1.8.0", -90_000),
        set(4, "payment:1.9.0", -80_000),
    ];
    let mut pod = long_ago[1].clone();
    pod["metadata"]["creationTimestamp"] = at(-80_000).to_string().into();
    pod["status"]["startTime"] = at(-80_000).to_string().into();
    let mut objects = long_ago;
    objects[1] = pod;
    assert_eq!(changes(&incident(objects)), [""; 0]);
    let rebooted = [deployment(), self::pod(3), set(3, "payment:1.8.0", -90_000)];
    let rebooted = incident(rebooted.into_iter().chain(node("Rebooted", -260)));
    assert_eq!(changes(&rebooted), ["node/worker rebooted"]);
    assert!(
        rebooted.headline.ends_with(", for 3 min"),
        "{}",
        rebooted.headline
    );
}

#[test]
fn what_differs_is_told_as_people_say_it() {
    let container = |image: &str, limit: &str| -> Vec<Container> {
        let limits = json!({"limits": {"memory": limit}});
        let one = json!([{"name": "app", "image": image, "resources": limits}]);
        serde_json::from_value(one).unwrap()
    };
    let told = |image, limit| difference(&container("a/web:1", "1Gi"), &container(image, limit));
    assert_eq!(told("a/web:2", "1Gi").as_deref(), Some("to web:2"));
    let digest = format!("a/web@sha256:{}", "0123456789abcdef".repeat(4));
    assert_eq!(told(&digest, "1Gi").as_deref(), Some("to web@01234567…"));
    assert_eq!(
        told("a/web:1", "1Mi").as_deref(),
        Some("with other resources")
    );
    assert_eq!(told("a/web:1", "1Gi"), None);
    let message = "Scaled down replica set web-5d9 to 0 from 3";
    assert_eq!(scaling(message).as_deref(), Some("scaled down to 0 from 3"));
}

/// A template of the StatefulSet `db`, written at a time.
fn revision(number: i64, image: &str, created: i64) -> Value {
    json!({
        "kind": "ControllerRevision", "revision": number,
        "metadata": {
            "name": format!("db-{number}"), "namespace": "shop", "creationTimestamp": at(created),
            "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": true}],
        },
        "data": {"spec": {"template": {"$patch": "replace", "spec": {"containers": [
            {"name": "app", "image": format!("registry.example/{image}")},
        ]}}}},
    })
}

/// A pod of `db` that crashes; the label is the name of its revision, or the hash at its end.
fn crashing(label: &str) -> Value {
    let mut pod = pod(1);
    pod["metadata"]["name"] = "db-0".into();
    pod["metadata"]["labels"] = json!({"controller-revision-hash": label});
    pod["metadata"]["ownerReferences"][0] =
        json!({"kind": "StatefulSet", "name": "db", "controller": true});
    pod
}

#[test]
fn rollouts_of_what_keeps_controller_revisions_are_told() {
    let new = || [revision(3, "db:1", -90_000), revision(4, "db:2", -250)];
    let one = incident([crashing("db-4")].into_iter().chain(new()));
    assert_eq!(changes(&one), ["shop/statefulset/db rollout to db:2"]);
    assert!(
        one.headline.ends_with(", since rollout to db:2 4 min ago"),
        "{}",
        one.headline
    );
    // A DaemonSet labels its pods with the hash alone.
    let one = incident([crashing("4")].into_iter().chain(new()));
    assert!(one.headline.contains("since rollout"), "{}", one.headline);
    // A pod of the template before is not broken by the new one.
    let one = incident([crashing("db-3")].into_iter().chain(new()));
    assert!(one.headline.ends_with(", for 3 min"), "{}", one.headline);
    assert_eq!(changes(&one), ["shop/statefulset/db rollout to db:2"]);
    // The first template is no rollout, and nobody knows when a rollback was.
    let one = incident([crashing("db-4"), revision(4, "db:2", -250)]);
    assert_eq!(changes(&one), [""; 0]);
    let back = [revision(5, "db:1", -90_000), revision(4, "db:2", -250)];
    let one = incident([crashing("db-5")].into_iter().chain(back));
    assert_eq!(changes(&one), [""; 0]);
}
