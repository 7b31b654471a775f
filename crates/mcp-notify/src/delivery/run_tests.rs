//! The loop that empties an outbox.

use std::io;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Level as LogLevel;

use super::*;
use crate::LoggingService;
use crate::session::CloseReason;
use crate::testing::{Act, Counted, FileResource, Log, Scripted, millis, numbered, updated};

fn reset() -> SendError {
    SendError::classify(io::Error::from(io::ErrorKind::ConnectionReset))
}

#[tokio::test(start_paused = true)]
async fn a_session_dropped_while_a_retry_sleeps_ends_the_retry() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let session = Session::new("s");
    let delivery = Delivery::new(sink.clone()).metrics(metrics);
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery.run(&session));
    let _ = session.push(updated(FileResource::Folder, "u"));
    sleep(millis(50)).await;
    let start = Instant::now();
    drop(session);
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), ReadEnd::Closed);
    assert_eq!(Instant::now(), start, "the loop ended at once");
    assert_eq!(sink.sends().len(), 1);
    assert!(log.at(LogLevel::ERROR).is_empty() && counted.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_dropped_while_its_send_hangs_ends_the_send() {
    let sink = Scripted::default().always("s", Act::Hang);
    let session = Session::new("s");
    let outbox = session.outbox().clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(Delivery::new(sink).run(&session));
    let _ = session.push(numbered(1));
    sleep(millis(50)).await;
    let start = Instant::now();
    drop(session);
    tasks.join_next().await;
    assert_eq!(Instant::now(), start);
    assert_eq!((outbox.stats().dropped, outbox.stats().pending), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_loop_delivers_in_order_and_a_retry_is_never_overtaken() {
    let sink = Scripted::default().then("s", [Act::Accept, Act::Fail(reset()), Act::Fail(reset())]);
    let session = Session::new("s");
    let mut tasks = JoinSet::new();
    tasks.spawn(Delivery::new(sink.clone()).run(&session));
    for n in 0..5 {
        let _ = session.push(numbered(n));
    }
    sleep(Duration::from_secs(1)).await;
    let _ = session.push(numbered(5));
    sleep(millis(1)).await;
    let expected: Vec<_> = (0..6)
        .map(|n| String::from_utf8(numbered(n).frame().unwrap().to_vec()).unwrap())
        .collect();
    assert_eq!(sink.accepted("s"), expected);
    assert_eq!(session.outbox().stats().delivered, 6);
}

/// Notifies when a send has begun, and never completes it.
#[derive(Clone, Default)]
struct Stuck(Arc<tokio::sync::Notify>);

impl NotificationSink for Stuck {
    fn send<'a>(&'a self, _: &'a Session, _: &'a Notification) -> crate::SendFuture<'a> {
        Box::pin(async {
            self.0.notify_one();
            std::future::pending().await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushing_never_waits_for_a_sink_that_hangs() {
    let (sink, session) = (Stuck::default(), Session::new("s"));
    let delivery = Delivery::new(sink.clone()).deadline(Duration::from_hours(1));
    let mut hanging = JoinSet::new();
    hanging.spawn(delivery.run(&session));
    let _ = session.push(numbered(0));
    sink.0.notified().await;
    let mut pushing = JoinSet::new();
    for _ in 0..2 {
        let session = session.clone();
        pushing.spawn(async move {
            for n in 1..=5_000 {
                let _ = session.push(numbered(n));
            }
        });
    }
    let all = timeout(Duration::from_secs(30), pushing.join_all()).await;
    assert!(all.is_ok(), "ten thousand pushes are done");
    let stats = session.outbox().stats();
    assert_eq!((stats.pushed, stats.delivered), (10_001, 0));
    assert_eq!(
        stats.pending,
        1024 + 1,
        "and the first one is still being sent"
    );
    assert!(hanging.try_join_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_gap_renderer_that_panics_does_not_end_the_loop() {
    let sink = Scripted::default();
    let delivery = Delivery::new(sink.clone()).gap(|_, _| panic!("the renderer broke"));
    let limits = crate::OutboxLimits {
        messages_max: 2,
        bytes_max: 1 << 20,
    };
    let outbox = crate::OutboxConfig::default().limits(limits);
    let session = Session::builder().outbox(outbox).build("s");
    for n in 0..5 {
        let _ = session.push(numbered(n));
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery.run(&session));
    sleep(millis(1)).await;
    assert_eq!(sink.accepted("s").len(), 2);
    assert!(tasks.try_join_next().is_none(), "it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_announced_at_its_place_to_a_session_that_takes_warnings() {
    let sink = Scripted::default();
    let delivery = Delivery::new(sink.clone());
    let limits = crate::OutboxLimits {
        messages_max: 2,
        bytes_max: 1 << 20,
    };
    let outbox = crate::OutboxConfig::default().limits(limits);
    let loud = Session::builder().outbox(outbox.clone()).build("loud");
    let quiet = Session::builder().outbox(outbox).build("quiet");
    LoggingService::new(delivery.clone()).set_level(&loud, Level::Info);
    let mut tasks = JoinSet::new();
    for session in [&loud, &quiet] {
        for n in 0..5 {
            let _ = session.push(numbered(n));
        }
        tasks.spawn(delivery.run(session));
    }
    sleep(millis(1)).await;
    let frames = sink.accepted("loud");
    assert_eq!(frames.len(), 3);
    assert!(frames[0].contains(r#""data":{"dropped":3}"#), "{frames:?}");
    assert_eq!(
        sink.accepted("quiet").len(),
        2,
        "no level was set: no message"
    );
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_is_superseded_leaves_the_rest_to_the_newer_reader() {
    let sink = Scripted::default().then("s", [Act::Fail(reset())]);
    let session = Session::new("s");
    let mut tasks = JoinSet::new();
    tasks.spawn(Delivery::new(sink.clone()).run(&session));
    for n in 0..5 {
        let _ = session.push(numbered(n));
    }
    sleep(millis(50)).await;
    let mut newer = session.outbox().reader();
    let end = tasks.join_next().await.unwrap().unwrap();
    assert_eq!(end, ReadEnd::Superseded);
    assert_eq!(sink.sends().len(), 1, "what was under way is given over");
    assert_eq!(newer.next().await.unwrap().deliver_all().count(), 5);
    let stats = session.outbox().stats();
    assert_eq!((stats.delivered, stats.pending), (5, 0));
}

#[tokio::test]
async fn a_sink_that_leads_back_into_the_outbox_is_refused() {
    let session = Session::new("s");
    let _ = session.push(numbered(1));
    for delivery in [Delivery::default(), Delivery::new(crate::OutboxSink)] {
        assert_eq!(delivery.run(&session).await, ReadEnd::Circular);
    }
    assert_eq!(session.outbox().stats().pending, 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_failed_connection_prunes_the_session_and_it_lives_on() {
    let sink = Scripted::default().then(
        "s",
        [
            Act::Fail(SendError::InvalidParams("no".into())),
            Act::Accept, // the gap that the first one left is announced
            Act::Fail(SendError::Closed),
        ],
    );
    let delivery = Delivery::new(sink);
    let logging = LoggingService::new(delivery.clone());
    let session = Session::new("s");
    logging.set_level(&session, Level::Debug);
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery.run(&session));
    let _ = session.push(numbered(1));
    sleep(millis(1)).await;
    assert_eq!(logging.len(), 1, "a payload at fault prunes nobody");
    let _ = session.push(numbered(2));
    sleep(millis(1)).await;
    assert_eq!(logging.len(), 0);
    assert!(!session.is_closed());
    session.close(CloseReason::Requested);
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), ReadEnd::Closed);
}

mod accounting {
    use proptest::prelude::*;

    use super::*;

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            6 => Just(Act::Accept),
            2 => Just(Act::Fail(reset())),
            1 => Just(Act::Fail(SendError::other("nonsense"))),
            1 => Just(Act::Hang),
            1 => Just(Act::Panic),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_the_sink_does_every_push_is_delivered_or_dropped_and_order_holds(
            acts in proptest::collection::vec(act(), 0..40),
            count in 1_usize..30,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let sink = Scripted::default().then("s", acts);
                let session = Session::new("s");
                let mut tasks = JoinSet::new();
                tasks.spawn(Delivery::new(sink.clone()).run(&session));
                for n in 0..count {
                    let _ = session.push(numbered(n));
                }
                sleep(Duration::from_mins(10)).await;
                let stats = session.outbox().stats();
                let accepted = sink.accepted("s");
                prop_assert_eq!(stats.pending, 0);
                prop_assert_eq!(stats.delivered, accepted.len() as u64);
                prop_assert_eq!(stats.delivered + stats.dropped, count as u64);
                let numbers: Vec<usize> = accepted
                    .iter()
                    .map(|frame| {
                        let start = frame.rfind(':').unwrap() + 1;
                        frame[start..].trim_end_matches('}').parse().unwrap()
                    })
                    .collect();
                prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{:?}", numbers);
                Ok(())
            })?;
        }
    }
}

/// Whether a notification may be sent: known at once, or after a while.
#[derive(Clone, Copy)]
enum Door {
    Known(bool),
    Asked(bool),
}

impl crate::Gate for Door {
    fn admit(&self) -> Admission {
        match *self {
            Self::Known(true) => Admission::Open,
            Self::Known(false) => Admission::Shut,
            Self::Asked(answer) => Admission::Pending(Box::pin(async move {
                sleep(millis(300)).await;
                answer
            })),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_asked_when_a_notification_is_sent_and_a_gap_takes_the_place_of_the_rest() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default();
    let session = Session::new("s");
    LoggingService::new(Delivery::new(crate::OutboxSink)).set_level(&session, Level::Debug);
    let doors = [
        Door::Known(true),
        Door::Known(false),
        Door::Known(false),
        Door::Known(false),
        Door::Asked(true),
        Door::Asked(false),
        Door::Known(true),
    ];
    for (n, door) in (0..).zip(doors) {
        let _ = session.push(numbered(n).gated(Arc::new(door)));
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(Delivery::new(sink.clone()).metrics(metrics).run(&session));
    sleep(Duration::from_secs(1)).await;
    let sent = sink.accepted("s");
    let frame = |n| String::from_utf8(numbered(n).frame().unwrap().to_vec()).unwrap();
    let all = sent.join("\n");
    for n in 0..7 {
        assert_eq!(
            all.contains(&frame(n)),
            [0, 4, 6].contains(&n),
            "{n}: {all}"
        );
    }
    let stats = session.outbox().stats();
    assert_eq!((stats.pushed, stats.delivered, stats.dropped), (7, 3, 4));
    assert_eq!((stats.pending, sent.len()), (0, 5), "two gaps: {all}");
    assert!(
        sent[1].contains("\"dropped\":3") && sent[3].contains("\"dropped\":1"),
        "{all}"
    );
    assert!(
        log.at(LogLevel::ERROR).is_empty() && counted.all().is_empty(),
        "nothing failed"
    );
}
