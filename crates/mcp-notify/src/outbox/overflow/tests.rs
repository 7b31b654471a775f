use std::task::{Context, Poll, Waker};

use tokio::time::advance;
use tracing::Level;

use super::*;
use crate::outbox::{Outbox, OutboxConfig, OutboxLimits, OutboxReader};
use crate::testing::{FileResource, Log, numbered, updated};

fn outbox_of_one(session: &str) -> Outbox {
    let limits = OutboxLimits {
        messages_max: 1,
        bytes_max: 1 << 20,
    };
    let config = OutboxConfig::default().limits(limits);
    Outbox::new(config.owner(&session.into()))
}

/// Pushes updates of different resources: all but the last are dropped.
fn push(outbox: &Outbox, count: usize) {
    for number in 0..count {
        let _ = outbox.push(updated(FileResource::Folder, &format!("f://{number}")));
    }
}

/// Takes everything and asks for more.
fn read_all(reader: &mut OutboxReader) {
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok(mut batch)) = reader.poll_next(&mut cx) {
        batch.deliver_all().for_each(drop);
    }
}

fn dropped(log: &Log, level: Level) -> Vec<String> {
    let records = log.at(level);
    let field = |record: &crate::testing::Record| record.fields["dropped"].clone();
    records.iter().map(field).collect()
}

#[tokio::test(start_paused = true)]
async fn an_episode_has_a_first_record_with_the_four_fields_and_a_last_one_with_the_sum() {
    let log = Log::capture();
    let outbox = outbox_of_one("session-1");
    push(&outbox, 1000);
    advance(EPISODE_MIN).await;
    let mut reader = outbox.reader();
    read_all(&mut reader);
    read_all(&mut reader);

    let records = log.at(Level::ERROR);
    let [first, last] = &records[..] else {
        panic!("two records, not {records:?}")
    };
    let names: Vec<_> = first.fields.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "attempt_number",
            "dropped",
            "error_message",
            "resource_type",
            "session",
            "uri"
        ]
    );
    assert_eq!(
        (&*first.fields["uri"], &*first.fields["dropped"]),
        ("f://0", "1")
    );
    assert_eq!(
        (&*last.fields["uri"], &*last.fields["dropped"]),
        ("f://998", "999")
    );
    for record in [first, last] {
        assert_eq!(record.fields["session"], "session-1");
        assert_eq!(record.fields["resource_type"], "folder");
        assert_eq!(record.fields["attempt_number"], "1");
    }
    assert!(last.fields["error_message"].contains("caught up"));
    assert_eq!(log.at(Level::WARN).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_episode_has_a_record_a_minute_with_the_number_until_then() {
    let log = Log::capture();
    let outbox = outbox_of_one("slow");
    for _ in 0..180 {
        push(&outbox, 10);
        advance(Duration::from_secs(1)).await;
    }
    // At 0, 60 and 120 s. One notification stays in the outbox.
    assert_eq!(dropped(&log, Level::ERROR), ["1", "600", "1200"]);
    outbox.close();
    assert_eq!(dropped(&log, Level::ERROR).last().unwrap(), "1799");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind_every_second_is_one_episode_until_it_keeps_up() {
    let log = Log::capture();
    let outbox = outbox_of_one("bursts");
    let mut reader = outbox.reader();
    for _ in 0..9 {
        push(&outbox, 11);
        read_all(&mut reader);
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!(dropped(&log, Level::ERROR), ["1"]);
    advance(EPISODE_MIN).await;
    read_all(&mut reader);
    assert_eq!(dropped(&log, Level::ERROR), ["1", "90"]);
    // The next one is an episode of its own.
    push(&outbox, 2);
    assert_eq!(dropped(&log, Level::ERROR), ["1", "90", "1"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_about_no_resource_is_a_warning_until_a_resource_is_dropped_too() {
    let log = Log::capture();
    let outbox = outbox_of_one("mixed");
    for number in 0..5 {
        let _ = outbox.push(numbered(number));
    }
    assert_eq!(dropped(&log, Level::WARN), ["1"]);
    assert_eq!(log.at(Level::WARN)[0].fields["session"], "mixed");
    push(&outbox, 2);
    assert_eq!(dropped(&log, Level::ERROR), ["6"]);
    outbox.close();
    assert_eq!(dropped(&log, Level::ERROR), ["6", "6"]);
    assert_eq!(dropped(&log, Level::WARN), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_keeps_up_makes_no_record() {
    let log = Log::capture();
    let outbox = outbox_of_one("quick");
    let mut reader = outbox.reader();
    for _ in 0..100 {
        push(&outbox, 1);
        read_all(&mut reader);
    }
    outbox.close();
    assert!(log.at(Level::ERROR).is_empty() && log.at(Level::WARN).is_empty());
}
