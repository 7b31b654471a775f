//! Services that somebody asks for.

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

fn deployment(name: &str, replicas: i64, asks: &str) -> Value {
    let container = json!({"name": "app", "env": [
        {"name": "PORT", "value": "8080"}, {"name": "BACKEND_ADDR", "value": asks},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
    ]});
    json!({"kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": "2026-05-04T08:00:00Z"},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}},
        "status": {"replicas": replicas, "availableReplicas": replicas}})
}

fn service(name: &str) -> Value {
    json!({"kind": "Service", "metadata": {"name": name, "namespace": "shop", "creationTimestamp": "2026-05-04T08:00:00Z"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}})
}

#[test]
fn a_service_that_was_removed_is_missed_by_who_asks_for_it() {
    let missing = ["shop/service/carts: does not exist, and deployment/web asks for it, for 2 h"];
    for asks in [
        "carts:80",
        "http://carts.shop.svc.cluster.local/list",
        "carts.shop:80",
    ] {
        let objects = || [deployment("web", 1, asks), deployment("carts", 1, "")];
        assert_eq!(told(objects()), missing, "{asks}");
        let there = objects().into_iter().chain([service("carts")]);
        assert_eq!(told(there), [""; 0], "{asks}");
    }
    let three = ["web", "app", "carts"].map(|name| deployment(name, 1, "carts:80"));
    let line =
        "shop/service/carts: does not exist, and deployment/app and 1 more ask for it, for 2 h";
    assert_eq!(told(three), [line]);
}

#[test]
fn what_nobody_runs_may_be_done_without() {
    for objects in [
        // A tracer that is not installed, another namespace, another domain, a workload that is
        // off, and one that asks for itself.
        [
            deployment("web", 1, "tracer:4317"),
            deployment("carts", 1, ""),
        ],
        [
            deployment("web", 1, "carts.other:80"),
            deployment("carts", 1, ""),
        ],
        [
            deployment("web", 1, "carts.shop.example:80"),
            deployment("carts", 1, ""),
        ],
        [deployment("web", 1, "carts:80"), deployment("carts", 0, "")],
        [deployment("web", 1, ""), deployment("carts", 1, "carts:80")],
        [
            deployment("web", 1, "carts:latest"),
            deployment("carts", 1, ""),
        ],
    ] {
        assert_eq!(told(objects), [""; 0]);
    }
}
