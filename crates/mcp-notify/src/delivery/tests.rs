use std::io;

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Level as LogLevel;

use super::*;
use crate::metrics::ResourceType;
use crate::notification::About;
use crate::session::CloseReason;
use crate::testing::{Act, Counted, Log, Scripted, millis, numbered, updated};
use crate::{LoggingService, Method};

fn reset() -> SendError {
    SendError::classify(io::Error::from(io::ErrorKind::ConnectionReset))
}

struct Unserialisable;

impl Serialize for Unserialisable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no such thing on the wire"))
    }
}

/// Delivers one update of each resource type to a sink that does `acts`.
async fn deliver(resource_type: ResourceType, sink: &Scripted, metrics: Metrics) -> Outcome {
    let session = Session::new("s");
    let delivery = Delivery::new(sink.clone()).metrics(metrics);
    delivery
        .deliver(&session, &updated(resource_type, "test://x"))
        .await
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_and_its_success_is_silent() {
    for failures in 1..=3 {
        let (log, (counted, metrics)) = (Log::capture(), Counted::new());
        let sink = Scripted::default().then("s", vec![Act::Fail(reset()); failures]);
        let outcome = deliver(ResourceType::Events, &sink, metrics).await;
        assert!(matches!(outcome, Outcome::Delivered { retries } if retries as usize == failures));
        assert_eq!(sink.sends().len(), failures + 1);
        assert!(
            log.at(LogLevel::ERROR).is_empty(),
            "no ERROR when a retry succeeds"
        );
        assert!(log.at(LogLevel::WARN).is_empty());
        assert_eq!(log.at(LogLevel::DEBUG).len(), failures);
        assert!(counted.all().is_empty(), "the counter does not move");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_wait_100_200_and_400_ms_and_then_the_notification_is_abandoned() {
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let outcome = deliver(ResourceType::Events, &sink, Metrics::default()).await;
    assert!(matches!(
        outcome,
        Outcome::Abandoned {
            attempt_number: 3,
            ..
        }
    ));
    let at: Vec<_> = sink.sends().iter().map(|sent| sent.at).collect();
    let gaps: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [millis(100), millis(200), millis(400)]);
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(sink.sends().len(), 4, "nothing is sent any more");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_notification_makes_one_error_record_with_exactly_four_fields() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let _ = deliver(ResourceType::PodLogs, &sink, metrics).await;
    let records = log.at(LogLevel::ERROR);
    assert_eq!(records.len(), 1);
    let fields = &records[0].fields;
    let names: Vec<_> = fields.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["attempt_number", "error_message", "resource_type", "uri"]
    );
    assert_eq!(fields["resource_type"], "podlogs");
    assert_eq!(fields["uri"], "test://x");
    assert_eq!(fields["attempt_number"], "3");
    assert!(
        fields["error_message"].contains("connection reset"),
        "{fields:?}"
    );
    assert_eq!(
        counted.all(),
        [("podlogs", "network", 1)],
        "counted exactly once"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_of_different_resource_types_can_be_told_apart() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    for resource_type in ResourceType::ALL {
        let _ = deliver(resource_type, &sink, metrics.clone()).await;
    }
    let records = log.at(LogLevel::ERROR);
    let types: Vec<_> = records
        .iter()
        .map(|r| r.fields["resource_type"].as_str())
        .collect();
    assert_eq!(types, ["graph", "events", "podlogs"]);
    assert_eq!(counted.all().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn every_resource_type_and_error_is_handled_alike() {
    let errors = [
        (reset(), "network", 4),
        (SendError::Deadline(SEND_DEADLINE), "timeout", 4),
        (
            SendError::Serialization(Arc::new(io::Error::other("json"))),
            "serialization",
            1,
        ),
        (SendError::other("nonsense"), "other", 1),
    ];
    for resource_type in ResourceType::ALL {
        for (error, label, sends) in &errors {
            let (log, (counted, metrics)) = (Log::capture(), Counted::new());
            let sink = Scripted::default().always("s", Act::Fail(error.clone()));
            let _ = deliver(resource_type, &sink, metrics).await;
            assert_eq!(sink.sends().len(), *sends, "{error}");
            assert_eq!(log.at(LogLevel::ERROR).len(), 1);
            assert_eq!(counted.all(), [(resource_type.as_str(), *label, 1)]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_not_retryable_is_logged_at_once_as_attempt_1() {
    for error in [SendError::InvalidParams("no".into()), SendError::Cancelled] {
        let (log, (counted, metrics)) = (Log::capture(), Counted::new());
        let sink = Scripted::default().always("s", Act::Fail(error));
        let start = Instant::now();
        let outcome = deliver(ResourceType::Graph, &sink, metrics).await;
        assert!(matches!(
            outcome,
            Outcome::Abandoned {
                attempt_number: 1,
                ..
            }
        ));
        assert_eq!(Instant::now(), start, "no time passed");
        assert_eq!(log.at(LogLevel::ERROR)[0].fields["attempt_number"], "1");
        assert_eq!(counted.all(), [("graph", "other", 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_serialised_is_reported_and_never_reaches_the_sink() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default();
    let notification = Notification::builder(Method::RESOURCE_UPDATED)
        .params(&Unserialisable)
        .about(About::resource(ResourceType::Graph, "test://x"))
        .build();
    let session = Session::new("s");
    let outcome = Delivery::new(sink.clone())
        .metrics(metrics)
        .deliver(&session, &notification)
        .await;
    assert!(matches!(
        outcome,
        Outcome::Abandoned {
            attempt_number: 1,
            ..
        }
    ));
    assert!(
        !outcome.prunes(),
        "the payload is at fault, not the session"
    );
    assert!(sink.sends().is_empty());
    assert_eq!(counted.all(), [("graph", "serialization", 1)]);
    assert_eq!(log.at(LogLevel::ERROR).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_times_out_after_two_seconds_each_time() {
    let (counted, metrics) = Counted::new();
    let sink = Scripted::default().always("s", Act::Hang);
    let start = Instant::now();
    let outcome = deliver(ResourceType::Events, &sink, metrics).await;
    assert!(matches!(
        outcome,
        Outcome::Abandoned {
            error: SendError::Deadline(_),
            ..
        }
    ));
    assert_eq!(start.elapsed(), millis(4 * 2000 + 700));
    assert_eq!(counted.all(), [("events", "timeout", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_is_an_error_of_that_send_only() {
    let (counted, metrics) = Counted::new();
    let sink = Scripted::default().then("s", [Act::Panic]);
    let outcome = deliver(ResourceType::Events, &sink, metrics.clone()).await;
    assert!(
        matches!(&outcome, Outcome::Abandoned { error: SendError::Panicked(text), .. } if text == "the sink broke")
    );
    assert_eq!(counted.all(), [("events", "other", 1)]);
    assert!(
        deliver(ResourceType::Events, &sink, metrics)
            .await
            .is_delivered()
    );
}

#[tokio::test(start_paused = true)]
async fn a_notification_about_no_resource_is_a_warning_and_is_not_counted() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let session = Session::builder().name("blue").build("s");
    let _ = Delivery::new(sink)
        .metrics(metrics)
        .deliver(&session, &numbered(1))
        .await;
    assert!(log.at(LogLevel::ERROR).is_empty());
    let records = log.at(LogLevel::WARN);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].fields["session"], "blue");
    assert!(records[0].fields["error_message"].contains("connection reset"));
    assert!(!records[0].message.is_empty());
    assert!(counted.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_retries_and_without_metrics_failures_are_still_logged() {
    let log = Log::capture();
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let delivery = Delivery::new(sink.clone()).retry(RetryPolicy::none());
    let outcome = delivery
        .deliver(&Session::new("s"), &updated(ResourceType::Graph, "u"))
        .await;
    assert!(matches!(
        outcome,
        Outcome::Abandoned {
            attempt_number: 1,
            ..
        }
    ));
    assert_eq!(sink.sends().len(), 1);
    assert_eq!(log.at(LogLevel::ERROR).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_dropped_while_a_retry_sleeps_ends_the_retry() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let session = Session::new("s");
    let delivery = Delivery::new(sink.clone()).metrics(metrics);
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery.run(&session));
    let _ = session.push(updated(ResourceType::Graph, "u"));
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

#[tokio::test(start_paused = true)]
async fn pushing_never_waits_for_a_sink_that_hangs() {
    let sink = Scripted::default().always("s", Act::Hang);
    let session = Session::new("s");
    let mut tasks = JoinSet::new();
    tasks.spawn(Delivery::new(sink).run(&session));
    tokio::task::yield_now().await;
    let start = Instant::now();
    for n in 0..10_000 {
        let _ = session.push(numbered(n));
    }
    assert_eq!(
        Instant::now(),
        start,
        "ten thousand pushes and the clock has not moved"
    );
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

#[tokio::test]
async fn a_sink_that_leads_back_into_the_outbox_is_refused() {
    let session = Session::new("s");
    let _ = session.push(numbered(1));
    for delivery in [Delivery::default(), Delivery::new(crate::OutboxSink)] {
        assert_eq!(delivery.run(&session).await, ReadEnd::Circular);
    }
    assert_eq!(session.outbox().stats().pending, 1);
}

#[tokio::test]
async fn what_an_outbox_refuses_is_counted_once_and_prunes_nobody() {
    let (counted, metrics) = Counted::new();
    let limits = crate::OutboxLimits {
        messages_max: 8,
        bytes_max: 16,
    };
    let outbox = crate::OutboxConfig::default().limits(limits);
    let session = Session::builder()
        .outbox(outbox.metrics(metrics.clone()))
        .build("s");
    let delivery = Delivery::new(crate::OutboxSink).metrics(metrics);
    let outcome = delivery
        .deliver(&session, &updated(ResourceType::Graph, "u"))
        .await;
    assert!(matches!(
        outcome,
        Outcome::Abandoned {
            error: SendError::Full,
            ..
        }
    ));
    assert!(!outcome.prunes());
    assert_eq!(counted.all(), [("graph", "other", 1)]);
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
