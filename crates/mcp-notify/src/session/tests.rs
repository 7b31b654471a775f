use std::sync::atomic::AtomicUsize;

use super::*;
use crate::testing::numbered;
use crate::{ContentHash, DefaultSink, ResourceSubscriptions};
use crate::{Delivery, Level, ListChangedTracker, ListKind, LoggingService, ObserverRegistry};

#[test]
fn hooks_run_exactly_once_whatever_ends_the_session() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let session = |ran: &Arc<Mutex<Vec<CloseReason>>>| {
        let (session, ran) = (Session::new("s"), Arc::clone(ran));
        session.on_close(move |reason| ran.lock().push(reason));
        session
    };
    let closed = session(&ran);
    closed.close(CloseReason::Down);
    closed.close(CloseReason::Requested);
    drop(closed);
    let dropped = session(&ran);
    drop(dropped.clone());
    assert_eq!(ran.lock().len(), 1, "one handle is left");
    drop(dropped);
    assert_eq!(*ran.lock(), [CloseReason::Down, CloseReason::Dropped]);
}

#[test]
fn a_hook_that_comes_too_late_runs_at_once_and_one_that_panics_harms_no_other() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |ran: &Arc<AtomicUsize>| {
        let ran = Arc::clone(ran);
        move |_| {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    };
    let session = Session::new("s");
    session.on_close(count(&ran));
    session.on_close(|_| panic!("a broken hook"));
    session.on_close(count(&ran));
    session.close(CloseReason::Requested);
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    session.on_close(count(&ran));
    assert_eq!(ran.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_closed_session_sends_nothing_and_says_so() {
    let session = Session::new("s");
    session.close(CloseReason::Requested);
    session.closed().await;
    assert!(matches!(
        session.send(&numbered(1)).await,
        Err(SendError::Closed)
    ));
    assert_eq!(session.push(numbered(1)), PushOutcome::Closed);
    assert!(session.downgrade().upgrade().is_none());
}

#[tokio::test]
async fn a_session_sends_over_its_channel_and_without_one_to_its_outbox() {
    struct Refuses;
    impl SessionChannel for Refuses {
        fn send<'a>(&'a self, _: &'a Notification) -> SendFuture<'a> {
            Box::pin(async { Err(SendError::InvalidParams("no".into())) })
        }
    }
    let with = Session::builder().channel(Refuses).build("with");
    assert!(matches!(
        with.send(&numbered(1)).await,
        Err(SendError::InvalidParams(_))
    ));
    assert_eq!(with.outbox().stats().pushed, 0);
    let without = Session::new("without");
    assert!(without.send(&numbered(1)).await.is_ok());
    assert_eq!(without.outbox().stats().pending, 1);
}

#[test]
fn an_unowned_handle_does_not_keep_a_session_alive() {
    let session = Session::new("s");
    let unowned = session.unowned();
    let weak = session.downgrade();
    assert!(weak.upgrade().is_some());
    drop(session);
    assert!(unowned.is_closed());
    assert!(weak.upgrade().is_none());
}

#[test]
fn connecting_and_dropping_10_000_sessions_leaves_nothing_behind() {
    let observers = ObserverRegistry::new(DefaultSink);
    let logging = LoggingService::new(Delivery::default());
    let tracker = ListChangedTracker::new(ProtocolVersion::V_2025_11_25);
    tracker.update(ListKind::Tools, ContentHash::from("abc"));
    let subscriptions = ResourceSubscriptions::default();
    let mut weak = Vec::new();
    for n in 0..10_000 {
        let session = Session::new(n.to_string());
        observers.remember(&session);
        logging.set_level(&session, Level::Info);
        assert_eq!(tracker.due(&session).len(), 1);
        assert!(
            subscriptions
                .subscribe(&session, &format!("test://{n}"))
                .unwrap()
        );
        let _ = session.push(numbered(n));
        weak.push(session.downgrade());
        if n % 2 == 0 {
            session.close(CloseReason::Requested);
        }
    }
    assert!(
        weak.iter().all(|weak| weak.core.strong_count() == 0),
        "no session is kept"
    );
    assert!(observers.is_empty() && logging.is_empty());
    assert!(tracker.is_empty() && subscriptions.is_empty());
}

#[test]
fn pruning_ends_what_makes_a_target_and_keeps_what_belongs_to_the_session() {
    let observers = ObserverRegistry::new(DefaultSink);
    let logging = LoggingService::new(Delivery::default());
    let subscriptions = ResourceSubscriptions::default();
    let tracker = ListChangedTracker::new(ProtocolVersion::V_2025_11_25);
    tracker.update(ListKind::Tools, ContentHash::from("abc"));
    let requests = crate::InFlightRequests::new();
    let session = Session::new("s");
    observers.remember(&session);
    logging.set_level(&session, Level::Info);
    subscriptions.subscribe(&session, "test://x").unwrap();
    assert_eq!(tracker.due(&session).len(), 1);
    let request = requests.begin(&session, crate::RequestId::Number(1), "tools/call");
    session.prune();
    assert!(observers.is_empty() && logging.is_empty() && subscriptions.is_empty());
    assert_eq!(session.log_level(), None);
    assert!(!request.is_cancelled(), "its requests go on");
    assert!(tracker.due(&session).is_empty(), "notified state is kept");
    assert!(observers.remember(&session), "it may join again");
    session.close(CloseReason::Requested);
    assert!(request.is_cancelled() && tracker.is_empty() && observers.is_empty());
}

#[test]
fn ten_thousand_sessions_at_once_leave_no_memory_in_the_registries() {
    let observers = ObserverRegistry::new(DefaultSink);
    let logging = LoggingService::new(Delivery::default());
    let subscriptions = ResourceSubscriptions::default();
    let tracker = ListChangedTracker::new(ProtocolVersion::V_2025_11_25);
    tracker.update(ListKind::Tools, ContentHash::from("abc"));
    let mut sessions: Vec<_> = (0..10_000).map(|n| Session::new(n.to_string())).collect();
    for (n, session) in sessions.iter().enumerate() {
        observers.remember(session);
        logging.set_level(session, Level::Info);
        assert_eq!(tracker.due(session).len(), 1);
        assert!(subscriptions.subscribe(session, "test://shared").unwrap());
        assert!(
            subscriptions
                .subscribe(session, &format!("test://{n}"))
                .unwrap()
        );
    }
    let capacity = || {
        observers.capacity() + logging.capacity() + tracker.capacity() + subscriptions.capacity()
    };
    assert!(capacity() > 40_000);
    sessions.clear();
    assert!(capacity() < 1000, "{} entries are still held", capacity());
}

#[test]
fn joining_again_and_again_does_not_grow_a_session() {
    let observers = ObserverRegistry::new(DefaultSink);
    let session = Session::new("s");
    for _ in 0..1000 {
        observers.remember(&session);
        observers.clear();
        ObserverRegistry::new(DefaultSink).remember(&session);
    }
    assert!(session.core.teardown.lock().registries() <= 2);
}

#[test]
fn a_weak_handle_made_inside_of_a_hook_finds_the_session_while_it_lives() {
    let session = Session::new("s");
    let weak = session.unowned().downgrade();
    assert!(weak.upgrade().is_some_and(|found| found.same(&session)));
    let again = weak.upgrade_unowned().unwrap().downgrade();
    assert!(again.upgrade().is_some());
    drop(session);
    assert!(weak.upgrade().is_none() && again.upgrade().is_none());
}
