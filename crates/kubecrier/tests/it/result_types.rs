//! Every answer of the newest protocol says what it is: `resultType`. Clients refuse one that
//! does not.

use serde_json::{Value, json};
use testbed::{Cluster, User};

use crate::{
    harness::{Http, Project, Stream, message, one_context},
    resources::create_pod_with_log,
};

/// The requests of that revision. `subscriptions/listen` is answered when it ends.
const METHODS: [&str; 10] = [
    "server/discover",
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// A tool of the project that says itself what its answer is.
const STRUCTURED: &str =
    r#"echo '{"content": [], "structuredContent": {"a": 1}, "isError": true}'"#;

/// Requests of each method: built in and of the project, that succeed and that fail as an
/// answer.
fn requests() -> Vec<(&'static str, Value)> {
    let call = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        ("tools/call", params)
    };
    let read = |uri: &str| ("resources/read", json!({"uri": uri}));
    let prompt = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        ("prompts/get", params)
    };
    let complete = |reference: Value, argument: &str| {
        let argument = json!({"name": argument, "value": ""});
        (
            "completion/complete",
            json!({"ref": reference, "argument": argument}),
        )
    };
    let prompt_ref = |name: &str| json!({"type": "ref/prompt", "name": name});
    let template_ref = |uri: &str| json!({"type": "ref/resource", "uri": uri});
    vec![
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        call("namespaces_list", json!({})),
        call("events_list", json!({})),
        call("pods_get", json!({"namespace": "default", "name": "none"})),
        call("test_simple_text", json!({})),
        call("test_error_handling", json!({})),
        call("test_image_content", json!({})),
        call("test_audio_content", json!({})),
        call("test_embedded_resource", json!({})),
        call("structured", json!({})),
        call("json_schema_2020_12_tool", json!({})),
        read("k8s://dev/default/events"),
        read("k8s://dev/default/graph"),
        read("test://static-text"),
        read("test://static-binary"),
        read("test://template/7/data"),
        prompt("cluster_health_check", json!({})),
        prompt(
            "runbook_pending",
            json!({"namespace": "typed", "name": "web-0"}),
        ),
        prompt("test_simple_prompt", json!({})),
        prompt(
            "test_prompt_with_arguments",
            json!({"arg1": "a", "arg2": "b"}),
        ),
        prompt(
            "test_prompt_with_embedded_resource",
            json!({"resourceUri": "test://x"}),
        ),
        prompt("test_prompt_with_image", json!({})),
        prompt("embedded_by_uri", json!({"uri": "test://static-text"})),
        prompt(
            "embedded_by_uri",
            json!({"uri": "k8s://dev/default/events"}),
        ),
        complete(prompt_ref("cluster_health_check"), "context"),
        complete(prompt_ref("test_prompt_with_arguments"), "arg1"),
        complete(prompt_ref("none"), "none"),
        complete(
            template_ref("k8s://{context}/{namespace}/events"),
            "namespace",
        ),
        complete(template_ref("test://template/{id}/data"), "id"),
    ]
}

/// The name in a request's header.
fn name_of(params: &Value) -> Option<&str> {
    params["name"].as_str().or_else(|| params["uri"].as_str())
}

async fn start(cluster: &Cluster) -> (Project, crate::harness::File, Http) {
    let project = Project::sample("conformance");
    project.tool("structured", STRUCTURED);
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &["--project-root", project.text()]).await;
    (project, file, http)
}

#[tokio::test]
async fn every_answer_of_the_newest_protocol_says_what_it_is() {
    let Some(bed) = testbed::shared() else { return };
    create_pod_with_log(bed.dev(), "typed").await;
    let (_project, _file, http) = start(bed.dev()).await;
    let mut answered = Vec::new();
    for (method, params) in requests() {
        let response = http.modern(method, name_of(&params), params.clone()).await;
        let answer = message(&response.text().await.unwrap());
        assert_eq!(
            answer["result"]["resultType"], "complete",
            "{method} {params}: {answer}"
        );
        answered.push(method);
        // The versions before do not know it.
        if method != "server/discover" {
            let answer = http.rpc(method, params.clone()).await;
            let result = answer["result"].as_object();
            let result = result.unwrap_or_else(|| panic!("{method} {params}: {answer}"));
            assert!(
                !result.contains_key("resultType"),
                "{method} {params}: {answer}"
            );
        }
    }
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listen = Stream::new(http.modern("subscriptions/listen", None, wanted).await);
    listen.next().await;
    http.server.signal(rustix::process::Signal::TERM);
    let end = loop {
        let message = listen.next().await;
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(end["result"]["resultType"], "complete", "{end}");
    answered.push("subscriptions/listen");
    for method in METHODS {
        assert!(answered.contains(&method), "{method} is not asked");
    }
}
