use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::SignedDuration;
use kubecrier_core::metrics::Metrics;
use kubecrier_incidents::{Incident, Transition};
use kubecrier_redact::Redactor;
use parking_lot::Mutex;
use tokio::time::advance;

use super::*;
use crate::{
    config::{ExecTarget, SinkConfig, TargetConfig},
    sink::Sink,
    testing::{filter, incident},
};

/// A target that answers as told, and takes everything afterwards.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<Result<(), DeliveryError>>>,
    taken: Mutex<Vec<String>>,
    attempts: AtomicUsize,
}

impl Deliver for Arc<Scripted> {
    async fn deliver(&self, notice: &Notice) -> Result<(), DeliveryError> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.lock().pop_front().unwrap_or(Ok(()));
        if answer.is_ok() {
            let line = format!("{} {}", notice.word(), notice.incident().id);
            self.taken.lock().push(line);
        }
        answer
    }
}

struct Bed {
    sink: Sink,
    metrics: Metrics,
    target: Arc<Scripted>,
    stop: CancellationToken,
}

fn bed(queue_max: usize, answers: impl IntoIterator<Item = Result<(), DeliveryError>>) -> Bed {
    let metrics = Metrics::new();
    let config = SinkConfig {
        name: "page".to_owned(),
        filter: filter(),
        // Never started: the target is scripted.
        target: TargetConfig::Exec(ExecTarget {
            program: "/nonexistent".into(),
            arguments: Vec::new(),
            passed: Vec::new(),
        }),
        queue_max,
        timeout: Duration::from_secs(10),
    };
    Bed {
        sink: Sink::new(
            config,
            &Arc::default(),
            metrics.sinks(),
            Redactor::default(),
        ),
        metrics,
        target: Arc::new(Scripted {
            answers: Mutex::new(answers.into_iter().collect()),
            ..Scripted::default()
        }),
        stop: CancellationToken::new(),
    }
}

impl Bed {
    #[expect(clippy::disallowed_methods, reason = "the test ends the task itself")]
    fn start(&self) -> tokio::task::JoinHandle<()> {
        let (shared, target) = (Arc::clone(self.sink.shared()), Arc::clone(&self.target));
        let stop = self.stop.clone();
        tokio::spawn(async move { run(&shared, &target, &stop).await })
    }

    fn tell(&self, transition: Transition) {
        let at = "2026-11-15T10:00:20Z".parse().unwrap();
        self.sink.on_update(&"dev".into(), at, &[transition], &[]);
    }

    fn open(&self, name: &str) {
        self.tell(Transition::Opened(incident(name)));
    }

    fn resolve(&self, name: &str) {
        self.tell(Transition::Resolved {
            incident: incident(name),
            after: SignedDuration::from_secs(9),
        });
    }

    fn taken(&self) -> Vec<String> {
        self.target.taken.lock().clone()
    }

    fn attempts(&self) -> usize {
        self.target.attempts.load(Ordering::Relaxed)
    }

    fn count(&self, outcome: &str) -> u64 {
        let text = self.metrics.encode(0).unwrap();
        let start = format!(
            "kubecrier_sink_deliveries_total{{sink=\"page\",kind=\"exec\",outcome=\"{outcome}\"}} "
        );
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    }
}

fn away() -> Result<(), DeliveryError> {
    Err(DeliveryError::unavailable("away"))
}

/// Lets the task do all that it can do at this time.
async fn settle_down() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_away_is_asked_with_a_backoff_and_gets_everything_in_the_end() {
    let bed = bed(10, (0..9).map(|_| away()));
    let running = bed.start();
    bed.open("a");
    bed.open("b");
    settle_down().await;
    for (failures, seconds) in [1, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
        assert_eq!(bed.attempts(), failures + 1);
        advance(Duration::from_millis(seconds * 1000 - 10)).await;
        settle_down().await;
        assert_eq!(bed.attempts(), failures + 1, "not before {seconds} s");
        advance(Duration::from_millis(20)).await;
        settle_down().await;
    }
    bed.resolve("b");
    advance(Duration::from_secs(61)).await;
    settle_down().await;
    // What came and went meanwhile is told as its end.
    assert_eq!(bed.taken(), ["opened i-a", "resolved i-b"]);
    assert_eq!((bed.count("failed"), bed.count("delivered")), (9, 2));
    assert_eq!((bed.count("rejected"), bed.count("dropped")), (0, 0));
    bed.stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_target_that_asks_for_time_gets_it() {
    let busy = DeliveryError::Unavailable {
        reason: "busy".to_owned(),
        retry_after: Some(Duration::from_secs(30)),
    };
    let bed = bed(10, [Err(busy)]);
    let _running = bed.start();
    bed.open("a");
    settle_down().await;
    advance(Duration::from_secs(29)).await;
    settle_down().await;
    assert_eq!(bed.attempts(), 1);
    advance(Duration::from_secs(2)).await;
    settle_down().await;
    assert_eq!(bed.taken(), ["opened i-a"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_rejected_is_not_tried_again_and_what_is_refused_a_few_times() {
    let refused = || Err(DeliveryError::refused("401"));
    let answers = std::iter::once(Err(DeliveryError::rejected("400")));
    let bed = bed(10, answers.chain((0..8).map(|_| refused())));
    let _running = bed.start();
    bed.open("bad");
    bed.open("unlucky");
    bed.open("good");
    settle_down().await;
    assert_eq!((bed.attempts(), bed.count("rejected")), (2, 1));
    for _ in 0..8 {
        advance(Duration::from_secs(61)).await;
        settle_down().await;
    }
    assert_eq!(bed.count("rejected"), 2);
    assert_eq!(bed.count("failed"), u64::from(REFUSED_ATTEMPTS) - 1);
    assert_eq!(bed.taken(), ["opened i-good"]);
}

#[tokio::test(start_paused = true)]
async fn what_there_is_no_room_for_is_counted_and_the_newest_are_kept() {
    let bed = bed(2, [away()]);
    let _running = bed.start();
    for name in ["a", "b", "c", "d"] {
        bed.open(name);
        settle_down().await;
    }
    advance(Duration::from_secs(2)).await;
    settle_down().await;
    assert_eq!(bed.taken(), ["opened i-c", "opened i-d"]);
    assert_eq!((bed.count("dropped"), bed.count("delivered")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn the_end_delivers_what_waits_or_counts_it() {
    let waiting = bed(10, [away()]);
    let running = waiting.start();
    waiting.open("a");
    settle_down().await;
    waiting.stop.cancel();
    running.await.unwrap();
    assert_eq!(waiting.taken(), ["opened i-a"], "a last attempt");
    let lost = bed(10, [away(), away()]);
    let running = lost.start();
    lost.open("a");
    lost.open("b");
    settle_down().await;
    lost.stop.cancel();
    running.await.unwrap();
    assert_eq!((lost.taken().len(), lost.count("dropped")), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn what_was_open_at_the_start_is_not_told_and_its_end_is() {
    let bed = bed(10, []);
    let _running = bed.start();
    let open: [Arc<Incident>; 1] = [Arc::new(incident("old"))];
    let at = "2026-11-15T10:00:20Z".parse().unwrap();
    bed.sink.on_start(&"dev".into(), &open, at);
    settle_down().await;
    assert_eq!(bed.attempts(), 0);
    bed.resolve("old");
    bed.open("new");
    settle_down().await;
    assert_eq!(bed.taken(), ["resolved i-old", "opened i-new"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_servers_one_tells_and_the_next_tells_what_that_one_may_not_have_told() {
    let mut bed = bed(10, [Ok(()), away()]);
    bed.sink = bed.sink.in_turns();
    let _running = bed.start();
    let context: Arc<str> = "dev".into();
    bed.open("a");
    advance(crate::turns::HELD_BACK).await;
    bed.open("b");
    advance(Duration::from_secs(10)).await;
    settle_down().await;
    assert_eq!(bed.attempts(), 0, "another one tells");
    assert!(bed.sink.set_turn(&context, true, &[]));
    assert!(!bed.sink.set_turn(&context, true, &[]));
    settle_down().await;
    assert_eq!(bed.taken(), ["opened i-b"]);
    // What waits here when another server begins is told here, with the last word.
    bed.open("c");
    settle_down().await;
    assert!(bed.sink.set_turn(&context, false, &[]));
    bed.resolve("c");
    bed.resolve("b");
    bed.open("d");
    settle_down().await;
    advance(Duration::from_secs(2)).await;
    settle_down().await;
    assert_eq!(bed.taken(), ["opened i-b", "resolved i-c"]);
    assert!(bed.sink.set_turn(&context, true, &[]));
    settle_down().await;
    let rest = ["opened i-b", "resolved i-c", "resolved i-b", "opened i-d"];
    assert_eq!(bed.taken(), rest);
    bed.stop.cancel();
}
