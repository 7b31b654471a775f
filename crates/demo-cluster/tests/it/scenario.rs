//! The scenario, through watches.

use std::{collections::BTreeSet, time::Duration};

use demo_cluster::{DemoCluster, Options, Scenario};
use futures_util::StreamExt as _;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{Event, Node, Pod, Service},
};
use kube::{
    Api, Resource,
    api::{ListParams, LogParams, WatchEvent, WatchParams},
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    beside,
    harness::{client, get},
};

fn shop(seed: u64) -> (DemoCluster, Scenario) {
    let cluster = DemoCluster::new(Options {
        seed,
        starts_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        ..Options::default()
    });
    let scenario = Scenario::set_up(&cluster, seed).unwrap();
    (cluster, scenario)
}

async fn all<K>(cluster: &DemoCluster) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client(cluster));
    api.list(&ListParams::default()).await.unwrap().items
}

fn container_reason(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses
        .first()?
        .state
        .as_ref()?
        .waiting
        .as_ref()?
        .reason
        .clone()
}

async fn check_all_is_well(cluster: &DemoCluster) {
    let pods: Vec<Pod> = all(cluster).await;
    assert_eq!(pods.len(), 9, "pods come and go in balance");
    for pod in pods {
        let status = pod.status.unwrap();
        assert_eq!(
            status.phase.as_deref(),
            Some("Running"),
            "{:?}",
            pod.metadata.name
        );
        assert!(status.container_statuses.unwrap()[0].ready);
    }
    let deployments: Vec<Deployment> = all(cluster).await;
    assert_eq!(deployments.len(), 5);
    for deployment in deployments {
        let (spec, status) = (deployment.spec.unwrap(), deployment.status.unwrap());
        assert_eq!(
            status.ready_replicas, spec.replicas,
            "{:?}",
            deployment.metadata.name
        );
        assert_eq!(status.updated_replicas, spec.replicas);
    }
    assert_eq!(
        all::<ReplicaSet>(cluster).await.len(),
        5,
        "no history piles up"
    );
    assert_eq!(all::<Service>(cluster).await.len(), 5);
    for node in all::<Node>(cluster).await {
        let conditions = node.status.unwrap().conditions.unwrap();
        let pressed = conditions
            .iter()
            .any(|one| one.type_ == "DiskPressure" && one.status == "True");
        assert!(!pressed && node.spec.unwrap().taints.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_fault_comes_within_ten_seconds_with_its_evidence() {
    let (cluster, scenario) = shop(1);
    let began = Instant::now();
    let events: Api<Event> = Api::all(client(&cluster));
    let params = WatchParams::default().fields("type=Warning").timeout(290);
    let from = cluster.version().to_string();
    let mut stream = Box::pin(events.watch(&params, &from).await.unwrap());
    let fault = tokio::select! {
        ended = scenario.run() => panic!("the scenario ended: {ended:?}"),
        first = stream.next() => first.unwrap().unwrap(),
    };
    let WatchEvent::Added(fault) = fault else {
        panic!("not an event: {fault:?}");
    };
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(fault.reason.as_deref(), Some("BackOff"));
    let name = fault.involved_object.name.unwrap();
    assert!(name.starts_with("payment-"), "{name}");
    let pods: Api<Pod> = Api::namespaced(client(&cluster), "shop");
    let pod = pods.get(&name).await.unwrap();
    assert_eq!(container_reason(&pod).as_deref(), Some("CrashLoopBackOff"));
    let status = &pod.status.unwrap().container_statuses.unwrap()[0];
    assert_eq!(status.restart_count, 1);
    let ended = status.last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(ended.exit_code, 2);
    let previous = LogParams {
        previous: true,
        ..LogParams::default()
    };
    let words = pods.logs(&name, &previous).await.unwrap();
    assert!(
        words.contains("panic: runtime error: invalid memory address"),
        "{words}"
    );
}

#[tokio::test(start_paused = true)]
async fn everything_that_was_promised_happens_and_heals_every_round() {
    let (cluster, mut scenario) = shop(2);
    check_all_is_well(&cluster).await;
    for round in 0..6 {
        let began = cluster.version();
        scenario.run_round().await.unwrap();
        check_all_is_well(&cluster).await;
        assert!(
            cluster.version() - began < 400,
            "a round is a few hundred changes"
        );
        let events: Vec<Event> = all(&cluster).await;
        let reasons: BTreeSet<_> = events
            .iter()
            .filter_map(|event| event.reason.clone())
            .collect();
        for reason in [
            "BackOff",
            "Created",
            "Evicted",
            "EvictionThresholdMet",
            "Failed",
            "FailedScheduling",
            "Killing",
            "NodeHasDiskPressure",
            "NodeHasNoDiskPressure",
            "Pulled",
            "Pulling",
            "ScalingReplicaSet",
            "Scheduled",
            "Started",
            "SuccessfulCreate",
            "SuccessfulDelete",
        ] {
            assert!(reasons.contains(reason), "round {round}: no {reason}");
        }
        let counted = events
            .iter()
            .any(|event| event.reason.as_deref() == Some("BackOff") && event.count == Some(3));
        assert!(counted, "back-offs are counted on");
    }
}

#[tokio::test(start_paused = true)]
async fn the_seed_decides_what_happens() {
    let told = async |seed| {
        let (cluster, mut scenario) = shop(seed);
        scenario.run_round().await.unwrap();
        let (_, events) = get(&client(&cluster), "/api/v1/events").await;
        let (_, pods) = get(&client(&cluster), "/api/v1/pods").await;
        (events, pods)
    };
    assert_eq!(told(7).await, told(7).await);
    assert_ne!(told(7).await, told(8).await);
}

#[tokio::test(start_paused = true)]
async fn a_scenario_can_run_faster() {
    let (_cluster, scenario) = shop(3);
    let mut scenario = scenario.speed(10.0);
    let began = Instant::now();
    scenario.run_round().await.unwrap();
    let (took, usual) = (began.elapsed(), Scenario::length());
    assert!(took >= usual / 10 && took < usual / 9, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_scenario_that_never_ends_stays_small() {
    let (cluster, scenario) = shop(5);
    let mut scenario = scenario.speed(1000.0);
    for _ in 0..100 {
        scenario.run_round().await.unwrap();
    }
    check_all_is_well(&cluster).await;
    assert!(all::<Event>(&cluster).await.len() <= 2000);
}

/// The real API server accepts the objects of the scenario.
#[tokio::test]
async fn the_real_server_would_take_every_object() {
    let Some(testbed) = testbed::shared() else {
        return;
    };
    let real = beside::real(testbed.dev(), testbed::User::Admin).await;
    let (cluster, scenario) = shop(4);
    let lists = [
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/services",
        "/api/v1/events",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/replicasets",
    ];
    let made = serde_json::json!({"metadata": {"name": "shop"}});
    beside::call(&real, "POST", "/api/v1/namespaces", Some(&made)).await;
    let mut scenario = scenario.speed(1000.0);
    scenario.run_round().await.unwrap();
    for path in lists {
        let (_, list) = get(&client(&cluster), path).await;
        for item in list["items"].as_array().unwrap() {
            check_is_taken(&real, path, item.clone()).await;
        }
    }
}

async fn check_is_taken(real: &kube::Client, path: &str, mut object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let path = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => {
            let (group, plural) = path.rsplit_once('/').unwrap();
            format!("{group}/namespaces/{namespace}/{plural}?dryRun=All")
        }
        None => format!("{path}?dryRun=All"),
    };
    let answer = beside::call(real, "POST", &path, Some(&object)).await;
    // An object that exists already was accepted, too.
    let taken = matches!(answer.status, 201 | 409);
    assert!(taken, "{path} {name}: {}", answer.body["message"]);
}
