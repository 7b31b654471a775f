//! Records on a real server.

use std::time::Duration;

use bytes::Bytes;
use kubecrier_history::{Registry, RegistryError, SetOutcome, check_registry};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{Health, NatsConfig, NatsStore};
use testbed::NatsOptions;
use tokio::task::JoinSet;

use crate::support::{Nats, soon, text, until};

const LONG: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread")]
async fn records_hold_what_every_registry_holds() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    check_registry(&store.registry()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_gone_when_its_time_is_over() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let registry = store.registry();
    let second = Duration::from_secs(1);
    let short = registry
        .put("session.short", text("1"), second)
        .await
        .unwrap();
    registry.put("session.long", text("2"), LONG).await.unwrap();
    // What is written again lives on.
    registry
        .put("session.again", text("3"), second)
        .await
        .unwrap();
    registry
        .put("session.again", text("4"), LONG)
        .await
        .unwrap();
    assert!(registry.get("session.short").await.unwrap().is_some());
    until(async || registry.get("session.short").await.unwrap().is_none()).await;
    let left = registry.list("session.").await.unwrap();
    let left: Vec<_> = left.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(left, ["session.again", "session.long"]);
    let late = registry.compare_and_set("session.short", Some(short), text("late"), LONG);
    assert_eq!(late.await.unwrap(), SetOutcome::Conflict);
    let new = registry.compare_and_set("session.short", None, text("new"), LONG);
    assert!(matches!(new.await.unwrap(), SetOutcome::Set(revision) if revision != short));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_conditional_writes_one_wins() {
    let Some(nats) = Nats::start() else { return };
    let (one, _lifecycle) = nats.store().await;
    let (other, _other_lifecycle) = nats.store().await;
    let first = one
        .registry()
        .put("lease.a", text("0"), LONG)
        .await
        .unwrap();
    for (key, expected) in [("lease.a", Some(first)), ("lease.new", None)] {
        let mut writes = JoinSet::new();
        for number in 0..50 {
            let store = if number % 2 == 0 { &one } else { &other };
            let registry = store.registry();
            writes.spawn(async move {
                let value = text(&number.to_string());
                let set = registry.compare_and_set(key, expected, value, LONG);
                set.await.unwrap() != SetOutcome::Conflict
            });
        }
        let won = writes.join_all().await.into_iter().filter(|won| *won);
        assert_eq!(won.count(), 1, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_deleted_is_created_once() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let registry = store.registry();
    registry.put("lease.a", text("0"), LONG).await.unwrap();
    registry.delete("lease.a").await.unwrap();
    assert_eq!(registry.list("").await.unwrap(), []);
    let mut writes = JoinSet::new();
    for _ in 0..20 {
        let registry = registry.clone();
        writes.spawn(async move {
            let set = registry.compare_and_set("lease.a", None, text("1"), LONG);
            set.await.unwrap() != SetOutcome::Conflict
        });
    }
    let won = writes.join_all().await.into_iter().filter(|won| *won);
    assert_eq!(won.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_comes_whole() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let registry = store.registry();
    let mut writes = JoinSet::new();
    for number in 0..1500 {
        let registry = registry.clone();
        writes.spawn(async move {
            let key = format!("session.{number:04}");
            registry.put(&key, text(&key), LONG).await.unwrap();
        });
    }
    writes.join_all().await;
    registry.delete("session.0700").await.unwrap();
    registry.put("sessions", text("no"), LONG).await.unwrap();
    let listed = registry.list("session.").await.unwrap();
    assert_eq!(listed.len(), 1499);
    assert!(listed.is_sorted_by_key(|(key, _)| key.clone()));
    for (key, entry) in &listed {
        assert_eq!(entry.value, key.as_bytes());
    }
    assert_eq!(registry.list("session.01").await.unwrap().len(), 100);
    assert_eq!(registry.list("a b.").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_records_are_unavailable_and_come_back() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (store, lifecycle) = nats.store().await;
    let registry = store.registry();
    let first = registry.put("session.a", text("1"), LONG).await.unwrap();
    nats.server.kill().unwrap();
    until(async || store.health() != Health::Connected).await;
    let refused = soon(registry.get("session.a")).await;
    let Err(RegistryError::Unavailable { why, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(
        why.contains("no connection to NATS at nats://127.0.0.1:"),
        "{why}"
    );
    nats.server.start_again().unwrap();
    until(async || store.health() == Health::Connected).await;
    let entry = soon(registry.get("session.a")).await.unwrap().unwrap();
    assert_eq!((&entry.value[..], entry.revision), (&b"1"[..], first));
    assert_eq!((store.stats().reconnects, registry.reconnects()), (1, 1));
    lifecycle.drain();
    soon(lifecycle.join_tasks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_everything_gets_its_streams_again_and_no_number_twice() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (store, _lifecycle) = nats.store().await;
    let registry = store.registry();
    let before = registry.put("session.a", text("1"), LONG).await.unwrap();
    nats.server.kill().unwrap();
    nats.server.clear_store().unwrap();
    nats.server.start_again().unwrap();
    until(async || matches!(registry.get("session.a").await, Ok(None))).await;
    let after = registry.put("session.a", text("2"), LONG).await.unwrap();
    assert!(after.to_number() > before.to_number());
    let late = registry.compare_and_set("session.a", Some(before), text("late"), LONG);
    assert_eq!(late.await.unwrap(), SetOutcome::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_says_so_and_keeps_what_it_has() {
    let Some(nats) = Nats::with(NatsOptions {
        store_bytes_max: 16 * 1024 * 1024,
        ..NatsOptions::default()
    }) else {
        return;
    };
    let config = NatsConfig {
        log_max_bytes: 8 * 1024 * 1024,
        ..nats.config()
    };
    let store = NatsStore::connect(&config, &Lifecycle::default()).await;
    let store = store.unwrap();
    let registry = store.registry();
    let value = Bytes::from(vec![1; 250_000]);
    let mut written = 0;
    let why = loop {
        let key = format!("session.{written}");
        match registry.put(&key, value.clone(), LONG).await {
            Ok(_) => written += 1,
            Err(RegistryError::Unavailable { why, .. }) => break why,
            Err(other) => panic!("{other}"),
        }
        assert!(written < 100, "it is full at some time");
    };
    assert!(why.contains("resource") || why.contains("bytes"), "{why}");
    assert_eq!(registry.list("session.").await.unwrap().len(), written);
    // What ends makes room.
    for number in 0..written {
        registry.delete(&format!("session.{number}")).await.unwrap();
    }
    until(async || {
        registry
            .put("session.new", value.clone(), LONG)
            .await
            .is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_unavailable_in_time() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let registry = store.registry();
    nats.server.freeze().unwrap();
    let within = Duration::from_secs(4);
    let refused = tokio::time::timeout(within, registry.get("session.a")).await;
    assert!(matches!(
        refused,
        Ok(Err(RegistryError::Unavailable { .. }))
    ));
    nats.server.thaw().unwrap();
    until(async || registry.get("session.a").await.is_ok()).await;
}
