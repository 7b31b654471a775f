//! Kinds of objects, each listed and watched, for what is made of several of them: graphs and
//! incidents.
//!
//! ```text
//!  follow ──▶ KindSource: list, watch ──▶ WatchLoop ──▶ KindHandler ──▶ KindObserver
//!     ▲                                        │                          ▲
//!     └── after a while ── left out: 403, 404 ─┴────── KindStatus ────────┘
//! ```
//!
//! - `object`: an object as it is decoded, and what is kept of it; `decoder`: how, for one kind
//! - `source`: the objects of one kind in a cluster; `watch_line`: a line of its watch
//! - `handler`: feeds what a watch sees to the observer
//! - `status`: whether a kind is watched, out of date or left out

mod decoder;
mod handler;
mod object;
mod source;
mod status;
mod watch_line;

use std::{fmt, sync::Arc};

use tokio::time::{Duration, sleep};

use self::handler::KindHandler;
pub(crate) use self::{
    decoder::Decoder,
    object::{ListedKind, ObjectName, WatchedObject},
    source::{KindSource, ObjectChange},
    status::{KindStatus, KindStatuses},
};
#[cfg(test)]
pub(crate) use object::Lenient;

use crate::{
    Contexts,
    error::{ClusterError, ErrorKind},
    watch::{health::WatchHealth, watch_loop::WatchLoop},
};
use kubecrier_core::metrics::WatchMetrics;

/// Objects that are kept of one scope.
pub(crate) const OBJECTS_MAX: usize = 100_000;

/// The delay before a kind that may not be read is tried again: the right may be granted.
const DENIED_RETRY: Duration = Duration::from_mins(5);

/// The delay before a kind that could not be read for another reason is tried again.
const FAILED_RETRY: Duration = Duration::from_secs(30);

/// The part of a cluster whose objects are watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) context: String,
    /// None for the whole cluster.
    pub(crate) namespace: Option<String>,
}

/// What watches of kinds are made with.
#[derive(Clone)]
pub(crate) struct WatchDeps {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) watches: WatchMetrics,
    pub(crate) renewal: Duration,
}

/// Is told what the watches of several kinds see, on their tasks: nothing here may wait.
pub(crate) trait KindObserver: Send + Sync + 'static {
    /// How kinds are told from each other.
    type Kind: ListedKind;
    /// What is kept of an object of any of them.
    type Kept: Send + 'static;

    /// An object was added, modified or deleted.
    fn on_change(&self, kind: Self::Kind, change: ObjectChange<Self::Kept>);

    /// These are all objects of a kind.
    fn on_relist(&self, kind: Self::Kind, objects: Vec<Self::Kept>);

    /// A watch of the kind begins.
    fn on_start(&self, _kind: Self::Kind, _health: &Arc<WatchHealth>) {}

    /// A kind is watched, or is out of date.
    fn on_status(&self, kind: Self::Kind, status: KindStatus);

    /// A kind cannot be read: nothing is known of it any more. The reason is redacted.
    fn on_left_out(&self, kind: Self::Kind, error: ClusterError, reason: String);

    /// Whether nothing can be made of the other kinds, because of this error.
    fn is_fatal(&self, kind: Self::Kind, error: &ClusterError) -> bool;
}

/// Whether a kind may not be read, or there is none.
pub(crate) fn is_denied(error: &ClusterError) -> bool {
    matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound)
}

/// Lists and watches a kind until it is dropped. One that cannot be read is left out, and
/// tried again from time to time. Returns only an error that the observer finds fatal.
pub(crate) async fn follow<O: KindObserver>(
    observer: Arc<O>,
    kind: O::Kind,
    decoder: Decoder<O::Kind, O::Kept>,
    scope: Scope,
    deps: WatchDeps,
) -> ClusterError {
    let plural = kind.resource().plural;
    loop {
        let contexts = Arc::clone(&deps.contexts);
        let source = KindSource::new(contexts, &scope, kind, decoder, deps.renewal);
        let handler = KindHandler::new(&observer, kind);
        let health = Arc::new(WatchHealth::new(deps.watches.clone()));
        observer.on_start(kind, &health);
        let watch_loop = WatchLoop::new(
            source,
            handler.clone(),
            Arc::clone(&health),
            deps.renewal,
            String::new(),
            format!("{scope} {plural}"),
        );
        let started = async {
            if health.started().await.is_ok() {
                handler.begin();
                observer.on_status(kind, KindStatus::Watching);
            }
            std::future::pending::<()>().await;
        };
        let error = tokio::select! {
            error = watch_loop.relist_first().run() => error,
            () = started => continue,
        };
        drop(health);
        if observer.is_fatal(kind, &error) {
            return error;
        }
        tracing::info!(%scope, kind = plural, %error, "left out");
        let reason = error.redacted(deps.contexts.redactor()).to_string();
        let retry = if is_denied(&error) {
            DENIED_RETRY
        } else {
            FAILED_RETRY
        };
        observer.on_left_out(kind, error, status::short(&reason));
        sleep(retry).await;
    }
}

// === impl Scope ===

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or("*");
        write!(f, "{}/{namespace}", self.context)
    }
}
