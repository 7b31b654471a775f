//! A server, and stores on it.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{NatsConfig, NatsStore};
use tempfile::TempDir;
use testbed::{NatsOptions, NatsServer};

/// What must happen happens within this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server of one test.
pub(crate) struct Nats {
    pub(crate) server: NatsServer,
    _folder: TempDir,
}

// === impl Nats ===

impl Nats {
    /// A server with JetStream, if there is one on this machine.
    pub(crate) fn start() -> Option<Self> {
        Self::with(NatsOptions::default())
    }

    pub(crate) fn with(options: NatsOptions) -> Option<Self> {
        NatsServer::is_there().inspect_err(testbed::skip).ok()?;
        let folder = TempDir::new().unwrap();
        let server = NatsServer::start(folder.path(), options).unwrap();
        Some(Self {
            server,
            _folder: folder,
        })
    }

    pub(crate) fn config(&self) -> NatsConfig {
        NatsConfig {
            servers: vec![self.server.url()],
            ..NatsConfig::default()
        }
    }

    /// A store, as one replica has it.
    pub(crate) async fn store(&self) -> (NatsStore, Lifecycle) {
        let lifecycle = Lifecycle::default();
        let store = NatsStore::connect(&self.config(), &lifecycle).await;
        (store.unwrap(), lifecycle)
    }
}

pub(crate) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Waits for what must happen.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, what).await;
    done.expect("it happens in time")
}

/// Asks until it is so.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
