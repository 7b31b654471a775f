//! Watches of both clusters during the same changes.

use futures_util::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use kube::Client;
use serde_json::{Value, json};
use testbed::Options;
use tokio::time::{Duration, timeout};

use super::{Pair, TestRequest, call, normal, objects};

/// Watches of both clusters. `NS` is the namespace; each watch starts at the version of its
/// own list.
const WATCHES: &[(&str, &str)] = &[
    (JSON, "/api/v1/namespaces/NS/pods?watch=true"),
    (
        JSON,
        "/api/v1/pods?watch=true&fieldSelector=metadata.namespace%3DNS",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&labelSelector=app%3Dweb",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&labelSelector=app!%3Dweb",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&fieldSelector=status.phase%3DRunning",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&fieldSelector=metadata.name%3Dmover",
    ),
    (METADATA, "/api/v1/namespaces/NS/pods?watch=true"),
    (JSON, "/api/v1/namespaces/NS/events?watch=true"),
    (
        JSON,
        "/api/v1/namespaces/NS/events?watch=true&fieldSelector=type%3DWarning",
    ),
    (
        JSON,
        "/apis/events.k8s.io/v1/namespaces/NS/events?watch=true",
    ),
    (JSON, "/apis/apps/v1/namespaces/NS/deployments?watch=true"),
    (JSON, "/api/v1/namespaces/NS/configmaps?watch=true"),
    (JSON, "/api/v1/watch/namespaces/NS/configmaps?"),
];

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const NAMESPACE: &str = "beside-changes";

/// Only a watch that does not end is waited for so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything a watch says until the server ends it, up to what differs every time.
async fn lines(client: &Client, accept: &str, path: &str) -> Vec<Value> {
    let request = http::Request::get(format!("{path}&timeoutSeconds=3"))
        .header("accept", accept)
        .body(Vec::new())
        .unwrap();
    let mut lines = client.request_stream(request).await.unwrap().lines();
    let mut told = Vec::new();
    while let Some(line) = timeout(PATIENCE, lines.next()).await.unwrap() {
        told.push(normal(serde_json::from_str(&line.unwrap()).unwrap()));
    }
    // The time of a bookmark is not fixed, in either cluster.
    told.retain(|event| {
        let annotations = &event["object"]["metadata"]["annotations"];
        event["type"] != "BOOKMARK" || !annotations["k8s.io/initial-events-end"].is_null()
    });
    told
}

async fn version(client: &Client) -> String {
    let list = call(client, "GET", "/api/v1/events?limit=1", None).await;
    list.body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Makes changes in the real cluster and copies each of them.
async fn change(pair: &Pair) {
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    let step = async |method: &str, path: &str, body: Value| {
        let done = call(&pair.real, method, path, Some(&body)).await;
        assert!(done.status < 300, "{path}: {:?}", done.body);
        done.body
    };
    let pods = format!("{core}/pods");
    let mover = format!("{pods}/mover");
    step(
        "POST",
        &pods,
        objects::pod("mover", json!({"app": "web"}), "node-1"),
    )
    .await;
    pair.copy(&mover).await;
    for app in ["db", "db", "web"] {
        step(
            "PATCH",
            &mover,
            json!({"metadata": {"labels": {"app": app, "step": app}}}),
        )
        .await;
        pair.copy(&mover).await;
    }
    step(
        "PATCH",
        &format!("{mover}/status"),
        json!({"status": {"phase": "Running"}}),
    )
    .await;
    pair.copy(&mover).await;
    step(
        "PATCH",
        &format!("{mover}/status"),
        json!({"status": {"phase": "Failed"}}),
    )
    .await;
    pair.copy(&mover).await;
    step("DELETE", &mover, json!({"gracePeriodSeconds": 0})).await;
    assert!(pair.demo.delete("pods", NAMESPACE, "mover"));
    let events = format!("{core}/events");
    let warning = objects::event(NAMESPACE, "web-1", "Warning", "Unhealthy");
    let made = step("POST", &events, warning).await;
    let name = made["metadata"]["name"].as_str().unwrap().to_owned();
    pair.copy(&format!("{events}/{name}")).await;
    step("PATCH", &format!("{events}/{name}"), json!({"count": 2})).await;
    pair.copy(&format!("{events}/{name}")).await;
    step("DELETE", &format!("{events}/{name}"), json!({})).await;
    assert!(pair.demo.delete("events", NAMESPACE, &name));
    let deployment = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web");
    step("PATCH", &deployment, json!({"spec": {"replicas": 3}})).await;
    pair.copy(&deployment).await;
    let settings = format!("{core}/configmaps/settings");
    step("PATCH", &settings, json!({"data": {"mode": "slow"}})).await;
    pair.copy(&settings).await;
    step("DELETE", &settings, json!({})).await;
    assert!(pair.demo.delete("configmaps", NAMESPACE, "settings"));
}

#[tokio::test]
async fn the_demo_tells_watchers_what_the_real_server_tells() {
    let Some(testbed) = testbed::shared() else {
        return;
    };
    let pair = Pair::new(testbed.dev(), NAMESPACE).await;
    let demo = Client::new(pair.demo.service(), "default");
    let (real_from, demo_from) = (version(&pair.real).await, version(&demo).await);
    change(&pair).await;
    let both = |path: String, accept: &'static str, from: Option<(String, String)>| {
        let (real, demo) = (pair.real.clone(), demo.clone());
        async move {
            let at = |version: &str| format!("{path}&resourceVersion={version}");
            let (theirs, ours) = match from {
                Some((real, demo)) => (at(&real), at(&demo)),
                None => (path.clone(), path.clone()),
            };
            let (theirs, ours) =
                tokio::join!(lines(&real, accept, &theirs), lines(&demo, accept, &ours));
            let differ = (theirs != ours).then(|| {
                let print = |lines: &[Value]| {
                    lines
                        .iter()
                        .map(|line| format!("\n  {line}"))
                        .collect::<String>()
                };
                format!(
                    "{accept} {path}\n real:{}\n demo:{}\n",
                    print(&theirs),
                    print(&ours)
                )
            });
            (theirs.len(), differ)
        }
    };
    let mut asked = Vec::new();
    for (accept, path) in WATCHES {
        let from = Some((real_from.clone(), demo_from.clone()));
        asked.push(both(path.replace("NS", NAMESPACE), accept, from));
    }
    let begun = WATCHES.len();
    for (accept, path) in INITIAL {
        asked.push(both(path.replace("NS", NAMESPACE), accept, None));
    }
    let answers = futures_util::future::join_all(asked).await;
    assert!(
        answers.iter().take(begun).all(|(told, _)| *told > 0),
        "some watch saw nothing"
    );
    let wrong: Vec<_> = answers
        .into_iter()
        .filter_map(|(_, differ)| differ)
        .collect();
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Watches that begin with the existing objects.
const INITIAL: &[(&str, &str)] = &[
    (JSON, "/api/v1/namespaces/NS/pods?watch=true"),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&resourceVersion=0",
    ),
    (JSON, "/api/v1/namespaces/NS/events?watch=true"),
    (
        JSON,
        "/api/v1/namespaces/NS/events?watch=true&resourceVersion=0",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&allowWatchBookmarks=true",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&allowWatchBookmarks=true&resourceVersion=0",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/events?watch=true&allowWatchBookmarks=true",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/events?watch=true&allowWatchBookmarks=true&resourceVersion=0",
    ),
    (
        METADATA,
        "/api/v1/namespaces/NS/pods?watch=true&allowWatchBookmarks=true",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/pods?watch=true&resourceVersion=99999999",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/services?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ),
    (
        JSON,
        "/api/v1/namespaces/NS/events?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ),
    (
        JSON,
        "/apis/events.k8s.io/v1/namespaces/NS/events?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ),
    (
        JSON,
        "/apis/apps/v1/namespaces/NS/deployments?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ),
    (
        JSON,
        "/apis/apps/v1/namespaces/NS/daemonsets?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ),
    (
        JSON,
        "/apis/batch/v1/namespaces/NS/jobs?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ),
];

#[tokio::test]
async fn what_is_compacted_is_gone_in_both() {
    let Some(testbed) = testbed::shared() else {
        return;
    };
    // A cluster of its own: compaction drops the history of all tests.
    let cluster = testbed.fresh("compacted", Options::default());
    let namespace = "beside-past";
    let pair = Pair::new(&cluster, namespace).await;
    let demo = Client::new(pair.demo.service(), "default");
    let events = format!("/api/v1/namespaces/{namespace}/events");
    let first = async |client: &Client| {
        let page = call(client, "GET", &format!("{events}?limit=1"), None)
            .await
            .body;
        let text = |field: &str| page["metadata"][field].as_str().unwrap().to_owned();
        (text("resourceVersion"), text("continue"))
    };
    let (theirs, ours) = (first(&pair.real).await, first(&demo).await);
    // A compaction of etcd keeps the newest change, so there are two.
    for reason in ["Late", "Later"] {
        let late = objects::event(namespace, "web-1", "Normal", reason);
        let made = objects::create(&pair.real, &events, late).await;
        let name = made["metadata"]["name"].as_str().unwrap();
        pair.copy(&format!("{events}/{name}")).await;
    }
    cluster.compact().await.unwrap();
    pair.demo.compact();
    let mut told = Vec::new();
    for (client, (version, token)) in [(&pair.real, theirs), (&demo, ours)] {
        let watch = format!("{events}?watch=true&resourceVersion={version}");
        let exact = format!("{events}?resourceVersion={version}&resourceVersionMatch=Exact");
        let page = format!("{events}?limit=1&continue={token}");
        let go_on = call(client, "GET", &page, None).await.body["metadata"]["continue"].clone();
        let rest = format!("{events}?limit=1&continue={}", go_on.as_str().unwrap());
        told.push((
            lines(client, JSON, &watch).await,
            TestRequest::get(&exact).ask(client).await,
            TestRequest::get(&page).ask(client).await,
            TestRequest::get(&rest).ask(client).await,
        ));
    }
    assert_eq!(told[0].0[0]["object"]["code"], 410, "{:?}", told[0].0);
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn a_followed_log_goes_on_in_both() {
    let Some(testbed) = testbed::shared() else {
        return;
    };
    let namespace = "beside-logs";
    let pair = Pair::new(testbed.dev(), namespace).await;
    let demo = Client::new(pair.demo.service(), "default");
    let place = format!("{namespace}/web-1/main");
    let say = |line: &str| {
        testbed.dev().node().append(&place, line);
        pair.demo.log(namespace, "web-1", "main", line);
    };
    say("one");
    let path = format!("/api/v1/namespaces/{namespace}/pods/web-1/log?follow=true&tailLines=1");
    let open = async |client: &Client| {
        let request = http::Request::get(&path).body(Vec::new()).unwrap();
        client.request_stream(request).await.unwrap().lines()
    };
    let (mut theirs, mut ours) = (open(&pair.real).await, open(&demo).await);
    for line in ["one", "two", "three"] {
        if line != "one" {
            say(line);
        }
        assert_eq!(theirs.try_next().await.unwrap().as_deref(), Some(line));
        assert_eq!(ours.try_next().await.unwrap().as_deref(), Some(line));
    }
}
