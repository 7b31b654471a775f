mod shared;

use kubecrier_history::{Position, Retention};
use tokio::task::JoinSet;

use super::*;

const HOUR: i64 = 60 * 60 * 1000;

/// What the own folder has is not missing, whatever other servers lack of that time.
#[test]
fn a_gap_begins_where_the_own_history_ends() {
    let gap = |since, until| BacklogGap {
        since,
        until,
        why: "the log begins later".to_owned(),
    };
    assert_eq!(after(gap(10, 20), None), Some(gap(10, 20)));
    assert_eq!(after(gap(10, 20), Some(5)), Some(gap(10, 20)));
    assert_eq!(after(gap(10, 20), Some(15)), Some(gap(15, 20)));
    assert_eq!(after(gap(10, 20), Some(20)), None);
    assert_eq!(after(gap(10, 20), Some(30)), None);
}

#[test]
fn gaps_of_several_watches_that_overlap_are_one() {
    let gap = |since, until| BacklogGap {
        since,
        until,
        why: "the log begins later".to_owned(),
    };
    let of_two = vec![gap(30, 40), gap(10, 20), gap(15, 25), gap(12, 14)];
    assert_eq!(merged(of_two), [gap(10, 25), gap(30, 40)]);
    assert_eq!(merged(Vec::new()), []);
}

/// What a context lacks began when it was taken away, whenever this process was started.
#[test]
fn a_context_that_comes_back_is_known_to_have_been_away() {
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<Vec<_>>()
    };
    let mut kept = KeptContexts::default();
    let mut started = Vec::new();
    let mut see = |there: &[&str], before, now| {
        let stopped = kept.stop_others(&names(there), now);
        for name in names(there) {
            kept.start(name, before, |name, since| {
                started.push((name.to_owned(), since));
                CancellationToken::new()
            });
        }
        (stopped, std::mem::take(&mut started))
    };
    let one = |name: &str, since| vec![(name.to_owned(), since)];
    // The first process of a folder, and of a later one a context that it had not before.
    assert_eq!(see(&["a"], None, 1), (vec![], one("a", None)));
    assert_eq!(see(&["a", "b"], Some(0), 2), (vec![], one("b", Some(0))));
    assert_eq!(see(&["b"], Some(0), 3), (names(&["a"]), vec![]));
    assert_eq!(see(&["b"], Some(0), 4), (vec![], vec![]));
    assert_eq!(see(&["a", "b"], Some(0), 9), (vec![], one("a", Some(3))));
}

#[tokio::test]
async fn only_an_absence_in_which_something_is_lost_is_kept_as_a_gap() {
    let (history, writer) = History::in_memory(Retention::default()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(writer.run(std::future::pending()));
    let (known, new): (Arc<str>, Arc<str>) = ("known".into(), "new".into());
    let now = Timestamp::now().as_millisecond();
    history.record(&known, Stream::Events, move || Record {
        time: now - 2 * HOUR,
        id: "uid:1".to_owned(),
        version: 1,
        ..Record::default()
    });
    assert!(history.flush().await);
    for (context, since) in [
        (&known, None),
        (&known, Some(now - HOUR / 4)),
        (&new, Some(now - HOUR)),
        (&known, Some(now - HOUR)),
    ] {
        note_absence(&history, (context, Stream::Events), since, EVENT_LIFETIME);
    }
    assert!(history.flush().await);
    let read = |context| {
        let page = history.read_from(context, Stream::Events, Position::default(), 10);
        page.unwrap().records
    };
    assert_eq!(read("new").len(), 0, "it begins now");
    let [_, (_, gap)] = &read("known")[..] else {
        panic!("one gap: {:?}", read("known"));
    };
    let since = Timestamp::from_millisecond(now - HOUR).unwrap();
    let text = std::str::from_utf8(&gap.value).unwrap();
    assert!(
        gap.is_gap() && text.contains(&format!("\"since\":\"{since}\"")),
        "{text}"
    );
    assert!(gap.time >= now);
    running.shutdown().await;
}
