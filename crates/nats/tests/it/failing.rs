//! A connection over which something does not work: what is said, and how it mends.

use std::time::Duration;

use bytes::Bytes;
use kubecrier_history::{ReadFrom, Registry, SharedLog};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{ConnectError, Health, NatsConfig, NatsStore};
use testbed::NatsOptions;
use tokio::time::Instant;

use crate::support::{Nats, soon, text, until};

const MINUTE: Duration = Duration::from_mins(1);

fn with_login(denied: &[&str]) -> NatsOptions {
    NatsOptions {
        login: Some(("crier".to_owned(), "secret".to_owned())),
        denied: denied.iter().map(|&subject| subject.to_owned()).collect(),
        ..NatsOptions::default()
    }
}

/// Does something until the health is another one.
async fn until_failing(store: &NatsStore, mut what: impl AsyncFnMut()) -> String {
    let failing = async {
        loop {
            what().await;
            if let Health::Failing { why, .. } = store.health() {
                return why;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    soon(failing).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_full_is_no_health_although_it_can_be_read() {
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
    let lifecycle = Lifecycle::default();
    let store = NatsStore::connect(&config, &lifecycle).await.unwrap();
    let (registry, log) = (store.registry(), store.shared_log());
    let value = Bytes::from(vec![1; 250_000]);
    let mut written = 0;
    let why = until_failing(&store, async || {
        let key = |number: usize| format!("session.{number}");
        while (registry.put(&key(written), value.clone(), MINUTE).await).is_ok() {
            written += 1;
        }
        assert!(registry.get("session.0").await.unwrap().is_some());
    })
    .await;
    assert!(why.contains("resource") || why.contains("bytes"), "{why}");
    assert!(log.failure().is_some_and(|failure| failure.contains(&why)));
    for number in 0..=written {
        let _there = registry.delete(&format!("session.{number}")).await;
    }
    until(async || {
        let _put = registry.put("session.new", text("1"), MINUTE).await;
        store.health() == Health::Connected
    })
    .await;
    assert_eq!(log.failure(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_somebody_deletes_is_made_again() {
    let Some(nats) = Nats::start() else { return };
    let (store, _lifecycle) = nats.store().await;
    let client = async_nats::connect(nats.server.url()).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    let (registry, log) = (store.registry(), store.shared_log());
    for stream in ["kubecrier-records", "kubecrier-log"] {
        jetstream.delete_stream(stream).await.unwrap();
    }
    until(async || registry.put("session.a", text("1"), MINUTE).await.is_ok()).await;
    until(async || log.append("events.dev", 0, text("1")).await.is_ok()).await;
    assert_eq!(store.stats().reconnects, 0);
    assert_eq!(store.health(), Health::Connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_gave_a_stream_stays() {
    let Some(nats) = Nats::start() else { return };
    let (_store, _lifecycle) = nats.store().await;
    let client = async_nats::connect(nats.server.url()).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    let config = async || {
        let mut log = jetstream.get_stream("kubecrier-log").await.unwrap();
        log.info().await.unwrap().config.clone()
    };
    let mut raised = config().await;
    raised.max_age *= 3;
    raised.max_bytes *= 2;
    raised.description = Some("ours".to_owned());
    // What is needed is put right beside it.
    raised.allow_direct = false;
    jetstream.update_stream(&raised).await.unwrap();
    nats.store().await;
    let found = config().await;
    let given = (found.max_age, found.max_bytes, found.description);
    assert_eq!(
        given,
        (raised.max_age, raised.max_bytes, raised.description)
    );
    assert!(found.allow_direct);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_is_named() {
    let Some(mut nats) = Nats::with(with_login(&["$JS.API.>"])) else {
        return;
    };
    let (config, lifecycle) = (nats.config(), Lifecycle::default());
    let refused = soon(NatsStore::connect(&config, &lifecycle)).await;
    let error = refused.expect_err("it may not ask for streams");
    assert!(matches!(error, ConnectError::Rights { .. }), "{error:?}");
    let said = error.to_string();
    for word in [
        "`kubecrier.>`",
        "`$JS.API.>`",
        "$JS.API.STREAM.INFO",
        "permissions",
    ] {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    // One that is taken away later is said, too.
    nats.server.deny(&[]).unwrap();
    until(async || {
        let lifecycle = Lifecycle::default();
        let connected = NatsStore::connect(&nats.config(), &lifecycle).await;
        lifecycle.drain();
        connected.is_ok()
    })
    .await;
    let (store, _lifecycle) = nats.store().await;
    let registry = store.registry();
    registry.put("session.a", text("1"), MINUTE).await.unwrap();
    nats.server.deny(&["kubecrier.records.>"]).unwrap();
    let why = until_failing(&store, async || {
        let _refused = registry.put("session.a", text("1"), MINUTE).await;
    })
    .await;
    assert!(why.contains("`kubecrier.>`"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jetstream_that_is_switched_off_is_said_and_its_return_noticed() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (store, _lifecycle) = nats.store().await;
    let registry = store.registry();
    nats.server.stop().unwrap();
    nats.server.set_jetstream(false);
    nats.server.start_again().unwrap();
    let why = until_failing(&store, async || {
        let _refused = registry.put("session.a", text("1"), MINUTE).await;
    })
    .await;
    assert!(!why.is_empty());
    nats.server.stop().unwrap();
    nats.server.set_jetstream(true);
    nats.server.start_again().unwrap();
    until(async || {
        let put = registry.put("session.a", text("1"), MINUTE).await;
        put.is_ok() && store.health() == Health::Connected
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_a_store_that_is_known_to_be_away_fails_at_once() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let (store, _lifecycle) = nats.store().await;
    let (registry, log) = (store.registry(), store.shared_log());
    nats.server.kill().unwrap();
    until(async || {
        let since = Instant::now();
        let refused = registry.get("session.a").await;
        assert!(refused.is_err());
        let follow = log.follow("events.dev", ReadFrom::After(0)).await;
        assert!(follow.is_err());
        since.elapsed() < Duration::from_millis(100)
    })
    .await;
}
