use super::*;

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[tokio::test]
async fn messages_in_memory_have_one_writer_and_an_order() {
    check_shared_log(&MemorySharedLog::default()).await;
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
