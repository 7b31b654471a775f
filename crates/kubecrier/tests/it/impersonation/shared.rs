//! What is read once for all callers and derived for each: incidents and the graph, by every way
//! to them.

use serde_json::{Value, json};
use testbed::{Cluster, User, namespace};
use tokio::time::{Duration, Instant, sleep};

use super::{ANN, Acting, BOB, grant, revoke};
use crate::{
    harness::{HttpSession, Stream, TIMEOUT, message},
    incidents::{break_workload, create_workload},
};

const OF_ANN: &str = "derived-ann";
const OF_BOB: &str = "derived-bob";

/// A namespace with a Deployment that does not run. Its name is that of nothing else.
async fn broken(cluster: &Cluster, space: &str, workload: &str) {
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    create_workload(cluster, space, workload).await;
    break_workload(cluster, space, workload).await;
}

/// Everything that a caller gets to see of incidents and of graphs, by every way to them; with
/// the ids of incidents that it saw.
async fn everything(
    session: &HttpSession,
    spaces: &[&str],
    workload: &str,
) -> (String, Vec<String>) {
    let mut answers = Vec::new();
    let mut call = async |tool: &str, arguments: Value| {
        let legacy = session.call(tool, arguments.clone()).await;
        let params = json!({"name": tool, "arguments": arguments});
        let modern = session.modern("tools/call", Some(tool), params).await;
        let modern = message(&modern.text().await.unwrap()).to_string();
        answers.extend([legacy.text, legacy.data.to_string(), modern]);
        legacy.data
    };
    let list = call("faults_list", json!({"includeResolved": true})).await;
    let none = Vec::new();
    let ids = list["incidents"].as_array().unwrap_or(&none).iter();
    let ids: Vec<_> = ids
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    for id in &ids {
        call("faults_get", json!({"faultId": id})).await;
    }
    call("faults_wait", json!({"timeoutSeconds": 1})).await;
    call("events_subscribe", json!({"mode": "incidents"})).await;
    for space in spaces {
        call("faults_list", json!({"namespace": space})).await;
        call(
            "events_subscribe",
            json!({"mode": "incidents", "namespace": space}),
        )
        .await;
        let pod = format!("{workload}-1-a");
        for (kind, name) in [("deployment", workload), ("pod", &pod)] {
            let about = json!({"namespace": space, "kind": kind, "name": name, "depth": 5});
            call("resources_graph", about).await;
        }
    }
    for path in ["incidents", "-/graph"]
        .map(str::to_owned)
        .into_iter()
        .chain(
            spaces
                .iter()
                .flat_map(|space| ["incidents", "graph"].map(|what| format!("{space}/{what}"))),
        )
    {
        let uri = json!({"uri": format!("k8s://dev/{path}")});
        answers.push(session.rpc("resources/read", uri.clone()).await.to_string());
        let uri_text = uri["uri"].as_str().unwrap();
        let modern = session.modern("resources/read", Some(uri_text), uri.clone());
        answers.push(modern.await.text().await.unwrap());
        answers.push(session.rpc("resources/subscribe", uri).await.to_string());
    }
    let prompt = json!({"name": "cluster_health_check", "arguments": {}});
    answers.push(session.rpc("prompts/get", prompt).await.to_string());
    let completing = json!({
        "ref": {"type": "ref/prompt", "name": "triage_fault"},
        "argument": {"name": "faultId", "value": ""},
    });
    let completed = session.rpc("completion/complete", completing).await;
    let mut completed: Vec<_> = (completed["result"]["completion"]["values"]
        .as_array()
        .unwrap())
    .iter()
    .map(|id| id.as_str().unwrap().to_owned())
    .collect();
    completed.sort();
    let mut expected = ids.clone();
    expected.sort();
    assert_eq!(completed, expected);
    (answers.join("\n"), ids)
}

/// Ann and Bob may each read one namespace: of the other one, neither is told anything, though
/// both are served by the same watches.
#[tokio::test]
async fn incidents_and_graphs_are_made_of_what_a_caller_may_read() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    broken(cluster, OF_ANN, "mine").await;
    broken(cluster, OF_BOB, "theirs").await;
    grant(cluster, OF_ANN, "derived-ann", "User", "derived-ann").await;
    grant(cluster, OF_BOB, "derived-bob", "User", "derived-bob").await;
    let lines = [
        &*format!("ann:{ANN} user=derived-ann"),
        &*format!("bob:{BOB} user=derived-bob"),
    ];
    let acting = Acting::start_as(cluster, User::Admin, &lines);
    let ann = HttpSession::signed(&acting.base, ANN).await;
    let bob = HttpSession::signed(&acting.base, BOB).await;
    let began = Instant::now();
    loop {
        let listed = ann.call("faults_list", json!({})).await;
        if listed.data["incidents"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
        {
            break;
        }
        assert!(began.elapsed() < TIMEOUT, "{}", listed.text);
        sleep(Duration::from_millis(100)).await;
    }
    let (told, ids) = everything(&ann, &[OF_ANN, OF_BOB], "mine").await;
    assert_eq!(ids.len(), 1, "{told}");
    for part in [
        "derived-ann/deployment/mine",
        "Pod:derived-ann/mine-1-a",
        "parts are left out, you may not: ",
        "you may not list anything there",
    ] {
        assert!(told.contains(part), "no {part} in {told}");
    }
    assert!(!told.contains("theirs"), "{told}");
    let (told, of_bob) = everything(&bob, &[OF_BOB], "theirs").await;
    assert!(told.contains("derived-bob/deployment/theirs"), "{told}");
    assert!(!told.contains("mine"), "{told}");
    assert!(of_bob != ids);
    // The id of another's incident is none.
    let answer = ann.call("faults_get", json!({"faultId": of_bob[0]})).await;
    assert!(
        answer.is_error && answer.text.contains("not found"),
        "{}",
        answer.text
    );

    // What is followed.
    let mut stream = ann.stream(None).await;
    let uri = json!({"uri": format!("k8s://dev/{OF_ANN}/graph")});
    ann.rpc("resources/subscribe", uri).await;
    let uris = ["-/graph", "incidents"].map(|path| format!("k8s://dev/{path}"));
    let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
    let mut listen = Stream::new(ann.modern("subscriptions/listen", None, wanted).await);
    let accepted = listen.next().await.to_string();
    assert!(
        accepted.contains("-/graph") && accepted.contains("incidents"),
        "{accepted}"
    );
    for (space, workload) in [(OF_BOB, "unseen"), (OF_ANN, "seen")] {
        create_workload(cluster, space, workload).await;
        break_workload(cluster, space, workload).await;
    }
    let until = async |stream: &mut Stream, parts: &[&str]| {
        let mut told = String::new();
        let found = async {
            while !parts.iter().all(|part| told.contains(part)) {
                told.push_str(&stream.next().await.to_string());
            }
        };
        let found = tokio::time::timeout(TIMEOUT, found).await;
        assert!(found.is_ok(), "not all of {parts:?} in {told}");
        assert!(
            !told.contains("unseen") && !told.contains("theirs"),
            "{told}"
        );
    };
    until(&mut stream, &["Pod:derived-ann/seen-1-a"]).await;
    until(&mut listen, &["Pod:derived-ann/seen-1-a", "opened"]).await;

    // A right that is gone is gone from answers at once.
    revoke(cluster, OF_ANN, "derived-ann").await;
    let began = Instant::now();
    loop {
        let listed = ann.call("faults_list", json!({"namespace": OF_ANN})).await;
        let graph = json!({"namespace": OF_ANN, "kind": "pod", "name": "mine-1-a"});
        let graph = ann.call("resources_graph", graph).await;
        if listed.is_error && graph.is_error {
            for answer in [listed, graph] {
                let answer = answer.refused("forbidden", &["you may not list anything there"]);
                assert!(!answer.text.contains("mine"), "{}", answer.text);
            }
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{} {}",
            listed.text,
            graph.text
        );
        sleep(Duration::from_millis(50)).await;
    }
}
