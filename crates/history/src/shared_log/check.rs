//! What holds for every shared log, for the tests of its implementations.

use bytes::Bytes;
use jiff::Timestamp;

use super::{Appended, MESSAGE_BYTES_MAX, Messages, ReadFrom, SharedLog, SharedLogError};

const ANSWERS: &str = "the log answers";

async fn next(messages: &mut Messages) -> (u64, String) {
    let message = messages.recv().await.expect("it goes on").expect(ANSWERS);
    let text = String::from_utf8(message.bytes.to_vec()).expect("it was text");
    (message.number, text)
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Checks what holds for every shared log; this one has no messages yet.
///
/// # Panics
///
/// Where it does not hold.
pub async fn check_shared_log(log: &dyn SharedLog) {
    assert_eq!(log.last("events.a").await.expect(ANSWERS), None);
    let mut early = log
        .follow("events.a", ReadFrom::After(0))
        .await
        .expect(ANSWERS);
    let Appended::At(first) = log.append("events.a", 0, text("1")).await.expect(ANSWERS) else {
        panic!("there was no message");
    };
    let again = log
        .append("events.a", 0, text("late"))
        .await
        .expect(ANSWERS);
    assert_eq!(again, Appended::Conflict);
    let Appended::At(_other) = log.append("events.b", 0, text("b")).await.expect(ANSWERS) else {
        panic!("topics know nothing of each other");
    };
    let Appended::At(second) = log
        .append("events.a", first, text("2"))
        .await
        .expect(ANSWERS)
    else {
        panic!("the writer knew the last message");
    };
    assert!(second > first);
    let slow = log
        .append("events.a", first, text("late"))
        .await
        .expect(ANSWERS);
    assert_eq!(slow, Appended::Conflict, "another has written meanwhile");
    let last = log
        .last("events.a")
        .await
        .expect(ANSWERS)
        .expect("there is one");
    assert_eq!((last.number, &last.bytes[..]), (second, &b"2"[..]));
    assert_eq!(next(&mut early).await, (first, "1".to_owned()));
    assert_eq!(next(&mut early).await, (second, "2".to_owned()));
    let mut late = log
        .follow("events.a", ReadFrom::After(first))
        .await
        .expect(ANSWERS);
    assert_eq!(next(&mut late).await, (second, "2".to_owned()));
    let Appended::At(third) = log
        .append("events.a", second, text("3"))
        .await
        .expect(ANSWERS)
    else {
        panic!("the writer knew the last message");
    };
    for messages in [&mut early, &mut late] {
        assert_eq!(next(messages).await, (third, "3".to_owned()));
    }
    let all = ReadFrom::Since(Timestamp::UNIX_EPOCH);
    let mut all = log.follow("events.a", all).await.expect(ANSWERS);
    assert_eq!(next(&mut all).await.1, "1");
    let large = Bytes::from(vec![0; MESSAGE_BYTES_MAX + 1]);
    let refused = log.append("events.a", third, large).await;
    assert!(matches!(refused, Err(SharedLogError::Rejected { .. })));
    for topic in ["", "a b", "a.*", ">"] {
        let refused = log.append(topic, 0, text("")).await;
        assert!(
            matches!(refused, Err(SharedLogError::Rejected { .. })),
            "{topic}"
        );
    }
}
