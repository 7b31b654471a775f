//! The cost of publishing: per push, per session of a broadcast, and under a burst on
//! few keys. Run with `cargo bench -p mcp-notify --features observers`.
//!
//! In the second group the allocation counts matter: they do not depend on the size of
//! the message, because it is serialised once and shared.

use std::task::{Context, Poll, Waker};

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use mcp_notify::{
    CustomMethod, Notification, ObserverRegistry, OutboxSink, ResourceSubscriptions,
    ResourceUpdated, Session,
};
use serde_json::json;

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// About the size of an event on the wire.
const EVENT_BYTES: usize = 600;

fn event(bytes: usize) -> Notification {
    let method = CustomMethod::new("notifications/bench/event").expect("a valid name");
    Notification::custom(method, &json!({ "data": "x".repeat(bytes) }))
}

fn sessions(count: usize) -> Vec<Session> {
    (0..count).map(|n| Session::new(n.to_string())).collect()
}

/// Drains the outboxes, so that a bench measures pushing and not dropping.
fn drain(sessions: &[Session]) {
    for session in sessions {
        let mut reader = session.outbox().reader();
        if let Poll::Ready(Ok(mut batch)) =
            reader.poll_next(&mut Context::from_waker(Waker::noop()))
        {
            drop(batch.deliver_all());
        }
    }
}

/// One message without a key, pushed to this many outboxes.
#[divan::bench(args = [1, 100, 10_000])]
fn push_ordered(bencher: Bencher<'_, '_>, count: usize) {
    let (sessions, notification) = (sessions(count), event(EVENT_BYTES));
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| drain(&sessions))
        .bench_local_refs(|()| {
            for session in &sessions {
                let _ = black_box(session.push(notification.clone()));
            }
        });
}

/// One update, pushed to this many outboxes in which the previous one is pending.
#[divan::bench(args = [1, 100, 10_000])]
fn push_coalescing(bencher: Bencher<'_, '_>, count: usize) {
    let sessions = sessions(count);
    let notification = ResourceUpdated::new("test://resource").to_notification();
    for session in &sessions {
        let _ = session.push(notification.clone());
    }
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        for session in &sessions {
            let _ = black_box(session.push(notification.clone()));
        }
    });
}

/// One message pushed to outboxes that are full: each push evicts one.
#[divan::bench(args = [100])]
fn push_to_full(bencher: Bencher<'_, '_>, count: usize) {
    let (sessions, notification) = (sessions(count), event(EVENT_BYTES));
    for session in &sessions {
        for _ in 0..1024 {
            let _ = session.push(notification.clone());
        }
    }
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        for session in &sessions {
            let _ = black_box(session.push(notification.clone()));
        }
    });
}

/// One serialisation, published to the subscribers of a resource.
#[divan::bench(args = [(1, 100), (1, 100_000), (1000, 100), (1000, 100_000), (10_000, 600)])]
fn publish_update(bencher: Bencher<'_, '_>, (count, bytes): (usize, usize)) {
    let sessions = sessions(count);
    let subscriptions = ResourceSubscriptions::default();
    for session in &sessions {
        subscriptions
            .subscribe(session, "test://resource")
            .expect("within the limits");
    }
    let meta = json!({ "io.example/data": "x".repeat(bytes) });
    let update = ResourceUpdated::new("test://resource").meta(&meta);
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| drain(&sessions))
        .bench_local_refs(|()| black_box(subscriptions.publish(&update)));
}

/// A whole broadcast with its outcomes, through a sink that pushes.
#[divan::bench(args = [(100, 100), (100, 100_000), (1000, 100), (1000, 100_000), (10_000, 600)])]
fn broadcast(bencher: Bencher<'_, '_>, (count, bytes): (usize, usize)) {
    let sessions = sessions(count);
    let registry = ObserverRegistry::new(OutboxSink);
    for session in &sessions {
        registry.remember(session);
    }
    let notification = event(bytes);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| drain(&sessions))
        .bench_local_refs(|()| black_box(runtime.block_on(registry.broadcast(&notification))));
}

/// 640,000 publishes on 32 keys to a stalled reader.
#[divan::bench(sample_count = 10)]
fn burst_on_32_keys(bencher: Bencher<'_, '_>) {
    let session = Session::new("stalled");
    let updates: Vec<_> = (0..32)
        .map(|n| ResourceUpdated::new(&format!("test://{n}")).to_notification())
        .collect();
    bencher
        .counter(ItemsCount::new(640_000_usize))
        .bench_local(|| {
            for _ in 0..20_000 {
                for update in &updates {
                    let _ = black_box(session.push(update.clone()));
                }
            }
        });
}

/// Connecting and dropping sessions that joined and subscribed.
#[divan::bench(args = [10_000])]
fn connect_and_drop(bencher: Bencher<'_, '_>, count: usize) {
    let registry = ObserverRegistry::new(OutboxSink);
    let subscriptions = ResourceSubscriptions::default();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        for _ in 0..count {
            let session = Session::new("s");
            registry.remember(&session);
            let _ = black_box(subscriptions.subscribe(&session, "test://resource"));
        }
    });
    assert!(registry.is_empty() && subscriptions.is_empty());
}
