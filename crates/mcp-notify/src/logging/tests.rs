use serde_json::{Value, json};

use super::*;
use crate::session::CloseReason;
use crate::sink::{OutboxSink, SendError};
use crate::testing::{Act, Scripted};

fn service(sink: &Scripted) -> LoggingService {
    LoggingService::new(Delivery::new(sink.clone()))
}

#[test]
fn levels_are_eight_in_order_and_have_the_protocols_names() {
    let names = Level::ALL.map(Level::as_str);
    let expected = [
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    ];
    assert_eq!(names, expected);
    assert!(Level::ALL.is_sorted());
    for level in Level::ALL {
        assert_eq!(level.as_str().parse(), Ok(level));
        assert_eq!(serde_json::to_value(level).unwrap(), json!(level.as_str()));
        assert_eq!(Level::from_number(level.number()), Some(level));
    }
}

#[test]
fn an_unknown_level_is_invalid_params() {
    for text in ["", "warn", "INFO", "verbose", "info "] {
        assert_eq!(text.parse::<Level>(), Err(UnknownLevel(text.to_owned())));
    }
    assert_eq!(UnknownLevel::CODE, -32602);
}

#[tokio::test]
async fn a_message_reaches_exactly_the_sessions_whose_threshold_admits_it() {
    for threshold in Level::ALL {
        for level in Level::ALL {
            let sink = Scripted::default();
            let service = service(&sink);
            let session = Session::new("s");
            service.set_level(&session, threshold);
            let sent = service.log(LogMessage::new(level, &"x")).await.delivered();
            assert_eq!(
                sent == 1,
                level >= threshold,
                "{level} at threshold {threshold}"
            );
            assert_eq!(sink.sends().len(), sent);
        }
    }
}

#[tokio::test]
async fn nothing_is_sent_before_a_level_is_set_and_each_session_has_its_own() {
    let sink = Scripted::default();
    let service = service(&sink);
    let (none, low, high) = (
        Session::new("none"),
        Session::new("low"),
        Session::new("high"),
    );
    assert!(
        service
            .log(LogMessage::new(Level::Emergency, &"x"))
            .await
            .outcomes()
            .is_empty()
    );
    service.set_level(&low, Level::Debug);
    service.set_level(&high, Level::Error);
    let _ = service.log(LogMessage::new(Level::Info, &"x")).await;
    assert_eq!(sink.accepted("low").len(), 1);
    assert!(sink.accepted("high").is_empty() && sink.accepted("none").is_empty());
    assert_eq!(
        (none.log_level(), low.log_level()),
        (None, Some(Level::Debug))
    );
    service.set_level(&high, Level::Info);
    let _ = service.log(LogMessage::new(Level::Info, &"x")).await;
    assert_eq!(sink.accepted("high").len(), 1);
}

#[tokio::test]
async fn a_message_carries_level_data_and_a_logger_if_there_is_one() {
    let sink = Scripted::default();
    let service = service(&sink);
    let session = Session::new("s");
    service.set_level(&session, Level::Debug);
    let data = json!({"a": [1]});
    let _ = service
        .log(LogMessage::new(Level::Notice, &data).logger("db"))
        .await;
    let _ = service.log(LogMessage::new(Level::Alert, &data)).await;
    let params: Vec<Value> = sink
        .accepted("s")
        .iter()
        .map(|frame| serde_json::from_str::<Value>(frame).unwrap()["params"].take())
        .collect();
    assert_eq!(
        params[0],
        json!({"level": "notice", "logger": "db", "data": {"a": [1]}})
    );
    assert_eq!(params[1], json!({"level": "alert", "data": {"a": [1]}}));
}

#[tokio::test]
async fn a_session_that_fails_is_removed_after_the_broadcast_and_may_come_back() {
    let sink = Scripted::default().then("gone", [Act::Fail(SendError::Closed)]);
    let service = service(&sink);
    let (fine, gone) = (Session::new("fine"), Session::new("gone"));
    for session in [&fine, &gone] {
        service.set_level(session, Level::Debug);
    }
    let broadcast = service.log(LogMessage::new(Level::Info, &"x")).await;
    assert_eq!((broadcast.delivered(), service.len()), (1, 1));
    assert_eq!((service.level(&gone), gone.log_level()), (None, None));
    assert!(service.set_level(&gone, Level::Info));
    assert_eq!(service.len(), 2);
}

#[tokio::test]
async fn publishing_waits_for_nobody_and_skips_the_closed() {
    let service = LoggingService::new(Delivery::new(OutboxSink));
    let sessions: Vec<_> = (0..3).map(|n| Session::new(n.to_string())).collect();
    for session in &sessions {
        service.set_level(session, Level::Info);
    }
    sessions[0].close(CloseReason::Requested);
    assert!(
        !service.set_level(&sessions[0], Level::Info),
        "it has ended"
    );
    assert_eq!(service.publish(LogMessage::new(Level::Info, &"x")), 2);
    assert_eq!(service.publish(LogMessage::new(Level::Debug, &"x")), 0);
    assert!(service.publish_to(&sessions[1], LogMessage::new(Level::Info, &"x")));
    assert!(!service.publish_to(&sessions[1], LogMessage::new(Level::Debug, &"x")));
    assert_eq!(
        sessions[1].outbox().stats().pushed,
        2,
        "messages are never merged"
    );
}
