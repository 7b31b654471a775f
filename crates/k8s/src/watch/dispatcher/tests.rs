use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::advance;

use super::*;
use kubecrier_core::{flush_clock::FLUSH_INTERVAL, subscriptions::Listener};

/// What was handed out, each time.
#[derive(Default)]
struct Ears {
    heard: Mutex<Vec<Vec<String>>>,
    times: Mutex<Vec<(String, Instant)>>,
    only: Option<&'static str>,
}

impl Listener for Ears {
    fn wants(&self, event: &Event) -> bool {
        self.only.is_none_or(|reason| reason == event.reason)
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        let uids: Vec<_> = events.iter().map(|event| event.uid.clone()).collect();
        let now = Instant::now();
        (self.times.lock()).extend(uids.iter().map(|uid| (uid.clone(), now)));
        self.heard.lock().push(uids);
    }

    fn on_status(&self, _watch: u64, change: &WatchStatus) {
        let what = match change {
            WatchStatus::Gap { .. } => "gap",
            WatchStatus::Degraded { .. } => "degraded",
            WatchStatus::Recovered => "recovered",
        };
        self.heard.lock().push(vec![what.to_owned()]);
    }
}

struct World {
    dispatcher: Dispatcher,
    subscribers: Arc<Subscribers>,
    ears: Arc<Ears>,
}

/// One subscriber who wants everything after version 100.
fn world() -> World {
    let subscribers = Arc::new(Subscribers::default());
    let ears = Arc::new(Ears::default());
    subscribers.add(1, 100, ears.clone());
    World {
        dispatcher: Dispatcher::new(Arc::clone(&subscribers), FlushClock::start()),
        subscribers,
        ears,
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

impl World {
    fn ready(&self, uid: &str, version: u64) -> Dispatch {
        Dispatch::Event(event(uid, version, ""), self.subscribers.cohort())
    }

    fn next(&mut self, uids: &[&str]) {
        for uid in uids {
            let ready = self.ready(uid, 101);
            self.dispatcher.enqueue(ready);
        }
    }

    /// One that has to wait for its labels.
    fn later(&mut self, uid: &str, version: u64, delay: Duration) {
        let ready = self.ready(uid, version);
        let late = async move {
            tokio::time::sleep(delay).await;
            ready
        };
        self.dispatcher.pending.push_back(late.boxed());
    }

    async fn pass_quietly(&mut self, time: Duration) {
        let _all_done = timeout(time, async {
            loop {
                self.dispatcher.deliver_next().await;
            }
        })
        .await;
    }

    /// What is handed out while so much time passes.
    async fn pass(&mut self, time: Duration) -> Vec<Vec<String>> {
        self.pass_quietly(time).await;
        std::mem::take(&mut *self.ears.heard.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_alone_waits_for_nothing_and_what_follows_comes_together() {
    let mut world = world();
    advance(FLUSH_INTERVAL / 2).await;
    world.next(&["a", "b", "c"]);
    assert_eq!(*world.ears.heard.lock(), [["a"]]);
    assert_eq!(
        world.pass(FLUSH_INTERVAL * 3).await,
        [vec!["a"], vec!["b", "c"]]
    );
    world.next(&["d"]);
    assert_eq!(
        *world.ears.heard.lock(),
        [["d"]],
        "nothing came for a slice"
    );
    assert_eq!(world.pass(FLUSH_INTERVAL * 3).await, [["d"]], "once");
}

#[tokio::test(start_paused = true)]
async fn what_keeps_coming_is_handed_out_once_in_a_slice() {
    let mut world = world();
    let mut batches = Vec::new();
    let mut expected = Vec::new();
    // A whole number of milliseconds: the clock knows nothing less.
    for number in 0..320 {
        let uid = number.to_string();
        world.next(&[&uid]);
        expected.push(uid);
        batches.extend(world.pass(FLUSH_INTERVAL / 16).await);
    }
    batches.extend(world.pass(FLUSH_INTERVAL * 2).await);
    assert_eq!(batches.concat(), expected, "all of them, in order");
    assert!((20..=22).contains(&batches.len()), "{}", batches.len());
}

#[tokio::test(start_paused = true)]
async fn what_comes_slowly_is_handed_out_once_in_two_slices() {
    let mut world = world();
    let mut batches = Vec::new();
    for _ in 0..80 {
        world.next(&["a"]);
        batches.extend(world.pass(FLUSH_INTERVAL / 4).await);
    }
    batches.extend(world.pass(FLUSH_INTERVAL * 2).await);
    assert_eq!(batches.concat().len(), 80);
    assert!((10..=12).contains(&batches.len()), "{}", batches.len());
}

/// An event that comes just when a slice is over does not make the others worth more.
#[tokio::test(start_paused = true)]
async fn what_comes_at_the_end_of_a_slice_is_gathered_like_any_other() {
    let mut world = world();
    world.next(&["a", "b"]);
    advance(FLUSH_INTERVAL).await;
    world.next(&["c"]);
    assert_eq!(*world.ears.heard.lock(), [["a"]]);
    assert_eq!(world.pass(FLUSH_INTERVAL / 2).await, [["a"]]);
    assert_eq!(world.pass(FLUSH_INTERVAL).await, [["b", "c"]]);
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_the_watch_is_told_after_what_came_before() {
    let mut world = world();
    world.next(&["a", "b"]);
    world
        .dispatcher
        .enqueue(Dispatch::Status(WatchStatus::Recovered));
    world.next(&["c"]);
    let expected = [["a"], ["b"], ["recovered"], ["c"]];
    assert_eq!(world.pass(FLUSH_INTERVAL * 2).await, expected);
}

/// Who joins is told what all were told before, and only relist it ends.
#[tokio::test(start_paused = true)]
async fn who_joins_a_watch_that_does_not_work_is_told() {
    let world = world();
    let join = |key: u64| {
        let ears = Arc::new(Ears::default());
        world.subscribers.add(key, 100, ears.clone());
        world.subscribers.replay_status(key, &*ears);
        ears
    };
    let early = join(2);
    let error = "refused".to_owned();
    world
        .subscribers
        .notify_status(&WatchStatus::Degraded { error });
    let late = join(3);
    world.subscribers.notify_status(&gap());
    world.subscribers.notify_status(&WatchStatus::Recovered);
    let after = join(4);
    for ears in [early, late] {
        assert_eq!(*ears.heard.lock(), [["degraded"], ["gap"], ["recovered"]]);
    }
    assert!(after.heard.lock().is_empty());
}

/// A list shows what lives, and after a while that is not all that has happened.
#[tokio::test(start_paused = true)]
async fn a_long_absence_is_a_gap_even_if_nothing_is_new() {
    for (minutes, recovered, expected) in
        [(1, 0, 0), (29, 0, 0), (29, 3, 1), (31, 0, 1), (31, 3, 1)]
    {
        let mut world = world();
        let relist = RelistContext {
            since: Timestamp::now() - SignedDuration::from_mins(minutes),
            replaced: false,
            watch: "dev/*",
        };
        world.dispatcher.report_gap(recovered, true, &relist);
        let heard = world.pass(FLUSH_INTERVAL).await;
        assert_eq!(
            heard.len(),
            expected,
            "{minutes} minutes, {recovered} recovered"
        );
    }
}

/// Versions of the other cluster may be lower, and say nothing about what waits.
#[tokio::test(start_paused = true)]
async fn events_of_the_cluster_before_are_told_before_the_next_one_begins() {
    let mut world = world();
    world.next(&["a"]);
    world.later("b", 105, FLUSH_INTERVAL * 5);
    world.dispatcher.replacements += 1;
    let moved = Dispatch::Replaced(world.subscribers.cohort(), 7, gap());
    world.dispatcher.enqueue(moved);
    let newcomer = Arc::new(Ears::default());
    world.subscribers.add(2, 9, newcomer.clone());
    for (uid, version) in [("history", 7), ("c", 8), ("d", 9), ("e", 10)] {
        let ready = world.ready(uid, version);
        world.dispatcher.enqueue(ready);
    }
    let expected = [vec!["a"], vec!["b"], vec!["gap"], vec!["c", "d", "e"]];
    assert_eq!(world.pass(FLUSH_INTERVAL * 20).await, expected);
    let heard = newcomer.heard.lock();
    assert_eq!(*heard, [["gap"], ["e"]], "it came to the other cluster");
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_not_kept_until_the_slice_is_over() {
    let mut world = world();
    for _ in 0..=BATCH_MAX {
        world.next(&["a"]);
    }
    let handed: Vec<_> = world.ears.heard.lock().iter().map(Vec::len).collect();
    assert_eq!(handed, [1, BATCH_MAX]);
}

#[tokio::test(start_paused = true)]
async fn each_gets_what_it_wants_and_who_has_left_nothing() {
    let mut world = world();
    let picky = Arc::new(Ears {
        only: Some("Wanted"),
        ..Ears::default()
    });
    let newcomer = Arc::new(Ears::default());
    world.subscribers.add(2, 100, picky.clone());
    world.subscribers.add(3, 102, newcomer.clone());
    for (uid, version, reason) in [
        ("a", 101, "Wanted"),
        ("b", 102, "Boring"),
        ("c", 103, "Boring"),
        ("d", 104, "Wanted"),
    ] {
        let cohort = world.subscribers.cohort();
        let ready = Dispatch::Event(event(uid, version, reason), cohort);
        world.dispatcher.enqueue(ready);
    }
    let late = Arc::new(Ears::default());
    world.subscribers.add(4, 100, late.clone());
    world.subscribers.remove(1);
    assert_eq!(world.pass(FLUSH_INTERVAL * 2).await, [["a"]], "it left");
    assert_eq!(*picky.heard.lock(), [["a"], ["d"]]);
    assert_eq!(*newcomer.heard.lock(), [["c", "d"]]);
    assert_eq!(late.heard.lock().len(), 0, "it came after they were read");
}

#[tokio::test(start_paused = true)]
async fn what_was_gathered_is_told_when_the_watch_ends() {
    let mut world = world();
    world.next(&["a", "b", "c"]);
    drop(world.dispatcher);
    assert_eq!(*world.ears.heard.lock(), [vec!["a"], vec!["b", "c"]]);
}

proptest! {
    /// However they come, everybody gets everything once and in order, within two flush intervals.
    #[test]
    fn nothing_is_lost_doubled_or_late(
        pauses in prop::collection::vec((0..200_u64, any::<bool>()), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = world();
            let mut expected = Vec::new();
            // When it could have been told: nothing overtakes.
            let mut ready = Instant::now();
            for (number, (millis, slow)) in pauses.into_iter().enumerate() {
                let (uid, now) = (number.to_string(), Instant::now());
                let labels = Duration::from_millis(if slow { 30 } else { 0 });
                if slow {
                    world.later(&uid, 101, labels);
                } else {
                    world.next(&[&uid]);
                }
                ready = ready.max(now + labels);
                expected.push((uid, ready));
                world.pass_quietly(Duration::from_millis(millis)).await;
            }
            world.pass_quietly(FLUSH_INTERVAL * 3).await;
            let heard = std::mem::take(&mut *world.ears.times.lock());
            prop_assert_eq!(heard.len(), expected.len());
            for ((uid, when), (expected, ready)) in heard.into_iter().zip(expected) {
                prop_assert_eq!(uid, expected);
                // The clock knows whole milliseconds.
                let late = when.duration_since(ready);
                prop_assert!(late <= FLUSH_INTERVAL * 2 + Duration::from_millis(2), "{late:?}");
            }
            Ok(())
        })?;
    }
}
