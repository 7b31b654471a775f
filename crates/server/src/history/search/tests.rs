use super::*;

fn event(uid: &str, second: i64, count: i32) -> Event {
    Event {
        uid: uid.to_owned(),
        count,
        timestamp: Timestamp::from_second(second).unwrap(),
        ..Event::default()
    }
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
