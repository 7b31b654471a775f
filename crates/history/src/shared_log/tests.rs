use super::*;

async fn next(messages: &mut Messages) -> (u64, String) {
    let message = messages.recv().await.unwrap().unwrap();
    let text = String::from_utf8(message.bytes.to_vec()).unwrap();
    (message.number, text)
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// What holds for every implementation.
async fn check(log: &dyn SharedLog) {
    assert_eq!(log.last("events.a").await.unwrap(), None);
    let mut early = log.follow("events.a", ReadFrom::After(0)).await.unwrap();
    let Appended::At(first) = log.append("events.a", 0, text("1")).await.unwrap() else {
        panic!("there was no message");
    };
    let again = log.append("events.a", 0, text("late")).await.unwrap();
    assert_eq!(again, Appended::Conflict);
    let Appended::At(_other) = log.append("events.b", 0, text("b")).await.unwrap() else {
        panic!("topics know nothing of each other");
    };
    let Appended::At(second) = log.append("events.a", first, text("2")).await.unwrap() else {
        panic!("the writer knew the last message");
    };
    assert!(second > first);
    let slow = log.append("events.a", first, text("late")).await.unwrap();
    assert_eq!(slow, Appended::Conflict, "another has written meanwhile");
    let last = log.last("events.a").await.unwrap().unwrap();
    assert_eq!((last.number, &last.bytes[..]), (second, &b"2"[..]));
    assert_eq!(next(&mut early).await, (first, "1".to_owned()));
    assert_eq!(next(&mut early).await, (second, "2".to_owned()));
    let mut late = log
        .follow("events.a", ReadFrom::After(first))
        .await
        .unwrap();
    assert_eq!(next(&mut late).await, (second, "2".to_owned()));
    let Appended::At(third) = log.append("events.a", second, text("3")).await.unwrap() else {
        panic!("the writer knew the last message");
    };
    for messages in [&mut early, &mut late] {
        assert_eq!(next(messages).await, (third, "3".to_owned()));
    }
    let all = ReadFrom::Since(Timestamp::UNIX_EPOCH);
    let mut all = log.follow("events.a", all).await.unwrap();
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

#[tokio::test]
async fn messages_in_memory_have_one_writer_and_an_order() {
    check(&MemorySharedLog::default()).await;
}

#[tokio::test]
async fn a_log_that_is_down_says_so_to_its_readers() {
    let log = MemorySharedLog::default();
    let mut messages = log.follow("events.a", ReadFrom::After(0)).await.unwrap();
    log.set_down(true);
    assert!(messages.recv().await.unwrap().is_err());
    assert!(messages.recv().await.is_none());
    assert!(log.append("events.a", 0, text("1")).await.is_err());
    log.set_down(false);
    assert_eq!(
        log.append("events.a", 0, text("1")).await,
        Ok(Appended::At(1))
    );
}
