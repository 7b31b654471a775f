//! An API server that says nothing: a half-open connection, or a frozen process.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_gone_silent_is_restarted_on_another_connection() {
    let script = Arc::new(Script::default());
    let (silent, second) = (add_watch(&script), add_watch(&script));
    let fixture = fixture(script);
    silent.send(item("a", 1, 110)).unwrap();
    fixture.pass(23).await;
    assert_eq!(fixture.opened().len(), 1);
    fixture.pass(2).await;
    assert_eq!(fixture.opened()[1].1, "110");
    assert_eq!(*fixture.script.reconnects.lock(), 1);
    assert_eq!(fixture.received().len(), 1, "and nobody has to know");
    // A watch with frames is not silent, however late the server ends it.
    for count in 2..30 {
        second.send(item("a", count, 110)).unwrap();
        fixture.pass(3).await;
    }
    assert_eq!(fixture.opened().len(), 2);
    assert_eq!(*fixture.script.reconnects.lock(), 1);
}

/// At whatever moment an API server freezes, subscribers know within 30 s, once, and miss
/// nothing when it goes on.
#[tokio::test(start_paused = true)]
async fn a_frozen_server_is_told_within_thirty_seconds_and_its_return_too() {
    for frozen_after in [0, 5, 19] {
        let script = Arc::new(Script::default());
        let first = add_watch(&script);
        let fixture = fixture(script);
        first.send(item("a", 1, 110)).unwrap();
        fixture.pass(frozen_after + 1).await;
        *fixture.script.frozen.lock() = true;
        fixture.pass(29).await;
        assert_eq!(fixture.health.state(), WatchState::Degraded);
        let [
            Received::Event(..),
            Received::Status(WatchStatus::Degraded { error }),
        ] = &fixture.received()[..]
        else {
            panic!("{:?}", fixture.received());
        };
        assert!(error.contains("has fallen silent"), "{error}");
        fixture.pass(300).await;
        assert_eq!(fixture.received().len(), 2, "once");
        *fixture.script.frozen.lock() = false;
        let back = add_watch(&fixture.script);
        let _later = [(); 3].map(|()| add_watch(&fixture.script));
        back.send(item("b", 1, 111)).unwrap();
        fixture.pass(45).await;
        assert_eq!(
            fixture.received()[2..],
            [
                Received::Status(WatchStatus::Recovered),
                Received::Event("b".to_owned(), 1)
            ]
        );
        let attempts = fixture.opened();
        let from = attempts.iter().find(|(_, version)| version != "100");
        assert_eq!(from.unwrap().1, "110", "from where it was");
        drop(first);
    }
}

/// A server that only answers slowly after a silence is not frozen for long.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_silence_is_told_at_once_and_five_others_as_ever() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(script);
    fixture.pass(26).await;
    assert_eq!(fixture.health.state(), WatchState::Degraded);
    let back = add_watch(&fixture.script);
    fixture.pass(10).await;
    assert_eq!(fixture.health.state(), WatchState::Live);
    drop(first);
    // Not silent any more: a closed watch that cannot be opened has five attempts again.
    fixture.script.opens.lock().clear();
    drop(back);
    fixture.pass(4).await;
    assert_eq!(fixture.health.state(), WatchState::Reconnecting);
    fixture.pass(15).await;
    assert_eq!(fixture.health.state(), WatchState::Degraded);
}

/// A healthy server that is quiet gets one request per renewal and watch, and one more in a
/// minute where it sends no bookmarks.
#[tokio::test(start_paused = true)]
async fn a_quiet_server_is_not_asked_more_often_than_it_has_to_be() {
    for bookmarks in [true, false] {
        let script = Arc::new(Script::default());
        let watches: Vec<_> = (0..31).map(|_| add_watch(&script)).collect();
        *script.latest_version.lock() = "100".to_owned();
        let fixture = fixture(script);
        fixture.pass(0).await;
        for watch in watches.into_iter().take(30) {
            fixture.pass(18).await;
            if bookmarks {
                let bookmark = WatchFrame::Bookmark("100".to_owned());
                watch.send(Ok(bookmark)).unwrap();
            }
            fixture.pass(2).await;
            drop(watch);
        }
        fixture.pass(1).await;
        assert_eq!(fixture.opened().len(), 31, "in ten minutes");
        let asked = *fixture.script.versions_asked.lock();
        if bookmarks {
            assert_eq!(asked, 0);
        } else {
            assert!((1..=10).contains(&asked), "{asked}");
        }
        assert_eq!(fixture.received(), []);
    }
}
