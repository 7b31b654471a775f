//! The handle of a demo cluster: what tests and stories do to it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    access::{Access, Grant},
    clock::{self, Clock},
    events::Occurrence,
    faults::{Fault, Matching, Script, Seen},
    logs::{Logs, Source},
    resource::{RESOURCES, Resource},
    service::ApiService,
    shared::{Refusing, Shared, State},
    store::{Key, Limits, Rejected, Store},
};

/// A cluster in memory. Clones are the same cluster.
#[derive(Clone)]
pub struct DemoCluster {
    shared: Arc<Shared>,
    event_ttl: Duration,
    events_max: usize,
}

/// How a cluster is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides all names and ids.
    pub seed: u64,
    /// What time it is when it begins.
    pub starts_at: Timestamp,
    /// Who a client is that impersonates nobody.
    pub user: String,
    /// It holds no more objects than that.
    pub objects_max: usize,
    /// It remembers no more changes than that; older versions are gone (410).
    pub history_max: usize,
    /// How often a watch gets a bookmark.
    pub bookmark_every: Duration,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// Of more events than that the oldest go before their time.
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
        let limits = Limits {
            objects_max,
            history_max,
        };
        let state = State {
            store: Store::new(limits, seed),
            logs: Logs::default(),
            access: Access::new(&user),
            script: Script::default(),
        };
        let shared = Shared::new(state, Clock::starting(starts_at), bookmark_every);
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

    /// What time it is in the cluster.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The version of its newest change.
    pub fn version(&self) -> u64 {
        self.shared.lock().store.version()
    }

    // --- objects ---

    /// Creates an object, or replaces it; answers what is stored.
    pub fn put(&self, object: Value) -> Result<Arc<Value>, Rejected> {
        let now = self.now();
        let stored = self.shared.lock().store.put(object, now)?;
        self.changed();
        Ok(stored)
    }

    /// Changes an object; answers what is stored, or nothing if it is not there.
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

    /// An object as it is stored.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = key(resource, namespace, name)?;
        self.shared.lock().store.get(&key).cloned()
    }

    /// Removes an object, and says whether it was there. A pod is marked first, as
    /// the API server marks it at the end of its grace.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let Some(key) = key(resource, namespace, name) else {
            return false;
        };
        let is_pod = key.resource == ("", "pods");
        if is_pod {
            self.terminate(namespace, name, Duration::ZERO);
        }
        let mut state = self.shared.lock();
        let gone = state.store.remove(&key);
        if gone && is_pod {
            state.logs.forget_pod(namespace, name);
        }
        drop(state);
        self.changed();
        gone
    }

    /// Asks a pod to end within its grace, as a deletion does; [`Self::delete`] is
    /// the end.
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

    /// Writes an event, or counts one on that says the same; answers what is stored.
    pub fn emit(&self, occurrence: &Occurrence) -> Result<Arc<Value>, Rejected> {
        let now = self.now();
        let oldest = self.shared.clock.ago(self.event_ttl);
        let mut state = self.shared.lock();
        expire(&mut state.store, oldest, self.events_max);
        let event = occurrence.record(&mut state.store, now);
        let stored = state.store.put(event, now)?;
        drop(state);
        self.changed();
        Ok(stored)
    }

    // --- logs ---

    /// A container says a line.
    pub fn log(&self, namespace: &str, pod: &str, container: &str, line: &str) {
        let now = self.now();
        let source = source(namespace, pod, container);
        self.shared.lock().logs.push(&source, now, line);
        self.changed();
    }

    /// A container restarts: what it said becomes the log of the one before it.
    pub fn restart_log(&self, namespace: &str, pod: &str, container: &str) {
        self.shared
            .lock()
            .logs
            .restart(&source(namespace, pod, container));
        self.changed();
    }

    /// The logs of a container are gone, both of them.
    pub fn clear_logs(&self, namespace: &str, pod: &str, container: &str) {
        let mut state = self.shared.lock();
        let mut source = source(namespace, pod, container);
        state.logs.clear(&source);
        source.previous = true;
        state.logs.clear(&source);
        drop(state);
        self.changed();
    }

    // --- rights ---

    /// From now on a user may do just this. Who was never named may do everything.
    pub fn grant(&self, user: &str, grants: Vec<Grant>) {
        self.shared.lock().access.set(user, grants);
    }

    /// From now on nobody may do this.
    pub fn deny(&self, what: Matching) {
        self.shared.lock().access.deny(what);
    }

    /// Everybody may do everything again.
    pub fn allow_everything(&self) {
        self.shared.lock().access.allow_again();
    }

    // --- faults ---

    /// Forgets all history: watches and lists of older versions get 410.
    pub fn compact(&self) {
        self.shared.lock().store.compact();
        self.changed();
    }

    /// Lets versions pass, as if other objects had changed.
    pub fn skip_versions(&self, versions: u64) {
        self.shared.lock().store.skip(versions);
        self.changed();
    }

    /// Ends all watches in good order, after what has happened up to now.
    pub fn close_watches(&self) {
        self.shared.signal(|signals| signals.closed += 1);
    }

    /// Tells all watches that their version is gone (410), after what has happened
    /// up to now, and ends them.
    pub fn expire_watches(&self) {
        self.shared.signal(|signals| signals.expired += 1);
    }

    /// Cuts every connection where it is.
    pub fn cut_connections(&self) {
        self.shared.signal(|signals| signals.cut += 1);
    }

    /// Takes no new connections for a while. Open ones go on.
    pub fn refuse_for(&self, time: Duration) {
        let end = Instant::now() + time;
        self.shared
            .signal(|signals| signals.refusing = Refusing::Until(end));
    }

    /// Takes no new connections until [`Self::accept`].
    pub fn refuse(&self) {
        self.shared
            .signal(|signals| signals.refusing = Refusing::Always);
    }

    /// Takes connections again.
    pub fn accept(&self) {
        self.shared
            .signal(|signals| signals.refusing = Refusing::No);
    }

    /// Connections stay open and not a byte comes, no bookmark either.
    pub fn freeze(&self) {
        self.shared.signal(|signals| signals.frozen = true);
    }

    /// Goes on as if nothing had been.
    pub fn thaw(&self) {
        self.shared.signal(|signals| signals.frozen = false);
    }

    /// Lets the next requests of a kind fail.
    pub fn fail_next(&self, which: Matching, times: u32, fault: Fault) {
        self.shared.lock().script.fail(which, times, fault);
    }

    /// Forgets the faults that have not happened yet.
    pub fn heal(&self) {
        self.shared.lock().script.heal();
    }

    // --- what was asked ---

    /// How often this was asked: `("watch", "events")`, `("get", "pods/log")`.
    pub fn requests(&self, verb: &str, resource: &str) -> u64 {
        self.shared.lock().script.count(verb, resource)
    }

    /// The last requests, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().script.seen()
    }

    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.shared.counts().borrow().watches
    }

    /// How many were open at once, at most.
    pub fn open_watches_max(&self) -> usize {
        self.shared.counts().borrow().watches_max
    }

    /// How many logs are being followed.
    pub fn open_followers(&self) -> usize {
        self.shared.counts().borrow().followers
    }

    /// Waits until exactly so many watches are open.
    pub async fn until_watches(&self, count: usize) {
        let mut counts = self.shared.counts();
        // The sender lives as long as this handle.
        let _reached = counts.wait_for(|counts| counts.watches == count).await;
    }

    /// Waits until this has been asked so often.
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

/// Events end as leases in a real store end: deleted, and watchers are told. Makes
/// room for one more.
fn expire(store: &mut Store, oldest: Timestamp, events_max: usize) {
    let last_seen = |event: &Value| -> Option<Timestamp> {
        let time = [
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/metadata/creationTimestamp",
        ]
        .into_iter()
        .find_map(|place| event.pointer(place)?.as_str())?;
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

/// `pods`, or `deployments.apps`; the first resource of that name.
fn key(resource: &str, namespace: &str, name: &str) -> Option<Key> {
    let named = |one: &&Resource| one.plural == resource || one.qualified() == resource;
    let resource = RESOURCES.iter().find(named)?;
    Some(Key {
        resource: resource.store_key(),
        namespace: if resource.namespaced {
            namespace.to_owned()
        } else {
            String::new()
        },
        name: name.to_owned(),
    })
}

fn source(namespace: &str, pod: &str, container: &str) -> Source {
    Source {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
        previous: false,
    }
}
