//! Prompts of a project that show more than text.

use serde_json::{Value, json};
use testbed::{User, event, namespace};

use crate::{
    fixtures,
    harness::{Http, Project, one_context},
};

async fn embedded(http: &Http, uri: &str) -> Value {
    let params = json!({"name": "embedded_by_uri", "arguments": {"uri": uri}});
    http.rpc("prompts/get", params).await
}

/// An embedded resource is read as its requester, when the prompt is asked for.
#[tokio::test]
async fn a_project_prompt_embeds_resources_and_images() {
    let (_project, http) = fixtures::start().await;
    let get = async |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        http.rpc("prompts/get", params).await
    };
    let image = get("test_prompt_with_image", json!({})).await;
    let content = &image["result"]["messages"][0]["content"];
    assert_eq!(
        (&content["type"], &content["mimeType"]),
        (&json!("image"), &json!("image/png"))
    );
    assert!(content["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    assert!(content.get("path").is_none(), "{content}");
    let answer = embedded(&http, "test://template/7/data").await;
    let message = &answer["result"]["messages"][0];
    assert_eq!(message["role"], "assistant");
    let resource = &message["content"]["resource"];
    assert_eq!(resource["uri"], "test://template/7/data");
    assert_eq!(resource["mimeType"], "application/json");
    assert!(
        resource["text"].as_str().unwrap().contains("\"id\": \"7\""),
        "{resource}"
    );
    // Nothing is embedded that could not be read.
    for uri in [
        "test://none",
        "file:///etc/hostname",
        "test://template/%2e%2e/data",
    ] {
        let refused = embedded(&http, uri).await;
        assert!(refused.get("error").is_some(), "{uri}: {refused}");
    }
    let missing = get("embedded_by_uri", json!({})).await;
    assert_eq!(missing["error"]["code"], -32602, "{missing}");
}

#[tokio::test]
async fn what_is_switched_off_is_not_embedded() {
    let project = Project::sample("conformance");
    let log = "k8s://dev/default/pods/web-0/logs/app";
    let http = project.http(&["--disabled-tools", "pods_log"]).await;
    let refused = embedded(&http, log).await["error"].to_string();
    assert!(refused.contains("--disabled-tools"), "{refused}");
    // Otherwise it is the cluster that cannot be reached.
    let http = project.http(&[]).await;
    let refused = embedded(&http, log).await["error"].to_string();
    assert!(refused.contains("message"), "{refused}");
    assert!(!refused.contains("--disabled-tools"), "{refused}");
}

/// Names are names, inside of a prompt too, and secrets are not.
#[tokio::test]
async fn an_embedded_resource_is_as_it_is_when_it_is_read() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let created = cluster.create_cluster_wide(&namespace("embedded")).await;
    created.unwrap();
    let pod = "sk-learn-inference-7d9f8c6b5d-abcde";
    let about = format!("Pod/{pod}");
    let warning = event(
        "embedded",
        &about,
        "Warning",
        "BackOff",
        "password=swordfish-1",
    );
    cluster.create(&warning).await.unwrap();
    let file = one_context(cluster, User::Reader);
    let project = Project::sample("conformance");
    let http = Http::start(&file.path, &["--project-root", project.text()]).await;
    let uri = "k8s://dev/embedded/events";
    let read = http.rpc("resources/read", json!({"uri": uri})).await;
    let read = &read["result"]["contents"][0];
    let prompt = embedded(&http, uri).await;
    let shown = &prompt["result"]["messages"][0]["content"]["resource"];
    for (way, content) in [("read", read), ("embedded", shown)] {
        assert_eq!(content["uri"], uri, "{way}: {content}");
        let text = content["text"].as_str().unwrap();
        assert!(text.contains(pod), "{way}: {text}");
        assert!(text.contains("[redacted"), "{way}: {text}");
        assert!(!text.contains("swordfish"), "{way}: {text}");
    }
}
