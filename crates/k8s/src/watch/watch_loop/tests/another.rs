//! A cluster that is not the one from before.

use super::*;

/// A cluster that was made anew counts from the beginning.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_lost_its_versions_is_another() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    first.send(seen("a", 1, 110)).unwrap();
    world.pass(2).await;
    script.looks.lock().push_back(Ok(RelistedEvents {
        version: "7".to_owned(),
        events: vec![(event("history", 1, 6), "6".to_owned())],
        complete: true,
    }));
    let second = watch_of(&script);
    // What has lived its time says nothing about the cluster, whatever its version.
    first.send(Ok(WatchFrame::Skipped("3".to_owned()))).unwrap();
    world.pass(1).await;
    assert_eq!(world.asked().len(), 1);
    first
        .send(Ok(WatchFrame::Bookmark("6".to_owned())))
        .unwrap();
    world.pass(1).await;
    assert_eq!(world.asked()[1].1, "7");
    second.send(seen("b", 1, 8)).unwrap();
    world.pass(1).await;
    let heard = world.heard();
    assert!(matches!(heard[1], Heard::Change(WatchStatus::Gap { .. })));
    assert_eq!(heard[2..], [Heard::Event("b".to_owned(), 1)]);
}

/// It takes a watch of versions to come, and says nothing.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_says_nothing_is_asked_how_far_it_is() {
    let script = Arc::new(Script::default());
    let mut watches: VecDeque<_> = (0..4).map(|_| watch_of(&script)).collect();
    *script.newest.lock() = "100".to_owned();
    let world = world(Arc::clone(&script));
    world.pass(10).await;
    // As far as we are: it was only quiet.
    drop(watches.pop_front());
    world.pass(10).await;
    assert_eq!(world.asked().len(), 2);
    script.looks.lock().push_back(Ok(RelistedEvents {
        version: "7".to_owned(),
        ..RelistedEvents::default()
    }));
    *script.newest.lock() = "7".to_owned();
    // One that has said something is believed.
    watches[0].send(seen("a", 1, 101)).unwrap();
    world.pass(1).await;
    drop(watches.pop_front());
    world.pass(10).await;
    assert_eq!(world.asked().last().unwrap().1, "101");
    drop(watches.pop_front());
    world.pass(2).await;
    assert_eq!(world.asked().last().unwrap().1, "7");
    assert!(matches!(
        world.heard()[1..],
        [Heard::Change(WatchStatus::Gap { .. })]
    ));
}

/// Who waits for the next attempt need not, if the kubeconfig has been mended.
#[tokio::test(start_paused = true)]
async fn a_changed_kubeconfig_ends_the_wait() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    world.pass(2).await;
    drop(first);
    world.pass(100).await;
    let _back = watch_of(&script);
    script.moved.notify_one();
    world.pass(1).await;
    assert_eq!(world.status.state(), WatchState::Live);
}

/// The kubeconfig has changed: a watch may be of another cluster from now on.
#[tokio::test(start_paused = true)]
async fn a_watch_whose_place_may_be_another_is_opened_anew() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let _second = watch_of(&script);
    let world = world(Arc::clone(&script));
    first.send(seen("a", 1, 110)).unwrap();
    world.pass(10).await;
    assert_eq!(world.asked().len(), 1);
    script.moved.notify_one();
    world.pass(1).await;
    assert_eq!(world.asked()[1..], [(10, "110".to_owned())]);
    assert_eq!(world.heard().len(), 1, "nobody needs to know");
}
