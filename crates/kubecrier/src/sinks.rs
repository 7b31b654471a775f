//! Sinks: each follows the incidents of its contexts from the start of the server to its end.

mod turns;

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use kubecrier_core::{Backoff, metrics::SinksMetrics};
use kubecrier_history::Lease;
use kubecrier_incidents::{Options, Transition};
use kubecrier_k8s::{IncidentFollower, IncidentUpdate, shared_name};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;
use kubecrier_server::{ClusterStore, FollowedIncidents, Server};
use kubecrier_sinks::{Sink, SinkConfig};

use self::turns::take_turns;

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
        let mut sink = Sink::new(config, options, metrics, redactor.clone());
        if store.is_some() {
            sink = sink.in_turns();
        }
        lifecycle.spawn("sink", sink.clone().run(lifecycle.draining().clone()));
        let contexts = sink.config().filter.contexts.clone();
        let contexts = if contexts.is_empty() {
            vec![None]
        } else {
            contexts.into_iter().map(Some).collect()
        };
        for context in contexts {
            let (sink, server, store) = (sink.clone(), server.clone(), store.cloned());
            let of_task = lifecycle.clone();
            lifecycle.spawn("sink-incidents", async move {
                follow(&sink, context.as_deref(), &server, store, &of_task).await;
            });
        }
    }
}

/// Follows a context until the server drains. With other servers each of them does, and one of
/// them delivers: so the next one knows what happens when its turn comes.
async fn follow(
    sink: &Sink,
    context: Option<&str>,
    server: &Server,
    store: Option<ClusterStore>,
    lifecycle: &Lifecycle,
) {
    let draining = lifecycle.draining();
    let following = draining.run_until_cancelled(follow_now(sink, context, server));
    let Some(followed) = following.await else {
        return;
    };
    let Some(store) = store else {
        draining.cancelled().await;
        return;
    };
    let (name, context) = (&sink.config().name, Arc::<str>::from(followed.context()));
    let cluster = draining.run_until_cancelled(cluster_id(name, &context, server));
    let Some(cluster) = cluster.await else {
        return;
    };
    let of = shared_name("sink", name, &[name, &context, &cluster]);
    let lease = Lease::new(Arc::clone(&store.registry), &of, store.peers.name());
    let tell = |is_ours| {
        let is_change = sink.set_turn(&context, is_ours, &followed.open());
        match (is_change, is_ours) {
            (false, _) => {}
            (true, true) => tracing::info!(sink = name, %context, "this server delivers for all"),
            (true, false) => tracing::info!(sink = name, %context, "another server delivers"),
        }
    };
    take_turns(lease, lifecycle, tell).await;
}

/// Which cluster it is: servers may have other clusters under the same name.
async fn cluster_id(sink: &str, context: &str, server: &Server) -> Arc<str> {
    let mut failures = 0;
    loop {
        match server.cluster_id(context).await {
            Ok(id) => return id,
            Err(error) => {
                failures += 1;
                tracing::debug!(sink, %error, failures, "it is not known whose sink it is");
                tokio::time::sleep(BACKOFF.delay(failures)).await;
            }
        }
    }
}

/// Follows a context; a cluster that cannot be read is asked again.
async fn follow_now(sink: &Sink, context: Option<&str>, server: &Server) -> Arc<FollowedIncidents> {
    let mut failures = 0;
    loop {
        match follow_once(sink, context, server).await {
            Ok(followed) => return followed,
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
    }
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
