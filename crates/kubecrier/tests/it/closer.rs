//! The tools to look closer, against the real API server.

mod changes;
mod usage;

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{Cluster, User, namespace, pod};

use crate::harness::{Http, ToolResult, one_context};

/// Creates any object, as the admin.
async fn create(cluster: &Cluster, path: &str, object: Value) {
    cluster.send("POST", path, &object).await.unwrap();
}

async fn patch(cluster: &Cluster, path: &str, object: Value) {
    cluster.send("PATCH", path, &object).await.unwrap();
}

/// A custom kind whose objects may hold anything.
fn custom(
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    scope: &str,
    columns: Value,
) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

const CUSTOM: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A custom kind is served a moment after it was made.
async fn until_ok(http: &Http, tool: &str, arguments: Value) -> ToolResult {
    for _ in 0..100 {
        let answer = http.call(tool, arguments.clone()).await;
        if !answer.is_error {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    http.call(tool, arguments).await.ok()
}

#[tokio::test]
async fn any_kind_is_listed_as_kubectl_lists_it() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "closer-any";
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    for name in ["web", "db"] {
        let one = testbed::deployment(space, name);
        cluster.create(&one).await.unwrap();
    }
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    for kind in [
        "Deployment",
        "deploy",
        "deployments.apps",
        "deployments.v1.apps",
    ] {
        let list = json!({"kind": kind, "namespace": space});
        let list = http.call("resources_list", list).await.ok();
        assert!(
            list.text
                .starts_with("NAME  READY  UP-TO-DATE  AVAILABLE  AGE"),
            "{}",
            list.text
        );
        assert_eq!(list.data["items"].as_array().unwrap().len(), 2, "{kind}");
    }
    let picked = json!({"kind": "deploy", "labelSelector": "app=web", "namespace": space});
    let picked = http.call("resources_list", picked).await.ok();
    assert!(
        picked.text.contains("web") && !picked.text.contains("db"),
        "{}",
        picked.text
    );
    let cut = json!({"kind": "deploy", "namespace": space, "limit": 1});
    let cut = http.call("resources_list", cut).await.ok();
    assert!(cut.text.contains("... 1 more; narrow by"), "{}", cut.text);
    let everywhere = http
        .call("resources_list", json!({"kind": "deploy", "limit": 1000}))
        .await
        .ok();
    assert!(
        everywhere.text.starts_with("NAMESPACE"),
        "{}",
        everywhere.text
    );
    let yaml = json!({"kind": "deploy", "namespace": space, "name": "web", "output": "yaml"});
    let yaml = http.call("resources_get", yaml).await.ok();
    assert!(
        yaml.text.contains("kind: Deployment\n") && yaml.text.contains("registry.example/app:1")
    );
    assert!(!yaml.text.contains("managedFields"), "{}", yaml.text);
    let yaml = json!({"kind": "deploy", "namespace": space, "output": "yaml"});
    let yaml = http.call("resources_list", yaml).await.ok();
    assert_eq!(
        yaml.text.matches("kind: Deployment\n").count(),
        2,
        "{}",
        yaml.text
    );
    let row = json!({"kind": "deploy", "namespace": space, "name": "web"});
    let row = http.call("resources_get", row).await.ok();
    assert_eq!(row.data["items"][0]["NAME"], "web");
    let nodes = json!({"kind": "nodes", "namespace": space});
    let nodes = http.call("resources_list", nodes).await.ok();
    assert!(nodes.text.contains("node-1") && nodes.text.contains("not in any namespace"));
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused_with_a_way_on() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let list = async |arguments: Value| http.call("resources_list", arguments).await;
    list(json!({"kind": "deploymnet"}))
        .await
        .refused("not_found", &["no such kind", "deployments.apps"]);
    list(json!({"kind": "Deployment", "apiVersion": "apps/v9"}))
        .await
        .refused("not_found", &["served as apiVersion apps/v1"]);
    list(json!({"kind": "x".repeat(50_000)}))
        .await
        .refused("not_found", &["nearest"]);
    list(json!({"kind": ""}))
        .await
        .refused("invalid", &["`kind` is empty"]);
    list(json!({"kind": "configmaps"}))
        .await
        .refused("forbidden", &["list", "configmaps"]);
    list(json!({"kind": "pods", "namespace": "../secrets"}))
        .await
        .refused("invalid", &["namespace"]);
    list(json!({"kind": "pods", "labelSelector": "a=(("}))
        .await
        .refused("invalid", &["selector"]);
    list(json!({"kind": "pods/exec"}))
        .await
        .refused("not_found", &["nearest"]);
    for name in ["a/../../secrets", "..", "a?b", "a%2fb", ""] {
        http.call("resources_get", json!({"kind": "pods", "name": name}))
            .await
            .refused("invalid", &["cannot use"]);
    }
    http.call("resources_get", json!({"kind": "pods", "name": "gone"}))
        .await
        .refused("not_found", &["resources_list", "`gone`"]);
    http.call("pods_get", json!({"name": "gone"}))
        .await
        .refused("not_found", &["pods_list"]);
}

#[tokio::test]
async fn secrets_are_counted_and_never_shown() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "closer-secret";
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let path = format!("/api/v1/namespaces/{space}/secrets");
    let secret =
        json!({"metadata": {"name": "login"}, "stringData": {"a": "plain-words", "b": "x"}});
    create(cluster, &path, secret).await;
    let file = one_context(cluster, User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let list = json!({"kind": "Secret", "namespace": space});
    let list = http.call("resources_list", list).await.ok();
    assert_eq!(list.data["items"][0]["DATA"], "2", "{}", list.text);
    let one = json!({"kind": "secrets", "namespace": space, "name": "login"});
    let one = http.call("resources_get", one).await.ok();
    assert!(one.text.contains("login") && !one.text.contains("plain-words"));
    for (tool, more) in [
        ("resources_list", json!({})),
        ("resources_get", json!({"name": "login"})),
    ] {
        let mut call = json!({"kind": "Secret", "namespace": space, "output": "yaml"});
        call.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        http.call(tool, call)
            .await
            .refused("forbidden", &["Secrets", "how many keys"]);
    }
}

#[tokio::test]
async fn custom_kinds_are_read_however_they_are_made() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "closer-custom";
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let columns: Vec<_> = (0..60)
        .map(|n| json!({"name": format!("C{n} \u{1b}[31m{}", "x".repeat(150)), "type": "string", "jsonPath": ".spec.text"}))
        .collect();
    create(
        cluster,
        CUSTOM,
        custom(
            "closer.example",
            "v1",
            "Hostile",
            "hostiles",
            "Namespaced",
            columns.into(),
        ),
    )
    .await;
    let file = one_context(cluster, User::Admin);
    let http = Http::start(
        &file.path,
        &[
            "--max-output-bytes",
            "8192",
            "--request-timeout-seconds",
            "60",
        ],
    )
    .await;
    let list = json!({"kind": "hostiles", "namespace": space});
    let none = until_ok(&http, "resources_list", list.clone()).await;
    assert!(
        none.text.contains("no hostiles.closer.example found"),
        "{}",
        none.text
    );
    let path = format!("/apis/closer.example/v1/namespaces/{space}/hostiles");
    let huge = "y ".repeat(300_000);
    let deep = (0..50).fold(
        json!({"kind": "Secret", "data": {"k": "dmFsdWU="}}),
        |inner, _| json!({"a": [inner]}),
    );
    let object = json!({
        "apiVersion": "closer.example/v1", "kind": "Hostile", "metadata": {"name": "one"},
        "spec": {"text": "y ".repeat(1000), "huge": huge, "deep": deep},
    });
    create(cluster, &path, object).await;
    let listed = http.call("resources_list", list).await.ok();
    assert!(
        listed.text.contains("one") && !listed.text.contains('\u{1b}'),
        "{}",
        listed.text
    );
    assert!(listed.text.len() < 16_384, "{}", listed.text.len());
    let one = json!({"kind": "Hostile", "namespace": space, "name": "one", "output": "yaml"});
    let one = http.call("resources_get", one).await.ok();
    assert!(
        one.text.contains("more bytes of this object"),
        "{}",
        one.text.len()
    );
    assert!(
        one.text.len() + one.data.to_string().len() < 8192 + 512,
        "{}",
        one.text.len()
    );
    assert!(!one.text.contains("dmFsdWU="));
    // Sixty columns of the same field make a small list enormous.
    let object = json!({
        "apiVersion": "closer.example/v1", "kind": "Hostile", "metadata": {"name": "two"},
        "spec": {"text": "y ".repeat(300_000)},
    });
    create(cluster, &path, object).await;
    let list = json!({"kind": "hostiles", "namespace": space});
    let refused = http.call("resources_list", list).await;
    refused.refused("too_large", &["larger than 32 MiB", "ask for less"]);
}

#[tokio::test]
async fn a_pod_is_described() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "closer-pod";
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    cluster
        .create(&pod(space, "web", &["app", "proxy"]))
        .await
        .unwrap();
    let status = json!({"phase": "Running", "containerStatuses": [
        {"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 7,
         "state": {"waiting": {"reason": "CrashLoopBackOff"}},
         "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
    ], "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]});
    cluster.set_pod_status(space, "web", status).await.unwrap();
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let one = http
        .call("pods_get", json!({"namespace": space, "name": "web"}))
        .await
        .ok();
    for words in [
        "closer-pod/web: CrashLoopBackOff, 0/2 ready, 7 restarts",
        "node: node-1",
        "app: CrashLoopBackOff, 7 restarts, image registry.example/app:1",
        "exit code 137, OOMKilled",
        "condition Ready is False: ContainersNotReady",
    ] {
        assert!(one.text.contains(words), "{words}: {}", one.text);
    }
    assert_eq!(one.data["state"]["containers"][0]["name"], "app");
    let yaml = json!({"namespace": space, "name": "web", "output": "yaml"});
    let yaml = http.call("pods_get", yaml).await.ok();
    assert!(
        yaml.text.contains("kind: Pod\n") && yaml.text.contains("nodeName: node-1"),
        "{}",
        yaml.text
    );
    http.call(
        "pods_log",
        json!({"namespace": space, "name": "web", "container": "nope"}),
    )
    .await
    .refused("invalid", &["app", "proxy"]);
    let nodes = http.call("nodes_list", json!({})).await.ok();
    let node = nodes
        .text
        .lines()
        .find(|line| line.starts_with("node-1"))
        .unwrap();
    assert!(node.contains("Ready"), "{}", nodes.text);
}

#[tokio::test]
async fn operators_decide_what_is_offered_and_what_is_read() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Admin);
    let offered = async |arguments: &[&str]| {
        let http = Http::start(&file.path, arguments).await;
        let tools = http.rpc("tools/list", json!({})).await;
        let tools = tools["result"]["tools"].as_array().unwrap().iter();
        let names: Vec<_> = tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        (http, names)
    };
    let (http, names) = offered(&[
        "--toolsets",
        "config,events",
        "--disabled-tools",
        "events_poll",
    ])
    .await;
    assert!(
        names.contains(&"events_list".to_owned())
            && names.contains(&"configuration_contexts_list".to_owned())
    );
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("events_") || name.starts_with("configuration_"))
    );
    assert!(!names.contains(&"events_poll".to_owned()));
    for tool in ["events_poll", "pods_list"] {
        let call = json!({"name": tool, "arguments": {}});
        let answer = http.rpc("tools/call", call).await.to_string();
        assert!(
            answer.contains("switched off") && answer.contains("-32602"),
            "{answer}"
        );
    }
    let (http, names) = offered(&["--denied-kinds", "Secret,pods"]).await;
    for (tool, arguments) in [
        ("resources_list", json!({"kind": "secrets"})),
        ("resources_list", json!({"kind": "po"})),
        ("resources_get", json!({"kind": "Pod", "name": "x"})),
    ] {
        http.call(tool, arguments)
            .await
            .refused("forbidden", &["--denied-kinds"]);
    }
    // Without the kind they have nothing to give.
    for tool in ["pods_list", "pods_get", "pods_log", "faults_get"] {
        assert!(!names.contains(&tool.to_owned()), "{names:?}");
        let call = json!({"name": tool, "arguments": {"name": "x"}});
        let answer = http.rpc("tools/call", call).await.to_string();
        let refused = answer.contains("switched off") && answer.contains("--denied-kinds");
        assert!(refused, "{answer}");
    }
    http.call("resources_list", json!({"kind": "deployments"}))
        .await
        .ok();
}
