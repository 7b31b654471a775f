//! The log on a real server.

use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use kubecrier_history::{
    Appended, Message, Messages, ReadFrom, SharedLog, SharedLogError, check_shared_log,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{NatsConfig, NatsSharedLog, NatsStore};

use tokio::task::JoinSet;

use crate::support::{Nats, soon, text, until};

const TOPIC: &str = "events.dev";

async fn append(log: &NatsSharedLog, after: u64, content: &str) -> u64 {
    match log.append(TOPIC, after, text(content)).await.unwrap() {
        Appended::At(number) => number,
        Appended::Conflict => panic!("there is one writer"),
    }
}

async fn next(messages: &mut Messages) -> Message {
    soon(messages.recv()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_holds_what_every_shared_log_holds() {
    let Some(nats) = Nats::start() else { return };
    let (store, lifecycle) = nats.store().await;
    check_shared_log(&store.shared_log()).await;
    // Its readers are gone, and what they had goes with them.
    lifecycle.drain();
    soon(lifecycle.join_tasks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_was_only_slow_is_refused() {
    let Some(nats) = Nats::start() else { return };
    let (old, _old_lifecycle) = nats.store().await;
    let (new, _new_lifecycle) = nats.store().await;
    let (old, new) = (old.shared_log(), new.shared_log());
    let first = append(&old, 0, "1").await;
    let known = new.last(TOPIC).await.unwrap().unwrap();
    assert_eq!(known.number, first);
    let second = append(&new, first, "2").await;
    for _ in 0..2 {
        let late = old.append(TOPIC, first, text("late")).await.unwrap();
        assert_eq!(late, Appended::Conflict);
    }
    let never = old.append(TOPIC, second + 1, text("never")).await.unwrap();
    assert_eq!(never, Appended::Conflict);
    let mut all = new.follow(TOPIC, ReadFrom::After(0)).await.unwrap();
    assert_eq!(&next(&mut all).await.bytes[..], b"1");
    assert_eq!(&next(&mut all).await.bytes[..], b"2");
    append(&new, second, "3").await;
    assert_eq!(&next(&mut all).await.bytes[..], b"3", "nothing in between");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_starts_where_it_asks_to() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let log = store.shared_log();
    let first = append(&log, 0, "1").await;
    let second = append(&log, first, "2").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let between = Timestamp::now();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let third = append(&log, second, "3").await;
    for (from, expected) in [
        (ReadFrom::After(0), first),
        (ReadFrom::After(first), second),
        (ReadFrom::After(second), third),
        (ReadFrom::Since(Timestamp::UNIX_EPOCH), first),
        (ReadFrom::Since(between), third),
    ] {
        let mut messages = log.follow(TOPIC, from).await.unwrap();
        assert_eq!(next(&mut messages).await.number, expected, "{from:?}");
    }
    let mut to_come = log.follow(TOPIC, ReadFrom::After(third)).await.unwrap();
    let fourth = append(&log, third, "4").await;
    assert_eq!(next(&mut to_come).await.number, fourth);
    // A server whose clock is ahead reads what is written from now on.
    let ahead = Timestamp::now() + Duration::from_mins(5);
    let mut ahead = log.follow(TOPIC, ReadFrom::Since(ahead)).await.unwrap();
    let fifth = append(&log, fourth, "5").await;
    assert_eq!(next(&mut ahead).await.number, fifth);
}

/// Appends until it is told to stop; gives the numbers that were acknowledged.
async fn write(log: NatsSharedLog, count: u64) -> Vec<(u64, String)> {
    let mut written: Vec<(u64, String)> = Vec::new();
    let mut after = 0;
    for number in 0..count {
        let content = number.to_string();
        loop {
            match log.append(TOPIC, after, text(&content)).await {
                Ok(Appended::At(at)) => {
                    after = at;
                    written.push((at, content));
                    break;
                }
                // An append without an answer may have been kept.
                Ok(Appended::Conflict) => {
                    let last = log.last(TOPIC).await;
                    let Ok(Some(last)) = last else { continue };
                    after = last.number;
                    if last.bytes == content.as_bytes() {
                        written.push((after, content));
                        break;
                    }
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_server_loses_and_doubles_nothing() {
    const COUNT: u64 = 3000;
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (writer, _writer_lifecycle) = nats.store().await;
    let (reader, _reader_lifecycle) = nats.store().await;
    let log = reader.shared_log();
    let mut messages = log.follow(TOPIC, ReadFrom::After(0)).await.unwrap();
    let mut since = log
        .follow(TOPIC, ReadFrom::Since(Timestamp::now()))
        .await
        .unwrap();
    let mut writing = JoinSet::new();
    writing.spawn(write(writer.shared_log(), COUNT));
    let mut read = Vec::new();
    for crash in 1..=3 {
        while read.len() < 500 * crash {
            read.push(next(&mut messages).await);
        }
        nats.server.kill().unwrap();
        nats.server.start_again().unwrap();
    }
    while read.len() < usize::try_from(COUNT).unwrap() {
        read.push(next(&mut messages).await);
    }
    let written = soon(writing.join_next()).await.unwrap().unwrap();
    let read: Vec<_> = read
        .into_iter()
        .map(|message| {
            (
                message.number,
                String::from_utf8(message.bytes.to_vec()).unwrap(),
            )
        })
        .collect();
    assert_eq!(read, written);
    for expected in &written {
        assert_eq!(next(&mut since).await.number, expected.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_without_messages_survives_a_crash_of_the_server() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (store, _lifecycle) = nats.store().await;
    let log = store.shared_log();
    let first = append(&log, 0, "1").await;
    let mut behind = log.follow(TOPIC, ReadFrom::After(first)).await.unwrap();
    let now = ReadFrom::Since(Timestamp::now());
    let mut since = log.follow(TOPIC, now).await.unwrap();
    nats.server.kill().unwrap();
    nats.server.start_again().unwrap();
    until(async || log.last(TOPIC).await.is_ok()).await;
    let second = append(&log, first, "2").await;
    for messages in [&mut behind, &mut since] {
        assert_eq!(next(messages).await.number, second, "and not the first");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_survives_a_freeze_and_a_consumer_that_is_taken_away() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let log = store.shared_log();
    let mut messages = log.follow(TOPIC, ReadFrom::After(0)).await.unwrap();
    let first = append(&log, 0, "1").await;
    assert_eq!(next(&mut messages).await.number, first);
    nats.server.freeze().unwrap();
    // Longer than a consumer may be silent, and less than it takes to give up.
    tokio::time::sleep(Duration::from_secs(4)).await;
    nats.server.thaw().unwrap();
    until(async || log.last(TOPIC).await.is_ok()).await;
    let second = append(&log, first, "2").await;
    assert_eq!(next(&mut messages).await.number, second);
    let client = async_nats::connect(nats.server.url()).await.unwrap();
    let stream = async_nats::jetstream::new(client);
    let stream = stream.get_stream("kubecrier-log").await.unwrap();
    let mut names = stream.consumer_names();
    while let Some(name) = names.next().await {
        stream.delete_consumer(&name.unwrap()).await.unwrap();
    }
    let third = append(&log, second, "3").await;
    assert_eq!(next(&mut messages).await.number, third);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_told_when_the_server_stays_away() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (store, _lifecycle) = nats.store().await;
    let log = store.shared_log();
    let mut messages = log.follow(TOPIC, ReadFrom::After(0)).await.unwrap();
    nats.server.kill().unwrap();
    let since = tokio::time::Instant::now();
    let told = soon(messages.recv()).await.unwrap();
    assert!(matches!(told, Err(SharedLogError::Unavailable { .. })));
    assert!((3..9).contains(&since.elapsed().as_secs()));
    assert!(soon(messages.recv()).await.is_none());
    let refused = soon(log.append(TOPIC, 0, text("1"))).await;
    assert!(matches!(refused, Err(SharedLogError::Unavailable { .. })));
    let refused = soon(log.follow(TOPIC, ReadFrom::After(0))).await;
    assert!(matches!(refused, Err(SharedLogError::Unavailable { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_everything() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let log = store.shared_log();
    let mut messages = log.follow(TOPIC, ReadFrom::After(0)).await.unwrap();
    let large = "x".repeat(400_000);
    let mut written = Vec::new();
    let mut after = 0;
    for _ in 0..100 {
        after = append(&log, after, &large).await;
        written.push(after);
    }
    // Longer than a consumer may be silent.
    tokio::time::sleep(Duration::from_secs(4)).await;
    for number in written {
        assert_eq!(next(&mut messages).await.number, number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_behind_messages_that_were_removed() {
    let Some(nats) = Nats::start() else { return };
    let config = NatsConfig {
        log_max_bytes: 4 * 1024 * 1024,
        ..nats.config()
    };
    let lifecycle = Lifecycle::default();
    let store = NatsStore::connect(&config, &lifecycle).await.unwrap();
    let log = store.shared_log();
    let mut messages = log.follow(TOPIC, ReadFrom::After(0)).await.unwrap();
    let large = "x".repeat(400_000);
    let mut after = 0;
    for _ in 0..200 {
        after = append(&log, after, &large).await;
    }
    let mut last = 0;
    while last < after {
        let number = next(&mut messages).await.number;
        assert!(number > last, "in order, and none twice");
        last = number;
    }
    let mut kept = log.follow(TOPIC, ReadFrom::After(0)).await.unwrap();
    let oldest = next(&mut kept).await.number;
    assert!(oldest > after - 11, "the log keeps no more than it may");
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_go_with_their_readers() {
    let Some(nats) = Nats::start() else { return };
    let (store, lifecycle) = nats.store().await;
    let log = store.shared_log();
    let client = async_nats::connect(nats.server.url()).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    let consumers = async || {
        let stream = jetstream.get_stream("kubecrier-log").await.unwrap();
        stream.cached_info().state.consumer_count
    };
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(log.follow(TOPIC, ReadFrom::After(0)).await.unwrap());
    }
    assert_eq!(consumers().await, 5);
    open.pop();
    until(async || consumers().await == 4).await;
    lifecycle.drain();
    soon(lifecycle.join_tasks()).await;
    until(async || consumers().await == 0).await;
    for mut messages in open {
        assert_eq!(soon(messages.recv()).await, None);
    }
}
