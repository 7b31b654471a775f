//! Keeps the streams while the process runs, and tells the operator once what does not work.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::{Duration, timeout};

use crate::{ConnectError, Health, NatsConfig, failures::Doing, store::Inner, streams};

/// How often is looked whether something fails, and streams are made that are not there.
const CHECK: Duration = Duration::from_secs(1);

/// What the log has said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Well,
    Lost,
    Failing,
}

/// Makes the streams again when NATS comes back without them, or somebody has deleted them.
pub(crate) async fn keep(inner: Arc<Inner>, config: NatsConfig) {
    let draining = inner.lifecycle.draining().clone();
    let mut changes = inner.link.watch();
    let mut said = Said::Well;
    let mut ensured = 0;
    let keeping = async {
        loop {
            let (is_connected, reconnects) = {
                let state = changes.borrow_and_update();
                (state.health == Health::Connected, state.reconnects)
            };
            if is_connected && (reconnects != ensured || inner.link.has_failures()) {
                let done = ensure(&inner, &config).await;
                if done.is_ok() {
                    ensured = reconnects;
                }
                let done = done.map_err(|error| error.to_string());
                inner.link.note(
                    Doing::KeepStreams,
                    done.as_ref().map(drop).map_err(String::as_str),
                );
            }
            said = tell(said, &inner);
            // A change is acted on at once.
            if let Ok(Err(_closed)) = timeout(CHECK, changes.changed()).await {
                return;
            }
        }
    };
    tokio::select! {
        () = draining.cancelled() => {}
        () = keeping => {}
    }
}

/// Makes both streams, or adapts those that are there.
pub(crate) async fn ensure(inner: &Inner, config: &NatsConfig) -> Result<(), ConnectError> {
    let ensured = streams::ensure(&inner.jetstream, config, &inner.names, &inner.url).await;
    match ensured {
        Ok(has_replicas) => {
            inner.has_replicas.store(has_replicas, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(match inner.link.denied() {
            Some(why) => ConnectError::Rights {
                url: inner.url.clone(),
                fleet: inner.names.fleet.clone(),
                why,
            },
            None => error,
        }),
    }
}

/// Says a state once.
fn tell(said: Said, inner: &Inner) -> Said {
    let url = &inner.url;
    let (now, why) = match inner.health() {
        Health::Connected => (Said::Well, String::new()),
        Health::Lost { why, .. } => (Said::Lost, why),
        Health::Failing { why, .. } => (Said::Failing, why),
    };
    // While it is being looked at it is not well yet.
    if now == said || (now == Said::Well && inner.link.has_failures()) {
        return said;
    }
    match now {
        Said::Well => tracing::info!(url, "the shared store works again"),
        Said::Lost => tracing::warn!(
            url,
            why,
            "the shared store cannot be reached: each server works alone"
        ),
        Said::Failing => {
            tracing::warn!(
                url,
                why,
                "the shared store does not work: each server works alone"
            );
        }
    }
    now
}
