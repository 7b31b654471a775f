//! Injected faults.

use std::time::Duration;

use demo_cluster::{Fault, RequestMatcher};
use kube::{
    Error,
    api::{ListParams, WatchParams},
};
use tokio::time::{Instant, timeout};

use crate::harness::{client, cluster, get, pod, pods, told, watch};

fn params() -> WatchParams {
    WatchParams::default().disable_bookmarks().timeout(290)
}

#[tokio::test(start_paused = true)]
async fn watches_close_cleanly_after_what_has_happened() {
    let cluster = cluster();
    let from = cluster.version().to_string();
    let mut stream = watch(&pods(&cluster), &params(), &from).await;
    cluster.put(pod("web", "web")).unwrap();
    cluster.close_watches();
    assert_eq!(told(&mut stream).await, "ADDED web");
    assert_eq!(told(&mut stream).await, "end");
    // A watch that is opened later is not closed.
    let mut stream = watch(&pods(&cluster), &params(), &from).await;
    assert_eq!(told(&mut stream).await, "ADDED web");
    assert!(
        timeout(Duration::from_secs(100), told(&mut stream))
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn an_open_watch_can_be_told_that_its_version_is_gone() {
    let cluster = cluster();
    let from = cluster.version().to_string();
    let mut stream = watch(&pods(&cluster), &params(), &from).await;
    cluster.put(pod("web", "web")).unwrap();
    cluster.expire_watches();
    assert_eq!(told(&mut stream).await, "ADDED web");
    assert_eq!(told(&mut stream).await, "ERROR 410");
    assert_eq!(told(&mut stream).await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_is_an_error() {
    let cluster = cluster();
    let mut stream = watch(&pods(&cluster), &params(), "").await;
    cluster.cut_connections();
    let told = told(&mut stream).await;
    assert!(told.contains("connection reset"), "{told}");
    cluster.until_watches(1).await;
    drop(stream);
    assert_eq!(cluster.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn connections_are_refused_for_a_while() {
    let cluster = cluster();
    let mut open = watch(&pods(&cluster), &params(), "").await;
    cluster.refuse_for(Duration::from_secs(10));
    let refused = pods(&cluster)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Service(_)), "{refused}");
    // Open streams stay.
    cluster.put(pod("web", "web")).unwrap();
    assert_eq!(told(&mut open).await, "ADDED web");
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(
        pods(&cluster)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_says_nothing_and_then_everything() {
    let cluster = cluster();
    let bookmarks = WatchParams::default().timeout(290);
    let mut stream = watch(&pods(&cluster), &bookmarks, &cluster.version().to_string()).await;
    cluster.freeze();
    cluster.put(pod("web", "web")).unwrap();
    assert!(
        timeout(Duration::from_secs(250), told(&mut stream))
            .await
            .is_err()
    );
    let listing = pods(&cluster);
    let whole = ListParams::default();
    let list = listing.list(&whole);
    assert!(timeout(Duration::from_secs(10), list).await.is_err());
    cluster.thaw();
    assert_eq!(told(&mut stream).await, "ADDED web");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_request_can_be_cut() {
    let cluster = cluster();
    cluster.freeze();
    let api = pods(&cluster);
    let params = ListParams::default();
    let (listed, ()) = tokio::join!(api.list(&params), async {
        cluster.until_requests("list", "pods", 1).await;
        cluster.cut_connections();
    });
    assert!(matches!(listed, Err(Error::Service(_))));
}

#[tokio::test(start_paused = true)]
async fn scripted_statuses_are_worded_as_the_server_words_them() {
    let cluster = cluster();
    let client = client(&cluster);
    let which = || {
        RequestMatcher::any()
            .verb("list")
            .resource("pods")
            .namespace("shop")
    };
    let expected = [
        (Fault::Unauthorized, 401, "Unauthorized"),
        (Fault::Forbidden, 403, "Forbidden"),
        (Fault::Gone, 410, "Expired"),
        (Fault::InternalError, 500, "InternalError"),
        (Fault::Unavailable, 503, "ServiceUnavailable"),
        (Fault::Status(502), 502, "Unknown"),
    ];
    for (fault, code, reason) in expected {
        cluster.fail_next(which(), 2, fault);
        for _ in 0..2 {
            let (status, body) = get(&client, "/api/v1/namespaces/shop/pods").await;
            assert_eq!((status, body["reason"].as_str()), (code, Some(reason)));
        }
        assert_eq!(get(&client, "/api/v1/namespaces/shop/pods").await.0, 200);
    }
    cluster.fail_next(which(), 1, Fault::TooManyRequests(7));
    assert_eq!(get(&client, "/api/v1/namespaces/other/pods").await.0, 200);
    let (status, body) = get(&client, "/api/v1/namespaces/shop/pods").await;
    assert_eq!(
        (status, body.as_str().unwrap()),
        (429, "Too many requests, please try again later.\n")
    );
}

#[tokio::test(start_paused = true)]
async fn answers_can_be_late_or_never_come() {
    let cluster = cluster();
    let client = client(&cluster);
    let began = Instant::now();
    cluster.fail_next(
        RequestMatcher::any(),
        1,
        Fault::Delay(Duration::from_secs(5)),
    );
    assert_eq!(get(&client, "/api/v1/pods").await.0, 200);
    assert_eq!(began.elapsed().as_secs(), 5);
    cluster.fail_next(RequestMatcher::any(), 1, Fault::Silence);
    let silent = get(&client, "/api/v1/pods");
    assert!(timeout(Duration::from_secs(1000), silent).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_can_be_read() {
    let cluster = cluster();
    let from = cluster.version().to_string();
    let _stream = watch(&pods(&cluster), &params(), &from).await;
    let seen = cluster.recorded_requests();
    let [one] = seen.as_slice() else {
        panic!("one request: {seen:?}");
    };
    assert_eq!(
        (one.verb, &*one.resource, one.namespace.as_deref()),
        ("watch", "pods", Some("shop"))
    );
    assert_eq!(one.parameter("resourceVersion"), Some(&*from));
}
