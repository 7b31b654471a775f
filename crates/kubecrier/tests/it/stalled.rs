//! A client that stops reading: no other client waits for it, and it is notified of the
//! messages that it missed.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;
use testbed::{User, event, namespace};
use tokio::time::Instant;

use crate::harness::{FailureCounts, Http, Stream, Subscriber, one_context};

/// More than the outbox and the sockets between can hold together.
const SUBSCRIPTIONS: usize = 300;
const EVENTS: usize = 60;

#[tokio::test]
async fn a_client_that_stops_reading_delays_no_other_and_is_notified_of_the_gap() {
    let Some(bed) = testbed::shared() else { return };
    let space = "stalled";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let arguments = [
        "--max-subscriptions-per-session",
        "300",
        "--max-subscriptions-global",
        "400",
        "--heartbeat-interval",
        "0s",
    ];
    let http = Http::start(&file.path, &arguments).await;
    http.rpc("logging/setLevel", json!({"level": "info"})).await;
    for _ in 0..SUBSCRIPTIONS {
        http.call("events_subscribe", json!({"namespace": space}))
            .await
            .ok();
    }
    // Opened, and not read for now.
    let stalled = http.open(None).await;
    let other = http.another("2025-11-25").await;
    let mut reader = Subscriber::new(&other).await;
    let id = reader.subscribe(json!({"namespace": space})).await;
    let long = "x".repeat(900);
    for number in 0..EVENTS {
        let new_event = event(
            space,
            &format!("Pod/web-{number}"),
            "Normal",
            "Started",
            &long,
        );
        bed.dev().create(&new_event).await.unwrap();
        // A client that reads receives it at once.
        let asked = Instant::now();
        reader.event(&id).await;
        assert!(
            asked.elapsed() < Duration::from_secs(5),
            "{:?}",
            asked.elapsed()
        );
    }
    // Its own requests do not wait either.
    let asked = Instant::now();
    for _ in 0..10 {
        let answer = http.rpc("tools/list", json!({})).await;
        assert!(answer["result"]["tools"].is_array());
    }
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    // Now it reads: the buffered messages, and the number of dropped ones.
    let mut stream = Stream::new(stalled);
    let (mut got, mut missing, mut gaps) = (0, 0, 0);
    while got + missing < SUBSCRIPTIONS * EVENTS {
        let message = stream.next().await;
        match message["method"].as_str().unwrap() {
            "notifications/message" => got += 1,
            "notifications/stream/gap" => {
                gaps += 1;
                missing += usize::try_from(message["params"]["missing"].as_u64().unwrap()).unwrap();
            }
            list => assert!(list.ends_with("/list_changed"), "{message}"),
        }
    }
    assert_eq!(got + missing, SUBSCRIPTIONS * EVENTS);
    assert!(
        missing > 0 && gaps > 0,
        "it was filled: {got} came, {missing} did not"
    );
    // The operator sees as many as the client: all of them events, and none of another kind.
    let missing = u64::try_from(missing).unwrap();
    let counts = FailureCounts::scrape(&http).await;
    assert_eq!(counts.of("events", "other"), missing, "{counts:?}");
    assert_eq!(counts.all(), missing, "{counts:?}");
    assert_eq!(counts.of_type("events"), counts.of_error("other"));
    assert_eq!(http.delete().await, StatusCode::NO_CONTENT);
}
