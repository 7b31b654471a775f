//! Incidents where nothing is pushed, as resources, for a role of one namespace, and with
//! logs switched off.

use serde_json::json;
use testbed::User;

use super::{break_workload, create_workload, listed, mend, spaces};
use crate::{
    harness::{Http, message, one_context},
    resources::{UpdateStream, read_modern, subscribe},
};

#[tokio::test]
async fn a_resource_is_updated_in_both_eras_when_one_is_opened_and_resolved() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    spaces(cluster, &["incident-uri"]).await;
    create_workload(cluster, "incident-uri", "web").await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let uri = "k8s://dev/incident-uri/incidents";
    let mut session = UpdateStream::of(&http).await;
    subscribe(&http, uri).await;
    session.until("followed from here on").await;
    let mut listen = UpdateStream::listen(&http, &[uri]).await;
    assert_eq!(listen.update().await.0, uri);
    break_workload(cluster, "incident-uri", "web").await;
    for stream in [&mut session, &mut listen] {
        let update = stream.until("opened ").await;
        let summary = update["summary"].as_str().unwrap();
        assert!(
            summary.contains("incident-uri/deployment/web: "),
            "{summary}"
        );
    }
    let read = read_modern(&http, uri).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let content: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        content["incidents"][0]["object"],
        "incident-uri/deployment/web"
    );
    mend(cluster, "incident-uri", "web").await;
    for stream in [&mut session, &mut listen] {
        stream.until("resolved after ").await;
    }
    let read = http.rpc("resources/read", json!({"uri": uri})).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let content: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(content["incidents"], json!([]));
    assert_eq!(
        content["resolved"][0]["object"],
        "incident-uri/deployment/web"
    );
    // Those of the cluster are a resource of their own.
    let whole = http
        .rpc("resources/read", json!({"uri": "k8s://dev/incidents"}))
        .await;
    assert!(
        whole["result"]["contents"][0]["text"].is_string(),
        "{whole}"
    );
}

#[tokio::test]
async fn a_client_without_a_session_polls_them() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    spaces(cluster, &["incident-poll"]).await;
    create_workload(cluster, "incident-poll", "web").await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let poll = async |mut more: serde_json::Value| {
        more["mode"] = "incidents".into();
        more["namespace"] = "incident-poll".into();
        let asked = json!({"name": "events_poll", "arguments": more});
        let answer = http.modern("tools/call", Some("events_poll"), asked).await;
        message(&answer.text().await.unwrap())["result"]["structuredContent"].clone()
    };
    let first = poll(json!({})).await;
    assert_eq!(first["events"], json!([]), "{first}");
    break_workload(cluster, "incident-poll", "web").await;
    let next = poll(json!({"cursor": first["cursor"], "waitSeconds": 20})).await;
    let incident = &next["events"][0]["incident"];
    assert_eq!(incident["transition"], "opened", "{next}");
    assert_eq!(incident["object"], "incident-poll/deployment/web");
    mend(cluster, "incident-poll", "web").await;
    let last = poll(json!({"cursor": next["cursor"], "waitSeconds": 20})).await;
    assert_eq!(
        last["events"][0]["incident"]["transition"], "resolved",
        "{last}"
    );
}

#[tokio::test]
async fn a_role_of_one_namespace_gets_the_incidents_of_that_one() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_workload(cluster, "team-a", "incident-web").await;
    break_workload(cluster, "team-a", "incident-web").await;
    let file = one_context(cluster, User::TeamA);
    let http = Http::start(&file.path, &[]).await;
    let found = http
        .call("faults_list", json!({"namespace": "team-a"}))
        .await
        .ok();
    assert!(
        found.text.contains("team-a/deployment/incident-web: "),
        "{}",
        found.text
    );
    let filters = json!({"mode": "incidents", "namespace": "team-a"});
    let made = http.call("events_subscribe", filters).await.ok().data;
    assert!(made["open"].to_string().contains("incident-web"), "{made}");
    // A server that is confined to it needs no namespace to be named.
    let confined = Http::start(&file.path, &["--allowed-namespaces", "team-a"]).await;
    let (text, _) = {
        let found = confined.call("faults_list", json!({})).await.ok();
        (found.text, found.data)
    };
    assert!(text.contains("team-a/deployment/incident-web: "), "{text}");
    mend(cluster, "team-a", "incident-web").await;
}

#[tokio::test]
async fn an_incident_has_no_log_where_logs_are_switched_off() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    spaces(cluster, &["incident-logs"]).await;
    create_workload(cluster, "incident-logs", "web").await;
    let log = testbed::LogScript::lines(["a line of the workload"]);
    cluster.node().set_log("incident-logs/web-1-a/app", log);
    break_workload(cluster, "incident-logs", "web").await;
    let file = one_context(cluster, User::Reader);
    let here = json!({"namespace": "incident-logs"});
    for (flags, is_shown) in [
        (&[] as &[&str], true),
        (&["--disabled-tools", "pods_log"], false),
    ] {
        let http = Http::start(&file.path, flags).await;
        let (_, data) = listed(&http, &here, 1).await;
        let id = &data["incidents"][0]["id"];
        let got = http.call("faults_get", json!({"faultId": id})).await.ok();
        let all = format!("{}{}", got.text, got.data);
        assert_eq!(all.contains("a line of the workload"), is_shown, "{all}");
    }
}
