use std::pin::pin;
use std::task::Context;

use serde_json::json;
use tracing::Level as LogLevel;

use super::*;
use crate::testing::{Counted, FileResource, Log, numbered, updated};

fn outbox(messages_max: usize, bytes_max: usize) -> Outbox {
    Outbox::new(OutboxConfig::default().limits(OutboxLimits {
        messages_max,
        bytes_max,
    }))
}

fn critical(number: usize) -> Notification {
    let method = crate::Method::new("notifications/test/critical").unwrap();
    Notification::builder(method)
        .params(&json!({ "number": number }))
        .critical()
        .build()
}

fn keyed(key: &str, number: usize) -> Notification {
    let method = crate::Method::new("notifications/test/keyed").unwrap();
    Notification::builder(method)
        .params(&json!({ "number": number }))
        .coalesce(key)
        .build()
}

fn critical_keyed(key: &str, number: usize) -> Notification {
    let method = crate::Method::new("notifications/test/keyed").unwrap();
    let builder = Notification::builder(method).params(&json!({ "number": number }));
    builder.coalesce(key).critical().build()
}

/// What a reader sees: numbers, and gaps as negative counts.
fn seen(items: impl Iterator<Item = OutboxItem>) -> Vec<i64> {
    items
        .map(|item| match item {
            OutboxItem::Gap(gap) => -i64::try_from(gap.dropped).unwrap(),
            OutboxItem::Notification(notification) => {
                let params = notification.params().unwrap().unwrap();
                let params: serde_json::Value = serde_json::from_slice(&params).unwrap();
                params["number"].as_i64().unwrap()
            }
        })
        .collect()
}

fn take(outbox: &Outbox) -> Vec<i64> {
    let mut reader = outbox.reader();
    let mut cx = Context::from_waker(Waker::noop());
    match reader.poll_next(&mut cx) {
        std::task::Poll::Ready(Ok(mut batch)) => seen(batch.deliver_all()),
        std::task::Poll::Ready(Err(_)) | std::task::Poll::Pending => Vec::new(),
    }
}

#[track_caller]
fn adds_up(outbox: &Outbox) -> OutboxStats {
    let stats = outbox.stats();
    assert_eq!(
        stats.delivered + stats.merged + stats.dropped + stats.pending,
        stats.pushed
    );
    stats
}

fn push(outbox: &Outbox, notifications: impl IntoIterator<Item = Notification>) {
    for notification in notifications {
        let _ = outbox.push(notification);
    }
}

#[test]
fn messages_without_a_key_all_arrive_in_order() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, (0..100).map(numbered));
    assert_eq!(take(&outbox), (0..100).collect::<Vec<_>>());
    assert_eq!(adds_up(&outbox).delivered, 100);
}

#[test]
fn of_messages_with_one_key_only_the_newest_arrives_where_the_first_stood() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, [keyed("a", 1), numbered(2), keyed("b", 3)]);
    assert_eq!(
        outbox.push(keyed("a", 4)),
        PushOutcome::Merged { evicted: 0 }
    );
    assert_eq!(take(&outbox), [4, 2, 3]);
    assert_eq!(adds_up(&outbox).merged, 1);
    push(&outbox, [keyed("a", 5)]);
    assert_eq!(
        take(&outbox),
        [5],
        "what was taken is no longer there to merge with"
    );
}

#[test]
fn by_default_1024_messages_and_4_mib_wait() {
    let outbox = Outbox::new(OutboxConfig::default());
    push(&outbox, (0..1025).map(numbered));
    assert_eq!((outbox.stats().pending, outbox.stats().dropped), (1024, 1));
    let outbox = Outbox::new(OutboxConfig::default());
    let data = "x".repeat(1024 * 1024 - 100);
    let mib = || {
        let params = json!({ "number": 0, "data": data });
        Notification::builder(crate::Method::MESSAGE)
            .params(&params)
            .build()
    };
    assert!(mib().bytes_len() <= 1024 * 1024);
    push(&outbox, (0..5).map(|_| mib()));
    assert_eq!((outbox.stats().pending, outbox.stats().dropped), (4, 1));
}

#[test]
fn critical_goes_before_informational() {
    let outbox = outbox(1024, 1 << 20);
    push(
        &outbox,
        [numbered(1), critical(2), numbered(3), critical(4)],
    );
    assert_eq!(take(&outbox), [2, 4, 1, 3]);
}

#[test]
fn when_full_the_oldest_informational_goes_first_and_a_gap_says_so_in_its_place() {
    let outbox = outbox(4, 1 << 20);
    push(
        &outbox,
        [critical(1), numbered(2), numbered(3), numbered(4)],
    );
    assert_eq!(outbox.push(numbered(5)), PushOutcome::Queued { evicted: 1 });
    assert_eq!(outbox.push(critical(6)), PushOutcome::Queued { evicted: 1 });
    assert_eq!(take(&outbox), [1, 6, -2, 4, 5]);
    assert_eq!(adds_up(&outbox).dropped, 2);
}

#[test]
fn where_only_critical_ones_wait_an_informational_one_is_refused_and_announced() {
    let outbox = outbox(2, 1 << 20);
    push(&outbox, [critical(1), critical(2)]);
    assert_eq!(outbox.push(numbered(3)), PushOutcome::Refused);
    assert_eq!(outbox.push(critical(4)), PushOutcome::Queued { evicted: 1 });
    assert_eq!(take(&outbox), [-1, 2, 4, -1]);
    adds_up(&outbox);
}

#[test]
fn bytes_are_bounded_and_one_larger_than_the_bound_evicts_nobody() {
    let size = numbered(1).bytes_len();
    let outbox = outbox(1024, 3 * size);
    push(&outbox, (1..=4).map(numbered));
    assert_eq!(outbox.stats().bytes, 3 * size);
    let huge = Notification::builder(crate::Method::MESSAGE)
        .params(&json!({ "number": 9, "data": "x".repeat(4 * size) }))
        .build();
    assert_eq!(outbox.push(huge), PushOutcome::Refused);
    assert_eq!(
        take(&outbox),
        [-1, 2, 3, 4, -1],
        "both gaps stand where they arose"
    );
    adds_up(&outbox);
}

#[test]
fn a_key_that_becomes_critical_leaves_no_older_one_behind() {
    let outbox = outbox(1024, 1 << 20);
    push(
        &outbox,
        [
            numbered(1),
            keyed("a", 2),
            numbered(3),
            critical_keyed("a", 4),
        ],
    );
    push(&outbox, [keyed("a", 5)]);
    assert_eq!(take(&outbox), [5, 1, 3], "one per key, at its best place");
    assert_eq!(adds_up(&outbox).merged, 2);
}

#[test]
fn a_key_that_moved_leaves_no_hole_at_either_end() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, [keyed("a", 1), critical_keyed("a", 2)]);
    assert_eq!(outbox.slots(), 1);
    push(
        &outbox,
        [keyed("b", 3), numbered(4), critical_keyed("b", 5)],
    );
    assert_eq!(outbox.slots(), 3);
    assert_eq!(take(&outbox), [2, 5, 4]);
}

#[test]
fn an_outbox_that_was_full_once_does_not_stay_large() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, (0..512).map(numbered));
    push(&outbox, (0..512).map(|n| keyed(&n.to_string(), n)));
    assert!(outbox.capacity() >= 1024);
    assert_eq!(take(&outbox).len(), 1024);
    assert!(
        outbox.capacity() <= 128,
        "{} slots are held",
        outbox.capacity()
    );
}

#[test]
fn closing_counts_what_is_left_as_dropped_and_refuses_more() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, (0..5).map(numbered));
    outbox.close();
    assert_eq!(outbox.push(numbered(6)), PushOutcome::Closed);
    let stats = adds_up(&outbox);
    assert_eq!((stats.dropped, stats.pending, stats.bytes), (6, 0, 0));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(
        outbox.reader().poll_next(&mut cx),
        std::task::Poll::Ready(Err(ReadEnd::Closed))
    ));
}

#[tokio::test]
async fn a_batch_that_is_not_delivered_comes_back_before_what_came_since() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, [numbered(1), keyed("a", 2), numbered(3)]);
    let mut batch = outbox.reader().next().await.unwrap();
    batch.deliver();
    push(&outbox, [keyed("a", 4), numbered(5)]);
    assert_eq!(
        outbox.stats().pending,
        4,
        "what the reader holds is pending"
    );
    drop(batch);
    assert_eq!(take(&outbox), [3, 4, 5]);
    let stats = adds_up(&outbox);
    assert_eq!((stats.delivered, stats.merged), (4, 1));
}

#[tokio::test]
async fn a_batch_that_outlives_its_outbox_is_dropped_and_counted() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, [numbered(1), numbered(2)]);
    let batch = outbox.reader().next().await.unwrap();
    outbox.close();
    drop(batch);
    assert_eq!(adds_up(&outbox).dropped, 2);
}

#[tokio::test]
async fn an_abandoned_notification_leaves_a_gap_where_it_stood() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, [numbered(1), numbered(2), numbered(3)]);
    let mut batch = outbox.reader().next().await.unwrap();
    batch.abandon();
    batch.abandon();
    assert_eq!(
        seen(batch.deliver_all()),
        [2, 3],
        "a gap may be abandoned too"
    );
    push(&outbox, [numbered(4), numbered(5)]);
    let mut batch = outbox.reader().next().await.unwrap();
    batch.abandon();
    assert_eq!(seen(batch.deliver_all()), [-1, 5]);
    assert_eq!(adds_up(&outbox).dropped, 2);
}

#[tokio::test]
async fn waiting_is_cancel_safe_and_a_push_wakes_the_reader() {
    let outbox = outbox(1024, 1 << 20);
    let mut reader = outbox.reader();
    {
        let mut waiting = pin!(reader.next());
        let pending = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())
        });
        assert!(pending.await);
    }
    let (batch, ()) = tokio::join!(reader.next(), async { push(&outbox, [numbered(1)]) });
    assert_eq!(
        seen(batch.unwrap().deliver_all()),
        [1],
        "nothing was lost by giving up waiting"
    );
}

#[tokio::test]
async fn a_newer_reader_takes_over_and_the_older_one_is_told() {
    let outbox = outbox(1024, 1 << 20);
    let mut older = outbox.reader();
    let (end, mut newer) = tokio::join!(older.next(), async { outbox.reader() });
    assert_eq!(end.unwrap_err(), ReadEnd::Superseded);
    push(&outbox, [numbered(1)]);
    assert_eq!(older.next().await.unwrap_err(), ReadEnd::Superseded);
    assert_eq!(seen(newer.next().await.unwrap().deliver_all()), [1]);
}

#[test]
fn drops_are_counted_as_other_and_logged_once_per_episode() {
    let log = Log::capture();
    let (counted, metrics) = Counted::new();
    let limits = OutboxLimits {
        messages_max: 1,
        bytes_max: 1 << 20,
    };
    let outbox = Outbox::new(OutboxConfig::default().limits(limits).metrics(metrics));
    for uri in ["a", "b", "c"] {
        let _ = outbox.push(updated(FileResource::Folder, uri));
    }
    assert_eq!(counted.all(), [("folder", "other", 2)]);
    assert_eq!(log.at(LogLevel::ERROR).len(), 1);
    outbox.close();
    assert_eq!(
        counted.all(),
        [("folder", "other", 2)],
        "a client that left misses nothing"
    );
}

#[test]
fn a_stuck_reader_costs_no_more_after_640_000_publishes_on_32_keys() {
    let outbox = Outbox::new(OutboxConfig::default());
    let notifications: Vec<_> = (0..32).map(|n| keyed(&n.to_string(), n)).collect();
    push(&outbox, notifications.iter().cloned());
    let (bytes, slots) = (outbox.stats().bytes, outbox.slots());
    for round in 0..20_000 {
        push(&outbox, notifications.iter().cloned());
        if round % 1000 == 0 {
            assert_eq!((outbox.stats().bytes, outbox.slots()), (bytes, slots));
        }
    }
    let stats = adds_up(&outbox);
    assert_eq!((outbox.stats().bytes, outbox.slots()), (bytes, slots));
    assert_eq!((stats.pending, stats.merged), (32, 640_000));
}

#[test]
fn moving_keys_between_tiers_does_not_grow_an_outbox() {
    let outbox = outbox(8, 1 << 20);
    for round in 0..1000 {
        let key = (round % 13).to_string();
        push(
            &outbox,
            [
                numbered(round),
                keyed(&key, round),
                critical_keyed(&key, round),
            ],
        );
        assert!(outbox.slots() <= 4 * 8, "{} slots", outbox.slots());
    }
    adds_up(&outbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_adds_up_at_every_moment_while_others_push_and_read() {
    let outbox = outbox(16, 1 << 20);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let outbox = outbox.clone();
        tasks.spawn(async move {
            for n in 0..2000 {
                let _ = outbox.push(if n % 3 == 0 {
                    keyed("k", n)
                } else {
                    numbered(worker)
                });
                adds_up(&outbox);
            }
        });
    }
    let reading = outbox.clone();
    let mut reader = reading.reader();
    let reads = async {
        while let Ok(mut batch) = reader.next().await {
            batch.deliver();
            adds_up(&reading);
            tokio::task::yield_now().await;
        }
    };
    let pushes = async {
        while tasks.join_next().await.is_some() {}
        outbox.close();
    };
    tokio::join!(reads, pushes);
    let stats = adds_up(&outbox);
    assert_eq!((stats.pushed, stats.pending), (8000, 0));
}

#[test]
fn a_newcomer_that_grew_in_the_oldest_place_is_not_the_one_that_goes() {
    let size = numbered(1).bytes_len();
    let outbox = outbox(1024, 4 * size);
    let grown = Notification::builder(crate::Method::new("notifications/test/keyed").unwrap())
        .params(&json!({ "number": 9, "data": "x".repeat(2 * size) }))
        .coalesce("a")
        .build();
    push(&outbox, [keyed("a", 1), numbered(2), numbered(3)]);
    assert_eq!(outbox.push(grown), PushOutcome::Merged { evicted: 2 });
    assert_eq!(
        outbox.push(keyed("a", 5)),
        PushOutcome::Merged { evicted: 0 },
        "its key still finds it"
    );
    assert_eq!(take(&outbox), [5, -2]);
    adds_up(&outbox);
}

#[tokio::test]
async fn a_key_that_waited_as_critical_comes_back_as_critical() {
    let outbox = outbox(1024, 1 << 20);
    let fill = || {
        push(
            &outbox,
            [critical_keyed("a", 1), keyed("a", 2), critical(3)],
        );
    };
    fill();
    drop(outbox.reader().next().await.unwrap());
    assert_eq!(take(&outbox), [2, 3]);
    fill();
    let mut batch = outbox.reader().next().await.unwrap();
    batch.abandon();
    let gap = batch.deliver();
    assert!(
        matches!(gap, Some(OutboxItem::Gap(gap)) if gap.priority == Priority::Critical),
        "{gap:?}"
    );
}

#[tokio::test]
async fn a_newer_reader_begins_with_what_the_older_one_holds() {
    let outbox = outbox(1024, 1 << 20);
    push(&outbox, [numbered(1), numbered(2), keyed("k", 3)]);
    let mut older = outbox.reader();
    let mut held = older.next().await.unwrap();
    held.deliver();
    let mut newer = outbox.reader();
    push(&outbox, [keyed("k", 4), numbered(5)]);
    assert_eq!((held.len(), held.front().is_none()), (0, true));
    assert!(held.deliver().is_none() && held.abandon().is_none());
    assert_eq!(seen(newer.next().await.unwrap().deliver_all()), [2, 4, 5]);
    assert_eq!(held.deliver_all().count(), 0);
    drop(held);
    assert!(take(&outbox).is_empty(), "nothing comes back later");
    let stats = adds_up(&outbox);
    assert_eq!((stats.delivered, stats.merged, stats.pending), (4, 1, 0));
}

#[tokio::test]
async fn batches_of_one_reader_live_side_by_side_and_come_back_in_order() {
    let outbox = outbox(1024, 1 << 20);
    let mut reader = outbox.reader();
    push(&outbox, [numbered(1), numbered(2)]);
    let mut first = reader.next().await.unwrap();
    push(&outbox, [numbered(3)]);
    let second = reader.next().await.unwrap();
    first.deliver();
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(take(&outbox), [2, 3]);
    assert!(first.is_empty() && second.is_empty());
}
