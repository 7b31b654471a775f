//! Lists of events that a watch keeps up to date for callers who ask again.
//!
//! A list of the newest events has to read all of them. For thousands of events that takes
//! tens of milliseconds, most of it the API server's own work, and an agent asks several times
//! in a row. So a scope whose list was that long is watched for as long as it is asked for, and
//! a while longer.
//!
//! ```text
//!  events_list ──▶ EventLists::events ──▶ KeptEvents, while its watch is live ──▶ page
//!                         └──▶ Cluster: list ──▶ many? ──▶ keep: one watch per scope
//! ```
//!
//! The answer is as recent as the watch: some milliseconds behind the API server. While
//! there is no open watch, events are listed.

use std::{cmp::Ordering, collections::HashMap, fmt, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{sync::Notify, time::Duration};

use super::{EventQuery, EventRow, ScanSize, WireEvent, to_event};
use crate::{
    Contexts,
    allowed::ReadScope,
    client::Cluster,
    error::{ClusterError, ErrorKind},
    kind_watch::{
        Decoder, KindObserver, KindStatus, ObjectChange, ObjectName, Scope, WatchDeps,
        WatchedObject, follow,
    },
    list::{Page, Remaining},
    shared_task::{Lease, SharedTasks},
    watch::health::WatchHealth,
};
use kubecrier_core::{Event, metrics::WatchMetrics, shares::LimitName};
use kubecrier_k8s_api::{BuiltinKind, kinds};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;

/// Events that a list has read when its scope is worth a watch: two pages.
const EVENTS_MIN: usize = 1000;

/// The size of the events of one scope, as the API server sends them and as they are kept.
const BYTES_MAX: usize = 16 << 20;

/// What an event takes besides its texts.
const EVENT_BYTES: usize = size_of::<Event>() + size_of::<KeptEvent>();

/// Scopes that are kept at once. One more takes the place of another that is not being read.
const SCOPES_MAX: usize = 4;

/// How long a watch is open before it has sent what happened while there was none.
const SETTLED_AFTER: Duration = Duration::from_millis(100);

/// How long a scope is watched after it was last asked for: agents ask several times, with
/// pauses for their own work.
const LINGER: Duration = Duration::from_mins(2);

const LIMIT: LimitName = LimitName::new("lists of events", "no flag");

/// The newest events of scopes: listed, or kept by a watch. Cheap to clone.
#[derive(Clone)]
pub struct EventLists {
    shared: Arc<Shared>,
}

struct Shared {
    deps: WatchDeps,
    tasks: SharedTasks<Key, Arc<KeptEvents>>,
}

/// A scope of one kubeconfig: after a change of it, the context may be another cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    scope: Scope,
    generation: u64,
}

/// All events of a scope.
#[derive(Default)]
struct KeptEvents {
    // A lock because callers read while the watch writes; held for one change or one search.
    state: Mutex<State>,
    /// There are more than may be kept.
    overflow: Notify,
}

#[derive(Default)]
struct State {
    /// By uid.
    events: HashMap<Box<str>, Arc<Event>>,
    bytes: usize,
    /// The watch, once everything was listed.
    watch: Option<Arc<WatchHealth>>,
    /// The watch that is being established.
    starting: Option<Arc<WatchHealth>>,
}

/// An event as the watch decodes it.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
struct WatchedEvent(WireEvent);

/// What is kept of an event; nothing if it is about an object that must not be shown.
struct KeptEvent {
    uid: Box<str>,
    event: Option<Arc<Event>>,
}

// === impl EventLists ===

impl EventLists {
    /// Keeps nothing yet.
    pub fn new(
        contexts: Arc<Contexts>,
        lifecycle: Lifecycle,
        watches: WatchMetrics,
        renewal: Duration,
    ) -> Self {
        let deps = WatchDeps {
            contexts,
            watches,
            renewal,
        };
        let limit = (LIMIT, SCOPES_MAX);
        let tasks = SharedTasks::new("kept events", LINGER, limit, lifecycle);
        Self {
            shared: Arc::new(Shared { deps, tasks }),
        }
    }

    /// The newest events of a query, as [`Cluster::events`] lists them.
    pub async fn events(
        &self,
        cluster: &Cluster,
        query: &EventQuery,
    ) -> Result<Page<EventRow>, ClusterError> {
        let key = self.key(cluster, query);
        if let Some(kept) = key.as_ref().and_then(|key| self.kept(key))
            && let Some(page) = kept.page(query, Timestamp::now())
        {
            return Ok(page);
        }
        let listed = cluster.list_events(query).await?;
        if let Some(key) = key.filter(|_| listed.scanned.is_worth_a_watch()) {
            self.keep(key);
        }
        Ok(listed.page)
    }

    /// What answers the query if it is kept. A field selector is the API server's to evaluate,
    /// and so are the rights of a caller: what is kept was read with those of the server.
    fn key(&self, cluster: &Cluster, query: &EventQuery) -> Option<Key> {
        let confined = query.namespace.is_none() && cluster.scope().namespaces.is_restricted();
        if confined || cluster.acts_as_caller() || query.field_selector.is_some() {
            return None;
        }
        let namespace = query.namespace.as_ref();
        Some(Key {
            scope: Scope {
                context: cluster.context().to_owned(),
                namespace: namespace.map(|name| name.as_str().to_owned()),
            },
            generation: self.shared.deps.contexts.generation(),
        })
    }

    fn kept(&self, key: &Key) -> Option<Lease<Arc<KeptEvents>>> {
        self.shared.tasks.lock().lease(key)
    }

    /// Starts the watch of a scope, unless there is one.
    fn keep(&self, key: Key) {
        let mut tasks = self.shared.tasks.lock();
        // Those that are full are being read, and this one is listed again.
        if tasks.contains(&key) || tasks.make_room(&key, None).is_err() {
            return;
        }
        let kept = Arc::new(KeptEvents::default());
        let task = Arc::clone(&kept).run(key.scope.clone(), self.shared.deps.clone());
        tasks.start(key, kept, None, task, |_, _| {});
    }
}

impl fmt::Debug for EventLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.shared.tasks.lock();
        f.debug_set()
            .entries(tasks.iter().map(|(key, _)| key))
            .finish()
    }
}

// === impl ScanSize ===

impl ScanSize {
    fn is_worth_a_watch(self) -> bool {
        self.complete && self.events >= EVENTS_MIN && self.bytes <= BYTES_MAX
    }
}

// === impl KeptEvents ===

impl KeptEvents {
    async fn run(self: Arc<Self>, scope: Scope, deps: WatchDeps) -> ClusterError {
        let doing = format!("cannot keep the events of {scope}");
        let watch = follow(
            Arc::clone(&self),
            &kinds::EVENT,
            Decoder::of::<WatchedEvent>(),
            scope,
            deps,
        );
        tokio::select! {
            error = watch => error,
            () = self.overflow.notified() => {
                let reason = format!("they take more than {} MiB", BYTES_MAX >> 20);
                ClusterError::new(ErrorKind::TooLarge, doing, reason, None)
            }
        }
    }

    /// The newest events; none while there is no open watch.
    fn page(&self, query: &EventQuery, now: Timestamp) -> Option<Page<EventRow>> {
        let oldest = query.since.map(|since| now - since);
        let state = self.state.lock();
        let open_since = state.watch.as_ref().and_then(|watch| watch.open_since());
        open_since.filter(|since| since.elapsed() >= SETTLED_AFTER)?;
        let mut found: Vec<_> = (state.events.values())
            .filter(|event| oldest.is_none_or(|oldest| event.timestamp >= oldest))
            .filter(|event| query.admits(event))
            .collect();
        let left = found.len().saturating_sub(query.limit);
        if left > 0 {
            found.select_nth_unstable_by(query.limit, |one, other| newest_first(one, other));
            found.truncate(query.limit);
        }
        found.sort_unstable_by(|one, other| newest_first(one, other));
        let items = found.into_iter().map(|event| EventRow(Arc::clone(event)));
        Some(Page {
            items: items.collect(),
            more: Remaining::Exactly(left),
            caveat: None,
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        if state.bytes > BYTES_MAX {
            *state = State::default();
            self.overflow.notify_one();
        }
    }
}

impl KindObserver for KeptEvents {
    type Kind = &'static BuiltinKind;
    type Kept = KeptEvent;

    fn on_change(&self, _kind: &'static BuiltinKind, change: ObjectChange<KeptEvent>) {
        self.change(|state| match change {
            ObjectChange::Applied(kept) => state.apply(kept),
            ObjectChange::Deleted(name) => state.remove(&name.name),
        });
    }

    fn on_relist(&self, _kind: &'static BuiltinKind, objects: Vec<KeptEvent>) {
        self.change(|state| {
            state.events.clear();
            state.bytes = 0;
            for kept in objects {
                state.apply(kept);
            }
        });
    }

    fn on_start(&self, _kind: &'static BuiltinKind, health: &Arc<WatchHealth>) {
        self.state.lock().starting = Some(Arc::clone(health));
    }

    fn on_status(&self, _kind: &'static BuiltinKind, status: KindStatus) {
        // Whether an established watch is open is read from itself.
        if let KindStatus::Watching = status {
            let mut state = self.state.lock();
            if let Some(started) = state.starting.take() {
                state.watch = Some(started);
            }
        }
    }

    fn on_left_out(&self, _kind: &'static BuiltinKind, _error: ClusterError, _reason: String) {
        *self.state.lock() = State::default();
    }

    fn is_fatal(&self, _kind: &'static BuiltinKind, _error: &ClusterError) -> bool {
        false
    }
}

// === impl State ===

impl State {
    fn apply(&mut self, KeptEvent { uid, event }: KeptEvent) {
        self.remove(&uid);
        if let Some(event) = event {
            self.bytes += bytes(&event);
            self.events.insert(uid, event);
        }
    }

    fn remove(&mut self, uid: &str) {
        if let Some(event) = self.events.remove(uid) {
            self.bytes -= bytes(&event);
        }
    }
}

// === impl WatchedEvent ===

impl WatchedObject for WatchedEvent {
    type Kind = &'static BuiltinKind;
    type Kept = KeptEvent;
    type Fallback = Self;

    /// Its uid: an event that was made again under the same name is another one.
    fn name(&self) -> ObjectName {
        ObjectName {
            namespace: Box::default(),
            name: self.uid().into(),
        }
    }

    fn version(&self) -> &str {
        self.0
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    fn keep(mut self, _kind: Self::Kind, redactor: &Redactor, scope: &ReadScope) -> KeptEvent {
        let uid = self.uid().into();
        // A row does not show them.
        self.0.metadata.labels = None;
        let shown = !self.0.is_hidden(scope);
        KeptEvent {
            uid,
            event: shown.then(|| Arc::new(to_event(self.0, redactor))),
        }
    }
}

impl WatchedEvent {
    fn uid(&self) -> &str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }
}

/// The order of a list, and one for events of the same time.
fn newest_first(one: &Event, other: &Event) -> Ordering {
    order(other).cmp(&order(one))
}

fn order(event: &Event) -> (Timestamp, &str, &str) {
    (event.timestamp, &event.involved.name, &event.reason)
}

/// The memory of an event.
fn bytes(event: &Event) -> usize {
    let involved = &event.involved;
    let texts = [
        &event.uid,
        &event.namespace,
        &event.kind,
        &event.reason,
        &event.message,
        &event.source,
        &involved.api_version,
        &involved.kind,
        &involved.name,
        &involved.namespace,
        &involved.uid,
        &involved.field_path,
    ];
    EVENT_BYTES + texts.map(String::len).iter().sum::<usize>() + event.uid.len()
}

#[cfg(test)]
mod tests;
