//! Incidents, end to end: what is wrong is listed, told once, and told again when it is over.

mod surfaces;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testbed::{Cluster, User, deployment, namespace, pod};

use crate::harness::{Http, Subscriber, one_context};

/// A Deployment with its ReplicaSet and one pod that belongs to it.
pub(crate) async fn create_workload(cluster: &Cluster, space: &str, name: &str) {
    let owner = |kind: &str, name: &str, uid: &Option<String>| {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid,
                "controller": true}])
    };
    let made = cluster.create(&deployment(space, name)).await.unwrap();
    let labels = json!({"app": name});
    let set: k8s_openapi::api::apps::v1::ReplicaSet = serde_json::from_value(json!({
        "metadata": {"namespace": space, "name": format!("{name}-1"), "labels": labels,
                     "ownerReferences": owner("Deployment", name, &made.metadata.uid)},
        "spec": {"selector": {"matchLabels": labels}, "template": made.spec.unwrap().template},
    }))
    .unwrap();
    let set = cluster.create(&set).await.unwrap();
    let mut one = pod(space, &format!("{name}-1-a"), &["app"]);
    let owners = owner("ReplicaSet", &format!("{name}-1"), &set.metadata.uid);
    one.metadata.owner_references = Some(serde_json::from_value(owners).unwrap());
    one.metadata.labels = Some([("app".to_owned(), name.to_owned())].into());
    cluster.create(&one).await.unwrap();
    mend(cluster, space, name).await;
}

async fn set_status(cluster: &Cluster, space: &str, name: &str, ready: bool, state: Value) {
    let now = Timestamp::now();
    let begun = now - SignedDuration::from_mins(5);
    let word = if ready { "True" } else { "False" };
    let status = json!({
        "phase": if ready { "Running" } else { "Pending" },
        "startTime": begun,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": begun},
            {"type": "Ready", "status": word, "lastTransitionTime": begun},
        ],
        "containerStatuses": [{
            "name": "app", "image": "Registry.example/App", "imageID": "", "ready": ready,
            "started": ready, "restartCount": 0, "state": state,
        }],
    });
    let pod = format!("{name}-1-a");
    cluster.set_pod_status(space, &pod, status).await.unwrap();
    let count = i32::from(ready);
    let counts = json!({"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
        "readyReplicas": count, "availableReplicas": count, "unavailableReplicas": 1 - count}});
    for (kind, name) in [
        ("deployments", name.to_owned()),
        ("replicasets", format!("{name}-1")),
    ] {
        let mut counts = counts.clone();
        if kind == "replicasets" {
            counts = json!({"status": {"replicas": 1, "readyReplicas": count, "availableReplicas": count}});
        }
        let path = format!("/apis/apps/v1/namespaces/{space}/{kind}/{name}/status");
        cluster.send("PATCH", &path, &counts).await.unwrap();
    }
}

/// The pod's image has a name that no registry can have: an incident at once, and over at once.
pub(crate) async fn break_workload(cluster: &Cluster, space: &str, name: &str) {
    let message = "Failed to apply default image tag \"Registry.example/App\": couldn't parse image \
                   name \"Registry.example/App\": invalid reference format: repository name must be \
                   lowercase";
    let waiting = json!({"waiting": {"reason": "InvalidImageName", "message": message}});
    set_status(cluster, space, name, false, waiting).await;
}

pub(crate) async fn mend(cluster: &Cluster, space: &str, name: &str) {
    let running = json!({"running": {"startedAt": Timestamp::now()}});
    set_status(cluster, space, name, true, running).await;
}

/// The list, once it has that many incidents.
pub(crate) async fn listed(http: &Http, arguments: &Value, count: usize) -> (String, Value) {
    let reached = async {
        loop {
            let found = http.call("faults_list", arguments.clone()).await.ok();
            if found.data["incidents"].as_array().unwrap().len() == count {
                return (found.text, found.data);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let reached = tokio::time::timeout(crate::harness::TIMEOUT, reached).await;
    reached.unwrap_or_else(|_| panic!("not {count} incidents: {arguments}"))
}

async fn spaces(cluster: &Cluster, names: &[&str]) {
    for name in names {
        cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    }
}

#[tokio::test]
async fn a_broken_deployment_is_named_first_with_its_cause_and_nothing_else_is_accused() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    spaces(cluster, &["incident-list"]).await;
    for name in ["web", "api", "cart"] {
        create_workload(cluster, "incident-list", name).await;
    }
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let here = json!({"namespace": "incident-list"});
    let (quiet, _) = listed(&http, &here, 0).await;
    assert!(
        quiet.starts_with("Nothing is wrong in namespace `incident-list`"),
        "{quiet}"
    );
    break_workload(cluster, "incident-list", "web").await;
    let (text, data) = listed(&http, &here, 1).await;
    assert!(text.starts_with("incident-list/deployment/web: "), "{text}");
    assert!(
        text.contains("must be lowercase") || text.contains("Registry.example/App"),
        "{text}"
    );
    let first = text.lines().next().unwrap();
    assert!(!first.contains("api") && !first.contains("cart"), "{text}");
    let notes = text.find("NOTE: ").unwrap_or(text.len());
    assert!(notes <= 500, "{notes} bytes: {text}");
    let incident = &data["incidents"][0];
    assert_eq!(incident["object"], "incident-list/deployment/web");
    let id = incident["id"].as_str().unwrap();
    assert!(id.starts_with("i-"), "{id}");
    let worse = json!({"namespace": "incident-list", "severity": "critical"});
    listed(
        &http,
        &worse,
        usize::from(incident["severity"] == "critical"),
    )
    .await;
    let got = http.call("faults_get", json!({"faultId": id})).await.ok();
    assert!(
        got.text.starts_with("incident-list/deployment/web: "),
        "{}",
        got.text
    );
    assert!(got.text.len() <= 3_500, "{}", got.text.len());
    assert_eq!(got.data["status"], "open");
    assert_eq!(got.data["pod"]["name"], "web-1-a");
    let next = got.data["next"].as_array().unwrap();
    for call in next {
        let tool = call["tool"].as_str().unwrap();
        assert!(got.text.contains(tool), "{tool}: {}", got.text);
        http.call(tool, call["arguments"].clone()).await.ok();
    }
    assert!(next.len() >= 4, "{next:?}");
    let unknown = http
        .call("faults_get", json!({"faultId": "i-0000000000"}))
        .await;
    unknown.refused("not_found", &["i-0000000000", "includeResolved"]);
    mend(cluster, "incident-list", "web").await;
    listed(&http, &here, 0).await;
    let over = json!({"namespace": "incident-list", "includeResolved": true});
    let (text, data) = listed(&http, &over, 0).await;
    assert!(
        text.contains("Resolved lately:\nincident-list/deployment/web: "),
        "{text}"
    );
    assert_eq!(data["resolved"][0]["id"], id);
    let got = http
        .call(
            "faults_get",
            json!({"faultId": id, "namespace": "incident-list"}),
        )
        .await
        .ok();
    assert_eq!(got.data["status"], "resolved");
    assert!(got.text.contains("resolved at "), "{}", got.text);
}

#[tokio::test]
async fn a_subscription_is_told_once_when_it_begins_and_once_when_it_is_over() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    spaces(cluster, &["incident-sub", "incident-other"]).await;
    for (space, name) in [
        ("incident-sub", "web"),
        ("incident-sub", "old"),
        ("incident-other", "web"),
    ] {
        create_workload(cluster, space, name).await;
    }
    break_workload(cluster, "incident-sub", "old").await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    listed(&http, &json!({"namespace": "incident-sub"}), 1).await;
    let mut client = Subscriber::at(&http, Some("warning")).await;
    let filters = json!({"mode": "incidents", "namespace": "incident-sub"});
    let made = http.call("events_subscribe", filters).await.ok().data;
    assert_eq!(made["mode"], "incidents");
    let open = &made["open"];
    assert_eq!(open["total"], 1, "{made}");
    assert_eq!(
        open["incidents"][0]["object"],
        "incident-sub/deployment/old"
    );
    let id = made["subscriptionId"].as_str().unwrap().to_owned();
    // What happens elsewhere is not told; it would arrive first.
    break_workload(cluster, "incident-other", "web").await;
    break_workload(cluster, "incident-sub", "web").await;
    let message = client.message().await;
    assert_eq!(message["logger"], "kubernetes/incidents");
    let data = &message["data"];
    assert_eq!(data["subscriptionId"], id);
    let incident = &data["incident"];
    assert_eq!(incident["transition"], "opened", "{data}");
    assert_eq!(incident["object"], "incident-sub/deployment/web");
    let level = incident["severity"].as_str().unwrap();
    assert_eq!(message["level"], level, "{message}");
    assert!(!message.to_string().contains("incident-other"), "{message}");
    mend(cluster, "incident-sub", "web").await;
    let over = loop {
        let data = client.event(&id).await;
        // More pods of it may have been counted meanwhile.
        if data["incident"]["transition"] != "changed" {
            break data;
        }
    };
    assert_eq!(over["incident"]["transition"], "resolved", "{over}");
    assert_eq!(over["incident"]["id"], incident["id"]);
    assert!(over["incident"]["durationSeconds"].as_i64().unwrap() >= 0);
    let poll = json!({"subscriptionId": id});
    let poll = http.call("events_poll", poll).await.ok();
    assert_eq!(poll.data["events"][0], *data, "push and poll show the same");
    assert!(
        poll.text.contains("opened ") && poll.text.contains("resolved after "),
        "{}",
        poll.text
    );
    let own = http
        .call("events_list_subscriptions", json!({}))
        .await
        .ok()
        .data;
    assert_eq!(own["subscriptions"][0]["mode"], "incidents");
    http.call("events_unsubscribe", json!({"subscriptionId": id}))
        .await
        .ok();
}

#[tokio::test]
async fn filters_that_incidents_have_nothing_for_are_refused() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    for (key, value) in [
        ("labelSelector", json!("app=web")),
        ("types", json!(["Warning"])),
        ("type", json!("Warning")),
        ("reason", json!("Fail")),
        ("excludeReasons", json!(["Pulled"])),
    ] {
        for tool in ["events_subscribe", "events_poll"] {
            let mut filters = json!({"mode": "incidents"});
            filters[key] = value.clone();
            let refused = http.call(tool, filters).await;
            refused.refused("invalid", &["mode `incidents`", "mode `events`"]);
        }
    }
    let own = http
        .call("events_list_subscriptions", json!({}))
        .await
        .ok()
        .data;
    assert_eq!(own["total"], 0);
}
