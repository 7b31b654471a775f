use serde_json::{Value, json};

use super::*;
use crate::{incident::incidents, state::State};

const NOW: &str = "2026-05-04T10:00:00Z";

fn pod(app: &str, is_ready: bool, words: &str) -> Value {
    let status = if is_ready {
        json!({"name": "app", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-05-04T08:00:00Z"}}})
    } else {
        let ended = json!({"exitCode": 1, "reason": "Error", "message": words,
            "startedAt": "2026-05-04T09:58:50Z", "finishedAt": "2026-05-04T09:59:00Z"});
        json!({"name": "app", "ready": false, "restartCount": 9,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}})
    };
    json!({"kind": "Pod",
        "metadata": {"name": format!("{app}-0"), "namespace": "shop", "labels": {"app": app},
            "creationTimestamp": "2026-05-04T08:00:00Z",
            "ownerReferences": [{"kind": "StatefulSet", "name": app, "controller": true}]},
        "spec": {"restartPolicy": "Always", "nodeName": "n1", "containers": [{"name": "app", "image": "x"}]},
        "status": {"phase": "Running", "startTime": "2026-05-04T08:00:00Z", "containerStatuses": [status],
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" },
                "lastTransitionTime": "2026-05-04T09:40:00Z"}]}})
}

fn service(name: &str) -> Value {
    json!({"kind": "Service", "metadata": {"name": name, "namespace": "shop",
            "creationTimestamp": "2026-05-04T08:00:00Z"},
        "spec": {"selector": {"app": name}, "clusterIP": "10.0.0.1", "ports": [{"port": 5432}]}})
}

fn leads(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut state = State::default();
    for object in objects {
        state.apply_json(object).unwrap();
    }
    state.set_all_known();
    let found = incidents(&state, NOW.parse().unwrap());
    found.iter().map(|one| one.object.to_string()).collect()
}

#[test]
fn who_cannot_reach_a_sick_database_is_hurt_by_it() {
    let objects = [
        pod(
            "orders-db",
            false,
            "FATAL: data directory has wrong ownership",
        ),
        pod(
            "orders",
            false,
            "dial tcp 10.0.0.7:5432: connect: connection refused (orders-db:5432)",
        ),
        pod(
            "web",
            false,
            "lookup orders.shop.svc.cluster.local: no such host",
        ),
    ];
    let all = objects
        .into_iter()
        .chain(["orders-db", "orders", "web"].map(service));
    assert_eq!(leads(all), ["shop/statefulset/orders-db"]);
}

#[test]
fn a_service_that_answers_is_no_cause() {
    let objects = [
        pod("db", true, ""),
        pod("orders", false, "password rejected by db:5432"),
        service("db"),
        service("orders"),
    ];
    assert_eq!(leads(objects), ["shop/statefulset/orders"]);
}

#[test]
fn two_that_wait_for_each_other_stand_for_themselves() {
    let objects = [
        pod("a-1", false, "connection refused: b-1:80"),
        pod("b-1", false, "connection refused: a-1:80"),
        service("a-1"),
        service("b-1"),
    ];
    assert_eq!(leads(objects).len(), 2);
}

#[test]
fn hosts_are_known_by_their_form_or_place() {
    let all = |text: &'static str| hosts(text).collect::<Vec<_>>();
    assert_eq!(all("cannot reach db:5432 (db)"), ["db"]);
    assert_eq!(
        all("lookup cache on 10.96.0.10:53: no such host"),
        ["cache", "10.96.0.10"]
    );
    assert_eq!(
        all("postgres://app@store/orders: api error"),
        ["app", "store"]
    );
    assert_eq!(
        all("Connection refused (tsdb-mysql-leader:3306)"),
        ["tsdb-mysql-leader"]
    );
    assert_eq!(all("web error, api down. é"), [""; 0]);
}
