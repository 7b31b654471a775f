//! Sinks: each follows the incidents of its contexts from the start of the server to its end.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use kubecrier_core::{Backoff, metrics::SinksMetrics};
use kubecrier_history::Lease;
use kubecrier_incidents::{Options, Transition};
use kubecrier_k8s::{IncidentFollower, IncidentUpdate};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;
use kubecrier_server::{ClusterStore, FollowedIncidents, Server};
use kubecrier_sinks::{Sink, SinkConfig};

/// A cluster that cannot be read is asked again after two seconds, and each minute in the end.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_mins(1));

/// Passes the incidents of a context on to a sink.
struct SinkFollower {
    sink: Sink,
    /// What is followed; weak, because it holds the follower. Set right after it began.
    followed: OnceLock<(Arc<str>, Weak<FollowedIncidents>)>,
}

/// Starts all sinks.
pub(crate) fn start(
    configs: Vec<SinkConfig>,
    options: &Arc<Options>,
    server: &Server,
    metrics: &SinksMetrics,
    redactor: &Redactor,
    lifecycle: &Lifecycle,
    store: Option<&ClusterStore>,
) {
    for config in configs {
        let sink = Sink::new(config, options, metrics, redactor.clone());
        lifecycle.spawn("sink", sink.clone().run(lifecycle.draining().clone()));
        let contexts = sink.config().filter.contexts.clone();
        let contexts = if contexts.is_empty() {
            vec![None]
        } else {
            contexts.into_iter().map(Some).collect()
        };
        for context in contexts {
            let lease = store.map(|store| lease(store, &sink, context.as_deref()));
            let following = follow(sink.clone(), context, server.clone(), lease);
            let draining = lifecycle.draining().clone();
            lifecycle.spawn("sink-incidents", async move {
                draining.run_until_cancelled_owned(following).await;
            });
        }
    }
}

/// The lease of a sink's context: of servers that work together one delivers.
fn lease(store: &ClusterStore, sink: &Sink, context: Option<&str>) -> Lease {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let of = [sink.config().name.as_str(), context.unwrap_or_default()];
    let of = of.map(|name| name.chars().map(letter).take(60).collect::<String>());
    let of = format!("sink.{}-{}", of[0], of[1]);
    Lease::new(Arc::clone(&store.registry), &of, store.peers.name())
}

/// Follows a context for ever, or whenever this server has the lease.
async fn follow(sink: Sink, context: Option<String>, server: Server, lease: Option<Lease>) {
    let Some(mut lease) = lease else {
        follow_now(&sink, context.as_deref(), &server).await;
        return;
    };
    loop {
        lease.acquire().await;
        let (name, context) = (&sink.config().name, context.as_deref());
        tracing::info!(sink = name, context, "this server delivers for all");
        tokio::select! {
            () = follow_now(&sink, context, &server) => {}
            () = lease.keep() => {}
        }
        tracing::info!(sink = name, context, "another server delivers");
    }
}

/// Follows a context for as long as it is polled; a cluster that cannot be read is asked again.
async fn follow_now(sink: &Sink, context: Option<&str>, server: &Server) {
    let mut failures = 0;
    let _held = loop {
        match follow_once(sink, context, server).await {
            Ok(followed) => break followed,
            Err(error) => {
                failures += 1;
                let (sink, hint) = (&sink.config().name, error.hint().unwrap_or_default());
                if failures == 1 {
                    tracing::warn!(sink, %error, hint, "a sink has no incidents yet; it is tried again");
                } else {
                    tracing::debug!(sink, %error, failures, "the sink still has no incidents");
                }
                tokio::time::sleep(BACKOFF.delay(failures)).await;
            }
        }
    };
    std::future::pending::<()>().await;
}

async fn follow_once(
    sink: &Sink,
    context: Option<&str>,
    server: &Server,
) -> Result<Arc<FollowedIncidents>, kubecrier_k8s::ClusterError> {
    let follower = Arc::new(SinkFollower {
        sink: sink.clone(),
        followed: OnceLock::new(),
    });
    let as_follower = Arc::clone(&follower) as Arc<dyn IncidentFollower>;
    let filters = &sink.config().filter.filters;
    let followed = server.follow_incidents(context, filters, &as_follower);
    let followed = Arc::new(followed.await?);
    let context: Arc<str> = followed.context().into();
    // Before updates are passed on: they count on what was open.
    sink.on_start(&context, &followed.open(), jiff::Timestamp::now());
    tracing::info!(sink = sink.config().name, %context, "a sink follows incidents");
    let _first = (follower.followed).set((context, Arc::downgrade(&followed)));
    Ok(followed)
}

impl IncidentFollower for SinkFollower {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        if let Some((context, followed)) = self.followed.get() {
            if let Some(followed) = followed.upgrade() {
                let open = followed.open();
                (self.sink).on_update(context, update.at, &update.transitions, &open);
            }
            return;
        }
        // Other namespaces are still being listed. What is new is news already; of the rest it
        // is not known yet whether it is.
        let opened = update.transitions.iter().filter_map(|one| match one {
            Transition::Opened(incident) => Some(incident),
            Transition::Changed(_) | Transition::Resolved { .. } => None,
        });
        let open: Vec<_> = opened.clone().cloned().map(Arc::new).collect();
        let opened: Vec<_> = opened.cloned().map(Transition::Opened).collect();
        (self.sink).on_update(&update.context, update.at, &opened, &open);
    }
}
