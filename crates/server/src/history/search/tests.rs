use kubecrier_core::EventFields;
use kubecrier_history::Retention;
use tokio::task::JoinSet;

use super::*;

fn event(uid: &str, second: i64, count: i32) -> Event {
    Event::from(EventFields {
        uid: uid.to_owned(),
        count,
        timestamp: Timestamp::from_second(second).unwrap(),
        ..EventFields::default()
    })
}

fn shown(page: &Page<EventRow>) -> Vec<String> {
    page.items
        .iter()
        .map(|EventRow(event)| event.id().to_owned())
        .collect()
}

fn page(events: Vec<Event>, more: Remaining) -> Page<EventRow> {
    Page::new(
        events.into_iter().map(Arc::new).map(EventRow).collect(),
        more,
    )
}

#[test]
fn each_event_is_listed_once_with_its_newest_occurrence() {
    let live = page(
        vec![event("a", 50, 5), event("b", 10, 1)],
        Remaining::Exactly(0),
    );
    let stored = StoredPage {
        events: [event("a", 40, 4), event("b", 20, 2), event("c", 30, 1)]
            .map(Arc::new)
            .into(),
        ..StoredPage::default()
    };
    let merged = merge(live, stored, 10);
    assert_eq!(shown(&merged), ["a:5", "c:1", "b:2"]);
    assert_eq!((merged.more, merged.caveat), (Remaining::Exactly(0), None));
}

#[test]
fn what_is_left_out_is_counted() {
    let live = page(
        vec![event("a", 50, 1), event("b", 40, 1)],
        Remaining::Exactly(3),
    );
    let stored = StoredPage {
        events: [event("c", 60, 1), event("d", 1, 1)].map(Arc::new).into(),
        is_cut: true,
        caveats: vec!["the history begins 3d ago".to_owned()],
    };
    let merged = merge(live, stored, 2);
    assert_eq!(shown(&merged), ["c:1", "a:1"]);
    assert_eq!(merged.more, Remaining::AtLeast(3));
    assert_eq!(merged.caveat.as_deref(), Some("the history begins 3d ago"));
}

/// The time in which nothing was kept is told whatever is searched for, but not that of before.
#[tokio::test]
async fn gaps_are_told_with_what_is_found() {
    let (history, writer) = History::in_memory(Retention::default()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(writer.run(std::future::pending()));
    let contexts = Arc::new(crate::history::reader::tests::contexts());
    let context: Arc<str> = "dev".into();
    let now = Timestamp::now().as_millisecond();
    let hour = 60 * 60 * 1000;
    for (since, until) in [(50, 40), (30, 20), (9, 8), (7, 6), (5, 4), (3, 2)] {
        let gap = Record::gap(now - since * hour, now - until * hour, None, "away");
        history.record(&context, Stream::Events, move || gap);
    }
    assert!(history.flush().await);
    let query = |hours: u64| EventQuery {
        since: Some(std::time::Duration::from_hours(hours)),
        reason_prefix: Some("None".to_owned()),
        limit: 10,
        ..EventQuery::default()
    };
    let told = async |hours| {
        stored(&history, &contexts, "dev", &query(hours))
            .await
            .caveats
    };
    let gaps = |all: Vec<String>| {
        let gaps = all.into_iter().filter(|one| one.contains("away"));
        gaps.count()
    };
    assert_eq!(gaps(told(1).await), 0);
    assert_eq!(gaps(told(3).await), 1);
    assert_eq!(gaps(told(7).await), 3);
    let all = told(25).await;
    assert!(all.contains(&"2 more gaps".to_owned()), "{all:?}");
    assert_eq!(gaps(all), 3);
    running.shutdown().await;
}
