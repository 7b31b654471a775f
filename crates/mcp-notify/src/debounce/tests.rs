use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::{advance, sleep};

use super::*;
use crate::testing::{Scripted, millis};
use crate::{BatchedBroadcast, ListKind, Method, Notification, ObserverRegistry, Session};

#[tokio::test(start_paused = true)]
async fn a_burst_fires_once_after_the_last_trigger_with_the_newest_value() {
    let debouncer = Debouncer::new(DebounceMode::Trailing(millis(250)));
    let start = Instant::now();
    for n in 0..10 {
        assert!(debouncer.trigger("k", n));
        advance(millis(100)).await;
    }
    let fired = debouncer.next().await;
    assert_eq!(start.elapsed(), millis(900 + 250));
    assert_eq!((fired.value, fired.triggers), (9, 10));
    let more = tokio::time::timeout(millis(10_000), debouncer.next()).await;
    assert!(more.is_err(), "and then no more");
}

#[tokio::test(start_paused = true)]
async fn a_window_ends_so_long_after_its_first_trigger() {
    let debouncer = Debouncer::new(DebounceMode::Window(millis(250)));
    let start = Instant::now();
    for n in 0..20 {
        debouncer.trigger("k", n);
        advance(millis(10)).await;
    }
    assert_eq!(debouncer.next().await.triggers, 20);
    assert_eq!(start.elapsed(), millis(250));
    debouncer.trigger("k", 99);
    assert_eq!(debouncer.next().await.value, 99);
    assert_eq!(
        start.elapsed(),
        millis(500),
        "the next window starts with its own trigger"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_fire_on_their_own_and_a_forgotten_one_does_not() {
    let debouncer = Debouncer::new(DebounceMode::Trailing(millis(100)));
    debouncer.trigger("a", ());
    advance(millis(50)).await;
    debouncer.trigger("b", ());
    debouncer.trigger("c", ());
    assert!(debouncer.cancel(&"c") && !debouncer.cancel(&"c"));
    assert_eq!(debouncer.next().await.key, "a");
    assert_eq!(debouncer.next().await.key, "b");
    assert!(debouncer.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_is_cancel_safe_and_notices_an_earlier_time() {
    let debouncer = Debouncer::new(DebounceMode::Trailing(millis(100)));
    assert!(
        tokio::time::timeout(millis(10), debouncer.next())
            .await
            .is_err()
    );
    let late = async {
        sleep(millis(500)).await;
        debouncer.trigger("k", 1);
    };
    let (fired, ()) = tokio::join!(debouncer.next(), late);
    assert_eq!(fired.value, 1, "a trigger wakes whoever waits for nothing");
}

#[test]
fn the_number_of_waiting_keys_is_bounded() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let debouncer = Debouncer::new(DebounceMode::Trailing(millis(100)));
    assert!((0..DEBOUNCE_KEYS_MAX).all(|key| debouncer.trigger(key, ())));
    assert!(
        !debouncer.trigger(DEBOUNCE_KEYS_MAX, ()),
        "one more is refused"
    );
    assert!(debouncer.trigger(0, ()), "one that waits is not");
    assert_eq!(debouncer.len(), DEBOUNCE_KEYS_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_batched_broadcast_sends_once_per_window_and_leaves_keyless_ones_alone() {
    let sink = Scripted::default();
    let registry = ObserverRegistry::new(sink.clone());
    let session = Session::new("s");
    registry.remember(&session);
    let batched = BatchedBroadcast::new(registry, DebounceMode::Window(millis(200)));
    let mut tasks = JoinSet::new();
    let running = batched.clone();
    tasks.spawn(async move { running.run().await });
    for _ in 0..10 {
        assert!(batched.submit(Notification::list_changed(ListKind::Tools)));
        assert!(batched.submit(Notification::list_changed(ListKind::Prompts)));
        sleep(millis(10)).await;
    }
    assert!(!batched.submit(Notification::builder(Method::MESSAGE).build()));
    assert!(sink.accepted("s").is_empty());
    sleep(millis(1000)).await;
    assert_eq!(sink.accepted("s").len(), 2, "one of each");
}

proptest! {
    #[test]
    fn every_trigger_is_in_exactly_one_firing(
        pauses in proptest::collection::vec(0_u64..400, 1..30)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let fired = runtime.block_on(async {
            let debouncer = Debouncer::new(DebounceMode::Trailing(millis(250)));
            let mut fired = Vec::new();
            for (n, pause) in pauses.iter().enumerate() {
                debouncer.trigger((), n);
                if let Ok(one) = tokio::time::timeout(millis(*pause), debouncer.next()).await {
                    fired.push(one);
                }
            }
            if !debouncer.is_empty() {
                fired.push(debouncer.next().await);
            }
            fired
        });
        prop_assert_eq!(fired.iter().map(|f| f.triggers).sum::<u64>(), pauses.len() as u64);
        prop_assert_eq!(fired.last().unwrap().value, pauses.len() - 1);
    }
}
