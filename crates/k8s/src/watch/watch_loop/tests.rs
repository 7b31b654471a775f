//! The life cycle of a watch over a scripted source, on paused time.

mod another;
mod pace;
mod rounds;
mod silence;

use std::collections::{BTreeMap, VecDeque};

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
    watch::{dispatcher::Dispatcher, labels::FoundLabels, source::*, subscribers::Subscribers},
};
use kubecrier_core::{
    Event, EventFields, InvolvedObject, Labels,
    metrics::WatchMetrics,
    subscriptions::{LabelUse, Listener},
    ttl_cache::Lookup,
};

/// The default.
const RENEWAL: Duration = Duration::from_secs(20);

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

type FrameResult = Result<WatchFrame<Event>, WatchError>;

/// The responses of the API server to the next requests; after the last one, requests are
/// refused.
#[derive(Default)]
struct Script {
    opens: Mutex<VecDeque<Result<mpsc::UnboundedReceiver<FrameResult>, WatchError>>>,
    relists: Mutex<VecDeque<Result<RelistedEvents, ClusterError>>>,
    /// Versions from which watches were opened, and when.
    opened: Mutex<Vec<(Duration, String)>>,
    labels: Mutex<Option<Duration>>,
    started_at: Mutex<Option<Instant>>,
    kubeconfig_changed: Notify,
    /// The server accepts connections and never answers.
    frozen: Mutex<bool>,
    reconnects: Mutex<usize>,
    versions_asked: Mutex<usize>,
    /// The latest resourceVersion of the cluster.
    latest_version: Mutex<String>,
}

struct ScriptedSource(Arc<Script>);

fn frames(receiver: mpsc::UnboundedReceiver<FrameResult>) -> BoxStream<'static, FrameResult> {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let frame = receiver.recv().await?;
        Some((frame, receiver))
    })
    .boxed()
}

impl WatchSource for ScriptedSource {
    type Item = Event;
    type Relisted = RelistedEvents;
    type Frames = BoxStream<'static, FrameResult>;

    async fn open(&self, version: &str) -> Result<Self::Frames, WatchError> {
        let since = *self.0.started_at.lock().get_or_insert_with(Instant::now);
        let opened = (since.elapsed(), version.to_owned());
        self.0.opened.lock().push(opened);
        if *self.0.frozen.lock() {
            sleep(REQUEST_TIMEOUT).await;
            return Err(refused());
        }
        let next = self.0.opens.lock().pop_front();
        next.unwrap_or_else(|| Err(refused())).map(frames)
    }

    async fn relist(&self, _version: &str) -> Result<RelistedEvents, WatchError> {
        let next = self.0.relists.lock().pop_front();
        next.unwrap_or_else(|| Err(error()))
            .map_err(WatchError::Request)
    }

    async fn latest_version(&self) -> Result<String, WatchError> {
        *self.0.versions_asked.lock() += 1;
        Ok(self.0.latest_version.lock().clone())
    }

    fn version(listed: &RelistedEvents) -> &str {
        &listed.version
    }

    async fn changed(&self) {
        self.0.kubeconfig_changed.notified().await;
    }

    fn reconnect(&self) {
        *self.0.reconnects.lock() += 1;
    }

    fn redact(&self, text: &str) -> String {
        text.replace("refused", "[cleaned]")
    }
}

impl LabelLookup for ScriptedSource {
    fn labels(&self, object: &InvolvedObject, _needed: LabelUse) -> Lookup<FoundLabels> {
        let labels = BTreeMap::from([("of".to_owned(), object.name.clone())]);
        let labels = FoundLabels::Known(Labels::from(labels));
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
enum Received {
    Event(String, i32),
    Status(WatchStatus),
}

#[derive(Default)]
struct RecordingListener(Mutex<Vec<Received>>, Mutex<Vec<usize>>);

impl Listener for RecordingListener {
    fn wants(&self, event: &Event) -> bool {
        event.reason != "Boring"
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        self.1.lock().push(events.len());
        for event in events {
            assert_eq!(event.labels.get("of"), Some(&*event.involved.name));
            self.0
                .lock()
                .push(Received::Event(event.uid.clone(), event.count));
        }
    }

    fn on_status(&self, _watch: u64, change: &WatchStatus) {
        self.0.lock().push(Received::Status(change.clone()));
    }
}

struct Fixture {
    script: Arc<Script>,
    listener: Arc<RecordingListener>,
    health: Arc<WatchHealth>,
    run: JoinHandle<ClusterError>,
}

fn event(uid: &str, count: i32, version: u64) -> Event {
    Event::from(EventFields {
        uid: uid.to_owned(),
        count,
        version: Some(version),
        involved: InvolvedObject {
            name: uid.to_owned(),
            ..InvolvedObject::default()
        },
        ..EventFields::default()
    })
}

#[expect(clippy::unnecessary_wraps, reason = "as it is sent")]
fn item(uid: &str, count: i32, version: u64) -> FrameResult {
    Ok(WatchFrame::Item(
        event(uid, count, version),
        version.to_string(),
    ))
}

fn add_watch(script: &Arc<Script>) -> mpsc::UnboundedSender<FrameResult> {
    let (sender, receiver) = mpsc::unbounded_channel();
    script.opens.lock().push_back(Ok(receiver));
    sender
}

/// A watch that begins at version 100.
#[expect(clippy::disallowed_methods, reason = "the test awaits the task itself")]
fn fixture(script: Arc<Script>) -> Fixture {
    let subscribers = Subscribers::new("dev");
    let listener = Arc::new(RecordingListener::default());
    subscribers.add(1, 100, listener.clone());
    let health = Arc::new(WatchHealth::new(WatchMetrics::default()));
    let source = ScriptedSource(Arc::clone(&script));
    let watch_loop = WatchLoop::new(
        source,
        Dispatcher::new(subscribers),
        Arc::clone(&health),
        RENEWAL,
        "100".to_owned(),
        "dev/*".to_owned(),
    );
    Fixture {
        script,
        listener,
        health,
        run: tokio::spawn(watch_loop.run()),
    }
}

impl Fixture {
    fn received(&self) -> Vec<Received> {
        self.listener.0.lock().clone()
    }

    fn opened(&self) -> Vec<(u64, String)> {
        let opened = self.script.opened.lock();
        opened
            .iter()
            .map(|(when, version)| (when.as_secs(), version.clone()))
            .collect()
    }

    /// Advances the time in small steps, so that every due timer fires.
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
    let watch = add_watch(&script);
    let fixture = fixture(script);
    watch.send(item("old", 1, 99)).unwrap();
    watch.send(item("a", 1, 101)).unwrap();
    watch.send(item("a", 1, 102)).unwrap();
    watch.send(item("a", 2, 103)).unwrap();
    watch.send(item("b", 1, 104)).unwrap();
    fixture.pass(1).await;
    let event_of = |uid: &str, count| Received::Event(uid.to_owned(), count);
    assert_eq!(
        fixture.received(),
        [event_of("a", 1), event_of("a", 2), event_of("b", 1)]
    );
    // After the window the same count is delivered again.
    fixture.pass(5).await;
    watch.send(item("b", 1, 105)).unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.received().len(), 4);
    assert_eq!(fixture.health.state(), WatchState::Live);
}

/// D4: a quiet namespace outlives any number of ordinary closes.
#[tokio::test(start_paused = true)]
async fn a_clean_close_is_renewed_at_once_and_never_a_failure() {
    let script = Arc::new(Script::default());
    let mut watches: VecDeque<_> = (0..20).map(|_| add_watch(&script)).collect();
    let fixture = fixture(script);
    fixture.pass(1).await;
    for _ in 0..19 {
        fixture.pass(10).await;
        drop(watches.pop_front());
    }
    fixture.pass(1).await;
    assert_eq!(fixture.received(), []);
    assert_eq!(fixture.opened().len(), 20);
    watches[0].send(item("a", 1, 101)).unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.received(), [Received::Event("a".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_where_it_was() {
    let script = Arc::new(Script::default());
    let (first, second, third) = (add_watch(&script), add_watch(&script), add_watch(&script));
    let fixture = fixture(script);
    first.send(item("a", 1, 110)).unwrap();
    fixture.pass(2).await;
    first.send(Err(refused())).unwrap();
    fixture.pass(2).await;
    second
        .send(Ok(WatchFrame::Bookmark("120".to_owned())))
        .unwrap();
    fixture.pass(2).await;
    drop(second);
    fixture.pass(2).await;
    let versions: Vec<_> = fixture
        .opened()
        .into_iter()
        .map(|(_, version)| version)
        .collect();
    assert_eq!(versions, ["100", "110", "120"]);
    third.send(item("b", 1, 121)).unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.received().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn five_failures_are_told_once_and_it_goes_on_trying() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(script);
    fixture.pass(10).await;
    drop(first);
    fixture.pass(200).await;
    let degraded = |received: &[Received]| {
        received
            .iter()
            .filter(|one| matches!(one, Received::Status(WatchStatus::Degraded { .. })))
            .count()
    };
    assert_eq!(degraded(&fixture.received()), 1);
    let debug = format!("{:?}", fixture.received());
    assert!(
        debug.contains("[cleaned]") && !debug.contains("refused"),
        "{debug}"
    );
    assert_eq!(fixture.received().len(), 1);
    assert_eq!(fixture.health.state(), WatchState::Degraded);
    let times: Vec<_> = fixture.opened().iter().map(|(when, _)| *when).collect();
    let waits: Vec<_> = times[1..]
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]);
    let back = add_watch(&fixture.script);
    fixture.pass(31).await;
    assert_eq!(
        fixture.received().last(),
        Some(&Received::Status(WatchStatus::Recovered))
    );
    assert_eq!(fixture.received().len(), 2);
    assert_eq!(fixture.health.state(), WatchState::Live);
    // The next outage is reported again, after five failures of its own.
    drop(back);
    fixture.pass(60).await;
    assert_eq!(degraded(&fixture.received()), 2);
}

#[tokio::test(start_paused = true)]
async fn four_failures_are_nobodys_business() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    fixture.pass(10).await;
    for _ in 0..4 {
        script.opens.lock().push_back(Err(refused()));
    }
    let back = add_watch(&script);
    drop(first);
    fixture.pass(20).await;
    assert_eq!(fixture.health.state(), WatchState::Live);
    back.send(item("a", 1, 101)).unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.received(), [Received::Event("a".to_owned(), 1)]);
}

/// D3: the history has expired, as a response or in the middle of a watch.
#[tokio::test(start_paused = true)]
async fn what_the_history_lost_is_looked_for_and_the_gap_is_told() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    first.send(item("a", 1, 110)).unwrap();
    fixture.pass(2).await;
    script.relists.lock().push_back(Ok(RelistedEvents {
        version: "500".to_owned(),
        events: vec![(event("b", 1, 300), "300".to_owned())],
        complete: true,
    }));
    let second = add_watch(&script);
    first.send(Err(WatchError::Expired)).unwrap();
    fixture.pass(2).await;
    let received = fixture.received();
    assert_eq!(received[1], Received::Event("b".to_owned(), 1));
    assert!(
        matches!(&received[2], Received::Status(WatchStatus::Gap { detail, .. }) if detail.contains("1 events"))
    );
    assert_eq!(fixture.opened()[1].1, "500");
    // No event since: nothing is missing, so no gap is reported.
    script.relists.lock().push_back(Ok(RelistedEvents {
        version: "600".to_owned(),
        events: Vec::new(),
        complete: true,
    }));
    script.opens.lock().push_back(Err(WatchError::Expired));
    let third = add_watch(&script);
    drop(second);
    fixture.pass(2).await;
    assert_eq!(fixture.received().len(), 3);
    assert_eq!(fixture.opened().last().unwrap().1, "600");
    // Too many events to read: a gap is reported even if none was recovered.
    script.relists.lock().push_back(Ok(RelistedEvents {
        version: "700".to_owned(),
        events: Vec::new(),
        complete: false,
    }));
    let _fourth = add_watch(&script);
    third.send(Err(WatchError::Expired)).unwrap();
    fixture.pass(2).await;
    assert!(matches!(
        fixture.received().last(),
        Some(Received::Status(WatchStatus::Gap { .. }))
    ));
    assert_eq!(fixture.health.state(), WatchState::Live);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_stood_is_an_error() {
    let script = Arc::new(Script::default());
    let fixture = fixture(script);
    let error = fixture.run.await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(*fixture.listener.0.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn slow_labels_keep_the_order_and_the_watch_going() {
    let script = Arc::new(Script::default());
    let watch = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    *script.labels.lock() = Some(Duration::from_millis(600));
    watch.send(item("slow", 1, 101)).unwrap();
    fixture.pass(0).await;
    tokio::task::yield_now().await;
    *script.labels.lock() = None;
    watch.send(item("quick", 1, 102)).unwrap();
    drop(watch);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.received(), []);
    fixture.pass(2).await;
    let event_of = |uid: &str| Received::Event(uid.to_owned(), 1);
    assert_eq!(fixture.received(), [event_of("slow"), event_of("quick")]);
}

#[tokio::test(start_paused = true)]
async fn a_nudge_ends_the_wait() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    fixture.pass(2).await;
    drop(first);
    fixture.pass(100).await;
    let _back = add_watch(&script);
    fixture.health.wake();
    // The watch has to stay open for a moment.
    fixture.pass(2).await;
    assert_eq!(fixture.health.state(), WatchState::Live);
}

/// The context refers to another cluster now, whose versions are lower.
#[tokio::test(start_paused = true)]
async fn another_cluster_begins_anew_and_its_history_is_not_told() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    first.send(item("a", 1, 110)).unwrap();
    fixture.pass(2).await;
    script
        .opens
        .lock()
        .push_back(Err(WatchError::ClusterReplaced));
    script.relists.lock().push_back(Ok(RelistedEvents {
        version: "50".to_owned(),
        events: vec![(event("old", 1, 40), "40".to_owned())],
        complete: true,
    }));
    let second = add_watch(&script);
    drop(first);
    fixture.pass(2).await;
    assert_eq!(fixture.opened().last().unwrap().1, "50");
    second.send(item("b", 1, 51)).unwrap();
    fixture.pass(1).await;
    let received = fixture.received();
    assert!(
        matches!(&received[1], Received::Status(WatchStatus::Gap { detail, .. }) if detail.contains("another cluster"))
    );
    assert_eq!(received[2..], [Received::Event("b".to_owned(), 1)]);
}
