use std::collections::VecDeque;

use tokio::time::{Instant, sleep};

use super::*;
use crate::session::CloseReason;
use crate::testing::millis;

/// Answers with the next of its answers, each after a delay; remembers when.
#[derive(Clone, Default)]
struct Client(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    answers: VecDeque<(Duration, Result<RootsPage, SendError>)>,
    asked: Vec<(Instant, Option<String>)>,
}

impl Client {
    fn then(self, delay: u64, roots: &[&str], next: Option<&str>) -> Self {
        let roots = roots
            .iter()
            .map(|uri| Root {
                uri: (*uri).to_owned(),
                name: None,
            })
            .collect();
        let page = RootsPage {
            roots,
            next_cursor: next.map(ToOwned::to_owned),
        };
        self.0.lock().answers.push_back((millis(delay), Ok(page)));
        self
    }

    fn asked(&self) -> usize {
        self.0.lock().asked.len()
    }
}

impl RootsClient for Client {
    fn list<'a>(&'a self, _: &'a Session, cursor: Option<String>) -> RootsFuture<'a> {
        let mut script = self.0.lock();
        script.asked.push((Instant::now(), cursor));
        let answer = script.answers.pop_front();
        Box::pin(async move {
            let Some((delay, answer)) = answer else {
                return std::future::pending().await;
            };
            sleep(delay).await;
            answer
        })
    }
}

fn uris(snapshot: &RootsSnapshot) -> Vec<&str> {
    snapshot
        .roots
        .iter()
        .map(|root| root.uri.as_str())
        .collect()
}

/// Runs the tracker beside `work`; returns the versions announced.
async fn with<F: Future>(tracker: &RootsTracker, work: F) -> Vec<u64> {
    let versions = Mutex::new(Vec::new());
    tokio::select! {
        () = tracker.run(|_, snapshot| versions.lock().push(snapshot.version)) => {}
        _ = work => {}
    }
    versions.into_inner()
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_is_one_fetch_250_ms_after_the_last() {
    let client = Client::default().then(0, &["file:///a"], None);
    let tracker = RootsTracker::new(client.clone());
    let session = Session::new("s");
    let start = Instant::now();
    let versions = with(&tracker, async {
        for _ in 0..10 {
            tracker.list_changed(&session);
            sleep(millis(20)).await;
        }
        sleep(millis(5000)).await;
    })
    .await;
    assert_eq!(client.asked(), 1);
    assert_eq!(client.0.lock().asked[0].0 - start, millis(180 + 250));
    assert_eq!(versions, [1]);
    assert_eq!(uris(&tracker.snapshot(&session).unwrap()), ["file:///a"]);
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_fetched_sorted_and_each_uri_is_there_once() {
    let client = Client::default()
        .then(0, &["c", "a"], Some("2"))
        .then(0, &["b", "a"], None);
    let tracker = RootsTracker::new(client.clone());
    let session = Session::new("s");
    with(&tracker, async {
        tracker.list_changed(&session);
        sleep(millis(1000)).await;
    })
    .await;
    assert_eq!(uris(&tracker.snapshot(&session).unwrap()), ["a", "b", "c"]);
    let cursors: Vec<_> = client
        .0
        .lock()
        .asked
        .iter()
        .map(|(_, c)| c.clone())
        .collect();
    assert_eq!(cursors, [None, Some("2".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn the_version_rises_only_when_the_roots_differ() {
    let client = Client::default()
        .then(0, &["a", "b"], None)
        .then(0, &["b", "a"], None)
        .then(0, &["a"], None);
    let tracker = RootsTracker::new(client);
    let session = Session::new("s");
    let versions = with(&tracker, async {
        for _ in 0..3 {
            tracker.list_changed(&session);
            sleep(millis(1000)).await;
        }
    })
    .await;
    assert_eq!(versions, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_an_older_change_is_dropped() {
    let client = Client::default()
        .then(2000, &["old"], None)
        .then(0, &["new"], None);
    let tracker = RootsTracker::new(client);
    let session = Session::new("s");
    let versions = with(&tracker, async {
        tracker.list_changed(&session);
        sleep(millis(500)).await;
        tracker.list_changed(&session);
        sleep(millis(5000)).await;
    })
    .await;
    assert_eq!(versions, [1]);
    assert_eq!(uris(&tracker.snapshot(&session).unwrap()), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_delays_no_other_and_one_that_never_ends_is_given_up() {
    let hangs = Client::default();
    let tracker = RootsTracker::new(hangs.clone());
    let (a, b) = (Session::new("a"), Session::new("b"));
    with(&tracker, async {
        tracker.list_changed(&a);
        sleep(millis(300)).await;
        let _ = hangs.clone().then(0, &["b"], None);
        tracker.list_changed(&b);
        sleep(millis(300)).await;
    })
    .await;
    assert!(tracker.snapshot(&a).is_none());
    assert_eq!(uris(&tracker.snapshot(&b).unwrap()), ["b"]);
    let endless = (0..10).fold(Client::default(), |c, _| c.then(0, &["a"], Some("again")));
    let tracker = RootsTracker::new(endless.clone());
    with(&tracker, async {
        tracker.list_changed(&a);
        sleep(millis(1000)).await;
    })
    .await;
    assert_eq!(endless.asked(), 2, "the cursor came twice");
    assert!(tracker.snapshot(&a).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_is_forgotten_and_not_asked() {
    let client = Client::default();
    let tracker = RootsTracker::new(client.clone());
    let session = Session::new("s");
    with(&tracker, async {
        tracker.list_changed(&session);
        session.close(CloseReason::Requested);
        sleep(millis(1000)).await;
    })
    .await;
    tracker.list_changed(&session);
    assert!(tracker.is_empty());
    assert_eq!(client.asked(), 0);
}
