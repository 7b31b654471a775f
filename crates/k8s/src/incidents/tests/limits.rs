//! How many watchers there may be, and how long they last.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_set_of_watches_serves_everybody_and_ends_after_the_last() {
    let fixture = Fixture::new();
    let views = [
        fixture.follow().await.unwrap(),
        fixture.follow().await.unwrap(),
    ];
    fixture.settle().await;
    assert_eq!(
        (fixture.cluster.open_watches(), fixture.watches.len()),
        (WATCHED, 1)
    );
    assert_eq!(fixture.cluster.requests("list", "pods"), 1);
    drop(views);
    fixture.pass(LINGER * 9 / 10).await;
    drop(fixture.follow().await.unwrap());
    assert_eq!(fixture.cluster.requests("list", "pods"), 1);
    fixture.pass(LINGER * 11 / 10).await;
    assert_eq!(
        (fixture.cluster.open_watches(), fixture.watches.len()),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_greedy_caller_leaves_room_for_others() {
    let fixture = Fixture::new();
    let (greedy, modest) = (ShareKey::Process, ShareKey::Caller("modest".into()));
    let name = |n: usize| Name::label("namespace", &format!("ns-{n}")).unwrap();
    let read = async |who, n| {
        let viewer = &Viewer::Everything;
        (fixture.watches)
            .read(who, viewer, None, Some(&name(n)))
            .await
    };
    let mut views = Vec::new();
    for n in 0..LIMITS.per_caller_max {
        views.push(read(&greedy, n).await.unwrap());
    }
    let error = read(&greedy, 7).await.unwrap_err().to_string();
    assert!(error.contains("--caller-share of --max-graphs"), "{error}");
    for n in LIMITS.per_caller_max..LIMITS.total_max {
        views.push(read(&modest, n).await.unwrap());
    }
    let error = fixture.follow().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    views.pop();
    fixture.follow().await.unwrap();
    assert_eq!(fixture.watches.len(), LIMITS.total_max);
}
