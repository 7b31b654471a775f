use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::testing::millis;
use crate::{ObserverRegistry, OutboxSink};

/// Counts the calls of the hooks.
#[derive(Clone, Default)]
struct HookCalls {
    suspect: Arc<AtomicUsize>,
    down: Arc<AtomicUsize>,
}

impl HookCalls {
    fn heartbeat(&self) -> Heartbeat {
        let (suspect, down) = (Arc::clone(&self.suspect), Arc::clone(&self.down));
        Heartbeat::new(HeartbeatConfig::default())
            .on_suspect(move |_, _| {
                suspect.fetch_add(1, Ordering::Relaxed);
            })
            .on_down(move |_, _| {
                down.fetch_add(1, Ordering::Relaxed);
            })
    }

    fn counts(&self) -> (usize, usize) {
        (
            self.suspect.load(Ordering::Relaxed),
            self.down.load(Ordering::Relaxed),
        )
    }
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let config = HeartbeatConfig::default();
    assert_eq!(config.interval, Duration::from_secs(5));
    assert!((config.jitter - 0.2).abs() < f64::EPSILON);
    assert_eq!(config.timeout, Duration::from_secs(2));
    assert!((config.phi_max - 5.0).abs() < f64::EPSILON);
    assert_eq!(config.failures_max, 3);
    assert_eq!(crate::phi::WINDOW, 32);
}

#[tokio::test(start_paused = true)]
async fn a_dead_session_is_suspected_and_goes_down_within_32_seconds_and_leaves_everywhere() {
    for round in 0..50 {
        let calls = HookCalls::default();
        let session = Session::new("s");
        let observers = ObserverRegistry::new(OutboxSink);
        observers.remember(&session);
        let heartbeat = calls.heartbeat();
        let liveness = heartbeat.liveness();
        let run = heartbeat.run(&session, &liveness, std::future::pending);
        let (end, start) = tokio::join!(run, async {
            sleep(millis(78 * round)).await;
            liveness.record_activity();
            Instant::now()
        });
        assert_eq!(end, HeartbeatEnd::Down);
        assert!(
            start.elapsed() <= Duration::from_secs(32),
            "{:?}",
            start.elapsed()
        );
        assert!(
            start.elapsed() >= Duration::from_secs(4 * (4 + 2)),
            "not before four failures"
        );
        assert_eq!(calls.counts(), (1, 1), "each once");
        assert!(session.is_closed() && observers.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn three_failures_in_a_row_do_not_bring_a_session_down() {
    let calls = HookCalls::default();
    let heartbeat = calls.heartbeat();
    let (session, liveness) = (Session::new("s"), heartbeat.liveness());
    let pings = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&pings);
    let run = heartbeat.run(&session, &liveness, move || {
        let n = counting.fetch_add(1, Ordering::Relaxed);
        async move { n % 4 == 3 }
    });
    assert!(
        timeout(Duration::from_hours(1), run).await.is_err(),
        "it goes on"
    );
    assert!(pings.load(Ordering::Relaxed) > 400);
    assert_eq!(calls.counts().1, 0);
    assert!(
        calls.counts().0 > 10,
        "it is suspected anew in every episode"
    );
}

#[tokio::test(start_paused = true)]
async fn any_inbound_message_is_a_sign_of_life_and_spares_a_ping() {
    let calls = HookCalls::default();
    let heartbeat = calls.heartbeat();
    let (session, liveness) = (Session::new("s"), heartbeat.liveness());
    let pings = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&pings);
    let mut tasks = JoinSet::new();
    tasks.spawn(heartbeat.run(&session, &liveness, move || {
        counting.fetch_add(1, Ordering::Relaxed);
        std::future::ready(false)
    }));
    for _ in 0..1000 {
        sleep(Duration::from_secs(3)).await;
        liveness.record_activity();
    }
    assert_eq!((calls.counts(), pings.load(Ordering::Relaxed)), ((0, 0), 0));
    assert_eq!(liveness.health(), Health::Alive);
}

#[tokio::test(start_paused = true)]
async fn a_chatty_session_that_falls_quiet_and_answers_pings_is_not_suspected() {
    let calls = HookCalls::default();
    let heartbeat = calls.heartbeat();
    let (session, liveness) = (Session::new("s"), heartbeat.liveness());
    let mut tasks = JoinSet::new();
    tasks.spawn(heartbeat.run(&session, &liveness, || std::future::ready(true)));
    for _ in 0..10_000 {
        sleep(millis(10)).await;
        liveness.record_activity();
    }
    sleep(Duration::from_mins(30)).await;
    assert_eq!(calls.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_long_talk_between_two_pings_does_not_dull_the_suspicion_after_it() {
    let calls = HookCalls::default();
    let heartbeat = calls.heartbeat();
    let (session, liveness) = (Session::new("s"), heartbeat.liveness());
    let alive = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&alive);
    let mut tasks = JoinSet::new();
    tasks.spawn(heartbeat.run(&session, &liveness, move || {
        let answers = answers.load(Ordering::Relaxed);
        async move { answers || std::future::pending().await }
    }));
    sleep(Duration::from_secs(13)).await;
    for _ in 0..200 {
        liveness.record_activity();
        sleep(Duration::from_secs(3)).await;
    }
    sleep(Duration::from_secs(13)).await;
    alive.store(false, Ordering::Relaxed);
    assert_eq!(
        tasks.join_next().await.unwrap().unwrap(),
        HeartbeatEnd::Down
    );
    assert_eq!(calls.counts(), (1, 1), "suspected before it was down");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_ends_its_heartbeat() {
    let heartbeat = Heartbeat::new(HeartbeatConfig::default());
    let session = Session::new("s");
    let run = heartbeat.run(&session, &heartbeat.liveness(), || std::future::ready(true));
    drop(session);
    assert_eq!(run.await, HeartbeatEnd::SessionEnded);
}

#[tokio::test(start_paused = true)]
async fn a_rhythm_that_makes_no_sense_does_not_panic() {
    for jitter in [f64::NAN, f64::INFINITY, -1.0, 7.0] {
        for interval in [Duration::ZERO, Duration::from_secs(5), Duration::MAX] {
            let mut config = HeartbeatConfig::default();
            (config.jitter, config.interval, config.timeout) = (jitter, interval, interval);
            let heartbeat = Heartbeat::new(config);
            let (session, liveness) = (Session::new("s"), heartbeat.liveness());
            let run = heartbeat.run(&session, &liveness, || std::future::ready(false));
            let _ = timeout(Duration::from_mins(1), run).await;
        }
    }
}

#[test]
fn there_is_no_ping_from_2026_07_28_on() {
    assert!(Heartbeat::applies_to(&ProtocolVersion::V_2025_11_25));
    assert!(!Heartbeat::applies_to(&ProtocolVersion::V_2026_07_28));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_healthy_session_is_never_suspected_however_slow_its_answers_within_the_timeout(
        latencies in proptest::collection::vec(0_u64..1999, 1..100)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let calls = HookCalls::default();
        runtime.block_on(async {
            let heartbeat = calls.heartbeat();
            let (session, liveness) = (Session::new("s"), heartbeat.liveness());
            let asked = AtomicUsize::new(0);
            let run = heartbeat.run(&session, &liveness, move || {
                let latency = latencies[asked.fetch_add(1, Ordering::Relaxed) % latencies.len()];
                async move {
                    sleep(millis(latency)).await;
                    true
                }
            });
            let _ = timeout(Duration::from_mins(20), run).await;
        });
        prop_assert_eq!(calls.counts(), (0, 0));
    }

    #[test]
    fn jitter_stays_within_its_share(millis in 1_u64..100_000, share in 0.0_f64..1.0) {
        let mean = Duration::from_millis(millis);
        let mut jitter = Jitter::new();
        for _ in 0..50 {
            let drawn = jitter.apply(mean, share).as_secs_f64() / mean.as_secs_f64();
            prop_assert!(drawn >= 1.0 - share - 1e-6 && drawn <= 1.0 + share + 1e-6);
        }
    }
}
