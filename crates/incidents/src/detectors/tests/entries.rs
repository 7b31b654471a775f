//! Ways in from outside.

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

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-05-04T08:00:00Z"})
}

fn ingress(class: Option<&str>, addresses: &Value) -> Value {
    json!({"kind": "Ingress", "metadata": meta("web"),
        "spec": {"ingressClassName": class}, "status": {"loadBalancer": {"ingress": addresses}}})
}

fn class(name: &str) -> Value {
    json!({"kind": "IngressClass", "metadata": {"name": name}})
}

#[test]
fn an_ingress_of_a_class_that_is_missing_is_told() {
    let lost = || ingress(Some("traefik"), &Value::Null);
    assert_eq!(
        told([lost(), class("nginx")]),
        [
            "shop/ingress/web: asks for ingressclass/traefik, which does not exist: there are nginx, for 2 h"
        ]
    );
    assert_eq!(
        told([lost()]),
        [
            "shop/ingress/web: asks for ingressclass/traefik, which does not exist: the cluster has no IngressClass, for 2 h"
        ]
    );
    // The class is there; none is asked for; somebody serves it all the same.
    assert_eq!(told([lost(), class("traefik")]), [""; 0]);
    assert_eq!(told([ingress(None, &Value::Null)]), [""; 0]);
    let served = ingress(Some("traefik"), &json!([{"ip": "203.0.113.7"}]));
    assert_eq!(told([served]), [""; 0]);
}

#[test]
fn an_ingress_is_not_accused_where_classes_may_not_be_read() {
    let mut state = State::default();
    let lost = ingress(Some("traefik"), &Value::Null);
    state.apply_json(lost).unwrap();
    state.set_known("Service");
    assert!(incidents(&state, NOW.parse().unwrap()).is_empty());
}

fn service(addresses: &Value) -> Value {
    json!({"kind": "Service", "metadata": meta("api"), "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": addresses}}})
}

fn warning(reason: &str) -> Value {
    json!({"kind": "Event", "type": "Warning", "reason": reason, "metadata": {"name": "api.1", "namespace": "shop"},
        "message": "Error syncing load balancer: failed to ensure load balancer: could not find any suitable subnets for creating the ELB",
        "firstTimestamp": "2026-05-04T09:00:00Z", "lastTimestamp": "2026-05-04T09:58:00Z",
        "involvedObject": {"kind": "Service", "namespace": "shop", "name": "api", "uid": "api"}})
}

#[test]
fn a_service_without_a_load_balancer_is_told_if_somebody_says_why() {
    let failed = || warning("SyncLoadBalancerFailed");
    let [line] = &told([service(&Value::Null), failed()])[..] else {
        panic!("one incident");
    };
    assert!(
        line.starts_with("shop/service/api: gets no address"),
        "{line}"
    );
    assert!(
        line.contains("could not find any suitable subnets"),
        "{line}"
    );
    // Most clusters at home have nobody who would give it one.
    assert_eq!(told([service(&Value::Null)]), [""; 0]);
    assert_eq!(told([service(&Value::Null), warning("Other")]), [""; 0]);
    let served = service(&json!([{"hostname": "elb.example"}]));
    assert_eq!(told([served, failed()]), [""; 0]);
}
