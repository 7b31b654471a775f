//! Ids that are cursors, where sessions are kept.

use mcp_notify::{Mark, ProtocolVersion};

use super::*;

fn mark(feed: u32, seq: u64) -> Mark {
    Mark {
        feed,
        position: [seq, 100 + seq, 1_800_000_000_000, 0],
    }
}

fn kept() -> Arc<HttpSession> {
    let entry = entry(100);
    entry.make_resumable();
    entry
        .session
        .set_protocol_version(ProtocolVersion::V_2025_11_25);
    entry
}

/// The ids of all events, of those without a message too.
fn ids(text: &str) -> Vec<StreamId> {
    let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.map(|id| StreamId::parse(id).unwrap()).collect()
}

/// The numbers of the messages.
fn numbers(text: &str) -> Vec<u64> {
    let messages = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let messages = messages.filter_map(|data| serde_json::from_str(data).ok());
    let numbers = messages.map(|message: serde_json::Value| message["params"]["data"].as_u64());
    numbers.map(Option::unwrap).collect()
}

fn push(entry: &HttpSession, number: usize, mark: Mark) {
    let _pending = entry.session.push(numbered(number).marked(mark));
}

#[tokio::test]
async fn an_id_says_how_far_every_feed_was_sent() {
    let entry = kept();
    let mut body = SseStream::new(Arc::clone(&entry), None);
    push(&entry, 1, mark(1, 1));
    push(&entry, 2, mark(2, 1));
    push(&entry, 3, mark(1, 2));
    let (text, _) = drain(&mut body);
    let written = ids(&text);
    assert_eq!(written.len(), 4, "one before the first event: {text}");
    assert_eq!(written[0].at.as_ref().unwrap().marks, []);
    let last = written[3].at.clone().unwrap();
    assert_eq!(last.marks, [mark(1, 2), mark(2, 1)]);
    // Within the process what was written is written again, with the same ids.
    let mut again = SseStream::new(Arc::clone(&entry), Some(written[1].clone()));
    let (text, _) = drain(&mut again);
    assert_eq!(ids(&text), written[1..], "{text}");
}

#[tokio::test]
async fn an_id_of_another_process_is_before_everything_of_this_one() {
    let (before, entry) = (kept(), kept());
    let mut body = SseStream::new(Arc::clone(&before), None);
    push(&before, 1, mark(1, 5));
    push(&before, 2, mark(2, 7));
    let seen = ids(&drain(&mut body).0).pop().unwrap();
    push(&entry, 3, mark(1, 6));
    let mut body = SseStream::new(Arc::clone(&entry), Some(seen.clone()));
    let (text, _) = drain(&mut body);
    let written = ids(&text);
    assert_eq!(numbers(&text), [3], "{text}");
    let at = |id: &StreamId| id.at.clone().unwrap().marks;
    assert_eq!(at(&written[0]), at(&seen), "it is repeated first");
    assert_eq!(at(&written[1]), [mark(1, 6), mark(2, 7)]);
    // Lost before anything of this process was read.
    let mut again = SseStream::new(Arc::clone(&entry), Some(written[0].clone()));
    assert_eq!(numbers(&drain(&mut again).0), [3]);
    let mut again = SseStream::new(entry, Some(seen));
    assert_eq!(numbers(&drain(&mut again).0), [3]);
}
