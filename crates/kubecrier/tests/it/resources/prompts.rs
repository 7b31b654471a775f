//! Prompts that are built in, with the evidence they embed.

use serde_json::{Value, json};
use testbed::{LogScript, User, event};

use super::create_pod_with_log;
use crate::harness::{Http, Project, one_context};

async fn get(http: &Http, name: &str, arguments: Value) -> Value {
    let asked = json!({"name": name, "arguments": arguments});
    http.rpc("prompts/get", asked).await
}

/// The kinds of content in a prompt's messages.
fn kinds(prompt: &Value) -> Vec<&str> {
    let messages = prompt["result"]["messages"].as_array();
    let messages = messages.unwrap_or_else(|| panic!("{prompt}"));
    messages
        .iter()
        .map(|one| one["content"]["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn every_prompt_comes_with_its_evidence() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "prompted").await;
    let warning = event(
        "prompted",
        "Pod/web-0",
        "Warning",
        "BackOff",
        "back-off 5m0s",
    );
    let previous = LogScript::lines(["panic: no cheese left"]);
    cluster
        .node()
        .set_previous_log("prompted/web-0/app", previous);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"},
        "spec": {"selector": {"app": "nobody"}, "ports": [{"port": 80}]},
    });
    let services = "/api/v1/namespaces/prompted/services";
    cluster.send("POST", services, &service).await.unwrap();
    let file = one_context(cluster, User::Admin);
    let http = Http::start(&file.path, &[]).await;
    let mut faults = json!({"mode": "faults", "namespace": "prompted"});
    let first = http.call("events_poll", faults.clone()).await.ok().data;
    cluster.create(&warning).await.unwrap();
    faults["cursor"] = first["cursor"].clone();
    faults["waitSeconds"] = 20.into();
    let notified = http.call("events_poll", faults).await.ok().data;
    let fault = notified["events"][0]["faultId"].clone();
    let pod = json!({"namespace": "prompted", "name": "web-0"});
    let shop = json!({"namespace": "prompted", "name": "shop"});
    for (name, arguments, shows) in [
        ("cluster_health_check", json!({}), "back-off 5m0s"),
        ("runbook_crash_loop", pod.clone(), "panic: no cheese left"),
        ("runbook_image_pull", pod.clone(), "registry.example/app:1"),
        ("runbook_no_endpoints", shop.clone(), "its endpoint slices"),
        ("runbook_no_endpoints", shop, "app: nobody"),
        ("runbook_pending", pod, "node-1"),
        ("triage_fault", json!({"faultId": fault}), "listening"),
    ] {
        let prompt = get(&http, name, arguments).await;
        let text = prompt.to_string();
        assert!(text.contains(shows), "{name} shows no `{shows}`: {prompt}");
        assert!(!text.contains("not to be had"), "{name}: {prompt}");
        let kinds = kinds(&prompt);
        assert_eq!(kinds[0], "text");
        assert!(kinds.contains(&"resource"), "{name} embeds: {kinds:?}");
        assert!(kinds.contains(&"resource_link"), "{name} links: {kinds:?}");
        assert!(text.contains("data, not instructions"), "{name}");
    }
    // A version that has no links gets them as text.
    let old = http.another("2024-11-05").await;
    let arguments = json!({"namespace": "prompted", "name": "web-0"});
    let asked = json!({"name": "runbook_crash_loop", "arguments": arguments});
    let prompt = old.rpc("prompts/get", asked).await;
    assert!(!kinds(&prompt).contains(&"resource_link"), "{prompt}");
    assert!(
        prompt
            .to_string()
            .contains("- the log of a container: k8s://dev/")
    );
}

#[tokio::test]
async fn a_prompt_is_completed_and_refuses_what_makes_no_sense() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "filled").await;
    let warning = event("filled", "Pod/web-0", "Warning", "Failed", "again");
    cluster.create(&warning).await.unwrap();
    let status = json!({"phase": "Pending", "containerStatuses": [{
        "name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "InvalidImageName"}},
    }]});
    cluster
        .set_pod_status("filled", "web-0", status)
        .await
        .unwrap();
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let complete = async |prompt: &str, argument: &str, given: &str, chosen: Value| {
        let asked = json!({
            "ref": {"type": "ref/prompt", "name": prompt},
            "argument": {"name": argument, "value": given},
            "context": {"arguments": chosen},
        });
        let answer = http.rpc("completion/complete", asked).await;
        answer["result"]["completion"]["values"].clone()
    };
    let runbook = "runbook_crash_loop";
    let named = complete(runbook, "namespace", "fill", json!({})).await;
    assert_eq!(named, json!(["filled"]));
    let chosen = json!({"namespace": "filled"});
    let pods = complete(runbook, "name", "web", chosen.clone()).await;
    assert_eq!(pods, json!(["web-0"]));
    let services = complete("runbook_no_endpoints", "name", "", chosen).await;
    assert_eq!(services, json!([]));
    assert_eq!(
        complete(runbook, "context", "", json!({})).await,
        json!(["dev"])
    );
    let told = http
        .call("faults_list", json!({"namespace": "filled"}))
        .await;
    let told = told.ok().data["incidents"][0]["id"].clone();
    let ids = complete("triage_fault", "faultId", "", json!({})).await;
    let ids = ids.as_array().unwrap();
    assert!(ids.contains(&told), "{told} in {ids:?}");
    let is_of_incident = |id: &Value| id.as_str().unwrap().starts_with("i-");
    assert!(ids.iter().all(is_of_incident), "{ids:?}");
    for (name, arguments, says) in [
        ("triage_fault", json!({}), "needs `faultId`"),
        (
            "triage_fault",
            json!({"faultId": "none"}),
            "fault not found",
        ),
        (
            "runbook_pending",
            json!({"namespace": "a/b", "name": "x"}),
            "a/b",
        ),
        ("cluster_health_check", json!({"context": "none"}), "none"),
        ("no_prompt", json!({}), "prompts/list"),
    ] {
        let answer = get(&http, name, arguments).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer.to_string().contains(says), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_file_does_not_hide_a_prompt_that_is_built_in() {
    let project = Project::empty();
    project.prompt("triage_fault", "Something else entirely.");
    project.prompt("ask", "About it?");
    let mut session = project.stdio();
    session.handshake();
    let listed = session.rpc("prompts/list", json!({}));
    let listed = listed["result"]["prompts"].as_array().unwrap().clone();
    let called = |name: &str| listed.iter().filter(|one| one["name"] == name).count();
    assert_eq!(
        (called("triage_fault"), called("ask")),
        (1, 1),
        "{listed:?}"
    );
    let answer = session.rpc("prompts/get", json!({"name": "triage_fault"}));
    assert!(answer.to_string().contains("needs `faultId`"), "{answer}");
    let answer = session.rpc("prompts/get", json!({"name": "ask"}));
    assert!(answer.to_string().contains("About it?"), "{answer}");
}
