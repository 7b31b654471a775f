use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::advance;

use super::*;
use kubecrier_core::{flush_clock::FLUSH_INTERVAL, subscriptions::Listener};

/// Records the batches of events, and each status.
#[derive(Default)]
struct RecordingListener {
    batches: Mutex<Vec<Vec<String>>>,
    deliveries: Mutex<Vec<(String, Instant)>>,
    only: Option<&'static str>,
}

impl Listener for RecordingListener {
    fn wants(&self, event: &Event) -> bool {
        self.only.is_none_or(|reason| reason == event.reason)
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        let uids: Vec<_> = events.iter().map(|event| event.uid.clone()).collect();
        let now = Instant::now();
        (self.deliveries.lock()).extend(uids.iter().map(|uid| (uid.clone(), now)));
        self.batches.lock().push(uids);
    }

    fn on_status(&self, _watch: u64, change: &WatchStatus) {
        let status = match change {
            WatchStatus::Gap { .. } => "gap",
            WatchStatus::Degraded { .. } => "degraded",
            WatchStatus::Recovered => "recovered",
            WatchStatus::Unlabelled { .. } => "unlabelled",
        };
        self.batches.lock().push(vec![status.to_owned()]);
    }
}

struct Fixture {
    dispatcher: Dispatcher,
    subscribers: Arc<Subscribers>,
    listener: Arc<RecordingListener>,
}

/// One subscriber to everything after version 100.
fn fixture() -> Fixture {
    let subscribers = Arc::new(Subscribers::default());
    let listener = Arc::new(RecordingListener::default());
    subscribers.add(1, 100, listener.clone());
    Fixture {
        dispatcher: Dispatcher::new(Arc::clone(&subscribers), FlushClock::start()),
        subscribers,
        listener,
    }
}

fn event(uid: &str, version: u64, reason: &str) -> Box<Event> {
    Box::new(Event {
        uid: uid.to_owned(),
        version: Some(version),
        reason: reason.to_owned(),
        ..Event::default()
    })
}

fn gap() -> WatchStatus {
    WatchStatus::Gap {
        since: Timestamp::UNIX_EPOCH,
        detail: String::new(),
    }
}

impl Fixture {
    fn dispatch(&self, uid: &str, version: u64) -> Dispatch {
        Dispatch::Event(event(uid, version, ""), self.subscribers.cohort())
    }

    fn enqueue(&mut self, uids: &[&str]) {
        for uid in uids {
            let dispatch = self.dispatch(uid, 101);
            self.dispatcher.enqueue(dispatch);
        }
    }

    /// Enqueues an event that waits for its labels.
    fn enqueue_late(&mut self, uid: &str, version: u64, delay: Duration) {
        let dispatch = self.dispatch(uid, version);
        let late = async move {
            tokio::time::sleep(delay).await;
            dispatch
        };
        self.dispatcher.pending.push_back(late.boxed());
    }

    async fn run_for(&mut self, time: Duration) {
        let _all_done = timeout(time, async {
            loop {
                self.dispatcher.deliver_next().await;
            }
        })
        .await;
    }

    /// The batches that are delivered within this time.
    async fn delivered_within(&mut self, time: Duration) -> Vec<Vec<String>> {
        self.run_for(time).await;
        std::mem::take(&mut *self.listener.batches.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_alone_waits_for_nothing_and_what_follows_comes_together() {
    let mut fixture = fixture();
    advance(FLUSH_INTERVAL / 2).await;
    fixture.enqueue(&["a", "b", "c"]);
    assert_eq!(*fixture.listener.batches.lock(), [["a"]]);
    assert_eq!(
        fixture.delivered_within(FLUSH_INTERVAL * 3).await,
        [vec!["a"], vec!["b", "c"]]
    );
    fixture.enqueue(&["d"]);
    assert_eq!(
        *fixture.listener.batches.lock(),
        [["d"]],
        "nothing came for a slice"
    );
    assert_eq!(
        fixture.delivered_within(FLUSH_INTERVAL * 3).await,
        [["d"]],
        "once"
    );
}

#[tokio::test(start_paused = true)]
async fn what_keeps_coming_is_handed_out_once_in_a_slice() {
    let mut fixture = fixture();
    let mut batches = Vec::new();
    let mut expected = Vec::new();
    // A whole number of milliseconds: the clock has no smaller unit.
    for number in 0..320 {
        let uid = number.to_string();
        fixture.enqueue(&[&uid]);
        expected.push(uid);
        batches.extend(fixture.delivered_within(FLUSH_INTERVAL / 16).await);
    }
    batches.extend(fixture.delivered_within(FLUSH_INTERVAL * 2).await);
    assert_eq!(batches.concat(), expected, "all of them, in order");
    assert!((20..=22).contains(&batches.len()), "{}", batches.len());
}

#[tokio::test(start_paused = true)]
async fn what_comes_slowly_is_handed_out_once_in_two_slices() {
    let mut fixture = fixture();
    let mut batches = Vec::new();
    for _ in 0..80 {
        fixture.enqueue(&["a"]);
        batches.extend(fixture.delivered_within(FLUSH_INTERVAL / 4).await);
    }
    batches.extend(fixture.delivered_within(FLUSH_INTERVAL * 2).await);
    assert_eq!(batches.concat().len(), 80);
    assert!((10..=12).contains(&batches.len()), "{}", batches.len());
}

/// An event at the very end of a flush interval does not flush the others early.
#[tokio::test(start_paused = true)]
async fn what_comes_at_the_end_of_a_slice_is_gathered_like_any_other() {
    let mut fixture = fixture();
    fixture.enqueue(&["a", "b"]);
    advance(FLUSH_INTERVAL).await;
    fixture.enqueue(&["c"]);
    assert_eq!(*fixture.listener.batches.lock(), [["a"]]);
    assert_eq!(fixture.delivered_within(FLUSH_INTERVAL / 2).await, [["a"]]);
    assert_eq!(fixture.delivered_within(FLUSH_INTERVAL).await, [["b", "c"]]);
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_the_watch_is_told_after_what_came_before() {
    let mut fixture = fixture();
    fixture.enqueue(&["a", "b"]);
    fixture
        .dispatcher
        .enqueue(Dispatch::Status(WatchStatus::Recovered));
    fixture.enqueue(&["c"]);
    let expected = [["a"], ["b"], ["recovered"], ["c"]];
    assert_eq!(fixture.delivered_within(FLUSH_INTERVAL * 2).await, expected);
}

/// The current status is replayed to a subscriber that joins, until it ends.
#[tokio::test(start_paused = true)]
async fn who_joins_a_watch_that_does_not_work_is_told() {
    let fixture = fixture();
    let join = |key: u64| {
        let listener = Arc::new(RecordingListener::default());
        fixture.subscribers.add(key, 100, listener.clone());
        fixture.subscribers.replay_status(key, &*listener);
        listener
    };
    let early = join(2);
    let error = "refused".to_owned();
    fixture
        .subscribers
        .notify_status(&WatchStatus::Degraded { error });
    let late = join(3);
    fixture.subscribers.notify_status(&gap());
    fixture.subscribers.notify_status(&WatchStatus::Recovered);
    let after = join(4);
    for listener in [early, late] {
        assert_eq!(
            *listener.batches.lock(),
            [["degraded"], ["gap"], ["recovered"]]
        );
    }
    assert!(after.batches.lock().is_empty());
}

/// A list shows the events that still exist; after a long absence some have expired.
#[tokio::test(start_paused = true)]
async fn a_long_absence_is_a_gap_even_if_nothing_is_new() {
    for (minutes, recovered, expected) in
        [(1, 0, 0), (29, 0, 0), (29, 3, 1), (31, 0, 1), (31, 3, 1)]
    {
        let mut fixture = fixture();
        let relist = RelistContext {
            since: Timestamp::now() - SignedDuration::from_mins(minutes),
            replaced: false,
            watch: "dev/*",
        };
        fixture.dispatcher.report_gap(recovered, true, &relist);
        let batches = fixture.delivered_within(FLUSH_INTERVAL).await;
        assert_eq!(
            batches.len(),
            expected,
            "{minutes} minutes, {recovered} recovered"
        );
    }
}

/// Versions of the other cluster may be lower, and do not apply to pending events.
#[tokio::test(start_paused = true)]
async fn events_of_the_cluster_before_are_told_before_the_next_one_begins() {
    let mut fixture = fixture();
    fixture.enqueue(&["a"]);
    fixture.enqueue_late("b", 105, FLUSH_INTERVAL * 5);
    fixture.dispatcher.replacements += 1;
    let replaced = Dispatch::Replaced(fixture.subscribers.cohort(), 7, gap());
    fixture.dispatcher.enqueue(replaced);
    let newcomer = Arc::new(RecordingListener::default());
    fixture.subscribers.add(2, 9, newcomer.clone());
    for (uid, version) in [("history", 7), ("c", 8), ("d", 9), ("e", 10)] {
        let dispatch = fixture.dispatch(uid, version);
        fixture.dispatcher.enqueue(dispatch);
    }
    let expected = [vec!["a"], vec!["b"], vec!["gap"], vec!["c", "d", "e"]];
    assert_eq!(
        fixture.delivered_within(FLUSH_INTERVAL * 20).await,
        expected
    );
    let batches = newcomer.batches.lock();
    assert_eq!(*batches, [["gap"], ["e"]], "it came to the other cluster");
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_not_kept_until_the_slice_is_over() {
    let mut fixture = fixture();
    for _ in 0..=BATCH_MAX {
        fixture.enqueue(&["a"]);
    }
    let sizes: Vec<_> = fixture
        .listener
        .batches
        .lock()
        .iter()
        .map(Vec::len)
        .collect();
    assert_eq!(sizes, [1, BATCH_MAX]);
}

#[tokio::test(start_paused = true)]
async fn each_gets_what_it_wants_and_who_has_left_nothing() {
    let mut fixture = fixture();
    let picky = Arc::new(RecordingListener {
        only: Some("Wanted"),
        ..RecordingListener::default()
    });
    let newcomer = Arc::new(RecordingListener::default());
    fixture.subscribers.add(2, 100, picky.clone());
    fixture.subscribers.add(3, 102, newcomer.clone());
    for (uid, version, reason) in [
        ("a", 101, "Wanted"),
        ("b", 102, "Boring"),
        ("c", 103, "Boring"),
        ("d", 104, "Wanted"),
    ] {
        let cohort = fixture.subscribers.cohort();
        let dispatch = Dispatch::Event(event(uid, version, reason), cohort);
        fixture.dispatcher.enqueue(dispatch);
    }
    let late = Arc::new(RecordingListener::default());
    fixture.subscribers.add(4, 100, late.clone());
    fixture.subscribers.remove(1);
    assert_eq!(
        fixture.delivered_within(FLUSH_INTERVAL * 2).await,
        [["a"]],
        "it left"
    );
    assert_eq!(*picky.batches.lock(), [["a"], ["d"]]);
    assert_eq!(*newcomer.batches.lock(), [["c", "d"]]);
    assert_eq!(late.batches.lock().len(), 0, "it came after they were read");
}

#[tokio::test(start_paused = true)]
async fn what_was_gathered_is_told_when_the_watch_ends() {
    let mut fixture = fixture();
    fixture.enqueue(&["a", "b", "c"]);
    drop(fixture.dispatcher);
    assert_eq!(
        *fixture.listener.batches.lock(),
        [vec!["a"], vec!["b", "c"]]
    );
}

proptest! {
    /// Every event is delivered once and in order, within two flush intervals.
    #[test]
    fn nothing_is_lost_doubled_or_late(
        pauses in prop::collection::vec((0..200_u64, any::<bool>()), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut fixture = fixture();
            let mut expected = Vec::new();
            // The earliest time of delivery: no event overtakes another.
            let mut earliest = Instant::now();
            for (number, (millis, slow)) in pauses.into_iter().enumerate() {
                let (uid, now) = (number.to_string(), Instant::now());
                let labels = Duration::from_millis(if slow { 30 } else { 0 });
                if slow {
                    fixture.enqueue_late(&uid, 101, labels);
                } else {
                    fixture.enqueue(&[&uid]);
                }
                earliest = earliest.max(now + labels);
                expected.push((uid, earliest));
                fixture.run_for(Duration::from_millis(millis)).await;
            }
            fixture.run_for(FLUSH_INTERVAL * 3).await;
            let deliveries = std::mem::take(&mut *fixture.listener.deliveries.lock());
            prop_assert_eq!(deliveries.len(), expected.len());
            for ((uid, when), (expected, earliest)) in deliveries.into_iter().zip(expected) {
                prop_assert_eq!(uid, expected);
                // The clock has whole milliseconds.
                let late = when.duration_since(earliest);
                prop_assert!(late <= FLUSH_INTERVAL * 2 + Duration::from_millis(2), "{late:?}");
            }
            Ok(())
        })?;
    }
}
