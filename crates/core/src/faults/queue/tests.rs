use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::{
    sync::mpsc,
    time::{Duration, advance, sleep},
};

use super::*;
use crate::{
    EventFields,
    faults::{EvidenceSource, LogError, LogRequest, LogSample, PodFacts},
    metrics::Metrics,
};
use futures_util::{FutureExt, future::BoxFuture};

/// A cluster whose pods take a second to read and have no containers.
#[derive(Default)]
struct Slow {
    running: AtomicUsize,
    most: AtomicUsize,
    asked: AtomicUsize,
}

struct SlowCluster(Arc<Slow>);

impl EvidenceProvider for SlowCluster {
    fn connect<'a>(
        &'a self,
        _cluster: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn EvidenceSource>, CaptureError>> {
        let source: Arc<dyn EvidenceSource> = Arc::new(Self(Arc::clone(&self.0)));
        async { Ok(source) }.boxed()
    }

    fn remove_expired(&self) {}
}

impl EvidenceSource for SlowCluster {
    fn pod<'a>(&'a self, _fault: &'a Fault) -> BoxFuture<'a, Result<Arc<PodFacts>, CaptureError>> {
        async {
            let Slow {
                running,
                most,
                asked,
            } = &*self.0;
            asked.fetch_add(1, Ordering::Relaxed);
            let now = running.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            running.fetch_sub(1, Ordering::Relaxed);
            Ok(Arc::default())
        }
        .boxed()
    }

    fn log<'a>(&'a self, _request: &'a LogRequest) -> BoxFuture<'a, Result<LogSample, LogError>> {
        async { Err(CaptureError::NotFound.into()) }.boxed()
    }
}

fn event(pod: &str, count: i32) -> Arc<Event> {
    let mut event = Event::from(EventFields {
        count,
        ..EventFields::default()
    });
    event.involved.name = pod.to_owned();
    Arc::new(event)
}

struct World {
    queue: FaultQueue,
    slow: Arc<Slow>,
    report: mpsc::UnboundedSender<(String, usize, String)>,
    reports: mpsc::UnboundedReceiver<(String, usize, String)>,
}

impl World {
    fn new() -> Self {
        let slow = Arc::new(Slow::default());
        let evidence = Arc::new(SlowCluster(Arc::clone(&slow)));
        // Room for all: what the pool throttles is tested with the pool.
        let limits = CaptureLimits {
            per_cluster: 2 * WAITING_MAX,
            in_all: 2 * WAITING_MAX,
            ..CaptureLimits::default()
        };
        let metrics = Metrics::new().captures();
        let (report, reports) = mpsc::unbounded_channel();
        Self {
            queue: FaultQueue::new(evidence, limits, metrics, Lifecycle::default()),
            slow,
            report,
            reports,
        }
    }

    fn enqueue(&self, subscriber: usize, event: &Arc<Event>) {
        let send = self.report.clone();
        let on_report: OnReport = Box::new(move |event, report| {
            let name = format!("{}-{}", event.involved.name, event.count);
            let logs = serde_json::to_string(report).unwrap();
            send.send((name, subscriber, logs)).unwrap();
        });
        let key = FaultKey::new("dev", event);
        self.queue.enqueue(key, event, on_report);
    }

    fn reports(&mut self) -> Vec<(String, usize)> {
        std::iter::from_fn(|| self.reports.try_recv().ok())
            .map(|(name, subscriber, _)| (name, subscriber))
            .collect()
    }
}

async fn pass(seconds: u64) {
    for _ in 0..seconds * 10 {
        advance(Duration::from_millis(100)).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn subscribers_share_one_capture_and_pods_do_not_wait_for_each_other() {
    let mut world = World::new();
    let (web, api) = (event("web", 1), event("api", 1));
    for subscriber in 0..3 {
        world.enqueue(subscriber, &web);
    }
    world.enqueue(0, &api);
    assert_eq!(world.reports(), [], "to enqueue does not wait for evidence");
    pass(2).await;
    let mut reports = world.reports();
    reports.sort();
    let expected = [("api-1", 0), ("web-1", 0), ("web-1", 1), ("web-1", 2)];
    assert_eq!(reports, expected.map(|(name, to)| (name.to_owned(), to)));
    assert_eq!(world.slow.asked.load(Ordering::Relaxed), 2);
    assert_eq!(world.slow.most.load(Ordering::Relaxed), 2);
    assert_eq!(world.queue.store().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_faults_of_a_pod_keep_their_order() {
    let mut world = World::new();
    for count in 1..=5 {
        world.enqueue(0, &event("web", count));
    }
    pass(7).await;
    let names: Vec<_> = world.reports().into_iter().map(|one| one.0).collect();
    assert_eq!(names, ["web-1", "web-2", "web-3", "web-4", "web-5"]);
    assert_eq!(world.slow.most.load(Ordering::Relaxed), 1);
    assert!(
        world.queue.inner.waiting.lock().pods.is_empty(),
        "nothing is left behind"
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_goes_out_at_once_and_says_so() {
    let mut world = World::new();
    for number in 0..WAITING_MAX {
        world.enqueue(0, &event(&format!("pod-{number}"), 1));
    }
    world.enqueue(1, &event("one-more", 1));
    let (name, subscriber, logs) = world.reports.try_recv().unwrap();
    assert_eq!((name.as_str(), subscriber), ("one-more-1", 1));
    assert!(logs.contains("throttled"), "{logs}");
    pass(2).await;
    assert_eq!(world.reports().len(), WAITING_MAX);
    assert_eq!(world.queue.inner.waiting.lock().count, 0);
}
