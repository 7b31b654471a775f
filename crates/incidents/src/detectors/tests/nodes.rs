//! Nodes that are looked at once.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{State, incidents};

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + 60 * minutes).unwrap()
}

fn told(ready_since: i64, events: &[(&str, i64, i64)]) -> Vec<String> {
    let mut state = State::default();
    let node = json!({
        "kind": "Node", "metadata": {"name": "worker", "uid": "n", "creationTimestamp": at(-90_000)},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastTransitionTime": at(ready_since), "lastHeartbeatTime": at(-1)}]},
    });
    state.apply_json(node).unwrap();
    for (number, (reason, seen, count)) in events.iter().enumerate() {
        let event: Value = json!({
            "kind": "Event", "type": "Warning", "reason": reason, "message": "worker", "count": count,
            "metadata": {"name": format!("worker.{number}")},
            "firstTimestamp": at(*seen), "lastTimestamp": at(*seen),
            "involvedObject": {"kind": "Node", "name": "worker", "uid": "worker"},
        });
        state.apply_json(event).unwrap();
    }
    let found = incidents(&state, at(0));
    found.iter().map(|one| one.headline.clone()).collect()
}

#[test]
fn a_node_that_comes_and_goes_is_told_though_it_is_ready() {
    let reboots = [
        ("Rebooted", -50, 1),
        ("Rebooted", -30, 1),
        ("Rebooted", -7, 1),
    ];
    assert_eq!(
        told(-6, &reboots),
        ["node/worker: was rebooted 3 times within the hour, and is back, for 50 min"]
    );
    let losses = [("NodeNotReady", -20, 4), ("Rebooted", -7, 1)];
    assert_eq!(
        told(-6, &losses),
        ["node/worker: was lost 4 times within the hour, and is back, for 20 min"]
    );
    // Two reboots are an upgrade; what was hours ago, or was steady since, is over.
    assert_eq!(told(-6, &reboots[1..]), [""; 0]);
    assert_eq!(told(-35, &reboots), [""; 0]);
    let old = reboots.map(|(reason, seen, count)| (reason, seen - 60, count));
    assert_eq!(told(-6, &old), [""; 0]);
    assert_eq!(told(-6, &[("Starting", -7, 9)]), [""; 0]);
}

#[test]
fn a_node_without_network_says_what_its_agent_says() {
    let mut state = State::default();
    let message = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";
    let node = json!({
        "kind": "Node", "metadata": {"name": "worker", "uid": "n", "creationTimestamp": at(-90)},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": message,
            "lastTransitionTime": at(-60), "lastHeartbeatTime": at(-1)}]},
    });
    state.apply_json(node).unwrap();
    let pod = json!({
        "kind": "Pod", "metadata": {"name": "cni-x", "namespace": "kube-system", "creationTimestamp": at(-60),
            "ownerReferences": [{"kind": "DaemonSet", "name": "cni", "controller": true}]},
        "spec": {"nodeName": "worker", "restartPolicy": "Always", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "startTime": at(-60), "containerStatuses": [{"name": "app", "restartCount": 9,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "startedAt": at(-5), "finishedAt": at(-4), "message": "UnauthorizedOperation"}}}]},
    });
    state.apply_json(pod).unwrap();
    let found = incidents(&state, at(0));
    let [one] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(one.object.to_string(), "node/worker");
    for word in [
        "daemonset/cni crashes",
        "UnauthorizedOperation",
        "cni plugin not initialized",
    ] {
        assert!(one.why.contains(word), "{}", one.why);
    }
}
