//! Messages that a client may read no more when they are sent.

use super::*;

/// What the client may read, as a test sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Allowed,
    Denied,
    /// Asked, and answered with this after a while.
    Asked(bool),
}

struct Door(parking_lot::Mutex<Right>);

impl mcp_notify::Gate for Door {
    fn admit(&self) -> Admission {
        match *self.0.lock() {
            Right::Allowed => Admission::Open,
            Right::Denied => Admission::Shut,
            Right::Asked(answer) => Admission::Pending(Box::pin(async move {
                sleep(Duration::from_secs(1)).await;
                answer
            })),
        }
    }
}

/// A session with messages 0 to 5, of which 1, 2 and 4 are behind a door.
fn gated() -> (Arc<HttpSession>, Arc<Door>) {
    let (entry, door) = (entry(100), Arc::new(Door(Right::Allowed.into())));
    for number in 0..6 {
        let message = numbered(number);
        let _queued = entry.session.push(match number {
            1 | 2 | 4 => message.gated(Arc::clone(&door) as _),
            _ => message,
        });
    }
    (entry, door)
}

fn numbers(text: &str) -> Vec<usize> {
    let parts = text.split("\"data\":").skip(1);
    parts.map(|part| part[..1].parse().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_any_more_is_not_written_and_not_replayed() {
    let (entry, door) = gated();
    *door.0.lock() = Right::Denied;
    let (text, _) = drain(&mut SseStream::new(Arc::clone(&entry), None));
    assert_eq!(numbers(&text), [0, 3, 5]);
    assert_eq!(text.matches("notifications/stream/gap").count(), 2);
    assert!(
        text.contains("\"missing\":2") && text.contains("\"missing\":1"),
        "{text}"
    );
    let stats = entry.session.outbox().stats();
    assert_eq!((stats.delivered, stats.dropped, stats.pending), (3, 3, 0));

    let (entry, door) = gated();
    let (text, _) = drain(&mut SseStream::new(Arc::clone(&entry), None));
    assert_eq!(numbers(&text), [0, 1, 2, 3, 4, 5]);
    for (right, seen) in [
        (Right::Denied, vec![0, 3, 5]),
        (Right::Asked(false), vec![0, 3, 5]),
        (Right::Allowed, vec![0, 1, 2, 3, 4, 5]),
    ] {
        *door.0.lock() = right;
        settle_replay(&entry, 0).await;
        let (text, _) = drain(&mut SseStream::new(
            Arc::clone(&entry),
            StreamId::parse("0"),
        ));
        assert_eq!(numbers(&text), seen, "{right:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_an_answer_and_goes_on_with_it() {
    for (answer, seen) in [(true, vec![1, 2, 3, 4, 5]), (false, vec![2, 3, 4, 5])] {
        let (entry, door) = gated();
        *door.0.lock() = Right::Asked(answer);
        let mut body = SseStream::new(Arc::clone(&entry), None);
        assert_eq!(
            numbers(&drain(&mut body).0),
            [0],
            "what came before it is written"
        );
        assert_eq!(drain(&mut body).0, "", "what came behind it waits");
        *door.0.lock() = Right::Allowed;
        tokio::time::advance(Duration::from_secs(2)).await;
        let (text, _) = drain(&mut body);
        assert_eq!(numbers(&text), seen, "{text}");
        assert_eq!(text.contains("notifications/stream/gap"), !answer);
    }
}
