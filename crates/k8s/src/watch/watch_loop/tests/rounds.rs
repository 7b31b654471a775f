//! What a watch has received is told together.

use super::*;

/// One round is enough for what has come: a subscriber is not reached for each of them.
#[tokio::test(start_paused = true)]
async fn what_has_been_received_is_told_together_and_at_once() {
    let script = Arc::new(Script::default());
    let watch = add_watch(&script);
    let fixture = fixture(script);
    for (round, uids) in [&["a", "b", "c"][..], &["d"]].iter().enumerate() {
        for uid in *uids {
            watch.send(item(uid, 1, 101)).unwrap();
        }
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.listener.1.lock().get(round), Some(&uids.len()));
    }
}
