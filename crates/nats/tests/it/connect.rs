//! What stands in the way of a store, and what is said about it.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use async_nats::jetstream::{self, stream};
use kubecrier_history::Registry;
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{ConnectError, NatsConfig, NatsStore};
use testbed::NatsOptions;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use crate::support::{Nats, soon, text};

async fn refused(config: NatsConfig) -> ConnectError {
    let lifecycle = Lifecycle::default();
    let error = soon(NatsStore::connect(&config, &lifecycle)).await;
    let error = error.expect_err("there is something in the way");
    // Nothing is left behind.
    soon(lifecycle.join_tasks()).await;
    error
}

#[track_caller]
fn says(error: &ConnectError, words: &[&str]) {
    let said = error.to_string();
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    assert!(!said.contains("secret"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_down() {
    let config = |server: &str| NatsConfig {
        servers: vec![server.to_owned()],
        ..NatsConfig::default()
    };
    let error = refused(config("nats://u:secret@127.0.0.1:1")).await;
    assert!(matches!(error, ConnectError::Down { .. }), "{error:?}");
    says(
        &error,
        &["nats://127.0.0.1:1", "refused", "--cluster-store"],
    );
    let error = refused(config("nats://nowhere.invalid:4222")).await;
    assert!(matches!(error, ConnectError::Down { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_frozen() {
    let Some(nats) = Nats::start() else { return };
    nats.server.freeze().unwrap();
    let error = refused(nats.config()).await;
    assert!(matches!(error, ConnectError::Down { .. }), "{error:?}");
    nats.server.thaw().unwrap();
    nats.store().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_credentials() {
    let login = ("crier".to_owned(), "secret@1".to_owned());
    let Some(nats) = Nats::with(NatsOptions {
        login: Some(login),
        ..NatsOptions::default()
    }) else {
        return;
    };
    let bare = nats.server.url_without_login();
    let config = |url: String| NatsConfig {
        servers: vec![url],
        ..NatsConfig::default()
    };
    let error = refused(config(bare.clone())).await;
    assert!(
        matches!(error, ConnectError::CredentialsAsked { .. }),
        "{error:?}"
    );
    says(&error, &[&bare, "--cluster-store"]);
    let wrong = bare.replace("://", "://crier:secret-2@");
    let error = refused(config(wrong)).await;
    assert!(
        matches!(error, ConnectError::CredentialsRefused { .. }),
        "{error:?}"
    );
    says(&error, &[&bare]);
    let right = bare.replace("://", "://crier:secret%401@");
    let lifecycle = Lifecycle::default();
    let store = NatsStore::connect(&config(right), &lifecycle)
        .await
        .unwrap();
    assert!(!format!("{store:?}").contains("secret"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret, and no credentials").unwrap();
    let broken = NatsConfig {
        credentials_file: Some(file.path().to_owned()),
        ..config(bare.clone())
    };
    let error = refused(broken).await;
    assert!(matches!(error, ConnectError::File { .. }), "{error:?}");
    says(&error, &["credentials file"]);
    let missing = NatsConfig {
        credentials_file: Some(PathBuf::from("/nowhere/kubecrier.creds")),
        ..config(bare)
    };
    let error = refused(missing).await;
    says(&error, &["/nowhere/kubecrier.creds", "credentials file"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_do_what_is_needed() {
    let Some(nats) = Nats::with(NatsOptions {
        jetstream: false,
        ..NatsOptions::default()
    }) else {
        return;
    };
    let error = refused(nats.config()).await;
    assert!(
        matches!(error, ConnectError::JetStreamOff { .. }),
        "{error:?}"
    );
    let small = Nats::with(NatsOptions {
        payload_bytes_max: 64 * 1024,
        ..NatsOptions::default()
    });
    let error = refused(small.unwrap().config()).await;
    says(&error, &["65536", "max_payload"]);
    let full = Nats::with(NatsOptions {
        store_bytes_max: 16 * 1024 * 1024,
        ..NatsOptions::default()
    })
    .unwrap();
    let error = refused(full.config()).await;
    assert!(matches!(error, ConnectError::NoRoom { .. }), "{error:?}");
    says(&error, &["kubecrier-log", "max_file_store"]);
    // With a smaller log there is room.
    let fits = NatsConfig {
        log_max_bytes: 8 * 1024 * 1024,
        ..full.config()
    };
    NatsStore::connect(&fits, &Lifecycle::default())
        .await
        .unwrap();
}

/// A server that says of itself that it is an old one.
async fn old_server(listener: TcpListener) {
    while let Ok((mut connection, _)) = listener.accept().await {
        let info = "INFO {\"server_id\":\"x\",\"version\":\"2.10.9\",\"proto\":1,\"host\":\"127.0.0.1\",\
                    \"port\":4222,\"headers\":true,\"jetstream\":true,\"max_payload\":1048576}\r\n";
        connection.write_all(info.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"PING\r\n") && connection.read_buf(&mut said).await.unwrap() > 0 {}
        // It may have gone already.
        let _answered = connection.write_all(b"PONG\r\n").await;
        let _rest = connection.read_to_end(&mut said).await;
    }
}

#[tokio::test]
async fn a_server_that_is_too_old() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(old_server(listener));
    let config = NatsConfig {
        servers: vec![url],
        ..NatsConfig::default()
    };
    let error = refused(config).await;
    assert!(matches!(error, ConnectError::TooOld { .. }), "{error:?}");
    says(&error, &["2.10.9", "2.11", "nats://127.0.0.1:"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate() {
    let Some(nats) = Nats::with(NatsOptions {
        tls: true,
        ..NatsOptions::default()
    }) else {
        return;
    };
    let error = refused(nats.config()).await;
    assert!(
        matches!(error, ConnectError::NotTrusted { .. }),
        "{error:?}"
    );
    says(&error, &["tls://127.0.0.1:", "CA file"]);
    let trusted = NatsConfig {
        ca_file: Some(nats.server.ca_file()),
        ..nats.config()
    };
    let store = NatsStore::connect(&trusted, &Lifecycle::default())
        .await
        .unwrap();
    let put = store.registry();
    put.put("session.a", text("1"), Duration::from_mins(1))
        .await
        .unwrap();
    let missing = NatsConfig {
        ca_file: Some(PathBuf::from("/nowhere/ca.crt")),
        ..nats.config()
    };
    says(&refused(missing).await, &["/nowhere/ca.crt", "CA file"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_somebody_else() {
    let Some(nats) = Nats::start() else { return };
    let client = async_nats::connect(nats.server.url()).await.unwrap();
    let jetstream = jetstream::new(client);
    let stream = |name: &str, subject: &str, format: Option<&str>| stream::Config {
        name: name.to_owned(),
        subjects: vec![subject.to_owned()],
        metadata: format
            .map(|format| HashMap::from([("kubecrier-format".to_owned(), format.to_owned())]))
            .unwrap_or_default(),
        ..stream::Config::default()
    };
    for (fleet, name, subject, format) in [
        ("foreign", "foreign-records", "foreign.records.>", None),
        ("taken", "other", "taken.log.>", None),
        ("older", "older-log", "older.log.>", Some("0")),
    ] {
        let made = jetstream.create_stream(stream(name, subject, format)).await;
        made.unwrap();
        let error = refused(NatsConfig {
            fleet: fleet.to_owned(),
            ..nats.config()
        })
        .await;
        match format {
            None => assert!(matches!(error, ConnectError::Foreign { .. }), "{error:?}"),
            Some(_) => assert!(matches!(error, ConnectError::Format { .. }), "{error:?}"),
        }
        says(&error, &[&format!("{fleet}-"), "--cluster-store-fleet"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_change_are_taken_over_and_fleets_know_nothing_of_each_other() {
    let Some(nats) = Nats::start() else { return };
    let (one, _lifecycle) = nats.store().await;
    let registry = one.registry();
    let put = registry.put("session.a", text("1"), Duration::from_mins(1));
    let revision = put.await.unwrap();
    let larger = NatsConfig {
        log_max_bytes: 512 * 1024 * 1024,
        ..nats.config()
    };
    let lifecycle = Lifecycle::default();
    let again = NatsStore::connect(&larger, &lifecycle).await.unwrap();
    let kept = again.registry().get("session.a").await.unwrap().unwrap();
    assert_eq!(kept.revision, revision);
    let other = NatsConfig {
        fleet: "other".to_owned(),
        ..nats.config()
    };
    let other = NatsStore::connect(&other, &lifecycle).await.unwrap();
    assert_eq!(other.registry().get("session.a").await.unwrap(), None);
}
