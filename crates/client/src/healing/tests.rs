use super::*;

fn fault(pod: &str, state: &str) -> Notification {
    let data = json!({"cluster": "dev", "faultId": "f", "event": {
        "namespace": "shop", "timestamp": "2026-11-15T10:00:00Z",
        "labels": {"app": "web", "pod-template-hash": "7d4f9c"},
        "involvedObject": {"kind": "Pod", "name": pod}},
        "context": {"phase": "Running", "containers": [{"name": "app", "state": state}]}});
    Notification::parse(&data).unwrap()
}

fn id(pod: &str) -> PodId {
    PodId {
        cluster: "dev".to_owned(),
        namespace: "shop".to_owned(),
        name: pod.to_owned(),
    }
}

const READY: PodState = PodState::Ready { restarts: 2 };

/// The names of the pods that have recovered after these states of `web-1`.
fn recovered(fault: Notification, states: &[PodState]) -> Vec<&'static str> {
    let mut healing = Healing::default();
    healing.on_fault(fault);
    for state in states {
        healing.on_state(&id("web-1"), state.clone());
    }
    let recovered = healing.recovered.iter();
    recovered.map(Recovery::reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_healed_if_it_is_ready_twice_without_a_restart() {
    let crashed = || fault("web-1", "CrashLoopBackOff");
    let trouble = PodState::InTrouble;
    assert_eq!(recovered(crashed(), &[READY, READY]), ["Ready"]);
    assert!(
        recovered(crashed(), &[READY]).is_empty(),
        "it may crash again"
    );
    let again = PodState::Ready { restarts: 3 };
    assert!(recovered(crashed(), &[READY, again]).is_empty());
    assert!(recovered(crashed(), &[READY, trouble.clone(), READY]).is_empty());
    assert!(recovered(crashed(), &[trouble.clone(), trouble]).is_empty());
    assert_eq!(
        recovered(crashed(), &[PodState::Gone, PodState::Gone]),
        ["Deleted"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_never_down_does_not_heal() {
    let warned = || fault("web-1", "Running");
    assert!(recovered(warned(), &[READY, READY]).is_empty());
    assert_eq!(
        recovered(warned(), &[PodState::InTrouble, READY, READY]),
        ["Ready"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_fault_while_a_pod_seems_well_starts_anew() {
    let mut healing = Healing::default();
    healing.on_fault(fault("web-1", "CrashLoopBackOff"));
    healing.on_state(&id("web-1"), READY);
    healing.on_fault(fault("web-1", "CrashLoopBackOff"));
    healing.on_state(&id("web-1"), READY);
    assert!(healing.recovered.is_empty());
    healing.on_state(&id("web-1"), READY);
    assert_eq!(healing.recovered[0].faults, 2);
    assert!(healing.pods.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_in_trouble_are_looked_at_less_often_and_there_is_a_limit() {
    let mut healing = Healing::default();
    for number in 0..=PODS_MAX {
        healing.on_fault(fault(&format!("web-{number}"), "Error"));
    }
    assert_eq!(healing.pods.len(), PODS_MAX);
    assert_eq!(healing.pods[0].id, id("web-1"), "the oldest is forgotten");
    assert!(healing.due().is_empty());
    tokio::time::advance(CHECK_INTERVAL).await;
    let labels = Some("app=web".to_owned());
    assert_eq!(healing.due()[0], (id("web-1"), labels));
    for _ in 0..10 {
        healing.on_state(&id("web-1"), PodState::InTrouble);
    }
    assert_eq!(healing.pods[0].interval, CHECK_INTERVAL_MAX);
    tokio::time::advance(CHECK_INTERVAL).await;
    assert_eq!(healing.due()[0].0, id("web-2"));
}

#[test]
fn a_pod_that_is_gone_is_replaced_if_all_others_are_ready() {
    let others = |pods: Value, more: Value| {
        let list = json!({"pods": pods, "more": more});
        others(&list, &id("web-1"), "app=web".to_owned())
    };
    let row = |name: &str, status: &str, ready: u64| json!({"name": name, "status": status, "ready": ready, "containers": 1});
    let (none, some) = (json!({"exactly": 0}), json!({"exactly": 3}));
    let two = json!([row("web-1", "Evicted", 0), row("web-2", "Running", 1)]);
    assert_eq!(
        others(two.clone(), none.clone()),
        PodState::Replaced {
            pods: 1,
            labels: "app=web".to_owned()
        }
    );
    assert_eq!(others(two, some), PodState::InTrouble, "not all were seen");
    let starting = json!([row("web-2", "Running", 1), row("web-3", "Running", 0)]);
    assert_eq!(others(starting, none.clone()), PodState::InTrouble);
    assert_eq!(
        others(json!([row("web-1", "Evicted", 0)]), none.clone()),
        PodState::Gone
    );
    assert_eq!(
        others(json!(null), json!(null)),
        PodState::InTrouble,
        "not a list"
    );
}
