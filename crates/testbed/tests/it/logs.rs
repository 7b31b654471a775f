//! Pod logs are real API calls, proxied by the API server to our node.

use std::time::Duration;

use futures_util::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use testbed::{LogScript, User, pod};

async fn pods(name: &str, containers: &[&str]) -> Option<Api<Pod>> {
    let bed = testbed::shared()?;
    bed.dev()
        .create(&pod("default", name, containers))
        .await
        .unwrap();
    Some(Api::namespaced(
        bed.dev().client(User::Admin).await.unwrap(),
        "default",
    ))
}

fn node() -> &'static testbed::NodeEndpoint {
    testbed::shared().unwrap().dev().node()
}

#[tokio::test]
async fn current_and_previous_logs_are_two_things() {
    let Some(pods) = pods("logs-two", &["app"]).await else {
        return;
    };
    node().set_log("default/logs-two/app", LogScript::lines(["a", "b", "c"]));
    node().set_previous_log("default/logs-two/app", LogScript::lines(["before"]));
    let text = |params| {
        let pods = pods.clone();
        async move { pods.logs("logs-two", &params).await.unwrap() }
    };
    assert_eq!(text(LogParams::default()).await, "a\nb\nc\n");
    let tail = LogParams {
        tail_lines: Some(2),
        ..LogParams::default()
    };
    assert_eq!(text(tail).await, "b\nc\n");
    let limited = LogParams {
        limit_bytes: Some(3),
        ..LogParams::default()
    };
    assert_eq!(text(limited).await, "a\nb");
    let previous = LogParams {
        previous: true,
        ..LogParams::default()
    };
    assert_eq!(text(previous).await, "before\n");
    let asked = node().requests();
    assert!(
        asked
            .iter()
            .any(|one| one.container == "default/logs-two/app"
                && one.selection.tail_lines == Some(2))
    );
}

#[tokio::test]
async fn a_node_can_fail() {
    let Some(pods) = pods("logs-fail", &["app"]).await else {
        return;
    };
    node().set_log(
        "default/logs-fail/app",
        LogScript::failing(500, "disk on fire"),
    );
    let error = pods
        .logs("logs-fail", &LogParams::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("disk on fire"), "{error}");
}

#[tokio::test]
async fn a_node_can_be_slow() {
    let Some(pods) = pods("logs-slow", &["app"]).await else {
        return;
    };
    let slow = LogScript::lines(["x"]).delayed(Duration::from_hours(1));
    node().set_log("default/logs-slow/app", slow);
    let asked = LogParams::default();
    let answer = tokio::time::timeout(Duration::from_secs(1), pods.logs("logs-slow", &asked));
    assert!(answer.await.is_err(), "the node should still be thinking");
}

#[tokio::test]
async fn a_followed_log_goes_on() {
    let Some(pods) = pods("logs-follow", &["app"]).await else {
        return;
    };
    node().set_log("default/logs-follow/app", LogScript::lines(["first"]));
    let follow = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let mut lines = pods
        .log_stream("logs-follow", &follow)
        .await
        .unwrap()
        .lines();
    assert_eq!(lines.try_next().await.unwrap().unwrap(), "first");
    node().append("default/logs-follow/app", "second");
    assert_eq!(lines.try_next().await.unwrap().unwrap(), "second");
}
