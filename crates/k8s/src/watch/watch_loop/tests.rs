//! The whole life of a watch, on paused time, over a script.

mod another;
mod pace;

use std::collections::VecDeque;

use futures_util::{FutureExt, stream::BoxStream};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::advance,
};

use super::*;
use crate::{
    error::ErrorKind,
    watch::{dispatcher::Dispatcher, source::*, subscribers::Subscribers},
};
use kubecrier_core::{
    Event, InvolvedObject, Labels, flush_clock::FlushClock, metrics::WatchMetrics,
    subscriptions::Listener, ttl_cache::Lookup,
};

const RENEWAL: Duration = Duration::from_mins(1);

type Sent = Result<WatchFrame<Box<Event>>, WatchError>;

/// What the API server does with the next requests; when the script is at its end it
/// refuses.
#[derive(Default)]
struct Script {
    opens: Mutex<VecDeque<Result<mpsc::UnboundedReceiver<Sent>, WatchError>>>,
    looks: Mutex<VecDeque<Result<RelistedEvents, ClusterError>>>,
    /// Versions that a watch was asked for, and when.
    asked: Mutex<Vec<(Duration, String)>>,
    labels: Mutex<Option<Duration>>,
    start: Mutex<Option<Instant>>,
    moved: Notify,
    /// How far the cluster is.
    newest: Mutex<String>,
}

struct Scripted(Arc<Script>);

fn frames(receiver: mpsc::UnboundedReceiver<Sent>) -> BoxStream<'static, Sent> {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let frame = receiver.recv().await?;
        Some((frame, receiver))
    })
    .boxed()
}

impl WatchSource for Scripted {
    type Item = Box<Event>;
    type Relisted = RelistedEvents;
    type Frames = BoxStream<'static, Sent>;

    async fn open(&self, version: &str) -> Result<Self::Frames, WatchError> {
        let mut start = self.0.start.lock();
        let since = start.get_or_insert_with(Instant::now).elapsed();
        self.0.asked.lock().push((since, version.to_owned()));
        let next = self.0.opens.lock().pop_front();
        next.unwrap_or_else(|| Err(refused())).map(frames)
    }

    async fn relist(&self, _version: &str) -> Result<RelistedEvents, WatchError> {
        let next = self.0.looks.lock().pop_front();
        next.unwrap_or_else(|| Err(error()))
            .map_err(WatchError::Request)
    }

    async fn latest_version(&self) -> Result<String, WatchError> {
        Ok(self.0.newest.lock().clone())
    }

    fn version(look: &RelistedEvents) -> &str {
        &look.version
    }

    async fn changed(&self) {
        self.0.moved.notified().await;
    }

    fn redact(&self, text: &str) -> String {
        text.replace("refused", "[cleaned]")
    }
}

impl LabelLookup for Scripted {
    fn labels(&self, object: &InvolvedObject) -> Lookup<Labels> {
        let labels: Labels = Arc::new([("of".to_owned(), object.name.clone())].into());
        match *self.0.labels.lock() {
            None => Lookup::Ready(Some(labels)),
            Some(delay) => {
                let answer = async move {
                    sleep(delay).await;
                    Some(labels)
                };
                Lookup::Pending(answer.boxed().shared(), None)
            }
        }
    }
}

fn error() -> ClusterError {
    let doing = "cannot watch events";
    ClusterError::new(ErrorKind::Unreachable, doing, "refused", None)
}

fn refused() -> WatchError {
    WatchError::Request(error())
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Event(String, i32),
    Change(WatchStatus),
}

#[derive(Default)]
struct Ears(Mutex<Vec<Heard>>);

impl Listener for Ears {
    fn wants(&self, event: &Event) -> bool {
        event.reason != "Boring"
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        for event in events {
            assert_eq!(event.labels["of"], event.involved.name);
            self.0
                .lock()
                .push(Heard::Event(event.uid.clone(), event.count));
        }
    }

    fn on_status(&self, _watch: u64, change: &WatchStatus) {
        self.0.lock().push(Heard::Change(change.clone()));
    }
}

struct World {
    script: Arc<Script>,
    ears: Arc<Ears>,
    status: Arc<WatchHealth>,
    run: JoinHandle<ClusterError>,
}

fn event(uid: &str, count: i32, version: u64) -> Box<Event> {
    Box::new(Event {
        uid: uid.to_owned(),
        count,
        version: Some(version),
        involved: InvolvedObject {
            name: uid.to_owned(),
            ..InvolvedObject::default()
        },
        ..Event::default()
    })
}

#[expect(clippy::unnecessary_wraps, reason = "as it is sent")]
fn seen(uid: &str, count: i32, version: u64) -> Sent {
    Ok(WatchFrame::Item(
        event(uid, count, version),
        version.to_string(),
    ))
}

fn watch_of(script: &Arc<Script>) -> mpsc::UnboundedSender<Sent> {
    let (sender, receiver) = mpsc::unbounded_channel();
    script.opens.lock().push_back(Ok(receiver));
    sender
}

/// A watch that begins at version 100.
#[expect(clippy::disallowed_methods, reason = "the test awaits the task itself")]
fn world(script: Arc<Script>) -> World {
    let subscribers = Arc::new(Subscribers::default());
    let ears = Arc::new(Ears::default());
    subscribers.add(1, 100, ears.clone());
    let status = Arc::new(WatchHealth::new(WatchMetrics::default()));
    let source = Scripted(Arc::clone(&script));
    let watch_loop = WatchLoop::new(
        source,
        Dispatcher::new(subscribers, FlushClock::start()),
        Arc::clone(&status),
        RENEWAL,
        "100".to_owned(),
        "dev/*".to_owned(),
    );
    World {
        script,
        ears,
        status,
        run: tokio::spawn(watch_loop.run()),
    }
}

impl World {
    fn heard(&self) -> Vec<Heard> {
        self.ears.0.lock().clone()
    }

    fn asked(&self) -> Vec<(u64, String)> {
        let asked = self.script.asked.lock();
        asked
            .iter()
            .map(|(when, version)| (when.as_secs(), version.clone()))
            .collect()
    }

    /// Lets time pass in small steps, so that everything that is due happens.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 4 {
            advance(Duration::from_millis(250)).await;
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_told_in_order_once_and_only_news() {
    let script = Arc::new(Script::default());
    let watch = watch_of(&script);
    let world = world(script);
    watch.send(seen("old", 1, 99)).unwrap();
    watch.send(seen("a", 1, 101)).unwrap();
    watch.send(seen("a", 1, 102)).unwrap();
    watch.send(seen("a", 2, 103)).unwrap();
    watch.send(seen("b", 1, 104)).unwrap();
    world.pass(1).await;
    let told = |uid: &str, count| Heard::Event(uid.to_owned(), count);
    assert_eq!(world.heard(), [told("a", 1), told("a", 2), told("b", 1)]);
    // After the window the same count is news again.
    world.pass(5).await;
    watch.send(seen("b", 1, 105)).unwrap();
    world.pass(1).await;
    assert_eq!(world.heard().len(), 4);
    assert_eq!(world.status.state(), WatchState::Live);
}

/// D4: a quiet namespace outlives any number of ordinary closes.
#[tokio::test(start_paused = true)]
async fn a_clean_close_is_renewed_at_once_and_never_a_failure() {
    let script = Arc::new(Script::default());
    let mut watches: VecDeque<_> = (0..20).map(|_| watch_of(&script)).collect();
    let world = world(script);
    world.pass(1).await;
    for _ in 0..19 {
        world.pass(10).await;
        drop(watches.pop_front());
    }
    world.pass(1).await;
    assert_eq!(world.heard(), []);
    assert_eq!(world.asked().len(), 20);
    watches[0].send(seen("a", 1, 101)).unwrap();
    world.pass(1).await;
    assert_eq!(world.heard(), [Heard::Event("a".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_where_it_was() {
    let script = Arc::new(Script::default());
    let (first, second, third) = (watch_of(&script), watch_of(&script), watch_of(&script));
    let world = world(script);
    first.send(seen("a", 1, 110)).unwrap();
    world.pass(2).await;
    first.send(Err(refused())).unwrap();
    world.pass(2).await;
    second
        .send(Ok(WatchFrame::Bookmark("120".to_owned())))
        .unwrap();
    world.pass(2).await;
    drop(second);
    world.pass(2).await;
    let versions: Vec<_> = world
        .asked()
        .into_iter()
        .map(|(_, version)| version)
        .collect();
    assert_eq!(versions, ["100", "110", "120"]);
    third.send(seen("b", 1, 121)).unwrap();
    world.pass(1).await;
    assert_eq!(world.heard().len(), 2);
}

/// S3-47, S3-50, S3-54, C33, C35, D5.
#[tokio::test(start_paused = true)]
async fn five_failures_are_told_once_and_it_goes_on_trying() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(script);
    world.pass(10).await;
    drop(first);
    world.pass(200).await;
    let degraded = |heard: &[Heard]| {
        heard
            .iter()
            .filter(|one| matches!(one, Heard::Change(WatchStatus::Degraded { .. })))
            .count()
    };
    assert_eq!(degraded(&world.heard()), 1);
    let said = format!("{:?}", world.heard());
    assert!(
        said.contains("[cleaned]") && !said.contains("refused"),
        "{said}"
    );
    assert_eq!(world.heard().len(), 1);
    assert_eq!(world.status.state(), WatchState::Degraded);
    let times: Vec<_> = world.asked().iter().map(|(when, _)| *when).collect();
    let waits: Vec<_> = times[1..]
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]);
    let back = watch_of(&world.script);
    world.pass(31).await;
    assert_eq!(
        world.heard().last(),
        Some(&Heard::Change(WatchStatus::Recovered))
    );
    assert_eq!(world.heard().len(), 2);
    assert_eq!(world.status.state(), WatchState::Live);
    // The next episode is told again, after five failures of its own.
    drop(back);
    world.pass(60).await;
    assert_eq!(degraded(&world.heard()), 2);
}

#[tokio::test(start_paused = true)]
async fn four_failures_are_nobodys_business() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    world.pass(10).await;
    for _ in 0..4 {
        script.opens.lock().push_back(Err(refused()));
    }
    let back = watch_of(&script);
    drop(first);
    world.pass(20).await;
    assert_eq!(world.status.state(), WatchState::Live);
    back.send(seen("a", 1, 101)).unwrap();
    world.pass(1).await;
    assert_eq!(world.heard(), [Heard::Event("a".to_owned(), 1)]);
}

/// D3: the history is gone, as an answer or in the middle of a watch.
#[tokio::test(start_paused = true)]
async fn what_the_history_lost_is_looked_for_and_the_gap_is_told() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    first.send(seen("a", 1, 110)).unwrap();
    world.pass(2).await;
    script.looks.lock().push_back(Ok(RelistedEvents {
        version: "500".to_owned(),
        events: vec![(event("b", 1, 300), "300".to_owned())],
        complete: true,
    }));
    let second = watch_of(&script);
    first.send(Err(WatchError::Expired)).unwrap();
    world.pass(2).await;
    let heard = world.heard();
    assert_eq!(heard[1], Heard::Event("b".to_owned(), 1));
    assert!(
        matches!(&heard[2], Heard::Change(WatchStatus::Gap { detail, .. }) if detail.contains("1 events"))
    );
    assert_eq!(world.asked()[1].1, "500");
    // Nothing has happened since: nothing is missing, so nothing is said.
    script.looks.lock().push_back(Ok(RelistedEvents {
        version: "600".to_owned(),
        events: Vec::new(),
        complete: true,
    }));
    script.opens.lock().push_back(Err(WatchError::Expired));
    let third = watch_of(&script);
    drop(second);
    world.pass(2).await;
    assert_eq!(world.heard().len(), 3);
    assert_eq!(world.asked().last().unwrap().1, "600");
    // Too many to look at: that is said even if nothing was found.
    script.looks.lock().push_back(Ok(RelistedEvents {
        version: "700".to_owned(),
        events: Vec::new(),
        complete: false,
    }));
    let _fourth = watch_of(&script);
    third.send(Err(WatchError::Expired)).unwrap();
    world.pass(2).await;
    assert!(matches!(
        world.heard().last(),
        Some(Heard::Change(WatchStatus::Gap { .. }))
    ));
    assert_eq!(world.status.state(), WatchState::Live);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_gone_silent_is_restarted() {
    let script = Arc::new(Script::default());
    let (silent, second) = (watch_of(&script), watch_of(&script));
    let world = world(script);
    silent.send(seen("a", 1, 110)).unwrap();
    world.pass(69).await;
    assert_eq!(world.asked().len(), 1);
    world.pass(3).await;
    assert_eq!(world.asked()[1].1, "110");
    // One that speaks is not silent, however late the server ends it.
    for count in 2..30 {
        second.send(seen("a", count, 110)).unwrap();
        world.pass(9).await;
    }
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_stood_is_an_error() {
    let script = Arc::new(Script::default());
    let world = world(script);
    let error = world.run.await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(*world.ears.0.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn slow_labels_keep_the_order_and_the_watch_going() {
    let script = Arc::new(Script::default());
    let watch = watch_of(&script);
    let world = world(Arc::clone(&script));
    *script.labels.lock() = Some(Duration::from_millis(600));
    watch.send(seen("slow", 1, 101)).unwrap();
    world.pass(0).await;
    tokio::task::yield_now().await;
    *script.labels.lock() = None;
    watch.send(seen("quick", 1, 102)).unwrap();
    drop(watch);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.heard(), []);
    world.pass(2).await;
    let told = |uid: &str| Heard::Event(uid.to_owned(), 1);
    assert_eq!(world.heard(), [told("slow"), told("quick")]);
}

#[tokio::test(start_paused = true)]
async fn a_nudge_ends_the_wait() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    world.pass(2).await;
    drop(first);
    world.pass(100).await;
    let _back = watch_of(&script);
    world.status.wake();
    // It has to hold for a moment.
    world.pass(2).await;
    assert_eq!(world.status.state(), WatchState::Live);
}

/// The context has come to stand for another cluster, whose versions are lower.
#[tokio::test(start_paused = true)]
async fn another_cluster_begins_anew_and_its_history_is_not_told() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    first.send(seen("a", 1, 110)).unwrap();
    world.pass(2).await;
    script
        .opens
        .lock()
        .push_back(Err(WatchError::ClusterReplaced));
    script.looks.lock().push_back(Ok(RelistedEvents {
        version: "50".to_owned(),
        events: vec![(event("old", 1, 40), "40".to_owned())],
        complete: true,
    }));
    let second = watch_of(&script);
    drop(first);
    world.pass(2).await;
    assert_eq!(world.asked().last().unwrap().1, "50");
    second.send(seen("b", 1, 51)).unwrap();
    world.pass(1).await;
    let heard = world.heard();
    assert!(
        matches!(&heard[1], Heard::Change(WatchStatus::Gap { detail, .. }) if detail.contains("another cluster"))
    );
    assert_eq!(heard[2..], [Heard::Event("b".to_owned(), 1)]);
}
