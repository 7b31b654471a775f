use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::list_changed::Registry;
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
        .broadcast(&Notification::list_changed(Registry::Tools))
        .await;
    [updated, logged, listed].map(|broadcast| broadcast.delivered())
}

#[test]
fn no_registry_is_locked_while_it_sends() {
    let (done, outcome) = std::sync::mpsc::channel();
    // On a thread of its own: a lock that is held here would never come back.
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
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    let delivery = Delivery::new(crate::OutboxSink).on_outcome(move |session, _, outcome| {
        hearing
            .lock()
            .push((session.name().to_owned(), outcome.is_delivered()));
    });
    let (open, closed) = (Session::new("open"), Session::new("closed"));
    closed.close(crate::CloseReason::Requested);
    let notification = Notification::list_changed(Registry::Tools);
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
        *heard.lock(),
        expected.map(|(name, delivered)| (name.to_owned(), delivered))
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
            .broadcast(&Notification::list_changed(Registry::Tools))
            .await;
        assert_eq!(
            (broadcast.delivered(), broadcast.outcomes().len()),
            (count, count)
        );
        for session in &sessions {
            assert!(
                broadcast
                    .outcome(session)
                    .is_some_and(Outcome::is_delivered)
            );
            assert_eq!(session.outbox().stats().pushed, 1);
        }
    }
}
