//! Events from a watch that others have anyway. Where the events of every context are kept, a
//! second watch of them would cost as much as the first.

use std::{pin::pin, sync::Arc};

use kubecrier_core::{
    self as core, Backoff,
    filters::{FilterRequest, Filters},
    shares::ShareKey,
    subscriptions::{LabelUse, Listener, WatchStatus},
};
use kubecrier_incidents::objects::{Event, Involved, Meta};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Duration, sleep},
};

use super::{
    kinds::{StoredObject, WatchedKind},
    object::KeptObject,
    watcher::IncidentWatcher,
};
use crate::{
    Actor, Contexts, EventQuery, EventRow,
    client::Cluster,
    error::ClusterError,
    kind_watch::{KindObserver, KindStatus, Scope},
    watch::{WatchClaim, WatchLease, Watches},
};

/// A list that fails is tried again after two seconds, and each minute in the end.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_mins(1));

/// Events that are listed: as many as one list reads.
const LISTED_MAX: usize = 20_000;

/// Passes the events of a shared watch on.
struct EventListener {
    watcher: Arc<IncidentWatcher>,
    /// That of events.
    kind: &'static WatchedKind,
    /// What came while the list that it belongs after is read; `None` once that counts. A lock
    /// because the list and the watch are two tasks; held to move events.
    pending: Mutex<Option<Vec<Event>>>,
    /// Events were missed: they have to be listed.
    missed: Notify,
}

/// Follows the events of a scope until it is dropped. Returns if there is no such watch, and none
/// can be had.
pub(super) async fn follow(
    watcher: Arc<IncidentWatcher>,
    kind: &'static WatchedKind,
    scope: &Scope,
    contexts: &Arc<Contexts>,
    watches: &Watches,
) -> ClusterError {
    let listener = Arc::new(EventListener {
        watcher,
        kind,
        pending: Mutex::new(Some(Vec::new())),
        missed: Notify::new(),
    });
    let _held = match join(&listener, scope, watches).await {
        Ok(held) => held,
        Err(error) => return error,
    };
    loop {
        let mut missed = pin!(listener.missed.notified());
        missed.as_mut().enable();
        let listed = list(contexts, scope).await;
        listener.begin(listed);
        missed.await;
        *listener.pending.lock() = Some(Vec::new());
    }
}

async fn join(
    listener: &Arc<EventListener>,
    scope: &Scope,
    watches: &Watches,
) -> Result<(WatchLease, WatchClaim), ClusterError> {
    let request = FilterRequest {
        namespace: scope.namespace.clone(),
        ..FilterRequest::default()
    };
    let filters = Filters::try_from(request).unwrap_or_default();
    let claim = watches.claim(&ShareKey::Process, &scope.context, &filters);
    let claim = claim.map_err(|reached| ClusterError::limit("cannot watch events", &reached))?;
    let follower: Arc<dyn Listener> = Arc::clone(listener) as _;
    let joined = watches.join(&scope.context, &filters, follower).await?;
    for health in joined.lease.healths() {
        listener.watcher.on_start(listener.kind, health);
    }
    Ok((joined.lease, claim))
}

/// What the API server has. A cluster that cannot be read is asked again.
async fn list(contexts: &Arc<Contexts>, scope: &Scope) -> Vec<Event> {
    let namespace = scope.namespace.as_deref();
    let query = &EventQuery {
        namespace: namespace.and_then(|name| crate::Name::label("namespace", name).ok()),
        limit: LISTED_MAX,
        ..EventQuery::default()
    };
    let mut failures = 0;
    loop {
        let request = |cluster: Cluster| async move { cluster.events(query).await };
        let asking = contexts.with_cluster(&Actor::Server, Some(&scope.context), request);
        match asking.await {
            Ok(page) => {
                let events = page.items.iter();
                return events.map(|EventRow(event)| to_event(event)).collect();
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(%scope, %error, failures, "events cannot be listed");
                sleep(BACKOFF.delay(failures)).await;
            }
        }
    }
}

/// An event as detectors read it. It was redacted and cut before.
fn to_event(event: &core::Event) -> Event {
    let namespace: Arc<str> = (&*event.namespace).into();
    let involved = &event.involved;
    // An event is in the namespace of its object as a rule.
    let involved_namespace = if involved.namespace == event.namespace {
        Arc::clone(&namespace)
    } else {
        (&*involved.namespace).into()
    };
    Event {
        metadata: Meta {
            namespace,
            // Listed and watched ones have the same uid, and nothing else is asked of it.
            name: (&*event.uid).into(),
            ..Meta::default()
        },
        involved_object: Involved {
            kind: (&*involved.kind).into(),
            namespace: involved_namespace,
            name: (&*involved.name).into(),
            uid: (&*involved.uid).into(),
        },
        kind: (&*event.kind).into(),
        reason: (&*event.reason).into(),
        message: (&*event.message).into(),
        count: i64::from(event.count),
        first_timestamp: event.first_seen,
        last_timestamp: Some(event.timestamp),
        ..Event::default()
    }
}

// === impl EventListener ===

impl EventListener {
    /// The list counts, and what came meanwhile after it.
    fn begin(&self, mut listed: Vec<Event>) {
        let mut pending = self.pending.lock();
        listed.extend(pending.take().into_iter().flatten());
        let kept = listed.into_iter().filter(Event::is_needed);
        let kept = kept
            .map(|event| KeptObject::Read(Box::new(event)))
            .collect();
        self.watcher.on_relist(self.kind, kept);
        self.watcher.on_status(self.kind, KindStatus::Watching);
    }
}

impl Listener for EventListener {
    fn wants(&self, _event: &core::Event) -> bool {
        true
    }

    fn label_use(&self) -> LabelUse {
        LabelUse::None
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<core::Event>]) {
        let events = events.iter().map(|event| to_event(event));
        let events = events.filter(Event::is_needed);
        let mut pending = self.pending.lock();
        if let Some(pending) = &mut *pending {
            pending.extend(events);
            return;
        }
        self.watcher.add_events(events.collect());
    }

    fn on_status(&self, _watch: u64, status: &WatchStatus) {
        let status = match status {
            WatchStatus::Degraded { error } => KindStatus::Stale(error.clone()),
            WatchStatus::Recovered => KindStatus::Watching,
            WatchStatus::Gap { .. } => return self.missed.notify_one(),
            WatchStatus::Unlabelled { .. } | WatchStatus::Withdrawn { .. } => return,
        };
        KindObserver::on_status(&*self.watcher, self.kind, status);
    }
}
