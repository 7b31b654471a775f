use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::{sync::Notify, task::JoinSet, time::advance};

use super::{
    super::{rounds::rest_after, source::EventSource},
    *,
};
use kubecrier_core::{EventFields, subscriptions::Listener};

/// Longer than anything waits.
const A_WHILE: Duration = Duration::from_millis(200);

/// Records the batches of events, and each status.
#[derive(Default)]
struct RecordingListener {
    batches: Mutex<Vec<Vec<String>>>,
    deliveries: Mutex<Vec<(String, Instant)>>,
    /// Its stream, if it has one.
    woken: Notify,
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
        self.woken.notify_waiters();
    }

    fn on_status(&self, _watch: u64, change: &WatchStatus) {
        let status = match change {
            WatchStatus::Gap { .. } => "gap",
            WatchStatus::Degraded { .. } => "degraded",
            WatchStatus::Recovered => "recovered",
            WatchStatus::Unlabelled { .. } => "unlabelled",
            WatchStatus::Withdrawn { .. } => "withdrawn",
        };
        self.batches.lock().push(vec![status.to_owned()]);
    }
}

struct Fixture {
    dispatcher: Dispatcher,
    subscribers: Arc<Subscribers>,
    listener: Arc<RecordingListener>,
    streams: JoinSet<()>,
}

/// One subscriber to everything after version 100.
fn fixture() -> Fixture {
    let subscribers = Subscribers::new("dev");
    let listener = Arc::new(RecordingListener::default());
    subscribers.add(1, 100, listener.clone());
    Fixture {
        dispatcher: Dispatcher::new(Arc::clone(&subscribers)),
        subscribers,
        listener,
        streams: JoinSet::new(),
    }
}

/// How many more subscribe where a round takes long.
const OTHERS: u64 = 300;

/// The same among many, and a round is written for so long.
fn writing_for(time: Duration) -> Fixture {
    let mut fixture = fixture();
    for key in 0..OTHERS {
        let other = Arc::new(RecordingListener::default());
        fixture.subscribers.add(2 + key, 100, other);
    }
    let listener = Arc::clone(&fixture.listener);
    fixture.streams.spawn(async move {
        loop {
            listener.woken.notified().await;
            advance(time).await;
        }
    });
    fixture
}

fn event(uid: &str, version: u64, reason: &str) -> Event {
    Event::from(EventFields {
        uid: uid.to_owned(),
        version: Some(version),
        reason: reason.to_owned(),
        ..EventFields::default()
    })
}

fn gap() -> WatchStatus {
    WatchStatus::Gap {
        since: Timestamp::UNIX_EPOCH,
        detail: String::new(),
    }
}

impl Fixture {
    fn dispatch(&mut self, uid: &str, version: u64) -> Dispatch {
        Dispatch::Event(event(uid, version, ""), self.dispatcher.receive())
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
async fn what_has_come_is_delivered_at_once_and_together() {
    let mut fixture = fixture();
    for uids in [&["a", "b", "c"][..], &["d"], &["e", "f"]] {
        fixture.enqueue(uids);
        let batches = fixture.delivered_within(Duration::ZERO).await;
        assert_eq!(batches, [uids]);
        assert_eq!(fixture.delivered_within(A_WHILE).await.len(), 0, "once");
    }
}

/// However closely they come: nobody gathers where a round is written in no time.
#[tokio::test(start_paused = true)]
async fn with_few_subscribers_no_event_waits_for_the_next() {
    let mut fixture = writing_for(Duration::from_micros(50));
    for number in 0..500 {
        let uid = number.to_string();
        fixture.enqueue(&[&uid]);
        let batches = fixture.delivered_within(Duration::from_millis(1)).await;
        assert_eq!(batches, [[uid]]);
    }
}

/// However many subscribe.
#[tokio::test(start_paused = true)]
async fn what_comes_alone_waits_for_nothing() {
    let mut fixture = writing_for(Duration::from_millis(10));
    for number in 0..20 {
        let uid = number.to_string();
        fixture.enqueue(&[&uid]);
        let came = Instant::now();
        assert_eq!(fixture.delivered_within(A_WHILE).await, [[uid]]);
        let delivered = std::mem::take(&mut *fixture.listener.deliveries.lock());
        assert_eq!(delivered[0].1, came);
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_round_is_written_is_delivered_together_in_the_next() {
    let writing = Duration::from_millis(1);
    let mut fixture = writing_for(writing);
    let (mut batches, mut expected) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for number in 0..400 {
        let uid = number.to_string();
        fixture.enqueue(&[&uid]);
        expected.push(uid);
        batches.extend(fixture.delivered_within(Duration::from_millis(5)).await);
    }
    let passed = began.elapsed();
    batches.extend(fixture.delivered_within(A_WHILE).await);
    assert_eq!(batches.concat(), expected, "all of them, in order");
    assert_eq!(batches[0], ["0"], "the first did not wait");
    let rest = rest_after(writing, 301).unwrap();
    let rounds =
        |each: Duration| usize::try_from(passed.as_micros().div_ceil(each.as_micros())).unwrap();
    // And the one behind the last event.
    let most = rounds(writing + rest) + 1;
    let all = batches.len() - 1;
    // The next round begins with the event after the rest.
    let least = rounds(writing + rest + Duration::from_millis(6));
    assert!((least..=most).contains(&all), "{least}..={most}: {all}");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_the_watch_is_told_after_what_came_before() {
    let mut fixture = fixture();
    fixture.enqueue(&["a", "b"]);
    fixture
        .dispatcher
        .enqueue(Dispatch::Status(WatchStatus::Recovered));
    fixture.enqueue(&["c"]);
    let expected = [vec!["a", "b"], vec!["recovered"], vec!["c"]];
    assert_eq!(fixture.delivered_within(A_WHILE).await, expected);
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
        let batches = fixture.delivered_within(A_WHILE).await;
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
    fixture.enqueue_late("b", 105, A_WHILE);
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
    assert_eq!(fixture.delivered_within(A_WHILE * 2).await, expected);
    let batches = newcomer.batches.lock();
    assert_eq!(*batches, [["gap"], ["e"]], "it came to the other cluster");
}

/// So a subscriber that reads has a turn between two rounds, and its outbox is not overrun.
#[tokio::test(start_paused = true)]
async fn of_a_flood_no_more_is_received_than_rounds_take() {
    let mut fixture = fixture();
    let has_capacity =
        |fixture: &Fixture| WatchHandler::<EventSource>::has_capacity(&fixture.dispatcher);
    for _ in 0..3 {
        for _ in 0..BATCH_MAX {
            assert!(has_capacity(&fixture));
            fixture.enqueue(&["a"]);
        }
        assert!(!has_capacity(&fixture));
        let batches = fixture.delivered_within(A_WHILE).await;
        let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, [BATCH_MAX]);
    }
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
        let received = fixture.dispatcher.receive();
        let dispatch = Dispatch::Event(event(uid, version, reason), received);
        fixture.dispatcher.enqueue(dispatch);
    }
    let late = Arc::new(RecordingListener::default());
    fixture.subscribers.add(4, 100, late.clone());
    fixture.subscribers.remove(1);
    let delivered = fixture.delivered_within(A_WHILE).await;
    assert!(delivered.is_empty(), "it left: {delivered:?}");
    assert_eq!(*picky.batches.lock(), [["a", "d"]]);
    assert_eq!(*newcomer.batches.lock(), [["c", "d"]]);
    assert_eq!(late.batches.lock().len(), 0, "it came after they were read");
}

#[tokio::test(start_paused = true)]
async fn what_was_gathered_is_told_when_the_watch_ends() {
    let mut fixture = fixture();
    fixture.enqueue(&["a", "b", "c"]);
    drop(fixture.dispatcher);
    assert_eq!(*fixture.listener.batches.lock(), [["a", "b", "c"]]);
}

proptest! {
    /// Every event is delivered once and in order, and waits for what is written before it
    /// and for its rest, whatever comes when and however long rounds take.
    #[test]
    fn nothing_is_lost_doubled_or_late(
        writing in 0..6_000_u64,
        pauses in prop::collection::vec((0..80_u64, any::<bool>()), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        let writing = Duration::from_micros(writing);
        runtime.block_on(async {
            let mut fixture = writing_for(writing);
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
            fixture.run_for(A_WHILE).await;
            let deliveries = std::mem::take(&mut *fixture.listener.deliveries.lock());
            prop_assert_eq!(deliveries.len(), expected.len());
            for ((uid, when), (expected, earliest)) in deliveries.into_iter().zip(expected) {
                prop_assert_eq!(uid, expected);
                // The clock has whole milliseconds, for labels and for the rest.
                let rest = rest_after(writing, 301).unwrap_or_default();
                let most = writing + rest + Duration::from_millis(3);
                let late = when.duration_since(earliest);
                prop_assert!(late <= most, "{late:?} of {most:?}");
            }
            Ok(())
        })?;
    }
}

proptest! {
    /// Who joins at any moment and waits: what it does not get has been delivered to who was there.
    #[test]
    fn what_one_who_joins_does_not_get_was_delivered_before(
        writing in 0..6_000_u64,
        pauses in prop::collection::vec((0..40_u64, any::<bool>()), 1..40),
        joins in prop::collection::btree_set(0..40_usize, 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut fixture = writing_for(Duration::from_micros(writing));
            let all: Vec<_> = (0..pauses.len()).map(|number| number.to_string()).collect();
            let mut joined = Vec::new();
            for (number, (millis, slow)) in pauses.into_iter().enumerate() {
                if slow {
                    fixture.enqueue_late(&all[number], 101, Duration::from_millis(30));
                } else {
                    fixture.enqueue(&[&all[number]]);
                }
                if joins.contains(&number) {
                    let late = Arc::new(RecordingListener::default());
                    let key = OTHERS + 10 + number as u64;
                    fixture.subscribers.add(key, 0, late.clone());
                    let subscribers = Arc::clone(&fixture.subscribers);
                    tokio::select! {
                        () = subscribers.progress().until_delivered() => {}
                        () = fixture.run_for(A_WHILE) => prop_assert!(false, "it waits for ever"),
                    }
                    let before = fixture.listener.batches.lock().concat();
                    joined.push((before, late));
                }
                fixture.run_for(Duration::from_millis(millis)).await;
            }
            fixture.run_for(A_WHILE).await;
            for (mut got, late) in joined {
                let meanwhile = late.batches.lock().concat();
                got.retain(|uid| !meanwhile.contains(uid));
                got.extend(meanwhile);
                prop_assert_eq!(&got, &all);
            }
            Ok(())
        })?;
    }
}
