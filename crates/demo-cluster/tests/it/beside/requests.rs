//! The same requests to both clusters get the same responses.

use demo_cluster::Grant;
use kube::Client;
use serde_json::{Value, json};
use testbed::{LogScript, User};

use super::{
    Pair, TestRequest, TestResponse,
    table::{ACCESS, DIFFERENT, EQUAL, EQUAL_ACCEPTING, EQUAL_WRITING, RULES},
};

const NAMESPACE: &str = "beside-requests";

async fn pair() -> Option<Pair> {
    // No other test may use this cluster: all namespaces are listed.
    let cluster = testbed::shared()?.prod();
    let pair = Pair::new(cluster, NAMESPACE).await;
    for (pod, container) in [("web-1", "main"), ("twins", "b")] {
        let place = format!("{NAMESPACE}/{pod}/{container}");
        let (before, now) = (["panic: no"], ["one", "two", "three"]);
        cluster
            .node()
            .set_previous_log(&place, LogScript::lines(before));
        cluster.node().set_log(&place, LogScript::lines(now));
        pair.demo.log(NAMESPACE, pod, container, before[0]);
        pair.demo.restart_log(NAMESPACE, pod, container);
        for line in now {
            pair.demo.log(NAMESPACE, pod, container, line);
        }
    }
    Some(pair)
}

fn requests() -> Vec<(String, TestRequest<'static>)> {
    let plain = EQUAL.iter().map(|path| TestRequest::get(path));
    let accepting = EQUAL_ACCEPTING.iter().map(|(accept, path)| TestRequest {
        accept,
        ..TestRequest::get(path)
    });
    let writing = EQUAL_WRITING
        .iter()
        .map(|(method, path, body)| TestRequest {
            method,
            body,
            ..TestRequest::get(path)
        });
    let all = plain.chain(accepting).chain(writing);
    all.map(|one| (one.path.replace("NS", NAMESPACE), one))
        .collect()
}

fn difference(request: &TestRequest<'_>, real: &TestResponse, demo: &TestResponse) -> String {
    format!(
        "{request:?}\n  real: {} {}\n  demo: {} {}\n",
        real.status, real.body, demo.status, demo.body
    )
}

#[tokio::test]
async fn the_demo_answers_as_the_real_server_does() {
    let Some(pair) = pair().await else {
        return;
    };
    let mut wrong = Vec::new();
    for (path, request) in requests() {
        let request = TestRequest {
            path: &path,
            ..request
        };
        let (real, demo) = pair.both(&request).await;
        if real != demo {
            wrong.push(difference(&request, &real, &demo));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    for (method, accept, path) in DIFFERENT {
        let path = path.replace("NS", NAMESPACE);
        let request = TestRequest {
            method,
            accept,
            ..TestRequest::get(&path)
        };
        let (real, demo) = pair.both(&request).await;
        assert_ne!(real, demo, "no longer different: {request:?}");
    }
    discovery_tells_the_truth(&pair).await;
}

/// Discovery of the demo cluster is a part of that of the real server; verbs that write are
/// left out.
async fn discovery_tells_the_truth(pair: &Pair) {
    let (_, groups) = pair.both(&TestRequest::get("/apis")).await;
    let names = groups.body["groups"].as_array().unwrap().iter();
    let mut paths: Vec<_> = names
        .map(|group| {
            format!(
                "/apis/{}",
                group["preferredVersion"]["groupVersion"].as_str().unwrap()
            )
        })
        .collect();
    paths.push("/api/v1".to_owned());
    for path in paths {
        let (mut real, mut demo) = pair.both(&TestRequest::get(&path)).await;
        let theirs: Vec<_> = real.body["resources"]
            .as_array_mut()
            .unwrap()
            .drain(..)
            .collect();
        let ours: Vec<_> = demo.body["resources"]
            .as_array_mut()
            .unwrap()
            .drain(..)
            .collect();
        // The fields of the list itself.
        assert_eq!(real, demo, "{path}");
        for mut one in ours {
            let mut other = theirs
                .iter()
                .find(|it| it["name"] == one["name"])
                .unwrap()
                .clone();
            let verbs = one["verbs"].take();
            let may = other["verbs"].take();
            for verb in verbs.as_array().unwrap() {
                assert!(may.as_array().unwrap().contains(verb), "{one}: {verb}");
            }
            other.as_object_mut().unwrap().remove("storageVersionHash");
            assert_eq!(one, other);
        }
    }
}

#[tokio::test]
async fn the_demo_refuses_as_the_real_server_does() {
    let Some(testbed) = testbed::shared() else {
        return;
    };
    let pair = Pair::new(testbed.dev(), "beside-refusals").await;
    let own = |verbs: &[&str]| -> Vec<String> { verbs.iter().map(|it| (*it).to_owned()).collect() };
    pair.demo.grant("nobody", Vec::new());
    pair.demo.grant(
        "no-logs",
        vec![Grant {
            namespace: None,
            verbs: own(&["get", "list", "watch"]),
            groups: own(&["", "apps"]),
            resources: own(&["pods", "namespaces", "events", "nodes", "deployments"]),
        }],
    );
    let paths = [
        "/version",
        "/api",
        "/api/v1/pods",
        "/api/v1/pods?watch=true",
        "/api/v1/namespaces/beside-refusals",
        "/api/v1/namespaces/beside-refusals/pods",
        "/api/v1/namespaces/beside-refusals/pods/web-1",
        "/api/v1/namespaces/beside-refusals/pods/nope",
        "/api/v1/namespaces/beside-refusals/pods/web-1/log",
        "/api/v1/namespaces/beside-refusals/secrets",
        "/api/v1/namespaces/beside-refusals/secrets/key",
        "/api/v1/nodes/x",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/namespaces/beside-refusals/deployments/web",
        "/apis/nope/v1/x",
    ];
    for user in [User::Unprivileged, User::NoLogs] {
        let real = super::real(testbed.dev(), user).await;
        let demo = Client::new(pair.demo.service(), "default");
        let mut asked: Vec<_> = paths.into_iter().map(TestRequest::get).collect();
        let question = json!({"spec": {"resourceAttributes": {
            "verb": "get", "resource": "pods", "subresource": "log", "namespace": "a",
        }}})
        .to_string();
        asked.push(TestRequest {
            method: "POST",
            body: &question,
            ..TestRequest::get(ACCESS)
        });
        for request in asked {
            // Other tests have objects in this cluster, too.
            let everywhere =
                request.path.contains("/v1/pods") || request.path.ends_with("/v1/deployments");
            if user == User::NoLogs && everywhere {
                continue;
            }
            let theirs = request.ask(&real).await;
            let taken_for = TestRequest {
                user: Some(user.name()),
                ..request
            };
            let ours = taken_for.ask(&demo).await;
            if request.path == "/version" {
                assert_eq!((theirs.status, ours.status), (200, 200));
                continue;
            }
            assert_eq!(theirs, ours, "{}: {request:?}", user.name());
        }
    }
}

#[tokio::test]
async fn pages_and_rules_are_alike() {
    let Some(testbed) = testbed::shared() else {
        return;
    };
    let pair = Pair::new(testbed.dev(), "beside-pages").await;
    let demo = Client::new(pair.demo.service(), "default");
    let mut pages = Vec::new();
    for client in [&pair.real, &demo] {
        for limit in [1, 2, 4] {
            pages.push((limit, walk(client, limit).await));
        }
    }
    let (theirs, ours) = pages.split_at(3);
    assert_eq!(theirs, ours);
    let rules = TestRequest {
        method: "POST",
        body: r#"{"spec":{"namespace":"beside-pages"}}"#,
        ..TestRequest::get(RULES)
    };
    let (real, demo) = pair.both(&rules).await;
    assert_eq!(real.status, demo.status);
    for part in ["spec", "metadata", "kind", "apiVersion"] {
        assert_eq!(real.body[part], demo.body[part]);
    }
    // RBAC lists rules in any order.
    let rules = |answer: &TestResponse| {
        let rules = answer.body["status"]["resourceRules"].as_array().unwrap();
        let mut rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
        rules.sort();
        rules
    };
    assert_eq!(rules(&real), rules(&demo));
}

/// The names of each page, and the number of remaining items.
async fn walk(client: &Client, limit: usize) -> Vec<(Vec<Value>, Value)> {
    let path = format!("/api/v1/namespaces/beside-pages/pods?limit={limit}");
    let mut pages = Vec::new();
    let mut next = path.clone();
    loop {
        let page = super::call(client, "GET", &next, None).await.body;
        let items = page["items"].as_array().unwrap();
        let names = items
            .iter()
            .map(|item| item["metadata"]["name"].clone())
            .collect();
        pages.push((names, page["metadata"]["remainingItemCount"].clone()));
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = format!("{path}&continue={token}"),
            None => return pages,
        }
    }
}
