//! Watches, through kube, with a paused clock.

use std::time::Duration;

use demo_cluster::NewEvent;
use futures_util::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{Instant, timeout};

use crate::harness::{cluster, events, pod, pods, told, watch};

const VERSION_OF_NOW: &str = "0";

fn params() -> WatchParams {
    WatchParams::default().disable_bookmarks().timeout(290)
}

#[tokio::test(start_paused = true)]
async fn changes_arrive_in_order_and_only_after_the_version() {
    let cluster = cluster();
    cluster.put(pod("old", "web")).unwrap();
    let from = cluster.version().to_string();
    cluster.put(pod("web", "web")).unwrap();
    let mut stream = watch(&pods(&cluster), &params(), &from).await;
    assert_eq!(told(&mut stream).await, "ADDED web");
    cluster
        .modify("pods", "shop", "web", |pod| {
            pod["spec"]["nodeName"] = "node-2".into();
        })
        .unwrap();
    assert!(cluster.delete("pods", "shop", "web"));
    assert_eq!(told(&mut stream).await, "MODIFIED web");
    // A pod gets its deletion timestamp before it is deleted.
    assert_eq!(told(&mut stream).await, "MODIFIED web");
    assert_eq!(told(&mut stream).await, "DELETED web");
    // No further events, and none of other namespaces.
    let mut elsewhere = pod("far", "web");
    elsewhere["metadata"]["namespace"] = "other".into();
    cluster.put(elsewhere).unwrap();
    assert!(
        timeout(Duration::from_secs(200), told(&mut stream))
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_version_a_watch_begins_with_what_there_is() {
    let cluster = cluster();
    cluster.put(pod("b", "web")).unwrap();
    cluster.put(pod("a", "web")).unwrap();
    let mut stream = watch(&pods(&cluster), &params(), VERSION_OF_NOW).await;
    assert_eq!(told(&mut stream).await, "ADDED a");
    assert_eq!(told(&mut stream).await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn a_selector_sees_objects_come_and_go() {
    let cluster = cluster();
    cluster.put(pod("web", "other")).unwrap();
    let from = cluster.version().to_string();
    let mut stream = watch(&pods(&cluster), &params().labels("app=web"), &from).await;
    for (app, node) in [("web", "a"), ("web", "b"), ("other", "b")] {
        let mut pod = pod("web", app);
        pod["spec"]["nodeName"] = node.into();
        cluster.put(pod).unwrap();
    }
    assert_eq!(told(&mut stream).await, "ADDED web");
    assert_eq!(told(&mut stream).await, "MODIFIED web");
    assert_eq!(told(&mut stream).await, "DELETED web");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let cluster = cluster();
    let began = Instant::now();
    let params = WatchParams::default().timeout(100);
    let mut stream = watch(&pods(&cluster), &params, &cluster.version().to_string()).await;
    cluster.skip_versions(5);
    let version = cluster.version();
    assert_eq!(told(&mut stream).await, format!("BOOKMARK {version}"));
    assert_eq!(began.elapsed().as_secs(), 60);
    assert_eq!(told(&mut stream).await, format!("BOOKMARK {version}"));
    assert_eq!(began.elapsed().as_secs(), 98);
    assert_eq!(told(&mut stream).await, "end");
    assert_eq!(began.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_is_an_error_event() {
    let cluster = cluster();
    cluster.put(pod("web", "web")).unwrap();
    let from = cluster.version().to_string();
    cluster.put(pod("web", "other")).unwrap();
    cluster.compact();
    let mut stream = watch(&pods(&cluster), &params(), &from).await;
    assert_eq!(told(&mut stream).await, "ERROR 410");
    assert_eq!(told(&mut stream).await, "end");
    // A watch can start at the version of the compaction.
    let mut stream = watch(&pods(&cluster), &params(), &cluster.version().to_string()).await;
    cluster.put(pod("web", "web")).unwrap();
    assert_eq!(told(&mut stream).await, "MODIFIED web");
}

#[tokio::test(start_paused = true)]
async fn history_is_a_ring() {
    let cluster = cluster();
    let from = cluster.version().to_string();
    for index in 0..101 {
        cluster.put(pod("web", &index.to_string())).unwrap();
    }
    let mut stream = watch(&pods(&cluster), &params(), &from).await;
    assert_eq!(told(&mut stream).await, "ERROR 410");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_added_and_then_counted_on() {
    let cluster = cluster();
    let from = cluster.version().to_string();
    let mut stream = Box::pin(events(&cluster).watch(&params(), &from).await.unwrap());
    let back_off = NewEvent::warning("shop", "Pod/web", "BackOff", "restarting");
    let series = NewEvent::normal("shop", "Pod/web", "Scheduled", "assigned").in_series();
    for one in [&back_off, &back_off, &series, &series] {
        cluster.emit(one).unwrap();
    }
    let mut counts = Vec::new();
    for _ in 0..4 {
        match stream.next().await.unwrap().unwrap() {
            WatchEvent::Added(event) => counts.push(("added", event.count, None)),
            WatchEvent::Modified(event) => {
                counts.push((
                    "modified",
                    event.count,
                    event.series.and_then(|it| it.count),
                ));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        counts,
        [
            ("added", Some(1), None),
            ("modified", Some(2), None),
            ("added", None, None),
            ("modified", None, Some(2)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn open_watches_are_counted_until_they_are_dropped() {
    let cluster = cluster();
    let stream = watch(&pods(&cluster), &params(), "").await;
    let other = watch(&pods(&cluster), &params(), "").await;
    cluster.until_watches(2).await;
    drop(stream);
    cluster.until_watches(1).await;
    drop(other);
    cluster.until_watches(0).await;
    assert_eq!(cluster.open_watches_max(), 2);
    assert_eq!(cluster.requests("watch", "pods"), 2);
}
