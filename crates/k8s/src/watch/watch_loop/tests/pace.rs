//! The rate of requests to a server that misbehaves.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_drops_is_not_hammered() {
    let script = Arc::new(Script::default());
    for _ in 0..50 {
        drop(add_watch(&script));
    }
    let fixture = fixture(script);
    fixture.pass(30).await;
    assert!(
        (28..=31).contains(&fixture.opened().len()),
        "{:?}",
        fixture.opened().len()
    );
    assert_eq!(fixture.received(), []);
}

/// A watch that opens and breaks again and again delivers nothing.
#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_at_once_counts_as_a_failure() {
    let script = Arc::new(Script::default());
    for _ in 0..8 {
        add_watch(&script).send(Err(refused())).unwrap();
    }
    let fixture = fixture(Arc::clone(&script));
    fixture.pass(100).await;
    let times: Vec<_> = fixture.opened().iter().map(|(when, _)| *when).collect();
    assert_eq!(times[..7], [0, 1, 3, 7, 15, 31, 61]);
    let degraded = matches!(
        fixture.received()[..],
        [Received::Status(WatchStatus::Degraded { .. })]
    );
    assert!(degraded, "once: {:?}", fixture.received());
    // A watch with frames has recovered, and so has a silent one that stays open.
    let back = add_watch(&script);
    fixture.pass(31).await;
    back.send(item("a", 1, 101)).unwrap();
    fixture.pass(1).await;
    let expected = [
        Received::Status(WatchStatus::Recovered),
        Received::Event("a".to_owned(), 1),
    ];
    assert_eq!(fixture.received()[1..], expected);
    let _next = add_watch(&script);
    back.send(Err(refused())).unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.health.state(), WatchState::Live);
    assert_eq!(fixture.received().len(), 3, "nobody needs to know");
}

/// A watch that is accepted and closed at once has not recovered.
#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_hold_has_not_recovered() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    fixture.pass(2).await;
    drop(first);
    fixture.pass(40).await;
    assert_eq!(fixture.health.state(), WatchState::Degraded);
    for _ in 0..3 {
        drop(add_watch(&script));
    }
    fixture.pass(33).await;
    assert_eq!(fixture.health.state(), WatchState::Degraded);
    assert_eq!(fixture.received().len(), 1, "degraded, and nothing else");
    let _back = [(); 4].map(|()| add_watch(&script));
    fixture.pass(70).await;
    assert_eq!(fixture.health.state(), WatchState::Live);
    assert_eq!(
        fixture.received()[1..],
        [Received::Status(WatchStatus::Recovered)]
    );
}

/// D3: the backoff grows for a server that answers "gone" to every request.
#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_everything_is_not_hammered() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(Arc::clone(&script));
    fixture.pass(2).await;
    for _ in 0..100 {
        script.opens.lock().push_back(Err(WatchError::Expired));
        script.relists.lock().push_back(Ok(RelistedEvents {
            version: "500".to_owned(),
            events: Vec::new(),
            complete: true,
        }));
    }
    drop(first);
    fixture.pass(120).await;
    assert!(fixture.opened().len() < 12, "{:?}", fixture.opened());
    assert_eq!(fixture.received(), []);
}

/// S3-48, S3-50, S3-54: at once and after 1, 2, 4 and 8 seconds, the fifth is 15 seconds later.
#[tokio::test(start_paused = true)]
async fn the_fifth_failure_is_told_and_not_the_fourth_or_the_sixth() {
    let script = Arc::new(Script::default());
    let first = add_watch(&script);
    let fixture = fixture(script);
    fixture.pass(10).await;
    drop(first);
    fixture.pass(14).await;
    assert_eq!(fixture.opened().len(), 1 + 4);
    assert_eq!(fixture.received(), []);
    assert_ne!(fixture.health.state(), WatchState::Degraded);
    fixture.pass(2).await;
    assert_eq!(fixture.opened().len(), 1 + 5);
    assert!(
        matches!(
            fixture.received()[..],
            [Received::Status(WatchStatus::Degraded { .. })]
        ),
        "{:?}",
        fixture.received()
    );
    assert_eq!(fixture.health.state(), WatchState::Degraded);
}
