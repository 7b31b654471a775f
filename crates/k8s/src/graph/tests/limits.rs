//! How many graphs there may be, in all and of one caller.

use super::*;

pub(super) const LIMITS: TaskLimits = TaskLimits {
    total_max: 6,
    per_caller_max: 3,
};

#[tokio::test(start_paused = true)]
async fn more_graphs_than_there_may_be_are_refused_unless_one_is_unused() {
    let fixture = Fixture::new();
    let (greedy, modest) = (ShareKey::Process, ShareKey::Caller("modest".into()));
    let name = |n| Name::label("namespace", &format!("ns-{n}")).unwrap();
    let read = async |who, n| {
        let everything = &Viewer::Everything;
        (fixture.graphs)
            .read(who, everything, None, Some(&name(n)))
            .await
    };
    let mut views = Vec::new();
    for n in 0..3 {
        views.push(read(&greedy, n).await.unwrap());
    }
    let error = read(&greedy, 3).await.unwrap_err().to_string();
    assert!(error.contains("--caller-share of --max-graphs"), "{error}");
    for n in 3..LIMITS.total_max {
        views.push(read(&modest, n).await.unwrap());
    }
    let notes = views[0].snapshot(&KindFilter::all()).notes;
    assert_eq!(notes, ["there is no namespace `ns-0` yet"]);
    let error = fixture.join().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    views.pop();
    let view = fixture.join().await.unwrap();
    assert_eq!(
        (ids(&view).len(), fixture.graphs.len()),
        (7, LIMITS.total_max)
    );
}
