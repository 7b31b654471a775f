//! How long it takes to look through a large cluster:
//! `cargo run --release -p kubecrier-incidents --example scale`.

#![expect(clippy::print_stdout, reason = "its output")]
#![expect(clippy::disallowed_types, reason = "it measures real time")]

use std::time::Instant;

use jiff::Timestamp;
use kubecrier_incidents::{State, incidents, objects::Pod};
use serde_json::{Value, json};

const WORKLOADS: usize = 1_000;
const PODS_EACH: usize = 10;
const NODES: usize = 100;
const RUNS: u32 = 20;

fn main() -> Result<(), serde_json::Error> {
    let now = Timestamp::now();
    println!("| namespaces | pods that crash | a look, fastest / median of 20 (ms) | incidents |");
    println!("|---|---|---|---|");
    for namespaces in [1, 50, 1_000] {
        for sick in [0, 10] {
            let mut state = cluster(namespaces, sick, now)?;
            let mut times = Vec::new();
            for _ in 0..RUNS {
                let copy = state.clone();
                // One of the pods changes meanwhile, and its namespace is copied.
                let pod = state.pods.iter().next().map(|pod| Pod::clone(pod));
                let from = Instant::now();
                if let Some(pod) = pod {
                    state.pods.apply(pod);
                }
                let found = incidents(&copy, now).len();
                times.push((from.elapsed(), found));
            }
            times.sort();
            let (fastest, found) = times[0];
            let (median, _) = times[times.len() / 2];
            let sick = WORKLOADS * PODS_EACH * sick / 100;
            println!(
                "| {namespaces} | {sick} | {:.1} / {:.1} | {found} |",
                fastest.as_secs_f64() * 1e3,
                median.as_secs_f64() * 1e3
            );
        }
    }
    Ok(())
}

/// A cluster in which so many of a hundred workloads crash.
fn cluster(namespaces: usize, sick: usize, now: Timestamp) -> Result<State, serde_json::Error> {
    let mut state = State::default();
    let old = Timestamp::from_second(now.as_second() - 86_400).unwrap_or(now);
    for number in 0..NODES {
        state.apply_json(json!({
            "kind": "Node", "metadata": {"name": format!("node-{number}"), "creationTimestamp": old},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": old, "lastHeartbeatTime": now}]},
        }))?;
    }
    for number in 0..WORKLOADS {
        let is_sick = number % 100 < sick;
        for object in workload(
            number,
            &format!("team-{}", number % namespaces),
            is_sick,
            old,
            now,
        ) {
            state.apply_json(object)?;
        }
    }
    state.set_all_known();
    Ok(state)
}

fn workload(
    number: usize,
    namespace: &str,
    is_sick: bool,
    old: Timestamp,
    now: Timestamp,
) -> Vec<Value> {
    let name = format!("web-{number}");
    let meta = |name: &str, owner: Option<(&str, &str)>| {
        let owners: Vec<_> = owner
            .map(|(kind, name)| json!({"kind": kind, "name": name, "controller": true}))
            .into_iter()
            .collect();
        json!({"name": name, "namespace": namespace, "uid": name, "creationTimestamp": old,
               "labels": {"app": format!("web-{number}"), "team": namespace}, "ownerReferences": owners})
    };
    let available = if is_sick { 0 } else { PODS_EACH };
    let set = format!("{name}-5d9c7");
    let selector = json!({"app": name});
    let mut slice = meta(&format!("{name}-x"), Some(("Service", &name)));
    slice["labels"]["kubernetes.io/service-name"] = name.clone().into();
    let mut objects = vec![
        json!({"kind": "Deployment", "metadata": meta(&name, None),
               "spec": {"replicas": PODS_EACH, "template": {"metadata": {"labels": selector}}},
               "status": {"replicas": PODS_EACH, "availableReplicas": available, "readyReplicas": available}}),
        json!({"kind": "ReplicaSet", "metadata": meta(&set, Some(("Deployment", &name))),
               "spec": {"replicas": PODS_EACH}}),
        json!({"kind": "Service", "metadata": meta(&name, None),
               "spec": {"selector": selector, "ports": [{"port": 80, "targetPort": 8080}]}}),
        json!({"kind": "EndpointSlice", "metadata": slice,
               "endpoints": (0..PODS_EACH).map(|pod| json!({"conditions": {"ready": !is_sick},
                   "targetRef": {"name": format!("{set}-{pod}")}})).collect::<Vec<_>>()}),
    ];
    for pod in 0..PODS_EACH {
        let ready = if is_sick { "False" } else { "True" };
        let state = if is_sick {
            json!({"waiting": {"reason": "CrashLoopBackOff"}})
        } else {
            json!({"running": {"startedAt": old}})
        };
        let conditions: Vec<_> = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
            .iter()
            .map(|kind| json!({"type": kind, "status": ready, "lastTransitionTime": old}))
            .collect();
        objects.push(json!({"kind": "Pod", "metadata": meta(&format!("{set}-{pod}"), Some(("ReplicaSet", &set))),
            "spec": {"nodeName": format!("node-{}", (number + pod) % NODES), "restartPolicy": "Always",
                     "containers": [{"name": "app", "image": "web:1", "ports": [{"containerPort": 8080}]}]},
            "status": {"phase": "Running", "startTime": old, "conditions": conditions,
                "containerStatuses": [{"name": "app", "ready": !is_sick, "restartCount": if is_sick { 9 } else { 0 }, "state": state,
                    "lastState": if is_sick { json!({"terminated": {"exitCode": 1, "finishedAt": now}}) } else { json!({}) }}]}}));
    }
    objects
}
