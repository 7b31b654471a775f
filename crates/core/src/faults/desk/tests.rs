use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::{
    sync::mpsc,
    time::{Duration, advance, sleep},
};

use super::*;
use crate::faults::evidence::{CaptureError, Evidence, LogEntry, NOTE};

/// Takes a second for each fault, and counts.
#[derive(Default)]
struct Slow {
    running: AtomicUsize,
    most: AtomicUsize,
    asked: AtomicUsize,
}

fn captured(event: &Event, error: Option<CaptureError>) -> Captured {
    let logs = error.map(|error| LogEntry::failed("", false, error));
    Captured {
        fault_id: format!("{}-{}", event.involved.name, event.count),
        evidence: Arc::new(Evidence {
            note: NOTE,
            logs: logs.into_iter().collect(),
            containers_omitted: Vec::new(),
            context: None,
        }),
    }
}

impl Investigator for Slow {
    fn investigate<'a>(&'a self, _cluster: &'a str, event: &'a Event) -> Investigation<'a> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let now = self.running.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(now, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            self.running.fetch_sub(1, Ordering::Relaxed);
            captured(event, None)
        })
    }

    fn throttled(&self, _cluster: &str, event: &Event) -> Captured {
        captured(event, Some(CaptureError::Throttled))
    }

    fn is_saturated(&self, _cluster: &str) -> bool {
        false
    }

    fn forget_old(&self) {}
}

fn event(pod: &str, count: i32) -> Arc<Event> {
    let mut event = Event {
        count,
        ..Event::default()
    };
    event.involved.name = pod.to_owned();
    Arc::new(event)
}

struct World {
    desk: Desk,
    slow: Arc<Slow>,
    tell: mpsc::UnboundedSender<(String, usize, String)>,
    heard: mpsc::UnboundedReceiver<(String, usize, String)>,
}

impl World {
    fn new() -> Self {
        let slow = Arc::new(Slow::default());
        let (tell, heard) = mpsc::unbounded_channel();
        Self {
            desk: Desk::new(slow.clone(), Lifecycle::default()),
            slow,
            tell,
            heard,
        }
    }

    fn file(&self, who: usize, event: &Arc<Event>) {
        let tell = self.tell.clone();
        let told: Told = Box::new(move |_event, report| {
            let logs = serde_json::to_string(report).unwrap();
            tell.send((report.fault_id.clone(), who, logs)).unwrap();
        });
        self.desk.file("dev", event, told);
    }

    fn heard(&mut self) -> Vec<(String, usize)> {
        std::iter::from_fn(|| self.heard.try_recv().ok())
            .map(|(id, who, _)| (id, who))
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
async fn everybody_is_told_of_one_look_and_pods_do_not_wait_for_each_other() {
    let mut world = World::new();
    let (web, api) = (event("web", 1), event("api", 1));
    for who in 0..3 {
        world.file(who, &web);
    }
    world.file(0, &api);
    assert_eq!(world.heard(), [], "nobody waits for evidence here");
    pass(2).await;
    let mut heard = world.heard();
    heard.sort();
    let told = |id: &str, who| (id.to_owned(), who);
    assert_eq!(
        heard,
        [
            told("api-1", 0),
            told("web-1", 0),
            told("web-1", 1),
            told("web-1", 2)
        ]
    );
    assert_eq!(world.slow.asked.load(Ordering::Relaxed), 2);
    assert_eq!(world.slow.most.load(Ordering::Relaxed), 2);
    assert_eq!(world.desk.board().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_faults_of_a_pod_keep_their_order() {
    let mut world = World::new();
    for count in 1..=5 {
        world.file(0, &event("web", count));
    }
    pass(7).await;
    let ids: Vec<_> = world.heard().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["web-1", "web-2", "web-3", "web-4", "web-5"]);
    assert_eq!(world.slow.most.load(Ordering::Relaxed), 1);
    assert!(
        world.desk.inner.waiting.lock().pods.is_empty(),
        "nothing is left behind"
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_goes_out_at_once_and_says_so() {
    let mut world = World::new();
    for number in 0..WAITING_MAX {
        world.file(0, &event(&format!("pod-{number}"), 1));
    }
    world.file(1, &event("one-more", 1));
    let (id, who, logs) = world.heard.try_recv().unwrap();
    assert_eq!((id.as_str(), who), ("one-more-1", 1));
    assert!(logs.contains("throttled"), "{logs}");
    pass(2).await;
    assert_eq!(world.heard().len(), WAITING_MAX);
    assert_eq!(world.desk.inner.waiting.lock().count, 0);
}
