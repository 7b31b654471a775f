//! Clusters that replace the watched one.

use super::*;

/// A recreated cluster counts versions from the beginning.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_lost_its_versions_is_another() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    first.send(item("a", 1, 110)).unwrap();
    fixture.pass(2).await;
    script.relists.lock().push_back(Ok(RelistedEvents {
        version: "7".to_owned(),
        events: vec![(event("history", 1, 6), "6".to_owned())],
        complete: true,
    }));
    let second = add_watch(&script);
    // An expired event proves nothing about the cluster, whatever its version.
    first.send(Ok(WatchFrame::Skipped("3".to_owned()))).unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.opened().len(), 1);
    first
        .send(Ok(WatchFrame::Bookmark("6".to_owned())))
        .unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.opened()[1].1, "7");
    second.send(item("b", 1, 8)).unwrap();
    fixture.pass(1).await;
    let received = fixture.received();
    assert!(matches!(
        received[1],
        Received::Status(WatchStatus::Gap { .. })
    ));
    assert_eq!(received[2..], [Received::Event("b".to_owned(), 1)]);
}

/// The cluster accepts a watch from a future version, and sends nothing.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_says_nothing_is_asked_how_far_it_is() {
    let script = Arc::new(Script::default());
    let mut watches: VecDeque<_> = (0..4).map(|_| add_watch(&script)).collect();
    *script.latest_version.lock() = "100".to_owned();
    let fixture = fixture(Arc::clone(&script));
    fixture.pass(10).await;
    // The same version: the cluster was only quiet.
    drop(watches.pop_front());
    fixture.pass(10).await;
    assert_eq!(fixture.opened().len(), 2);
    script.relists.lock().push_back(Ok(RelistedEvents {
        version: "7".to_owned(),
        ..RelistedEvents::default()
    }));
    *script.latest_version.lock() = "7".to_owned();
    // A watch with frames is trusted.
    watches[0].send(item("a", 1, 101)).unwrap();
    fixture.pass(1).await;
    drop(watches.pop_front());
    fixture.pass(10).await;
    assert_eq!(fixture.opened().last().unwrap().1, "101");
    drop(watches.pop_front());
    fixture.pass(2).await;
    assert_eq!(fixture.opened().last().unwrap().1, "7");
    assert!(matches!(
        fixture.received()[1..],
        [Received::Status(WatchStatus::Gap { .. })]
    ));
}

/// A change of the kubeconfig ends the backoff.
#[tokio::test(start_paused = true)]
async fn a_changed_kubeconfig_ends_the_wait() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    fixture.pass(2).await;
    drop(first);
    fixture.pass(100).await;
    let _back = add_watch(&script);
    script.kubeconfig_changed.notify_one();
    fixture.pass(1).await;
    assert_eq!(fixture.health.state(), WatchState::Live);
}

/// The kubeconfig has changed: the watch may belong to another cluster now.
#[tokio::test(start_paused = true)]
async fn a_watch_whose_place_may_be_another_is_opened_anew() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let _second = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    first.send(item("a", 1, 110)).unwrap();
    fixture.pass(10).await;
    assert_eq!(fixture.opened().len(), 1);
    script.kubeconfig_changed.notify_one();
    fixture.pass(1).await;
    assert_eq!(fixture.opened()[1..], [(10, "110".to_owned())]);
    assert_eq!(fixture.received().len(), 1, "nobody needs to know");
}
