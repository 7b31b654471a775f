//! Tests of feeds.

use proptest::prelude::*;

use super::*;
use crate::event::tests::event;

fn item() -> FeedItem {
    FeedItem::Event(Arc::new(event("shop", "Pod", "web-0")))
}

fn push(feed: &Feed) {
    feed.push([item()], |_| {});
}

proptest! {
    /// A reader that continues sees every number once, or learns how many it missed.
    #[test]
    fn nothing_is_missed_in_silence(
        steps in prop::collection::vec((0..8_usize, 1..6_usize), 1..40), kept in 1..12_usize,
    ) {
        let feed = Feed::new(FeedLimits { entries_max: kept, bytes_max: usize::MAX });
        let (mut at, mut seen) = (0, 0);
        for (pushed, limit) in steps {
            (0..pushed).for_each(|_| push(&feed));
            let read = feed.after(at, limit);
            for (expected, entry) in (at + read.missed + 1..).zip(&read.entries) {
                prop_assert_eq!(entry.seq, expected);
            }
            prop_assert!(read.entries.len() <= limit);
            seen += read.missed + read.entries.len() as u64;
            at = read.next;
            prop_assert_eq!(at, seen);
            prop_assert_eq!(read.more, at < feed.last());
        }
    }
}

#[test]
fn bytes_are_bounded_but_the_newest_stays() {
    let one = item().bytes();
    let feed = Feed::new(FeedLimits {
        entries_max: 100,
        bytes_max: one * 3,
    });
    (0..10).for_each(|_| push(&feed));
    let read = feed.after(0, 100);
    assert_eq!((read.missed, read.entries.len()), (7, 3));
    let tiny = Feed::new(FeedLimits {
        entries_max: 100,
        bytes_max: 1,
    });
    (0..3).for_each(|_| push(&tiny));
    assert_eq!(tiny.after(0, 10).entries[0].seq, 3);
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_the_next_entry() {
    let feed = Feed::new(FeedLimits::default());
    push(&feed);
    feed.wait_past(0).await;
    let mut waiting = tokio_test::task::spawn(feed.wait_past(1));
    assert!(waiting.poll().is_pending());
    push(&feed);
    assert!(waiting.is_woken() && waiting.poll().is_ready());
}

#[test]
fn a_cursor_says_up_to_where_everything_was_delivered() {
    let id = SubscriptionId::random();
    let feed = Feed::new(FeedLimits {
        entries_max: 2,
        bytes_max: usize::MAX,
    });
    assert_eq!(feed.cursor(&id, 0).resume, None, "there is no history");
    let feed = feed.resumable([7; 8]);
    let at = |seq| feed.cursor(&id, seq).resume.unwrap().version;
    feed.begin_after(100);
    assert_eq!(at(0), 100);
    for version in [105, 103, 110] {
        let mut event = event("shop", "Pod", "web-0");
        event.version = Some(version);
        feed.push([FeedItem::Event(Arc::new(event))], |_| {});
    }
    assert_eq!((at(2), at(3)), (103, 110));
    assert_eq!(
        at(1),
        100,
        "an entry that was dropped is read from the history again"
    );
    assert_eq!(feed.cursor(&id, 3).resume.unwrap().tag, [7; 8]);
}

#[test]
fn a_cursor_is_of_one_feed() {
    let (ours, theirs) = (SubscriptionId::random(), SubscriptionId::random());
    let feed = Feed::new(FeedLimits::default());
    (0..5).for_each(|_| push(&feed));
    let cursor = |subscription: &SubscriptionId, seq| Cursor {
        subscription: subscription.clone(),
        seq,
        resume: None,
    };
    assert_eq!(
        feed.resolve_cursor(&ours, &cursor(&ours, 5).to_string()),
        Ok(5)
    );
    let foreign = feed.resolve_cursor(&ours, &cursor(&theirs, 1).to_string());
    assert!(matches!(foreign, Err(CursorError::Foreign(_))));
    let ahead = feed.resolve_cursor(&ours, &cursor(&ours, 6).to_string());
    assert!(matches!(ahead, Err(CursorError::Ahead(_, 5))));
    for text in [
        "",
        "x",
        "5",
        "sub-1.",
        ".5",
        "sub-zz.1",
        &format!("{ours}.+5"),
    ] {
        let error = feed.resolve_cursor(&ours, text).unwrap_err();
        assert!(matches!(error, CursorError::Malformed(_)), "{text}");
    }
}
