//! Pods and claims that are to become larger or smaller.

use serde_json::{Value, json};

use crate::{State, incidents};

const NOW: &str = "2026-05-04T10:00:00Z";

fn told(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut state = State::default();
    for object in objects {
        state.apply_json(object).unwrap();
    }
    state.set_all_known();
    let found = incidents(&state, NOW.parse().unwrap());
    found.iter().map(|one| one.headline.clone()).collect()
}

fn pod(kind: &str, status: &str, reason: &str, since: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, since: &str| {
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since,
            "message": "Node didn't have enough capacity: cpu, requested: 8000, capacity: 4000"})
    };
    let began = "2026-05-04T08:00:00Z";
    json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": began},
        "spec": {"nodeName": "worker", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "startTime": began,
            "conditions": [condition("Ready", "True", "", began), condition(kind, status, reason, since)],
            "containerStatuses": [{"name": "app", "state": {"running": {"startedAt": began}}}]}})
}

#[test]
fn a_pod_that_cannot_be_resized_is_told() {
    let one = |kind, status, reason, since| told([pod(kind, status, reason, since)]);
    let before = "2026-05-04T09:40:00Z";
    let just = "2026-05-04T09:58:00Z";
    let [line] = &one("PodResizePending", "True", "Infeasible", just)[..] else {
        panic!("one incident");
    };
    assert_eq!(
        line,
        "shop/pod/web: cannot be resized: Node didn't have enough capacity: cpu, requested: 8000, capacity: 4000, for 120 s"
            .replace("120 s", "2 min")
            .as_str()
    );
    assert_eq!(one("PodResizePending", "True", "Deferred", before).len(), 1);
    assert_eq!(one("PodResizePending", "True", "Deferred", just), [""; 0]);
    assert_eq!(one("PodResizeInProgress", "True", "Error", before).len(), 1);
    assert_eq!(one("PodResizeInProgress", "True", "", before), [""; 0]);
    assert_eq!(
        one("PodResizePending", "False", "Infeasible", before),
        [""; 0]
    );
}

fn claim(conditions: &Value, statuses: &Value) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop", "uid": "c",
            "creationTimestamp": "2026-05-04T08:00:00Z"},
        "status": {"phase": "Bound", "conditions": conditions, "allocatedResourceStatuses": statuses}})
}

fn failed() -> Value {
    json!({"kind": "Event", "type": "Warning", "reason": "VolumeResizeFailed", "metadata": {"name": "data.1", "namespace": "shop"},
        "message": "resize volume \"pvc-1\" by resizer \"ebs.csi.aws.com\" failed: rpc error: code = Internal desc = VolumeModificationRateExceeded",
        "firstTimestamp": "2026-05-04T09:00:00Z", "lastTimestamp": "2026-05-04T09:58:00Z",
        "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "c"}})
}

#[test]
fn a_claim_that_cannot_be_resized_is_told() {
    let since = "2026-05-04T09:00:00Z";
    let resizing = || json!([{"type": "Resizing", "status": "True", "lastTransitionTime": since}]);
    let [line] = &told([claim(&resizing(), &Value::Null), failed()])[..] else {
        panic!("one incident");
    };
    assert!(
        line.contains("cannot be resized") && line.contains("RateExceeded"),
        "{line}"
    );
    let error = json!([{"type": "ControllerResizeError", "status": "True", "message": "quota", "lastTransitionTime": since}]);
    let [line] = &told([claim(&error, &Value::Null)])[..] else {
        panic!("one incident");
    };
    assert!(line.contains(": quota,"), "{line}");
    let infeasible = json!({"storage": "NodeResizeInfeasible"});
    assert_eq!(told([claim(&Value::Null, &infeasible)]).len(), 1);
    // It takes its time, or is done.
    assert_eq!(told([claim(&resizing(), &Value::Null)]), [""; 0]);
    assert_eq!(told([claim(&Value::Null, &Value::Null), failed()]), [""; 0]);
}
