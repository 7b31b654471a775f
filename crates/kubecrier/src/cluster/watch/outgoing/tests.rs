use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::advance;

use super::*;
use crate::{slices::SLICE, subscriptions::Listener};

/// What was handed out, each time.
#[derive(Default)]
struct Ears {
    heard: Mutex<Vec<Vec<String>>>,
    only: Option<&'static str>,
}

impl Listener for Ears {
    fn wants(&self, event: &Event) -> bool {
        self.only.is_none_or(|reason| reason == event.reason)
    }

    fn take(self: Arc<Self>, events: &[&Arc<Event>]) {
        let uids = events.iter().map(|event| event.uid.clone());
        self.heard.lock().push(uids.collect());
    }

    fn hear(&self, _watch: u64, change: &Change) {
        let what = match change {
            Change::Gap { .. } => "gap",
            Change::Degraded { .. } => "degraded",
            Change::Recovered => "recovered",
        };
        self.heard.lock().push(vec![what.to_owned()]);
    }
}

struct World {
    outgoing: Outgoing,
    members: Arc<Members>,
    ears: Arc<Ears>,
}

/// One member who wants everything after version 100.
fn world() -> World {
    let members = Arc::new(Members::default());
    let ears = Arc::new(Ears::default());
    members.add(1, 100, ears.clone());
    World {
        outgoing: Outgoing::new(Arc::clone(&members), Slices::from_now()),
        members,
        ears,
    }
}

fn ready(uid: &str, version: u64) -> Ready {
    Ready::Event(Box::new(Event {
        uid: uid.to_owned(),
        version: Some(version),
        ..Event::default()
    }))
}

fn gap() -> Change {
    Change::Gap {
        since: jiff::Timestamp::UNIX_EPOCH,
        detail: String::new(),
    }
}

impl World {
    fn next(&mut self, uids: &[&str]) {
        for uid in uids {
            self.outgoing.next(ready(uid, 101));
        }
    }

    /// What is handed out while so much time passes.
    async fn pass(&mut self, time: Duration) -> Vec<Vec<String>> {
        let _all_done = timeout(time, async {
            loop {
                self.outgoing.next_due().await;
            }
        })
        .await;
        std::mem::take(&mut *self.ears.heard.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_alone_waits_for_nothing_and_what_follows_comes_together() {
    let mut world = world();
    advance(SLICE / 2).await;
    world.next(&["a", "b", "c"]);
    assert_eq!(*world.ears.heard.lock(), [["a"]]);
    assert_eq!(world.pass(SLICE * 3).await, [vec!["a"], vec!["b", "c"]]);
    world.next(&["d"]);
    assert_eq!(
        *world.ears.heard.lock(),
        [["d"]],
        "nothing came for a slice"
    );
    assert_eq!(world.pass(SLICE * 3).await, [["d"]], "once");
}

#[tokio::test(start_paused = true)]
async fn what_keeps_coming_is_handed_out_once_in_a_slice() {
    let mut world = world();
    let mut batches = Vec::new();
    let mut expected = Vec::new();
    // A whole number of milliseconds: the clock knows nothing less.
    for number in 0..240 {
        let uid = number.to_string();
        world.next(&[&uid]);
        expected.push(uid);
        batches.extend(world.pass(SLICE / 12).await);
    }
    batches.extend(world.pass(SLICE * 2).await);
    assert_eq!(batches.concat(), expected, "all of them, in order");
    assert!((20..=22).contains(&batches.len()), "{}", batches.len());
}

#[tokio::test(start_paused = true)]
async fn what_comes_slowly_is_handed_out_once_in_two_slices() {
    let mut world = world();
    let mut batches = Vec::new();
    for _ in 0..80 {
        world.next(&["a"]);
        batches.extend(world.pass(SLICE / 4).await);
    }
    batches.extend(world.pass(SLICE * 2).await);
    assert_eq!(batches.concat().len(), 80);
    assert!((10..=12).contains(&batches.len()), "{}", batches.len());
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_the_watch_is_told_after_what_came_before() {
    let mut world = world();
    world.next(&["a", "b"]);
    world.outgoing.next(Ready::Change(Change::Recovered));
    world.next(&["c"]);
    let expected = [["a"], ["b"], ["recovered"], ["c"]];
    assert_eq!(world.pass(SLICE * 2).await, expected);
}

/// Versions of the other cluster may be lower, and say nothing about what waits.
#[tokio::test(start_paused = true)]
async fn events_of_the_cluster_before_are_told_before_the_next_one_begins() {
    let mut world = world();
    world.next(&["a"]);
    // Its labels take their time.
    let late = async {
        tokio::time::sleep(SLICE * 5).await;
        ready("b", 105)
    };
    world.outgoing.pending.push_back(late.boxed());
    world.outgoing.next(Ready::Moved(7, gap()));
    world.outgoing.next(ready("history", 7));
    world.outgoing.next(ready("c", 8));
    let expected = [["a"], ["b"], ["gap"], ["c"]];
    assert_eq!(world.pass(SLICE * 20).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_not_kept_until_the_slice_is_over() {
    let mut world = world();
    for _ in 0..=GATHERED_MAX {
        world.next(&["a"]);
    }
    let handed: Vec<_> = world.ears.heard.lock().iter().map(Vec::len).collect();
    assert_eq!(handed, [1, GATHERED_MAX]);
}

#[tokio::test(start_paused = true)]
async fn each_gets_what_it_wants_and_who_has_left_nothing() {
    let mut world = world();
    let picky = Arc::new(Ears {
        only: Some("Wanted"),
        ..Ears::default()
    });
    let newcomer = Arc::new(Ears::default());
    world.members.add(2, 100, picky.clone());
    world.members.add(3, 102, newcomer.clone());
    let event = |uid: &str, version, reason: &str| {
        Ready::Event(Box::new(Event {
            uid: uid.to_owned(),
            version: Some(version),
            reason: reason.to_owned(),
            ..Event::default()
        }))
    };
    world.outgoing.next(event("a", 101, "Wanted"));
    world.outgoing.next(event("b", 102, "Boring"));
    world.outgoing.next(event("c", 103, "Boring"));
    world.outgoing.next(event("d", 104, "Wanted"));
    world.members.remove(1);
    assert_eq!(world.pass(SLICE * 2).await, [["a"]], "it left");
    assert_eq!(*picky.heard.lock(), [["a"], ["d"]]);
    assert_eq!(*newcomer.heard.lock(), [["c", "d"]]);
}

proptest! {
    /// However they come, everybody gets everything once and in order, within two slices.
    #[test]
    fn nothing_is_lost_doubled_or_late(
        pauses in prop::collection::vec((0..200_u64, any::<bool>()), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = world();
            let mut expected = Vec::new();
            let mut heard = Vec::new();
            for (number, (millis, slow)) in pauses.into_iter().enumerate() {
                let uid = number.to_string();
                if slow {
                    let uid = uid.clone();
                    let late = async move {
                        tokio::time::sleep(Duration::from_millis(30)).await;
                        ready(&uid, 101)
                    };
                    world.outgoing.pending.push_back(late.boxed());
                } else {
                    world.next(&[&uid]);
                }
                expected.push(uid);
                heard.extend(world.pass(Duration::from_millis(millis)).await.concat());
                let waits = world.outgoing.gathered.len() + world.outgoing.pending.len();
                prop_assert!(heard.len() + waits == expected.len());
            }
            heard.extend(world.pass(SLICE * 2 + Duration::from_millis(31)).await.concat());
            prop_assert_eq!(heard, expected);
            Ok(())
        })?;
    }
}
