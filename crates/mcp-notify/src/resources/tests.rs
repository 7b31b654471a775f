use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

use super::*;
use crate::delivery::DeliveryOutcome;
use crate::session::CloseReason;
use crate::sink::SendError;
use crate::testing::{Act, FileResource, Scripted};

fn index_is_consistent(subscriptions: &ResourceSubscriptions) {
    let index = subscriptions.indexes.0.lock();
    let by_uri: BTreeSet<_> = index
        .by_uri
        .iter()
        .flat_map(|(uri, found)| found.sessions.keys().map(move |key| (uri.clone(), *key)))
        .collect();
    let by_session: BTreeSet<_> = index
        .by_session
        .iter()
        .flat_map(|(key, uris)| uris.iter().map(move |uri| (uri.clone(), *key)))
        .collect();
    assert_eq!(by_uri, by_session);
    assert_eq!(by_uri.len(), index.total);
    assert!(
        index
            .by_uri
            .values()
            .all(|found| !found.sessions.is_empty()),
        "empty sets vanish"
    );
    assert!(
        index.by_session.values().all(|uris| !uris.is_empty()),
        "empty sets vanish"
    );
}

#[test]
fn subscribing_twice_is_once_and_unsubscribing_from_the_unknown_does_nothing() {
    let subscriptions = ResourceSubscriptions::default();
    let session = Session::new("s");
    assert_eq!(subscriptions.subscribe(&session, "test://a"), Ok(true));
    assert_eq!(subscriptions.subscribe(&session, "test://a"), Ok(false));
    assert_eq!(subscriptions.len(), 1);
    assert!(!subscriptions.unsubscribe(&session, "test://b"));
    assert!(!subscriptions.unsubscribe(&Session::new("other"), "test://a"));
    assert!(subscriptions.unsubscribe(&session, "test://a"));
    assert!(!subscriptions.unsubscribe(&session, "test://a"));
    assert!(subscriptions.is_empty() && !subscriptions.is_subscribed("test://a"));
}

#[test]
fn a_uri_is_followed_from_the_first_subscriber_to_the_last() {
    struct Guard(Arc<Mutex<Vec<&'static str>>>, ResourceSubscriptions);
    impl Drop for Guard {
        fn drop(&mut self) {
            // No lock is held, so publishing is allowed.
            self.1.publish(&ResourceUpdated::new("test://a"));
            self.0.lock().push("end");
        }
    }
    let calls = Arc::<Mutex<Vec<_>>>::default();
    let subscriptions = ResourceSubscriptions::default();
    let subscribe = |session: &Session| {
        subscriptions.subscribe_with(session, "test://a", || {
            subscriptions.publish(&ResourceUpdated::new("test://a"));
            calls.lock().push("begin");
            Guard(Arc::clone(&calls), subscriptions.clone())
        })
    };
    let sessions: Vec<_> = (0..3).map(|n| Session::new(n.to_string())).collect();
    for session in &sessions {
        assert_eq!(subscribe(session), Ok(true));
        assert_eq!(subscribe(session), Ok(false));
    }
    sessions[0].close(CloseReason::Down);
    assert_eq!(subscribe(&sessions[0]), Err(SubscribeError::Closed));
    sessions[1].prune();
    assert_eq!(*calls.lock(), ["begin"], "one is still subscribed");
    subscriptions.unsubscribe(&sessions[2], "test://a");
    assert_eq!(*calls.lock(), ["begin", "end"]);
    assert_eq!(subscribe(&sessions[1]), Ok(true));
    drop(sessions);
    assert_eq!(*calls.lock(), ["begin", "end", "begin", "end"]);
}

#[test]
fn limits_hold_and_say_which_was_reached() {
    let limits = SubscriptionLimits {
        per_session_max: 2,
        total_max: 3,
        uri_bytes_max: 10,
    };
    let subscriptions = ResourceSubscriptions::new(limits);
    let (a, b) = (Session::new("a"), Session::new("b"));
    assert!(subscriptions.subscribe(&a, "1").is_ok() && subscriptions.subscribe(&a, "2").is_ok());
    assert_eq!(
        subscriptions.subscribe(&a, "3"),
        Err(SubscribeError::SessionFull(2))
    );
    assert_eq!(
        subscriptions.subscribe(&a, "2"),
        Ok(false),
        "what is there may be repeated"
    );
    assert!(subscriptions.subscribe(&b, "1").is_ok());
    assert_eq!(
        subscriptions.subscribe(&b, "2"),
        Err(SubscribeError::Full(3))
    );
    assert_eq!(subscriptions.subscribe(&b, ""), Err(SubscribeError::Uri(0)));
    assert_eq!(
        subscriptions.subscribe(&b, &"x".repeat(11)),
        Err(SubscribeError::Uri(11))
    );
    b.close(CloseReason::Requested);
    assert_eq!(subscriptions.len(), 2);
    assert_eq!(
        subscriptions.subscribe(&b, "9"),
        Err(SubscribeError::Closed)
    );
    index_is_consistent(&subscriptions);
}

#[tokio::test]
async fn an_update_reaches_exactly_its_subscribers_with_its_uri_and_meta() {
    let subscriptions = ResourceSubscriptions::default();
    let (a, b) = (Session::new("a"), Session::new("b"));
    assert!(subscriptions.subscribe(&a, "test://x").unwrap());
    assert!(subscriptions.subscribe(&b, "test://y").unwrap());
    let meta = json!({"io.example/seq": 7});
    let update = ResourceUpdated::new("test://x").meta(&meta);
    assert_eq!(subscriptions.publish(&update), 1);
    assert_eq!(subscriptions.publish(&ResourceUpdated::new("test://z")), 0);
    assert_eq!(b.outbox().stats().pushed, 0);
    let mut batch = a.outbox().reader().next().await.unwrap();
    let Some(crate::OutboxItem::Notification(got)) = batch.deliver() else {
        panic!("one waits")
    };
    let frame: Value = serde_json::from_slice(got.frame().unwrap()).unwrap();
    assert_eq!(
        frame,
        json!({
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"_meta": {"io.example/seq": 7}, "uri": "test://x"},
        })
    );
}

#[test]
fn updates_that_wait_are_merged_per_uri() {
    let subscriptions = ResourceSubscriptions::default();
    let session = Session::new("s");
    for uri in ["test://x", "test://y"] {
        assert!(subscriptions.subscribe(&session, uri).unwrap());
        for _ in 0..5 {
            assert_eq!(subscriptions.publish(&ResourceUpdated::new(uri)), 1);
        }
    }
    let stats = session.outbox().stats();
    assert_eq!((stats.pending, stats.merged), (2, 8));
}

#[tokio::test(start_paused = true)]
async fn a_failed_connection_ends_all_subscriptions_of_that_session_only() {
    let sink = Scripted::default().always("gone", Act::Fail(SendError::Closed));
    let delivery = Delivery::new(sink.clone());
    let subscriptions = ResourceSubscriptions::default();
    let (fine, gone) = (Session::new("fine"), Session::new("gone"));
    for session in [&fine, &gone] {
        for uri in ["test://x", "test://y"] {
            assert!(subscriptions.subscribe(session, uri).unwrap());
        }
    }
    let update = ResourceUpdated::new("test://x").resource_type(FileResource::Folder);
    let broadcast = subscriptions.notify(&delivery, &update).await;
    assert_eq!(broadcast.delivered(), 1);
    assert!(matches!(
        broadcast.outcome(&gone),
        Some(DeliveryOutcome::Abandoned { .. })
    ));
    assert!(subscriptions.uris(&gone).is_empty());
    assert_eq!(subscriptions.uris(&fine).len(), 2);
    index_is_consistent(&subscriptions);
}

proptest! {
    #[test]
    fn both_indexes_agree_after_any_sequence(
        steps in proptest::collection::vec((0_u8..5, 0_usize..4, 0_usize..5), 0..100)
    ) {
        let subscriptions = ResourceSubscriptions::default();
        let mut sessions: Vec<_> = (0..4).map(|n| Session::new(n.to_string())).collect();
        for (what, session, uri) in steps {
            let uri = format!("test://{uri}");
            match what {
                0 | 1 => drop(subscriptions.subscribe(&sessions[session], &uri)),
                2 => drop(subscriptions.unsubscribe(&sessions[session], &uri)),
                3 => subscriptions.prune(&sessions[session]),
                _ => sessions[session] = Session::new("again"),
            }
            index_is_consistent(&subscriptions);
        }
        sessions.clear();
        prop_assert!(subscriptions.is_empty());
        index_is_consistent(&subscriptions);
    }
}

/// What is held for one subscriber goes with it, however it goes, and with nobody else.
#[test]
fn what_is_held_for_a_subscriber_is_dropped_with_it() {
    let subscriptions = ResourceSubscriptions::default();
    let held: [Arc<()>; 4] = Default::default();
    let count = |n: usize| Arc::strong_count(&held[n]) - 1;
    let [a, b, closed] = ["a", "b", "c"].map(Session::new);
    let subscribe = |session: &Session, n: usize| {
        subscriptions.subscribe_holding(session, "x:a", Arc::clone(&held[n]), || ())
    };
    assert_eq!(subscribe(&a, 0), Ok(true));
    assert_eq!(subscribe(&b, 1), Ok(true));
    assert_eq!(subscribe(&a, 2), Ok(false), "the first one stays");
    assert_eq!([0, 1, 2].map(count), [1, 1, 0]);
    subscriptions.unsubscribe(&a, "x:a");
    assert_eq!([0, 1].map(count), [0, 1]);
    b.close(CloseReason::Requested);
    assert_eq!(count(1), 0);
    closed.close(CloseReason::Requested);
    assert_eq!(subscribe(&closed, 3), Err(SubscribeError::Closed));
    assert_eq!(count(3), 0);
    index_is_consistent(&subscriptions);
}
