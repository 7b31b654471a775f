//! The logs of pods, through kube.

use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, TryStreamExt as _};
use kube::{Error, api::LogParams};
use serde_json::json;
use tokio::time::{advance, timeout};

use crate::harness::{cluster, pod, pods};

fn tail(lines: i64) -> LogParams {
    LogParams {
        tail_lines: Some(lines),
        ..LogParams::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_log_can_be_asked_for() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    for line in ["one", "two", "three"] {
        cluster.log("shop", "web", "main", line);
        advance(Duration::from_secs(10)).await;
    }
    let api = pods(&cluster);
    let logs = async |params: LogParams| api.logs("web", &params).await.unwrap();
    assert_eq!(logs(LogParams::default()).await, "one\ntwo\nthree\n");
    assert_eq!(logs(tail(1)).await, "three\n");
    assert_eq!(logs(tail(0)).await, "");
    let young = LogParams {
        since_seconds: Some(15),
        ..LogParams::default()
    };
    assert_eq!(logs(young).await, "three\n");
    let short = LogParams {
        limit_bytes: Some(6),
        ..LogParams::default()
    };
    assert_eq!(logs(short).await, "one\ntw");
    let timed = LogParams {
        timestamps: true,
        ..tail(1)
    };
    assert_eq!(logs(timed).await, "2026-01-01T00:00:20.000000000Z three\n");
}

#[tokio::test(start_paused = true)]
async fn a_restart_makes_the_log_the_previous_one() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    cluster.log("shop", "web", "main", "panic: out of coffee");
    let previous = LogParams {
        previous: true,
        ..LogParams::default()
    };
    let api = pods(&cluster);
    let Error::Api(refused) = api.logs("web", &previous).await.unwrap_err() else {
        panic!("not an answer");
    };
    assert_eq!(
        (refused.code, &*refused.message),
        (
            400,
            "previous terminated container \"main\" in pod \"web\" not found"
        )
    );
    cluster.restart_log("shop", "web", "main");
    cluster
        .modify("pods", "shop", "web", |pod| {
            let status = &mut pod["status"]["containerStatuses"][0];
            status["lastState"] =
                json!({"terminated": {"exitCode": 2, "containerID": "containerd://1"}});
        })
        .unwrap();
    assert_eq!(
        api.logs("web", &previous).await.unwrap(),
        "panic: out of coffee\n"
    );
    assert_eq!(api.logs("web", &LogParams::default()).await.unwrap(), "");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_waits_has_no_log() {
    let cluster = cluster();
    let mut waiting = pod("web", "web");
    waiting["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "ImagePullBackOff"}});
    cluster.put(waiting).unwrap();
    let Error::Api(refused) = pods(&cluster)
        .logs("web", &LogParams::default())
        .await
        .unwrap_err()
    else {
        panic!("not an answer");
    };
    assert_eq!(
        refused.message,
        "container \"main\" in pod \"web\" is waiting to start: trying and failing to pull image"
    );
}

#[tokio::test(start_paused = true)]
async fn a_follower_gets_what_comes_until_the_pod_is_gone() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    cluster.log("shop", "web", "main", "old");
    let params = LogParams {
        follow: true,
        ..tail(0)
    };
    let api = pods(&cluster);
    let mut lines = api.log_stream("web", &params).await.unwrap().lines();
    assert!(
        timeout(Duration::from_mins(1), lines.try_next())
            .await
            .is_err()
    );
    assert_eq!(cluster.open_followers(), 1);
    cluster.log("shop", "web", "main", "new");
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("new"));
    cluster.delete("pods", "shop", "web");
    assert_eq!(lines.try_next().await.unwrap(), None);
    drop(lines);
    assert_eq!(cluster.open_followers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_can_be_followed_before_its_first_line_and_ends_with_its_container() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    let params = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let api = pods(&cluster);
    let mut lines = api.log_stream("web", &params).await.unwrap().lines();
    assert!(
        timeout(Duration::from_mins(1), lines.try_next())
            .await
            .is_err()
    );
    cluster.log("shop", "web", "main", "first");
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("first"));
    cluster.restart_log("shop", "web", "main");
    assert_eq!(lines.try_next().await.unwrap(), None);
}
