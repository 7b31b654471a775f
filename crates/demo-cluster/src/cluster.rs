//! The handle of a demo cluster, for tests and scenarios.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    access::{Access, Grant},
    clock::{self, Clock},
    events::NewEvent,
    faults::{Fault, FaultInjector, RecordedRequest, RequestMatcher},
    logs::{LogKey, Logs},
    resource::{PODS, RESOURCES, Resource},
    service::ApiService,
    shared::{ConnectionPolicy, Shared, State},
    store::{ObjectKey, PutError, Store, StoreLimits},
};

/// A cluster in memory. Clones share the cluster.
#[derive(Clone)]
pub struct DemoCluster {
    shared: Arc<Shared>,
    event_ttl: Duration,
    events_max: usize,
}

/// The settings of a demo cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of generated names and ids.
    pub seed: u64,
    /// The time at the start.
    pub starts_at: Timestamp,
    /// The user of clients that impersonate none.
    pub user: String,
    /// Maximum number of objects.
    pub objects_max: usize,
    /// Maximum number of changes in the history; older versions are expired (410).
    pub history_max: usize,
    /// The interval of bookmarks.
    pub bookmark_every: Duration,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// Maximum number of events; the oldest are removed before they expire.
    pub events_max: usize,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            starts_at: Timestamp::now(),
            user: "demo".to_owned(),
            objects_max: 10_000,
            history_max: 5_000,
            bookmark_every: Duration::from_mins(1),
            event_ttl: Duration::from_hours(1),
            events_max: 2_000,
        }
    }
}

// === impl DemoCluster ===

impl Default for DemoCluster {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl DemoCluster {
    /// An empty cluster.
    pub fn new(options: Options) -> Self {
        let Options {
            seed,
            starts_at,
            user,
            objects_max,
            history_max,
            bookmark_every,
            event_ttl,
            events_max,
        } = options;
        let limits = StoreLimits {
            objects_max,
            history_max,
        };
        let state = State {
            store: Store::new(limits, seed),
            logs: Logs::default(),
            access: Access::new(&user),
            injector: FaultInjector::default(),
        };
        let shared = Shared::new(state, Clock::starting_at(starts_at), bookmark_every);
        Self {
            shared: Arc::new(shared),
            event_ttl,
            events_max,
        }
    }

    /// The API itself: `kube::Client::new(cluster.service(), "default")` is a client.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.shared))
    }

    /// The time of the cluster's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The current resourceVersion.
    pub fn version(&self) -> u64 {
        self.shared.lock().store.version()
    }

    // --- objects ---

    /// Creates an object, or replaces it, and answers the stored one.
    pub fn put(&self, object: Value) -> Result<Arc<Value>, PutError> {
        let now = self.now();
        let stored = self.shared.lock().store.put(object, now)?;
        self.changed();
        Ok(stored)
    }

    /// Changes an object and answers the stored one; `None` if it does not exist.
    pub fn modify(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Value>> {
        let key = key(resource, namespace, name)?;
        let now = self.now();
        let mut state = self.shared.lock();
        let mut object = Value::clone(state.store.get(&key)?);
        change(&mut object);
        let stored = state.store.put(object, now).ok()?;
        drop(state);
        self.changed();
        Some(stored)
    }

    /// The stored object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = key(resource, namespace, name)?;
        self.shared.lock().store.get(&key).cloned()
    }

    /// Deletes an object; `false` if it does not exist. A pod gets a grace period of zero
    /// first, as at the end of a graceful deletion.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let Some(key) = key(resource, namespace, name) else {
            return false;
        };
        let is_pod = key.resource == PODS;
        if is_pod {
            self.terminate(namespace, name, Duration::ZERO);
        }
        let mut state = self.shared.lock();
        let deleted = state.store.remove(&key);
        if deleted && is_pod {
            state.logs.forget_pod(namespace, name);
        }
        drop(state);
        self.changed();
        deleted
    }

    /// Begins the graceful deletion of a pod; [`Self::delete`] ends it.
    pub fn terminate(&self, namespace: &str, name: &str, grace: Duration) {
        let at = clock::seconds(self.now());
        self.modify("pods", namespace, name, |pod| {
            let metadata = &mut pod["metadata"];
            if metadata["deletionTimestamp"].is_null() {
                metadata["deletionTimestamp"] = at.into();
                if let Some(generation) = metadata["generation"].as_u64() {
                    metadata["generation"] = (generation + 1).into();
                }
            }
            metadata["deletionGracePeriodSeconds"] = grace.as_secs().into();
        });
    }

    /// Records an event, or counts up the stored one that it repeats, and answers the stored
    /// one.
    pub fn emit(&self, event: &NewEvent) -> Result<Arc<Value>, PutError> {
        let now = self.now();
        let oldest = self.shared.clock.ago(self.event_ttl);
        let mut state = self.shared.lock();
        expire(&mut state.store, oldest, self.events_max);
        let object = event.record(&mut state.store, now);
        let stored = state.store.put(object, now)?;
        drop(state);
        self.changed();
        Ok(stored)
    }

    // --- logs ---

    /// Appends a line to the log of a container.
    pub fn log(&self, namespace: &str, pod: &str, container: &str, line: &str) {
        let now = self.now();
        let key = log_key(namespace, pod, container);
        self.shared.lock().logs.push(&key, now, line);
        self.changed();
    }

    /// Moves the current log of a container to the previous one, as a restart does.
    pub fn restart_log(&self, namespace: &str, pod: &str, container: &str) {
        self.shared
            .lock()
            .logs
            .restart(&log_key(namespace, pod, container));
        self.changed();
    }

    // --- authorization ---

    /// Sets the grants of a user. A user without grants may do everything.
    pub fn grant(&self, user: &str, grants: Vec<Grant>) {
        self.shared.lock().access.set(user, grants);
    }

    /// Denies these requests to all users, whatever their grants.
    pub fn deny(&self, matcher: RequestMatcher) {
        self.shared.lock().access.deny(matcher);
    }

    /// Removes all grants and denials: every user may do everything.
    pub fn allow_everything(&self) {
        self.shared.lock().access.reset();
    }

    // --- faults ---

    /// Compacts the history: watches and lists of older versions get 410 Gone.
    pub fn compact(&self) {
        self.shared.lock().store.compact();
        self.changed();
    }

    /// Advances the resourceVersion, as writes of other resources would.
    pub fn skip_versions(&self, versions: u64) {
        self.shared.lock().store.skip(versions);
        self.changed();
    }

    /// Ends all watches normally, after they received the changes so far.
    pub fn close_watches(&self) {
        self.shared.signal(|signals| signals.closed += 1);
    }

    /// Ends all watches with 410 Gone, after they received the changes so far.
    pub fn expire_watches(&self) {
        self.shared.signal(|signals| signals.expired += 1);
    }

    /// Resets all connections at once.
    pub fn cut_connections(&self) {
        self.shared.signal(|signals| signals.cut += 1);
    }

    /// Refuses new connections for a time; open ones stay.
    pub fn refuse_for(&self, time: Duration) {
        let end = Instant::now() + time;
        self.shared
            .signal(|signals| signals.connections = ConnectionPolicy::RefuseUntil(end));
    }

    /// Refuses new connections until [`Self::accept`].
    pub fn refuse(&self) {
        self.shared
            .signal(|signals| signals.connections = ConnectionPolicy::Refuse);
    }

    /// Accepts connections again.
    pub fn accept(&self) {
        self.shared
            .signal(|signals| signals.connections = ConnectionPolicy::Accept);
    }

    /// Keeps connections open without sending anything, not even bookmarks.
    pub fn freeze(&self) {
        self.shared.signal(|signals| signals.frozen = true);
    }

    /// Resumes sending after [`Self::freeze`].
    pub fn thaw(&self) {
        self.shared.signal(|signals| signals.frozen = false);
    }

    /// Injects a fault into the next matching requests.
    pub fn fail_next(&self, matcher: RequestMatcher, times: u32, fault: Fault) {
        self.shared.lock().injector.inject(matcher, times, fault);
    }

    /// Drops the faults that were not injected yet.
    pub fn clear_faults(&self) {
        self.shared.lock().injector.clear();
    }

    // --- requests and streams ---

    /// How often a request was received: `("watch", "events")`, `("get", "pods/log")`.
    pub fn requests(&self, verb: &str, resource: &str) -> u64 {
        self.shared.lock().injector.count(verb, resource)
    }

    /// The last requests, in order.
    pub fn recorded_requests(&self) -> Vec<RecordedRequest> {
        self.shared.lock().injector.recorded()
    }

    /// The number of open watches.
    pub fn open_watches(&self) -> usize {
        self.shared.counts().borrow().watches
    }

    /// The highest number of watches that were open at once.
    pub fn open_watches_max(&self) -> usize {
        self.shared.counts().borrow().watches_max
    }

    /// The number of logs that are followed.
    pub fn open_followers(&self) -> usize {
        self.shared.counts().borrow().followers
    }

    /// Waits until exactly `count` watches are open.
    pub async fn until_watches(&self, count: usize) {
        let mut counts = self.shared.counts();
        // The sender lives as long as this handle.
        let _reached = counts.wait_for(|counts| counts.watches == count).await;
    }

    /// Waits until a request was received `times` times.
    pub async fn until_requests(&self, verb: &str, resource: &str, times: u64) {
        let mut counts = self.shared.counts();
        let _reached = counts
            .wait_for(|_| self.requests(verb, resource) >= times)
            .await;
    }

    fn changed(&self) {
        self.shared.signal(|_signals| {});
    }
}

/// Deletes expired events, as the TTL of etcd does, and makes room for one more. Watches
/// receive the deletions.
fn expire(store: &mut Store, oldest: Timestamp, events_max: usize) {
    let last_seen = |event: &Value| -> Option<Timestamp> {
        let time = [
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/metadata/creationTimestamp",
        ]
        .into_iter()
        .find_map(|pointer| event.pointer(pointer)?.as_str())?;
        time.parse().ok()
    };
    loop {
        let (count, oldest_event) = store.oldest_event();
        let Some(key) = oldest_event.cloned() else {
            return;
        };
        let seen = store.get(&key).and_then(|event| last_seen(event));
        if count < events_max && seen.is_none_or(|seen| seen >= oldest) {
            return;
        }
        store.remove(&key);
    }
}

/// `resource` is written `pods` or `deployments.apps`; of several groups, the first is taken.
fn key(resource: &str, namespace: &str, name: &str) -> Option<ObjectKey> {
    let named =
        |one: &&Resource| one.api.plural == resource || one.api.group_resource() == resource;
    let resource = RESOURCES.iter().find(named)?;
    Some(ObjectKey {
        resource: resource.store_key(),
        namespace: if resource.api.namespaced {
            namespace.to_owned()
        } else {
            String::new()
        },
        name: name.to_owned(),
    })
}

fn log_key(namespace: &str, pod: &str, container: &str) -> LogKey {
    LogKey {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
        previous: false,
    }
}
