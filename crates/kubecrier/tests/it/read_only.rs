//! Nothing in this server can write to a cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{Cluster, LogScript, User, event, namespace, pod};

use crate::{
    harness::{Http, Subscriber, one_context},
    resources::{UpdateStream, subscribe},
};

const SPACE: &str = "read-only";

/// Calls that make a tool send every kind of request that it can send.
fn calls(tool: &str) -> Vec<Value> {
    let here = json!({"namespace": SPACE});
    let pod = |more: Value| {
        let mut call = json!({"namespace": SPACE, "name": "web"});
        let fields = call.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        call
    };
    match tool {
        "configuration_contexts_list"
        | "events_list_subscriptions"
        | "namespaces_list"
        | "nodes_list"
        | "nodes_top" => vec![json!({})],
        "changes_list" | "events_list" | "events_poll" | "pods_list" | "pods_top" => vec![here],
        "faults_list" => vec![here, json!({})],
        "faults_wait" => vec![json!({"namespace": SPACE, "cursor": "w-00000000.1"})],
        "events_subscribe" => vec![
            json!({"namespace": SPACE, "mode": "faults"}),
            json!({"namespace": SPACE, "mode": "incidents"}),
            json!({}),
        ],
        "events_unsubscribe" => vec![json!({"subscriptionId": "sub-1"})],
        "faults_get" => vec![json!({"faultId": "FAULT"})],
        "pods_get" => vec![pod(json!({})), pod(json!({"output": "yaml"}))],
        "pods_log" => vec![pod(json!({})), pod(json!({"previous": true}))],
        "resources_get" => vec![
            pod(json!({"kind": "pods"})),
            pod(json!({"kind": "Pod", "output": "yaml"})),
            json!({"kind": "ClusterRole", "name": "system:node"}),
        ],
        "resources_graph" => vec![
            pod(json!({"kind": "pods"})),
            json!({"kind": "Node", "name": "node-1"}),
        ],
        "resources_list" => vec![
            json!({"kind": "deployments"}),
            json!({"kind": "secrets"}),
            json!({"kind": "pods", "output": "yaml", "namespace": SPACE}),
        ],
        other => panic!("call the tool `{other}` here: does it only read?"),
    }
}

/// Reads and follows resources, and fills in every prompt.
async fn resources_and_prompts(http: &Http, cluster: &Cluster) {
    let other = http.another("2025-11-25").await;
    let mut updates = UpdateStream::of(&other).await;
    for path in ["events", "incidents", "pods/web/logs/app"] {
        let uri = format!("k8s://dev/{SPACE}/{path}");
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        assert!(read["result"].is_object(), "{read}");
        subscribe(&other, &uri).await;
        updates.until("from here on").await;
    }
    cluster.node().append(&format!("{SPACE}/web/app"), "more");
    updates.until("more").await;
    let prompts = http.rpc("prompts/list", json!({})).await;
    for prompt in prompts["result"]["prompts"].as_array().unwrap() {
        let mut given = json!({});
        for argument in prompt["arguments"].as_array().unwrap() {
            let value = match argument["name"].as_str().unwrap() {
                "context" => "dev",
                "namespace" => SPACE,
                "name" => "web",
                "faultId" => "none",
                other => panic!("what is `{other}` of a prompt?"),
            };
            given[argument["name"].as_str().unwrap()] = value.into();
        }
        let asked = json!({"name": prompt["name"], "arguments": given});
        http.rpc("prompts/get", asked).await;
    }
}

/// The user may do everything, so that the API server permits and audits every request
/// that the server makes.
#[tokio::test]
async fn whatever_is_asked_only_reads_reach_the_api_server() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    cluster
        .create_cluster_wide(&namespace(SPACE))
        .await
        .unwrap();
    cluster.create(&pod(SPACE, "web", &["app"])).await.unwrap();
    let warning = event(SPACE, "Pod/web", "Warning", "BackOff", "again");
    cluster.create(&warning).await.unwrap();
    let key = format!("{SPACE}/web/app");
    cluster
        .node()
        .set_log(&key, LogScript::lines(["hello".to_owned()]));
    cluster
        .node()
        .set_previous_log(&key, LogScript::lines(["before".to_owned()]));
    let file = one_context(cluster, User::Audited);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    client
        .subscribe(json!({"namespace": SPACE, "mode": "faults"}))
        .await;
    cluster
        .create(&event(SPACE, "Pod/web", "Warning", "Failed", "now"))
        .await
        .unwrap();
    let fault = client.message().await["data"]["faultId"].clone();
    let tools = http.rpc("tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        for mut arguments in calls(name) {
            if arguments["faultId"].is_string() {
                arguments = json!({"faultId": fault});
            }
            http.call(name, arguments).await;
        }
    }
    resources_and_prompts(&http, cluster).await;
    let audit = cluster.audit().unwrap();
    let mut requests = BTreeSet::new();
    for request in &audit {
        let verb = request["verb"].as_str().unwrap();
        let object = &request["objectRef"];
        let resource = object["resource"].as_str().unwrap_or_default();
        let reviews = ["selfsubjectreviews", "selfsubjectaccessreviews"];
        let reads = matches!(verb, "get" | "list" | "watch")
            || (verb == "create" && reviews.contains(&resource));
        assert!(reads, "a write reached the API server: {request}");
        let below = object["subresource"]
            .as_str()
            .map(|below| format!("/{below}"));
        requests.insert(format!("{verb} {resource}{}", below.unwrap_or_default()));
    }
    // The expected reads are in the audit log, so it is complete.
    for expected in [
        "get pods",
        "get pods/log",
        "list pods",
        "list events",
        "watch events",
        "list nodes",
        "list secrets",
        "list replicasets",
        "list configmaps",
        "get clusterroles",
        "list ingresses",
        "watch horizontalpodautoscalers",
        "watch pods",
    ] {
        assert!(requests.contains(expected), "{expected}: {requests:?}");
    }
}
