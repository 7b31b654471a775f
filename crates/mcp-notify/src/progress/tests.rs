use proptest::prelude::*;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::session::CloseReason;
use crate::testing::{Act, Scripted, millis};

fn token() -> ProgressToken {
    ProgressToken::Text("t".into())
}

/// Progress values that reached the session, in order.
fn wire(sink: &Scripted, session: &str) -> Vec<f64> {
    sink.accepted(session)
        .iter()
        .map(|frame| {
            let frame: Value = serde_json::from_str(frame).unwrap();
            assert_eq!(frame["method"], "notifications/progress");
            assert_eq!(frame["params"]["progressToken"], "t");
            frame["params"]["progress"].as_f64().unwrap()
        })
        .collect()
}

fn params(frame: &str) -> Value {
    serde_json::from_str::<Value>(frame).unwrap()["params"].take()
}

/// Runs `work` in a scope over `sink`.
async fn scope<F: Future>(sink: &Scripted, work: impl FnOnce(Progress) -> F) -> F::Output {
    let session = Session::new("s");
    let delivery = Delivery::new(sink.clone());
    Progress::scope(&session, Some(token()), &delivery, work).await
}

#[tokio::test(start_paused = true)]
async fn twenty_advances_of_one_end_at_twenty_and_the_wire_only_increases() {
    let sink = Scripted::default();
    let end = scope(&sink, |progress| async move {
        for _ in 0..20 {
            progress.advance(1.0, None).unwrap();
            sleep(millis(30)).await;
        }
        progress.current()
    })
    .await;
    assert!((end - 20.0).abs() < f64::EPSILON);
    let wire = wire(&sink, "s");
    assert!(wire.is_sorted_by(|a, b| a < b), "{wire:?}");
    assert_eq!(wire.last(), Some(&20.0));
}

#[tokio::test(start_paused = true)]
async fn an_update_in_flight_never_resets_what_is_reported_meanwhile() {
    let failure = SendError::network("reset");
    let sink = Scripted::default().then("s", [Act::Fail(failure.clone()), Act::Fail(failure)]);
    scope(&sink, |progress| async move {
        for _ in 0..20 {
            progress.advance(1.0, None).unwrap();
            sleep(millis(20)).await;
        }
        assert!((progress.current() - 20.0).abs() < f64::EPSILON);
    })
    .await;
    assert_eq!(wire(&sink, "s").last(), Some(&20.0));
}

#[tokio::test(start_paused = true)]
async fn the_first_goes_at_once_and_then_at_most_eight_a_second_with_the_latest_value() {
    let sink = Scripted::default();
    let start = Instant::now();
    scope(&sink, |progress| async move {
        for n in 1..=1000 {
            progress.set(f64::from(n), None, Some(1000.0)).unwrap();
            sleep(millis(1)).await;
        }
        sleep(millis(500)).await;
    })
    .await;
    let sends = sink.sends();
    assert_eq!(sends[0].at, start);
    let gaps: Vec<_> = sends
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect();
    assert!(gaps.iter().all(|gap| *gap >= millis(125)), "{gaps:?}");
    assert_eq!(sends.len(), 9);
    assert_eq!(
        wire(&sink, "s").last(),
        Some(&1000.0),
        "the last one went out by its timer"
    );
}

#[tokio::test(start_paused = true)]
async fn progress_that_goes_back_or_is_no_number_is_an_error_and_changes_nothing() {
    let sink = Scripted::default();
    scope(&sink, |progress| async move {
        progress.set(5.0, None, None).unwrap();
        let back = ProgressError::WentBack {
            current: 5.0,
            given: 4.0,
        };
        assert_eq!(progress.set(4.0, None, None), Err(back));
        assert_eq!(progress.advance(-1.0, None), Err(back));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(matches!(
                progress.set(bad, None, None),
                Err(ProgressError::NotFinite(_))
            ));
            assert!(matches!(
                progress.advance(bad, None),
                Err(ProgressError::NotFinite(_))
            ));
            assert!(matches!(
                progress.set(6.0, None, Some(bad)),
                Err(ProgressError::NotFinite(_))
            ));
        }
        progress.set(f64::MAX, None, None).unwrap();
        assert!(matches!(
            progress.advance(f64::MAX, None),
            Err(ProgressError::NotFinite(_))
        ));
        assert!((progress.current() - f64::MAX).abs() < 1.0);
    })
    .await;
    assert_eq!(
        wire(&sink, "s"),
        [f64::MAX],
        "one value was current when it was sent"
    );
}

#[tokio::test(start_paused = true)]
async fn an_equal_value_is_a_message_for_the_next_increase() {
    let sink = Scripted::default();
    scope(&sink, |progress| async move {
        progress.set(1.0, Some("one"), Some(2.0)).unwrap();
        sleep(millis(200)).await;
        progress.set(1.0, Some("still one"), None).unwrap();
        sleep(millis(200)).await;
        progress.advance(1.0, None).unwrap();
        sleep(millis(200)).await;
        progress.set(2.0, Some("a last word"), None).unwrap();
    })
    .await;
    let frames = sink.accepted("s");
    assert_eq!(wire(&sink, "s"), [1.0, 2.0], "nothing is sent twice");
    let expected = serde_json::json!(
        {"progressToken": "t", "progress": 2.0, "total": 2.0, "message": "still one"}
    );
    assert_eq!(params(&frames[1]), expected);
}

#[tokio::test(start_paused = true)]
async fn the_end_sends_the_latest_value_only_if_it_was_not_sent() {
    let sink = Scripted::default();
    let start = Instant::now();
    scope(&sink, |progress| async move {
        progress.set(1.0, None, None).unwrap();
        sleep(millis(10)).await;
        progress.set(2.0, None, None).unwrap();
    })
    .await;
    assert_eq!(wire(&sink, "s"), [1.0, 2.0]);
    assert_eq!(
        start.elapsed(),
        millis(10),
        "without waiting for the interval"
    );
    let sink = Scripted::default();
    scope(&sink, |progress| async move {
        progress.set(1.0, None, None).unwrap();
        sleep(millis(10)).await;
    })
    .await;
    assert_eq!(wire(&sink, "s"), [1.0]);
}

#[tokio::test(start_paused = true)]
async fn ending_a_scope_never_hangs() {
    let sink = Scripted::default().always("s", Act::Hang);
    let start = Instant::now();
    let kept = scope(&sink, |progress| async move {
        progress.set(1.0, None, None).unwrap();
        progress
    })
    .await;
    assert!(start.elapsed() <= millis(2000));
    assert!(
        kept.advance(1.0, None).is_ok(),
        "a handle that outlives its scope does no harm"
    );
    let start = Instant::now();
    scope(&Scripted::default(), |progress| async move {
        Box::leak(Box::new(progress));
    })
    .await;
    assert_eq!(start.elapsed(), Duration::ZERO, "not even a leaked one");
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_the_one_policy_and_then_given_up() {
    let sink = Scripted::default().always("s", Act::Fail(SendError::network("reset")));
    scope(&sink, |progress| async move {
        progress.set(1.0, None, None).unwrap();
        sleep(millis(5000)).await;
    })
    .await;
    let gaps: Vec<_> = sink
        .sends()
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect();
    assert_eq!(
        gaps,
        [millis(100), millis(200), millis(400)],
        "and no fifth at the end"
    );
}

#[tokio::test(start_paused = true)]
async fn progress_goes_to_the_session_that_owns_the_token_and_to_no_other() {
    let sink = Scripted::default();
    let delivery = Delivery::new(sink.clone());
    let (own, other) = (Session::new("s"), Session::new("other"));
    let observers = crate::ObserverRegistry::new(sink.clone());
    observers.remember(&own);
    observers.remember(&other);
    Progress::scope(&own, Some(token()), &delivery, |progress| async move {
        progress.advance(1.0, None).unwrap();
    })
    .await;
    assert_eq!(wire(&sink, "s"), [1.0]);
    assert!(sink.accepted("other").is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_token_nothing_happens() {
    let sink = Scripted::default();
    let delivery = Delivery::new(sink.clone());
    let session = Session::new("s");
    Progress::scope(&session, None, &delivery, |progress| async move {
        assert_eq!(progress.token(), None);
        progress.advance(1.0, Some("x")).unwrap();
        progress.set(f64::NAN, None, None).unwrap();
    })
    .await;
    assert!(sink.sends().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_ends_the_pump_and_not_the_work() {
    let sink = Scripted::default().always("s", Act::Hang);
    let session = Session::new("s");
    let delivery = Delivery::new(sink.clone());
    let closing = session.clone();
    let done = Progress::scope(&session, Some(token()), &delivery, |progress| async move {
        progress.advance(1.0, None).unwrap();
        sleep(millis(10)).await;
        closing.close(CloseReason::Requested);
        progress.advance(1.0, None).unwrap();
        sleep(millis(10)).await;
        "done"
    })
    .await;
    assert_eq!((done, sink.sends().len()), ("done", 1));
}

#[derive(Clone, Default)]
struct HookCalls(Arc<Mutex<Vec<&'static str>>>);

impl ProgressHooks for HookCalls {
    fn started(&self, _: &ProgressToken) {
        self.0.lock().push("started");
    }
    fn emitted(&self, _: &ProgressToken, _: f64) {
        self.0.lock().push("emitted");
    }
    fn throttled(&self, _: &ProgressToken, _: f64) {
        self.0.lock().push("throttled");
    }
    fn failed(&self, _: &ProgressToken, _: &SendError) {
        self.0.lock().push("failed");
    }
    fn closed(&self, _: &ProgressToken) {
        self.0.lock().push("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_hear_of_start_emit_throttle_error_and_close() {
    let sink = Scripted::default().then(
        "s",
        [
            Act::Accept,
            Act::Fail(SendError::InvalidParams(String::new())),
        ],
    );
    let session = Session::new("s");
    let calls = HookCalls::default();
    let (progress, pump) = Progress::start(&session, token(), &Delivery::new(sink), calls.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(pump.run());
    progress.advance(1.0, None).unwrap();
    sleep(millis(1)).await;
    progress.advance(1.0, None).unwrap();
    sleep(millis(200)).await;
    drop(progress);
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(
        *calls.0.lock(),
        ["started", "emitted", "throttled", "failed", "closed"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_reported_the_wire_increases_and_ends_at_the_last_value(
        steps in proptest::collection::vec((-1.0_f64..10.0, 0_u64..300), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let sink = Scripted::default();
        let end = runtime.block_on(scope(&sink, |progress| async move {
            for (amount, pause) in steps {
                let before = progress.current();
                let result = progress.advance(amount, None);
                assert_eq!(result.is_err(), amount < 0.0, "{amount} after {before}");
                sleep(millis(pause)).await;
            }
            progress.current()
        }));
        let wire = wire(&sink, "s");
        prop_assert!(wire.is_sorted_by(|a, b| a < b), "{:?}", wire);
        prop_assert!(wire.last().is_none_or(|last| (last - end).abs() < 1e-9));
        prop_assert!(end == 0.0 || !wire.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_reported_after_the_end_of_a_scope_has_no_effect() {
    let sink = Scripted::default();
    let left = scope(&sink, |progress| async move {
        progress.set(1.0, None, None).unwrap();
        progress
    })
    .await;
    left.set(2.0, None, None).unwrap();
    left.set(0.5, None, None).unwrap();
    assert!((left.current() - 1.0).abs() < f64::EPSILON);
    assert_eq!(wire(&sink, "s"), [1.0]);
}

#[tokio::test(start_paused = true)]
async fn reports_during_the_last_send_of_a_scope_are_not_sent_without_pause() {
    let sink = Scripted::default().then("s", [Act::Accept, Act::Fail(SendError::network("reset"))]);
    let mut tasks = JoinSet::new();
    let ended = scope(&sink, |progress| async move {
        progress.set(1.0, None, None).unwrap();
        sleep(millis(1)).await;
        progress.set(2.0, None, None).unwrap();
        tasks.spawn(async move {
            for n in 3..10 {
                sleep(millis(20)).await;
                let _ = progress.set(f64::from(n), None, None);
            }
        });
        tasks
    });
    ended.await.join_all().await;
    assert_eq!(wire(&sink, "s"), [1.0, 2.0]);
}
