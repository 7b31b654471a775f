//! Batching: a burst of changes becomes one broadcast per list, and a burst of custom
//! triggers one notification.
//!
//! `cargo run -p mcp-notify --features batching --example batching`

use std::time::Duration;

use mcp_notify::{
    BatchedBroadcast, DebounceMode, Debouncer, ListKind, Notification, ObserverRegistry,
    OutboxSink, Session,
};
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let registry = ObserverRegistry::new(OutboxSink);
    let session = Session::new("example");
    registry.remember(&session);

    // One broadcast per list and second, however often the list changes.
    let window = DebounceMode::Window(Duration::from_secs(1));
    let batched = BatchedBroadcast::new(registry, window);
    let running = batched.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { running.run().await });
    for _ in 0..100 {
        for kind in [ListKind::Tools, ListKind::Prompts] {
            assert!(batched.submit(Notification::list_changed(kind)));
        }
    }
    assert_eq!(session.outbox().stats().pushed, 0, "the window is open");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(session.outbox().stats().pushed, 2, "one of each list");

    // The same for anything else: the newest value, 250 ms after the last trigger.
    let quiet = DebounceMode::Trailing(Duration::from_millis(250));
    let saves = Debouncer::new(quiet);
    for size in [10, 20, 30] {
        assert!(saves.trigger("notes.md", size));
    }
    let due = saves.next().await;
    assert_eq!((due.key, due.value, due.triggers), ("notes.md", 30, 3));
}

#[test]
fn a_burst_is_one_broadcast_per_list_and_one_value_per_key() {
    main();
}
