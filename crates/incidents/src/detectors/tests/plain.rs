//! Pods that no detector has to look at.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    State,
    detectors::{Context, pods},
    objects::{Object, Pod},
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn ended() -> impl Strategy<Value = Value> {
    let reason = prop::sample::select(vec!["Completed", "Error", "OOMKilled", "StartError", ""]);
    (prop::sample::select(vec![0, 1, 137]), reason, -4000..0_i64).prop_map(|(code, reason, seen)| {
        json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": at(seen - 9), "finishedAt": at(seen)}})
    })
}

fn state() -> impl Strategy<Value = Value> {
    let waiting = prop::sample::select(vec![
        "CrashLoopBackOff",
        "ErrImagePull",
        "ContainerCreating",
        "InvalidImageName",
        "CreateContainerConfigError",
    ]);
    prop_oneof![
        4 => (-9000..0_i64).prop_map(|seen| json!({"running": {"startedAt": at(seen)}})),
        1 => ended(),
        1 => waiting.prop_map(|reason| json!({"waiting": {"reason": reason}})),
        1 => Just(json!({})),
    ]
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let last = prop_oneof![3 => Just(json!({})), 1 => ended()];
    (state(), last, 0..4_i64, any::<bool>()).prop_map(move |(state, last, restarts, ready)| {
        json!({"name": name, "state": state, "lastState": last, "restartCount": restarts, "ready": ready})
    })
}

fn condition(kind: &'static str, usual: &'static str) -> impl Strategy<Value = Value> {
    let status =
        prop_oneof![4 => Just(usual), 1 => prop::sample::select(vec!["True", "False", "Unknown"])];
    let reason = prop::sample::select(vec![
        "",
        "Infeasible",
        "Error",
        "PodCompleted",
        "SchedulingGated",
    ]);
    (status, reason, -4000..0_i64).prop_map(move |(status, reason, seen)| {
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": at(seen)})
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let phase = prop_oneof![
        5 => Just("Running"),
        1 => prop::sample::select(vec!["Pending", "Succeeded", "Failed", "Unknown", ""]),
    ];
    let conditions = (
        condition("Ready", "True"),
        prop::option::of(condition("PodScheduled", "True")),
        prop::option::weighted(0.2, condition("PodResizePending", "True")),
        prop::option::weighted(0.2, condition("PodResizeInProgress", "True")),
        prop::option::weighted(0.2, condition("DisruptionTarget", "True")),
    );
    let policy = prop::sample::select(vec!["Always", "OnFailure", "Never"]);
    let node = prop::sample::select(vec!["well", "lost", ""]);
    (
        phase,
        conditions,
        container("app"),
        prop::option::of(container("init")),
        policy,
        node,
        prop::option::weighted(0.1, -4000..4000_i64),
    )
        .prop_map(|(phase, conditions, app, init, policy, node, deleted)| {
            let (ready, scheduled, pending, resizing, target) = conditions;
            let conditions: Vec<_> = [Some(ready), scheduled, pending, resizing, target]
                .into_iter()
                .flatten()
                .collect();
            let init: Vec<_> = init.into_iter().collect();
            json!({"kind": "Pod",
                "metadata": {"name": "web-1", "namespace": "shop", "creationTimestamp": at(-5000), "deletionTimestamp": deleted.map(at)},
                "spec": {"nodeName": node, "restartPolicy": policy, "containers": [{"name": "app"}],
                    "initContainers": init.iter().map(|one| json!({"name": one["name"]})).collect::<Vec<_>>()},
                "status": {"phase": phase, "conditions": conditions, "containerStatuses": [app], "initContainerStatuses": init}})
        })
}

fn node(name: &str, ready: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "creationTimestamp": at(-90_000)},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(-3000), "lastHeartbeatTime": at(-20)}]}})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a pod is like: one that is passed over has nothing to tell, now and later.
    #[test]
    fn a_plain_pod_has_nothing_to_tell(pod in pod(), later in 0..5000_i64) {
        let read: Pod = serde_json::from_value(pod.clone()).unwrap();
        let mut state = State::default();
        for object in [pod, node("well", "True"), node("lost", "False")] {
            state.apply_json(object).unwrap();
        }
        state.set_all_known();
        let told = pods::of(&Context::new(&state, at(later)), &read);
        prop_assert!(!Object::is_plain(&read) || told.is_none(), "{told:?}");
    }
}

#[test]
fn a_pod_that_runs_is_plain_and_one_that_was_restarted_is_not() {
    let running = |last: Value| -> Pod {
        let began = at(-9000);
        serde_json::from_value(json!({"metadata": {"name": "web"}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
            "containerStatuses": [{"name": "app", "state": {"running": {"startedAt": began}}, "lastState": last}]}}))
        .unwrap()
    };
    assert!(Object::is_plain(&running(json!({}))));
    assert!(!Object::is_plain(&running(
        json!({"terminated": {"exitCode": 1}})
    )));
}
