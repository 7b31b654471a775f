use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};
use tracing::Level as LogLevel;

use super::*;
use crate::delivery::{DeliveryOutcome, SEND_DEADLINE};
use crate::list_changed::ListKind;
use crate::session::CloseReason;
use crate::sink::{OutboxSink, SendError, SendFuture};
use crate::testing::{Act, Log, Scripted, millis};
use crate::with_session;

fn sessions(names: &[&str]) -> Vec<Session> {
    names.iter().map(|name| Session::new(*name)).collect()
}

fn registry(sink: &Scripted, sessions: &[Session]) -> ObserverRegistry {
    let registry = ObserverRegistry::new(sink.clone());
    for session in sessions {
        assert!(registry.remember(session));
    }
    registry
}

fn changed() -> Notification {
    Notification::list_changed(ListKind::Tools)
}

fn reset() -> SendError {
    SendError::classify(io::Error::from(io::ErrorKind::ConnectionReset))
}

#[tokio::test]
async fn a_broadcast_without_observers_returns_at_once_and_calls_no_sink() {
    let sink = Scripted::default();
    let broadcast = registry(&sink, &[]).broadcast(&changed()).await;
    assert!(broadcast.outcomes().is_empty() && sink.sends().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_failing_session_does_not_stop_the_others_and_leaves_after_the_broadcast() {
    let log = Log::capture();
    let all = sessions(&["a", "b", "c"]);
    let sink = Scripted::default().always("b", Act::Fail(reset()));
    let registry = registry(&sink, &all);
    let broadcast = registry.broadcast(&changed()).await;
    assert_eq!(broadcast.delivered(), 2);
    assert!(matches!(
        broadcast.outcome(&all[1]),
        Some(DeliveryOutcome::Abandoned { .. })
    ));
    assert_eq!((sink.accepted("a").len(), sink.accepted("c").len()), (1, 1));
    assert_eq!(registry.len(), 2);
    assert!(!registry.forget(&all[1]), "it is gone");
    let warnings = log.at(LogLevel::WARN);
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].fields["session"], "b");
    assert!(warnings[0].fields["error_message"].contains("connection reset"));
    assert!(log.at(LogLevel::ERROR).is_empty());
}

#[tokio::test]
async fn a_broadcast_may_go_to_those_for_whom_it_is_due() {
    let all = sessions(&["a", "b", "c"]);
    let sink = Scripted::default();
    let registry = registry(&sink, &all);
    // Asked right before the send: what was sent so far was asked for, and no more.
    let asked = AtomicUsize::new(0);
    let is_due = |session: &Session| {
        let before = sink.sends().len();
        assert!(before <= asked.fetch_add(1, Ordering::Relaxed));
        !session.same(&all[1])
    };
    let broadcast = registry.broadcast_if(&changed(), is_due).await;
    assert_eq!((broadcast.delivered(), asked.into_inner()), (2, 3));
    assert!(broadcast.outcome(&all[1]).is_none());
    assert!(sink.accepted("b").is_empty());
    assert_eq!(registry.len(), 3, "it stays");
}

#[tokio::test(start_paused = true)]
async fn the_stale_are_removed_only_when_every_outcome_is_known() {
    let all = sessions(&["quick", "slow"]);
    let sink = Scripted::default()
        .always("quick", Act::Fail(SendError::Closed))
        .then("slow", [Act::Hang, Act::Accept]);
    let registry = registry(&sink, &all);
    let notification = changed();
    let broadcast = registry.broadcast(&notification);
    let look = async {
        tokio::time::sleep(millis(500)).await;
        registry.len()
    };
    let (_, during) = tokio::join!(broadcast, look);
    assert_eq!((during, registry.len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_payload_at_fault_removes_nobody() {
    let all = sessions(&["a"]);
    let sink = Scripted::default().always("a", Act::Fail(SendError::InvalidParams("no".into())));
    let registry = registry(&sink, &all);
    let _ = registry.broadcast(&changed()).await;
    assert_eq!(registry.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_hangs_panics_or_closes_in_the_middle_does_not_touch_the_others() {
    let all = sessions(&["hangs", "panics", "closes", "fine"]);
    let sink = Scripted::default()
        .always("hangs", Act::Hang)
        .always("panics", Act::Panic)
        .always("closes", Act::Close);
    let registry = registry(&sink, &all);
    let start = Instant::now();
    let broadcast = registry.broadcast(&changed()).await;
    assert_eq!(
        start.elapsed(),
        4 * SEND_DEADLINE + millis(700),
        "the retries of the hanging one"
    );
    assert!(broadcast.outcome(&all[3]).unwrap().is_delivered());
    let fine = sink
        .sends()
        .into_iter()
        .find(|sent| sent.session == "fine")
        .unwrap();
    assert_eq!(fine.at, start, "nobody waited for anybody else");
    assert!(matches!(
        broadcast.outcome(&all[1]),
        Some(DeliveryOutcome::Abandoned {
            error: SendError::Panicked(_),
            ..
        })
    ));
    assert!(matches!(
        broadcast.outcome(&all[2]),
        Some(DeliveryOutcome::SessionEnded)
    ));
    assert_eq!(registry.len(), 2, "the panicking and the fine one stay");
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_goes_to_those_who_were_there_when_it_began() {
    let all = sessions(&["a", "late", "gone"]);
    let sink = Scripted::default().then("a", [Act::Fail(reset())]);
    let registry = registry(&sink, &[all[0].clone(), all[2].clone()]);
    let notification = changed();
    let meanwhile = async {
        tokio::time::sleep(millis(50)).await;
        registry.remember(&all[1]);
        registry.forget(&all[2]);
    };
    let (broadcast, ()) = tokio::join!(registry.broadcast(&notification), meanwhile);
    assert_eq!(broadcast.delivered(), 2);
    assert!(sink.accepted("late").is_empty());
    assert_eq!(sink.accepted("gone").len(), 1);
    assert_eq!(registry.len(), 2);
}

#[tokio::test]
async fn a_long_broadcast_lets_other_tasks_run() {
    let all: Vec<_> = (0..1000).map(|n| Session::new(n.to_string())).collect();
    let registry = ObserverRegistry::new(OutboxSink);
    for session in &all {
        assert!(registry.remember(session));
    }
    let ticks = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let ticking = Arc::clone(&ticks);
    tasks.spawn(async move {
        loop {
            ticking.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let notification = changed();
    let mut broadcasts = JoinSet::new();
    let registry_in_task = registry.clone();
    broadcasts.spawn(async move { registry_in_task.broadcast(&notification).await.delivered() });
    assert_eq!(broadcasts.join_next().await.unwrap().unwrap(), 1000);
    assert!(
        ticks.load(Ordering::Relaxed) >= 5,
        "only {} ticks",
        ticks.load(Ordering::Relaxed)
    );
}

#[tokio::test]
async fn remembering_the_current_session_works_in_a_request_and_does_nothing_outside() {
    let registry = ObserverRegistry::new(OutboxSink);
    registry.remember_current_session();
    assert!(registry.is_empty());
    let session = Session::new("a");
    with_session(session.clone(), async {
        registry.remember_current_session();
    })
    .await;
    assert_eq!(registry.broadcast(&changed()).await.delivered(), 1);
    assert_eq!(session.outbox().stats().pending, 1);
}

#[tokio::test]
async fn the_policy_decides_when_a_session_joins() {
    let check = async |policy, expected: [usize; 3]| {
        let registry = ObserverRegistry::with_delivery(Delivery::new(OutboxSink), policy);
        let session = Session::new("a");
        registry.initialized(&session);
        let initialized = registry.len();
        registry.clear();
        with_session(session.clone(), async {
            registry.remember_current_session();
        })
        .await;
        let listed = registry.len();
        registry.clear();
        registry.remember(&session);
        assert_eq!(
            [initialized, listed, registry.len()],
            expected,
            "{policy:?}"
        );
    };
    check(JoinPolicy::OnList, [0, 1, 1]).await;
    check(JoinPolicy::OnInitialized, [1, 0, 1]).await;
    check(JoinPolicy::OptIn, [0, 0, 1]).await;
    assert_eq!(JoinPolicy::default(), JoinPolicy::OnList);
}

#[test]
fn a_session_that_ends_vanishes_without_being_forgotten_and_clear_empties_all() {
    let registry = ObserverRegistry::new(OutboxSink);
    let (a, b) = (Session::new("a"), Session::new("b"));
    assert!(registry.remember(&a) && registry.remember(&b));
    assert!(!registry.remember(&a), "it was there");
    drop(a);
    assert_eq!(registry.len(), 1);
    registry.clear();
    assert!(registry.is_empty());
    b.close(CloseReason::Requested);
    assert!(
        !registry.remember(&b) && registry.is_empty(),
        "it has ended"
    );
}

#[tokio::test]
async fn two_transports_get_the_same_bytes() {
    struct Memory(Mutex<Vec<u8>>);
    impl NotificationSink for Memory {
        fn send<'a>(&'a self, _: &'a Session, n: &'a Notification) -> SendFuture<'a> {
            Box::pin(async move {
                self.0.lock().extend_from_slice(n.frame()?);
                Ok(())
            })
        }
    }
    let session = Session::new("a");
    let memory = Arc::new(Memory(Mutex::default()));
    for registry in [
        ObserverRegistry::new(Arc::clone(&memory)),
        ObserverRegistry::new(OutboxSink),
    ] {
        registry.remember(&session);
        assert_eq!(registry.broadcast(&changed()).await.delivered(), 1);
    }
    let mut batch = session.outbox().reader().next().await.unwrap();
    let Some(crate::OutboxItem::Notification(queued)) = batch.deliver() else {
        panic!("one waits")
    };
    assert_eq!(&memory.0.lock()[..], &queued.frame().unwrap()[..]);
}

#[tokio::test(start_paused = true)]
async fn two_changes_make_two_notifications_however_close_they_are() {
    let all = sessions(&["a"]);
    let sink = Scripted::default();
    let registry = registry(&sink, &all);
    for _ in 0..2 {
        let _ = registry.broadcast(&changed()).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(sink.accepted("a").len(), 2);
}

/// Sends without waiting; the result depends on the number of the call.
struct Immediate(AtomicUsize);

impl NotificationSink for Immediate {
    fn send<'a>(&'a self, _: &'a Session, _: &'a Notification) -> SendFuture<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_send(&self, session: &Session, _: &Notification) -> Option<Result<(), SendError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match session.name() {
            "panics" => panic!("the sink broke"),
            "retryable" => Some(Err(reset())),
            "refused" => Some(Err(SendError::InvalidParams("no".into()))),
            "later" => None,
            _ => Some(Ok(())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_never_waits_is_held_to_the_same_rules() {
    let all = sessions(&["fine", "panics", "retryable", "refused", "later"]);
    let sink = Arc::new(Immediate(AtomicUsize::new(0)));
    let registry = ObserverRegistry::new(Arc::clone(&sink));
    for session in &all {
        registry.remember(session);
    }
    let broadcast = registry.broadcast(&changed()).await;
    assert_eq!(sink.0.load(Ordering::Relaxed), 5);
    for (session, delivered) in all.iter().zip([true, false, true, false, true]) {
        let outcome = broadcast.outcome(session).unwrap();
        assert_eq!(
            outcome.is_delivered(),
            delivered,
            "{} {outcome:?}",
            session.name()
        );
    }
    assert_eq!(registry.len(), 5, "no connection failed for good");
}
