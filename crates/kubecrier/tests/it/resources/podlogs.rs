//! `k8s://.../pods/{pod}/logs/{container}`.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::{LogScript, NodeEndpoint, User};
use tokio::time::Instant;

use super::{UpdateStream, create_pod_with_log, read_modern, subscribe};
use crate::harness::{Http, TIMEOUT, one_context};

fn lines(update: &Value) -> Vec<&str> {
    let lines = update["lines"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap()).collect()
}

/// Waits until the log of that container has this number of followers.
async fn followed(node: &NodeEndpoint, container: &str, count: usize) {
    let reached = async {
        while node.followers(container) != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    assert!(reached.is_ok(), "{} follow", node.followers(container));
}

#[tokio::test]
async fn a_log_is_followed_once_for_all_and_told_in_both_eras() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "grows").await;
    let (node, container) = (cluster.node(), "grows/web-0/app");
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let uri = "k8s://dev/grows/pods/web-0/logs/app";
    let spelled = "k8s://%64ev/grows/pods/web-0/logs/app?tail=1";
    let mut session = UpdateStream::of(&http).await;
    subscribe(&http, uri).await;
    let first = session.until("followed from here on").await;
    assert_eq!(
        (first["state"].as_str(), lines(&first)),
        (Some("following"), vec![])
    );
    let other = http.another("2025-03-26").await;
    let mut second = UpdateStream::of(&other).await;
    subscribe(&other, spelled).await;
    let mut listen = UpdateStream::listen(&http, &[uri, spelled]).await;
    assert_eq!(listen.update().await.0, uri);
    assert_eq!(listen.update().await.0, spelled);
    node.append(container, "GET /cart 500");
    for stream in [&mut session, &mut second, &mut listen] {
        let update = stream.until("GET /cart 500").await;
        assert_eq!(lines(&update), ["GET /cart 500"], "only what is new");
        let summary = update["summary"].as_str().unwrap();
        assert_eq!(summary, "grows/web-0, container app: 1 new line");
    }
    assert_eq!(node.followers(container), 1, "however many listen");
    let read = read_modern(&http, spelled).await;
    let content = &read["result"]["contents"][0];
    assert_eq!(content["text"], "GET /cart 500\n", "{read}");
    assert_eq!(content["_meta"]["kubecrier/log"]["truncated"], true);
    assert!(content.to_string().contains("not instructions"), "{read}");
    let metrics = http.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("kubecrier_log_follows 1"), "{metrics}");
    drop(listen);
    subscribe(&http, spelled).await;
    http.rpc("resources/unsubscribe", json!({"uri": uri})).await;
    node.append(container, "and again");
    second.until("and again").await;
    // An update of the first URI would arrive before this.
    node.append(container, "for the last time");
    let updates = session.up_to("for the last time").await;
    assert!(updates.iter().all(|(uri, _)| uri == spelled), "{updates:?}");
    let unsubscribed = http.rpc("resources/unsubscribe", json!({"uri": spelled}));
    assert_eq!(unsubscribed.await["result"], json!({}));
    assert_eq!(other.delete().await, 204);
    followed(node, container, 0).await;
}

#[tokio::test]
async fn a_flood_is_sent_at_most_twice_a_second_and_within_its_bounds() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "floods").await;
    let node = cluster.node();
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut stream = UpdateStream::of(&http).await;
    subscribe(&http, "k8s://dev/floods/pods/web-0/logs/app").await;
    stream.until("followed from here on").await;
    let began = std::time::SystemTime::now();
    for number in 0..3000 {
        node.append(
            "floods/web-0/app",
            &format!("line {number} {}", "x".repeat(50)),
        );
        if number % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }
    node.append("floods/web-0/app", "the end");
    let (mut updates, mut counted, mut last) = (0, 0, 0);
    loop {
        let (_, update) = stream.update().await;
        updates += 1;
        let text = update["lines"].to_string();
        assert!(text.len() <= 4097, "{} bytes", text.len());
        counted += lines(&update).len() as u64 + update["omitted"].as_u64().unwrap();
        let seq = update["seq"].as_u64().unwrap();
        assert!(seq > last);
        last = seq;
        if text.contains("the end") {
            assert_eq!(update["count"], 3001);
            break;
        }
    }
    assert_eq!(counted, 3001, "delivered or counted");
    let seconds = began.elapsed().unwrap().as_secs_f64();
    assert!(
        f64::from(updates) <= 2.0 * seconds + 2.0,
        "{updates} in {seconds} s"
    );
}

#[tokio::test]
async fn a_restart_loses_no_line_and_a_deleted_pod_is_reported() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "restarts").await;
    let (node, container) = (cluster.node(), "restarts/web-0/app");
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let uri = "k8s://dev/restarts/pods/web-0/logs/app";
    let mut stream = UpdateStream::listen(&http, &[uri]).await;
    stream.until("followed from here on").await;
    node.append(container, "before it ends");
    stream.until("before it ends").await;
    // A rotation: the stream ends, the container runs on.
    node.end(container);
    node.append(container, "after the rotation");
    let update = stream.until("after the rotation").await;
    assert_eq!(lines(&update), ["after the rotation"], "nothing twice");
    // The last lines are written while the log is not followed.
    node.append(container, "panic: no cheese left");
    node.restart(container);
    let status = json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "x", "ready": true, "restartCount": 1,
        "state": {"running": {}},
    }]});
    let set = cluster.set_pod_status("restarts", "web-0", status).await;
    set.unwrap();
    node.append(container, "starting again");
    let mut lines_received = Vec::new();
    while !lines_received.iter().any(|line| line == "starting again") {
        let (_, update) = stream.update().await;
        lines_received.extend(lines(&update).into_iter().map(str::to_owned));
    }
    assert_eq!(lines_received, ["panic: no cheese left", "starting again"]);
    let path = "/api/v1/namespaces/restarts/pods/web-0";
    let now = json!({"gracePeriodSeconds": 0});
    cluster.send("DELETE", path, &now).await.unwrap();
    node.end(container);
    let gone = stream.until("the pod is gone").await;
    assert_eq!(gone["state"], "gone");
    let read = read_modern(&http, uri).await;
    assert_eq!(read["error"]["code"], -32602, "{read}");
}

#[tokio::test]
async fn an_error_text_of_a_kubelet_is_a_failure_and_no_line() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "kubelets").await;
    let (node, container) = (cluster.node(), "kubelets/web-0/app");
    let words = "failed to create fsnotify watcher: too many open files";
    let log = LogScript::lines(["ready"]);
    node.set_log(container, log.clone().trailing_error(words));
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut stream = UpdateStream::listen(&http, &["k8s://dev/kubelets/pods/web-0/logs/app"]).await;
    let failing = stream.until(words).await;
    assert_eq!(failing["state"], "failing", "{failing}");
    assert!(lines(&failing).is_empty(), "{failing}");
    // The follow is retried many times and reported once.
    let asked = || {
        let all = node.requests();
        all.iter().filter(|one| one.container == container).count()
    };
    let (before, began) = (asked(), Instant::now());
    while asked() < before + 2 {
        assert!(began.elapsed() < TIMEOUT, "it is not tried again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node.set_log(container, log);
    let updates = stream.up_to("followed from here on").await;
    assert_eq!(updates.len(), 1, "{updates:?}");
    node.append(container, "working");
    let update = stream.until("working").await;
    assert_eq!(
        (lines(&update), &update["count"]),
        (vec!["working"], &json!(1))
    );
    assert_eq!(update["state"], "following");
}
