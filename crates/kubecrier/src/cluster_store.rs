//! Working together with other servers: the connection to the store, and what is made of it.

use std::{env, sync::Arc};

use anyhow::{Context as _, Result};
use kubecrier_history::{History, Registry, Retention};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{ConnectError, NatsConfig, NatsStore};
use kubecrier_server::{ClusterStore, shared_secret};
use tokio::time::{Duration, Instant, sleep};

/// How long a store that is down may take to come at the start: it may be starting as well.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between two attempts.
const RETRY: Duration = Duration::from_secs(2);

/// What is kept in memory for cursors, where there is no folder for it.
const IN_MEMORY: Retention = Retention {
    age_max: Duration::from_hours(1),
    bytes_max: 64 << 20,
};

/// Longest name of a host in the name of a server.
const HOST_MAX: usize = 40;

/// Connects to the store. A history that is shared has the same secret on all servers.
pub(crate) async fn join(
    config: NatsConfig,
    history: Option<History>,
    lifecycle: &Lifecycle,
) -> Result<(ClusterStore, History)> {
    let store = connect(&config, lifecycle).await?;
    let registry: Arc<dyn Registry> = Arc::new(store.registry());
    let secret = shared_secret(&*registry).await;
    let secret = secret.context("cannot use the store of --cluster-store")?;
    let history = match history {
        Some(history) => history,
        None => {
            let (history, writer) = History::in_memory(IN_MEMORY)?;
            let draining = lifecycle.draining().clone();
            lifecycle.spawn("history", writer.run(draining.cancelled_owned()));
            history
        }
    };
    let name = server_name();
    tracing::info!(
        server = name,
        fleet = config.fleet,
        "this server works together with others"
    );
    let store = ClusterStore {
        registry,
        peers: Arc::new(store.peers(&name).await?),
        log: Arc::new(store.shared_log()),
    };
    Ok((store, history.with_secret(secret)))
}

async fn connect(config: &NatsConfig, lifecycle: &Lifecycle) -> Result<NatsStore, ConnectError> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        match NatsStore::connect(config, lifecycle).await {
            Err(error @ ConnectError::Down { .. }) if Instant::now() + RETRY < deadline => {
                tracing::warn!(%error, "the store is tried again");
                sleep(RETRY).await;
            }
            connected => return connected,
        }
    }
}

/// A name that no other server has, and that none has after a restart. It begins with the host,
/// for people.
fn server_name() -> String {
    let host = env::var("HOSTNAME").unwrap_or_default();
    let is_letter = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
    let host: String = host.chars().filter(is_letter).take(HOST_MAX).collect();
    let host = if host.is_empty() { "server" } else { &host };
    let suffix = uuid::Uuid::new_v4().simple().to_string();
    format!("{host}-{}", &suffix[..12])
}
