use std::any::TypeId;
use std::io;

use proptest::prelude::*;
use rmcp::ErrorData;
use rmcp::model::ServerNotification as N;
use rmcp::transport::DynamicTransportError;

use super::*;
use crate::metrics::ErrorType;
use crate::{Level, ListKind, LogMessage, ProgressToken, ResourceUpdated};

fn class(error: impl Into<crate::BoxError>) -> (ErrorType, bool, bool) {
    let class = SendError::classify(error).class();
    (class.error_type, class.retryable, class.prunes)
}

#[test]
fn rmcps_errors_are_sorted_by_what_they_are() {
    let write_failed = |error: io::Error| {
        ServiceError::TransportSend(DynamicTransportError::from_parts(
            "pipe",
            TypeId::of::<()>(),
            Box::new(error),
        ))
    };
    let network = (ErrorType::Network, true, true);
    let closed = (ErrorType::Network, false, true);
    let other = (ErrorType::Other, false, false);
    assert_eq!(
        class(write_failed(io::ErrorKind::BrokenPipe.into())),
        network
    );
    assert_eq!(class(write_failed(io::Error::other("strange"))), other);
    assert_eq!(class(ServiceError::TransportClosed), closed);
    assert_eq!(class(SubscriptionSendError::SubscriptionClosed), closed);
    assert_eq!(
        class(SubscriptionSendError::Service(write_failed(
            io::ErrorKind::ConnectionReset.into()
        ))),
        network
    );
    assert_eq!(
        class(ServiceError::Timeout {
            timeout: Duration::from_secs(1)
        }),
        (ErrorType::Timeout, true, true)
    );
    assert_eq!(class(ServiceError::Cancelled { reason: None }), other);
    assert_eq!(
        class(ServiceError::McpError(ErrorData::invalid_params(
            "no", None
        ))),
        other
    );
    assert_eq!(class(ServiceError::UnexpectedResponse), other);
    let refused = SendError::classify(SubscriptionSendError::NotificationNotAccepted("x"));
    assert!(matches!(refused, SendError::InvalidParams(_)));
}

#[test]
fn every_kind_of_notification_becomes_rmcps_own_and_keeps_its_meaning() {
    let meta = serde_json::json!({"io.example/seq": 7});
    let check = |notification: &Notification, kind: fn(&ServerNotification) -> bool| {
        let frame = notification.frame().unwrap();
        let message: ServerNotification = serde_json::from_slice(frame).unwrap();
        assert!(kind(&message), "{message:?}");
        let ours: serde_json::Value = serde_json::from_slice(frame).unwrap();
        let sent = serde_json::to_value(with_params(message)).unwrap();
        assert_eq!(ours["method"], sent["method"]);
        assert_eq!(ours["params"], sent["params"], "empty ones too");
    };
    check(
        &ResourceUpdated::new("test://x")
            .meta(&meta)
            .to_notification(),
        |n| matches!(n, N::ResourceUpdatedNotification(_)),
    );
    check(&Notification::list_changed(ListKind::Tools), |n| {
        matches!(n, N::ToolListChangedNotification(_))
    });
    check(&Notification::list_changed(ListKind::Prompts), |n| {
        matches!(n, N::PromptListChangedNotification(_))
    });
    check(&Notification::list_changed(ListKind::Resources), |n| {
        matches!(n, N::ResourceListChangedNotification(_))
    });
    check(
        &LogMessage::new(Level::Alert, &meta)
            .logger("x")
            .into_notification(),
        |n| matches!(n, N::LoggingMessageNotification(_)),
    );
    let token = ProgressToken::Number(3);
    check(
        &Notification::progress(&token, 0.5, Some(1.0), Some("half")),
        |n| matches!(n, N::ProgressNotification(_)),
    );
    check(&crate::testing::numbered(1), |n| {
        matches!(n, N::CustomNotification(_))
    });
}

/// A target that sends when it is let, and counts.
#[derive(Clone, Default)]
struct Gate {
    started: std::sync::Arc<parking_lot::Mutex<Vec<String>>>,
    open: std::sync::Arc<tokio::sync::Notify>,
}

impl Target for Gate {
    fn start(&self, notification: ServerNotification) -> Sending {
        let text = serde_json::to_string(&notification).unwrap();
        self.started.lock().push(text);
        let open = std::sync::Arc::clone(&self.open);
        Box::pin(async move {
            open.notified().await;
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_send_that_is_under_way_and_makes_no_second_one() {
    let gate = Gate::default();
    let one = SerialSender::new(gate.clone());
    let notification = crate::testing::numbered(1);
    assert!(matches!(
        one.send(&notification).await,
        Err(SendError::Deadline(_))
    ));
    gate.open.notify_one();
    assert!(one.send(&notification).await.is_ok());
    assert_eq!(gate.started.lock().len(), 1);
    gate.open.notify_one();
    assert!(one.send(&notification).await.is_ok());
    assert_eq!(
        gate.started.lock().len(),
        2,
        "once it is done, the same one may be sent again"
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_goes_after_the_one_under_way() {
    let gate = Gate::default();
    let one = SerialSender::new(gate.clone());
    let (first, second) = (crate::testing::numbered(1), crate::testing::numbered(2));
    assert!(one.send(&first).await.is_err());
    assert!(one.send(&second).await.is_err());
    assert_eq!(gate.started.lock().len(), 1, "the second has not begun");
    gate.open.notify_one();
    gate.open.notify_one();
    let (sent, ()) = tokio::join!(one.send(&second), async {
        tokio::task::yield_now().await;
        gate.open.notify_one();
    });
    assert!(sent.is_ok());
    assert_eq!(gate.started.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_another_saw_end_is_not_made_again() {
    let gate = Gate::default();
    let one = SerialSender::new(gate.clone());
    let (first, second) = (crate::testing::numbered(1), crate::testing::numbered(2));
    assert!(one.send(&first).await.is_err());
    gate.open.notify_one();
    let (sent, ()) = tokio::join!(one.send(&second), async {
        tokio::task::yield_now().await;
        gate.open.notify_one();
    });
    assert!(sent.is_ok());
    assert!(
        one.send(&first).await.is_ok(),
        "the retry hears how it ended"
    );
    assert_eq!(gate.started.lock().len(), 2, "one send of each");
    gate.open.notify_one();
    assert!(one.send(&first).await.is_ok());
    assert_eq!(gate.started.lock().len(), 3, "a result is given once");
}

#[tokio::test(start_paused = true)]
async fn a_send_long_after_is_another_one() {
    let gate = Gate::default();
    let one = SerialSender::new(gate.clone());
    let (first, second) = (crate::testing::numbered(1), crate::testing::numbered(2));
    assert!(one.send(&first).await.is_err());
    gate.open.notify_one();
    assert!(one.send(&second).await.is_err());
    gate.open.notify_one();
    assert!(one.send(&second).await.is_ok());
    tokio::time::sleep(Duration::from_secs(10)).await;
    gate.open.notify_one();
    assert!(one.send(&first).await.is_ok());
    assert_eq!(gate.started.lock().len(), 3);
}

proptest! {
    #[test]
    fn any_text_survives_the_way_through_rmcps_types(text in any::<String>(), number in any::<i32>()) {
        let data = serde_json::json!({"text": text, "number": number});
        let notification = LogMessage::new(Level::Info, &data).into_notification();
        let message: ServerNotification =
            serde_json::from_slice(notification.frame().unwrap()).unwrap();
        let theirs = serde_json::to_value(&message).unwrap();
        prop_assert_eq!(&theirs["params"]["data"], &data);
    }
}
