use std::io;

use serde::Serialize;
use tokio::time::Instant;
use tracing::Level as LogLevel;

use super::*;
use crate::Method;
use crate::metrics::ResourceTypes;
use crate::notification::ResourceRef;
use crate::testing::{Act, Counted, FileResource, Log, Scripted, millis, numbered, updated};

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
async fn deliver(
    resource_type: FileResource,
    sink: &Scripted,
    metrics: Metrics,
) -> DeliveryOutcome {
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
        let outcome = deliver(FileResource::Document, &sink, metrics).await;
        assert!(
            matches!(outcome, DeliveryOutcome::Delivered { retries } if retries as usize == failures)
        );
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
    let outcome = deliver(FileResource::Document, &sink, Metrics::default()).await;
    assert!(matches!(
        outcome,
        DeliveryOutcome::Abandoned {
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

/// S1-16: no circuit breaker remembers what failed before.
#[tokio::test(start_paused = true)]
async fn after_any_number_of_failures_the_next_has_all_its_sends() {
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let session = Session::new("s");
    let delivery = Delivery::new(sink.clone());
    for nth in 1..=21 {
        let outcome = delivery.deliver(&session, &numbered(nth)).await;
        assert!(!outcome.is_delivered());
        assert_eq!(sink.sends().len(), 4 * nth);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_notification_makes_one_error_record_with_exactly_four_fields() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    let _ = deliver(FileResource::Link, &sink, metrics).await;
    let records = log.at(LogLevel::ERROR);
    assert_eq!(records.len(), 1);
    let fields = &records[0].fields;
    let names: Vec<_> = fields.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["attempt_number", "error_message", "resource_type", "uri"]
    );
    assert_eq!(fields["resource_type"], "link");
    assert_eq!(fields["uri"], "test://x");
    assert_eq!(fields["attempt_number"], "3");
    assert!(
        fields["error_message"].contains("connection reset"),
        "{fields:?}"
    );
    assert_eq!(
        counted.all(),
        [("link", "network", 1)],
        "counted exactly once"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_of_different_resource_types_can_be_told_apart() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default().always("s", Act::Fail(reset()));
    for resource_type in FileResource::ALL.iter().copied() {
        let _ = deliver(resource_type, &sink, metrics.clone()).await;
    }
    let records = log.at(LogLevel::ERROR);
    let types: Vec<_> = records
        .iter()
        .map(|r| r.fields["resource_type"].as_str())
        .collect();
    assert_eq!(types, ["folder", "document", "link"]);
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
    for resource_type in FileResource::ALL.iter().copied() {
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
        let outcome = deliver(FileResource::Folder, &sink, metrics).await;
        assert!(matches!(
            outcome,
            DeliveryOutcome::Abandoned {
                attempt_number: 1,
                ..
            }
        ));
        assert_eq!(Instant::now(), start, "no time passed");
        assert_eq!(log.at(LogLevel::ERROR)[0].fields["attempt_number"], "1");
        assert_eq!(counted.all(), [("folder", "other", 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_serialised_is_reported_and_never_reaches_the_sink() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let sink = Scripted::default();
    let notification = Notification::builder(Method::RESOURCE_UPDATED)
        .params(&Unserialisable)
        .resource(ResourceRef::new(FileResource::Folder, "test://x"))
        .build();
    let session = Session::new("s");
    let outcome = Delivery::new(sink.clone())
        .metrics(metrics)
        .deliver(&session, &notification)
        .await;
    assert!(matches!(
        outcome,
        DeliveryOutcome::Abandoned {
            attempt_number: 1,
            ..
        }
    ));
    assert!(
        !outcome.prunes(),
        "the payload is at fault, not the session"
    );
    assert!(sink.sends().is_empty());
    assert_eq!(counted.all(), [("folder", "serialization", 1)]);
    assert_eq!(log.at(LogLevel::ERROR).len(), 1);
}

/// A stream that reads the outbox itself reports like the loop of a delivery.
#[tokio::test]
async fn what_a_stream_of_ones_own_cannot_write_is_reported_alike() {
    let (log, (counted, metrics)) = (Log::capture(), Counted::new());
    let notification = Notification::builder(Method::RESOURCE_UPDATED)
        .params(&Unserialisable)
        .resource(ResourceRef::new(FileResource::Folder, "test://x"))
        .build();
    let outbox = crate::OutboxConfig::default().metrics(metrics);
    let session = Session::builder().outbox(outbox).build("s");
    let _queued = session.push(notification.clone());
    let _queued = session.push(numbered(1));
    let mut reader = session.outbox().reader();
    let mut batch = reader.next().await.unwrap();
    let error = SendError::from(notification.frame().unwrap_err());
    batch.abandon_failed(&session, &error);
    assert!(
        matches!(batch.front(), Some(OutboxItem::Gap(_))),
        "{batch:?}"
    );
    assert_eq!(counted.all(), [("folder", "serialization", 1)]);
    let records = log.at(LogLevel::ERROR);
    assert_eq!(records.len(), 1);
    let names: Vec<_> = records[0].fields.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["attempt_number", "error_message", "resource_type", "uri"]
    );
    assert_eq!(records[0].fields["attempt_number"], "1");
    // Only the gap is left in its place, which is no failure.
    batch.abandon_failed(&session, &error);
    assert_eq!(log.at(LogLevel::ERROR).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_times_out_after_two_seconds_each_time() {
    let (counted, metrics) = Counted::new();
    let sink = Scripted::default().always("s", Act::Hang);
    let start = Instant::now();
    let outcome = deliver(FileResource::Document, &sink, metrics).await;
    assert!(matches!(
        outcome,
        DeliveryOutcome::Abandoned {
            error: SendError::Deadline(_),
            ..
        }
    ));
    assert_eq!(start.elapsed(), millis(4 * 2000 + 700));
    assert_eq!(counted.all(), [("document", "timeout", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_is_an_error_of_that_send_only() {
    let (counted, metrics) = Counted::new();
    let sink = Scripted::default().then("s", [Act::Panic]);
    let outcome = deliver(FileResource::Document, &sink, metrics.clone()).await;
    assert!(
        matches!(&outcome, DeliveryOutcome::Abandoned { error: SendError::Panicked(text), .. } if text == "the sink broke")
    );
    assert_eq!(counted.all(), [("document", "other", 1)]);
    assert!(
        deliver(FileResource::Document, &sink, metrics)
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
        .deliver(&Session::new("s"), &updated(FileResource::Folder, "u"))
        .await;
    assert!(matches!(
        outcome,
        DeliveryOutcome::Abandoned {
            attempt_number: 1,
            ..
        }
    ));
    assert_eq!(sink.sends().len(), 1);
    assert_eq!(log.at(LogLevel::ERROR).len(), 1);
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
        .deliver(&session, &updated(FileResource::Folder, "u"))
        .await;
    assert!(matches!(
        outcome,
        DeliveryOutcome::Abandoned {
            error: SendError::Full,
            ..
        }
    ));
    assert!(!outcome.prunes());
    assert_eq!(counted.all(), [("folder", "other", 1)]);
}

#[tokio::test]
async fn what_an_outbox_refuses_is_counted_once_whether_or_not_the_outbox_counts() {
    let limits = crate::OutboxLimits {
        messages_max: 1,
        bytes_max: 1,
    };
    for outbox_counts in [false, true] {
        let (counted, metrics) = Counted::new();
        let mut outbox = crate::OutboxConfig::default().limits(limits);
        if outbox_counts {
            outbox = outbox.metrics(metrics.clone());
        }
        let session = Session::builder().outbox(outbox).build("s");
        let delivery = Delivery::new(crate::OutboxSink).metrics(metrics);
        let update = updated(FileResource::Folder, "test://x");
        assert!(matches!(
            delivery.deliver(&session, &update).await,
            DeliveryOutcome::Abandoned {
                error: SendError::Full,
                ..
            }
        ));
        assert_eq!(counted.all(), [("folder", "other", 1)]);
    }
}
