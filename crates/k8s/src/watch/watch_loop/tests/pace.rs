//! How often a server is asked that does not do what it should.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_drops_is_not_hammered() {
    let script = Arc::new(Script::default());
    for _ in 0..50 {
        drop(watch_of(&script));
    }
    let world = world(script);
    world.pass(30).await;
    assert!(
        (28..=31).contains(&world.asked().len()),
        "{:?}",
        world.asked().len()
    );
    assert_eq!(world.heard(), []);
}

/// A watch that opens and breaks, again and again, tells nothing: that is no watch.
#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_at_once_counts_as_a_failure() {
    let script = Arc::new(Script::default());
    for _ in 0..8 {
        watch_of(&script).send(Err(refused())).unwrap();
    }
    let world = world(Arc::clone(&script));
    world.pass(100).await;
    let times: Vec<_> = world.asked().iter().map(|(when, _)| *when).collect();
    assert_eq!(times[..7], [0, 1, 3, 7, 15, 31, 61]);
    let degraded = matches!(
        world.heard()[..],
        [Heard::Change(WatchStatus::Degraded { .. })]
    );
    assert!(degraded, "once: {:?}", world.heard());
    // One that says something is well, and one that says nothing but holds is, too.
    let back = watch_of(&script);
    world.pass(31).await;
    back.send(seen("a", 1, 101)).unwrap();
    world.pass(1).await;
    let expected = [
        Heard::Change(WatchStatus::Recovered),
        Heard::Event("a".to_owned(), 1),
    ];
    assert_eq!(world.heard()[1..], expected);
    let _next = watch_of(&script);
    back.send(Err(refused())).unwrap();
    world.pass(1).await;
    assert_eq!(world.status.state(), WatchState::Live);
    assert_eq!(world.heard().len(), 3, "nobody needs to know");
}

/// One that is accepted and closed at once is not back.
#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_hold_has_not_recovered() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    world.pass(2).await;
    drop(first);
    world.pass(40).await;
    assert_eq!(world.status.state(), WatchState::Degraded);
    for _ in 0..3 {
        drop(watch_of(&script));
    }
    world.pass(33).await;
    assert_eq!(world.status.state(), WatchState::Degraded);
    assert_eq!(world.heard().len(), 1, "degraded, and nothing else");
    let _back = watch_of(&script);
    world.pass(70).await;
    assert_eq!(world.status.state(), WatchState::Live);
    assert_eq!(world.heard()[1..], [Heard::Change(WatchStatus::Recovered)]);
}

/// D3: a server that says "gone" to everything is asked ever more rarely.
#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_everything_is_not_hammered() {
    let script = Arc::new(Script::default());
    let first = watch_of(&script);
    let world = world(Arc::clone(&script));
    world.pass(2).await;
    for _ in 0..100 {
        script.opens.lock().push_back(Err(WatchError::Expired));
        script.looks.lock().push_back(Ok(RelistedEvents {
            version: "500".to_owned(),
            events: Vec::new(),
            complete: true,
        }));
    }
    drop(first);
    world.pass(120).await;
    assert!(world.asked().len() < 12, "{:?}", world.asked());
    assert_eq!(world.heard(), []);
}
