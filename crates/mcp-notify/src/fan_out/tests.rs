use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::list_changed::ListKind;
use crate::{
    Level, LogMessage, LoggingService, NotificationSink, ObserverRegistry, ResourceSubscriptions,
    ResourceUpdated, SendFuture,
};

/// Uses every registry while one of them sends through it.
#[derive(Clone, Default)]
struct Reentrant(Arc<OnceLock<(ObserverRegistry, LoggingService, ResourceSubscriptions)>>);

impl NotificationSink for Reentrant {
    fn send<'a>(&'a self, session: &'a Session, _: &'a Notification) -> SendFuture<'a> {
        Box::pin(async move {
            let (observers, logging, subscriptions) = self.0.get().expect("it was wired");
            observers.remember(session);
            logging.set_level(session, Level::Debug);
            let _ = subscriptions.subscribe(session, "test://another");
            tokio::task::yield_now().await;
            observers.forget(session);
            subscriptions.prune(session);
            Ok(())
        })
    }
}

/// Sends through each registry once; returns how many were delivered.
async fn send_through_each() -> [usize; 3] {
    let sink = Reentrant::default();
    let delivery = Delivery::new(sink.clone());
    let observers = ObserverRegistry::new(sink.clone());
    let logging = LoggingService::new(delivery.clone());
    let subscriptions = ResourceSubscriptions::default();
    let wired = sink
        .0
        .set((observers.clone(), logging.clone(), subscriptions.clone()));
    assert!(wired.is_ok());
    let session = Session::new("s");
    observers.remember(&session);
    logging.set_level(&session, Level::Info);
    subscriptions.subscribe(&session, "test://x").unwrap();
    let updated = subscriptions
        .notify(&delivery, &ResourceUpdated::new("test://x"))
        .await;
    let logged = logging.log(LogMessage::new(Level::Info, &json!("x"))).await;
    observers.remember(&session);
    let listed = observers
        .broadcast(&Notification::list_changed(ListKind::Tools))
        .await;
    [updated, logged, listed].map(|broadcast| broadcast.delivered())
}

#[test]
fn no_registry_is_locked_while_it_sends() {
    let (done, outcome) = std::sync::mpsc::channel();
    // On a thread of its own: a lock that is held while sending would be a deadlock.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _ = done.send(runtime.block_on(send_through_each()));
    });
    assert_eq!(outcome.recv_timeout(Duration::from_secs(30)), Ok([1, 1, 1]));
}

#[tokio::test]
async fn a_hook_hears_every_outcome_whichever_way_it_was_had() {
    let outcomes = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let recorded = Arc::clone(&outcomes);
    let delivery = Delivery::new(crate::OutboxSink).on_outcome(move |session, _, outcome| {
        recorded
            .lock()
            .push((session.name().to_owned(), outcome.is_delivered()));
    });
    let (open, closed) = (Session::new("open"), Session::new("closed"));
    closed.close(crate::CloseReason::Requested);
    let notification = Notification::list_changed(ListKind::Tools);
    for session in [&open, &closed] {
        let _ = delivery.deliver(session, &notification).await;
        let _ = fan_out(&delivery, vec![session.clone()], &notification).await;
    }
    let expected = [
        ("open", true),
        ("open", true),
        ("closed", false),
        ("closed", false),
    ];
    assert_eq!(
        *outcomes.lock(),
        expected.map(|(name, delivered)| (name.to_owned(), delivered))
    );
}

/// Fails, with and without waiting, and counts.
#[derive(Clone, Default)]
struct Down(Arc<std::sync::atomic::AtomicUsize>);

impl Down {
    fn fail(&self) -> Result<(), crate::SendError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Err(crate::SendError::network("down"))
    }
}

impl NotificationSink for Down {
    fn send<'a>(&'a self, _: &'a Session, _: &'a Notification) -> SendFuture<'a> {
        Box::pin(std::future::ready(self.fail()))
    }

    fn try_send(&self, _: &Session, _: &Notification) -> Option<Result<(), crate::SendError>> {
        Some(self.fail())
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_without_waiting_is_the_first_of_four_sends() {
    for (policy, sends) in [
        (crate::RetryPolicy::default(), 4),
        (crate::RetryPolicy::none(), 1),
    ] {
        let down = Down::default();
        let delivery = Delivery::new(down.clone()).retry(policy);
        let session = Session::new("s");
        let notification = Notification::list_changed(ListKind::Tools);
        let broadcast = fan_out(&delivery, vec![session.clone()], &notification).await;
        assert!(matches!(
            broadcast.outcome(&session),
            Some(DeliveryOutcome::Abandoned { .. })
        ));
        assert_eq!(down.0.load(std::sync::atomic::Ordering::Relaxed), sends);
    }
}

#[tokio::test]
async fn sessions_with_one_id_have_their_own_outcomes() {
    let (open, closed) = (Session::new("same"), Session::new("same"));
    closed.close(crate::CloseReason::Requested);
    let notification = Notification::list_changed(ListKind::Tools);
    let delivery = Delivery::new(crate::OutboxSink);
    let targets = vec![open.clone(), closed.clone()];
    let broadcast = fan_out(&delivery, targets, &notification).await;
    assert!(
        broadcast
            .outcome(&open)
            .is_some_and(DeliveryOutcome::is_delivered)
    );
    assert!(matches!(
        broadcast.outcome(&closed),
        Some(DeliveryOutcome::SessionEnded)
    ));
    assert!(broadcast.outcome(&Session::new("same")).is_none());
}

#[tokio::test]
async fn a_hook_that_panics_costs_nobody_the_notification() {
    let delivery = Delivery::new(crate::OutboxSink).on_outcome(|_, _, _| panic!("the hook broke"));
    let sessions = [Session::new("a"), Session::new("b")];
    let notification = Notification::list_changed(ListKind::Tools);
    let broadcast = fan_out(&delivery, sessions.to_vec(), &notification).await;
    assert_eq!(broadcast.delivered(), 2);
    assert!(
        delivery
            .deliver(&sessions[0], &notification)
            .await
            .is_delivered()
    );
}

#[tokio::test]
async fn there_is_one_outcome_per_session_and_one_send_for_each() {
    for count in [10, 100, 1000] {
        let sessions: Vec<_> = (0..count).map(|n| Session::new(n.to_string())).collect();
        let registry = ObserverRegistry::new(crate::OutboxSink);
        for session in &sessions {
            registry.remember(session);
        }
        let broadcast = registry
            .broadcast(&Notification::list_changed(ListKind::Tools))
            .await;
        assert_eq!(
            (broadcast.delivered(), broadcast.outcomes().len()),
            (count, count)
        );
        for session in &sessions {
            assert!(
                broadcast
                    .outcome(session)
                    .is_some_and(DeliveryOutcome::is_delivered)
            );
            assert_eq!(session.outbox().stats().pushed, 1);
        }
    }
}
