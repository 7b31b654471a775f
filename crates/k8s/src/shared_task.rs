//! Tasks that are shared by all who need the same: one watch per scope, one graph per
//! scope, one stream per followed log.
//!
//! ```text
//!  lock ──▶ lease of an entry, or start ──▶ task ──▶ failed ───────────────┐
//!                │      ▲                    │                             ▼
//!                ▼      │ a new lease        ├──▶ unused for `linger` ──▶ removed, on_end
//!              Lease ───┘                    └──▶ evicted, draining ───────▲
//! ```
//!
//! An entry leaves the map before `on_end` runs, so a caller that is told of the end and
//! joins again starts a new task.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    hash::Hash,
    ops::Deref,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use kubecrier_core::{
    Backoff,
    shares::{CallerShare, LimitName, LimitReached, ShareKey},
};
use kubecrier_lifecycle::Lifecycle;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Duration, sleep},
};

use crate::error::ClusterError;

/// The delay before a join that failed is tried again.
const JOIN_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// How many tasks of one kind there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// In all.
    pub total_max: usize,
    /// That one caller may have a part in.
    pub per_caller_max: usize,
}

/// Shared tasks by key; each entry has a value that its task and its leases share.
pub(crate) struct SharedTasks<K, T> {
    inner: Arc<Inner<K, T>>,
}

struct Inner<K, T> {
    name: &'static str,
    /// How long a task goes on without a lease: the next one may come at once.
    linger: Duration,
    limit: (LimitName, usize),
    lifecycle: Lifecycle,
    // Leases are taken on many tasks; held for map operations.
    entries: Mutex<HashMap<K, Arc<Entry<T>>>>,
}

struct Entry<T> {
    value: T,
    started_by: Option<ShareKey>,
    leases: AtomicUsize,
    released: Notify,
    evicted: Notify,
}

/// A share in a task, which goes on while there is one.
pub(crate) struct Lease<T> {
    entry: Arc<Entry<T>>,
}

/// The entries, locked: nothing starts or ends meanwhile.
pub(crate) struct Entries<'a, K, T> {
    tasks: &'a SharedTasks<K, T>,
    entries: MutexGuard<'a, HashMap<K, Arc<Entry<T>>>>,
}

/// Why a shared task has ended.
#[derive(Debug)]
pub(crate) enum TaskEnd {
    /// It cannot go on.
    Failed(ClusterError),
    /// It had no lease for a while, or had to make room for another.
    Unused,
    /// The server stops.
    Draining,
}

// === impl TaskLimits ===

impl TaskLimits {
    /// A number in all, and a share of it for each caller.
    pub fn new(total_max: usize, share: CallerShare) -> Self {
        Self {
            total_max,
            per_caller_max: share.of(total_max),
        }
    }
}

// === impl SharedTasks ===

impl<K, T> SharedTasks<K, T>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    T: Send + Sync + 'static,
{
    /// No task yet, and room for as many as the limit says.
    pub(crate) fn new(
        name: &'static str,
        linger: Duration,
        limit: (LimitName, usize),
        lifecycle: Lifecycle,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                name,
                linger,
                limit,
                lifecycle,
                entries: Mutex::default(),
            }),
        }
    }

    pub(crate) fn lock(&self) -> Entries<'_, K, T> {
        Entries {
            tasks: self,
            entries: self.inner.entries.lock(),
        }
    }
}

// === impl Entries ===

impl<K, T> Entries<'_, K, T>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    T: Send + Sync + 'static,
{
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// A lease of the task of this key, if it runs.
    pub(crate) fn lease(&self, key: &K) -> Option<Lease<T>> {
        self.entries.get(key).map(Lease::new)
    }

    /// Starts the task of this key, in the place of one that may be there. The caller for
    /// whom it is started is remembered.
    pub(crate) fn start<F>(
        &mut self,
        key: K,
        value: T,
        started_by: Option<&ShareKey>,
        task: F,
        on_end: impl FnOnce(&T, TaskEnd) + Send + 'static,
    ) -> Lease<T>
    where
        F: Future<Output = ClusterError> + Send + 'static,
    {
        let entry = Arc::new(Entry {
            value,
            started_by: started_by.cloned(),
            leases: AtomicUsize::new(0),
            released: Notify::new(),
            evicted: Notify::new(),
        });
        self.entries.insert(key.clone(), Arc::clone(&entry));
        let lease = Lease::new(&entry);
        let Inner {
            name,
            linger,
            lifecycle,
            ..
        } = &*self.tasks.inner;
        let (inner, linger) = (Arc::downgrade(&self.tasks.inner), *linger);
        let draining = lifecycle.draining().clone();
        lifecycle.spawn(name, async move {
            let end = tokio::select! {
                error = task => TaskEnd::Failed(error),
                () = unused(&inner, &key, &entry, linger) => TaskEnd::Unused,
                () = entry.evicted.notified() => TaskEnd::Unused,
                () = draining.cancelled() => TaskEnd::Draining,
            };
            if let Some(inner) = inner.upgrade() {
                remove(&mut inner.entries.lock(), &key, &entry);
            }
            on_end(&entry.value, end);
        });
        lease
    }

    /// Makes room for a task of this key: there is some, or one without a lease has to end.
    ///
    /// # Errors
    /// If all that there may be are in use.
    pub(crate) fn make_room(
        &mut self,
        key: &K,
        caller: Option<&ShareKey>,
    ) -> Result<(), LimitReached> {
        let (name, max) = self.tasks.inner.limit;
        let used = self.entries.len();
        if used < max || self.contains(key) || self.evict_unused(caller) {
            return Ok(());
        }
        Err(LimitReached::Total { name, used, max })
    }

    /// Ends a task that has no lease, one of the caller's own if there is one; answers
    /// whether there was any.
    fn evict_unused(&mut self, caller: Option<&ShareKey>) -> bool {
        let unused = |entry: &Arc<Entry<T>>| entry.leases.load(Ordering::Acquire) == 0;
        let found = (self.entries.iter())
            .filter(|(_, entry)| unused(entry))
            .max_by_key(|(_, entry)| caller.is_some() && entry.started_by.as_ref() == caller);
        let Some(key) = found.map(|(key, _)| key.clone()) else {
            return false;
        };
        if let Some(entry) = self.entries.remove(&key) {
            entry.evicted.notify_one();
        }
        true
    }
}

/// Waits until the task has had no lease for a while, and takes it off the map so that
/// it cannot be joined any more.
async fn unused<K: Eq + Hash, T>(
    inner: &Weak<Inner<K, T>>,
    key: &K,
    entry: &Arc<Entry<T>>,
    linger: Duration,
) {
    loop {
        while entry.leases.load(Ordering::Acquire) > 0 {
            entry.released.notified().await;
        }
        tokio::select! {
            () = sleep(linger) => {}
            // There was a lease meanwhile: the time counts anew.
            () = entry.released.notified() => continue,
        }
        let Some(inner) = inner.upgrade() else {
            return;
        };
        // Leases are taken under this lock, so none is overlooked.
        let mut entries = inner.entries.lock();
        if entry.leases.load(Ordering::Acquire) == 0 {
            remove(&mut entries, key, entry);
            return;
        }
    }
}

/// Removes the entry, unless another has taken its key.
fn remove<K: Eq + Hash, T>(
    entries: &mut HashMap<K, Arc<Entry<T>>>,
    key: &K,
    entry: &Arc<Entry<T>>,
) {
    if entries.get(key).is_some_and(|one| Arc::ptr_eq(one, entry)) {
        entries.remove(key);
    }
}

// === impl Lease ===

impl<T> Lease<T> {
    /// Taken under the lock of the map, or where there is another lease.
    fn new(entry: &Arc<Entry<T>>) -> Self {
        entry.leases.fetch_add(1, Ordering::AcqRel);
        Self {
            entry: Arc::clone(entry),
        }
    }

    /// Whether both are leases of the same task.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }
}

impl<T> Clone for Lease<T> {
    /// Another share in the same task: the one that there is keeps the task from ending meanwhile.
    fn clone(&self) -> Self {
        Self::new(&self.entry)
    }
}

impl<T> Deref for Lease<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.entry.value
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.entry.leases.fetch_sub(1, Ordering::AcqRel);
        self.entry.released.notify_one();
    }
}

/// Joins something shared and holds the lease for as long as the future lives. A join
/// that fails is retried; `on_failure` is called for the first failure only.
pub async fn hold_lease<L, F>(
    mut join: impl FnMut() -> F,
    on_joined: impl FnOnce(&L),
    on_failure: impl FnOnce(&ClusterError),
) -> Infallible
where
    F: Future<Output = Result<L, ClusterError>>,
{
    let mut on_failure = Some(on_failure);
    let mut failures = 0;
    let lease = loop {
        match join().await {
            Ok(lease) => break lease,
            Err(error) => {
                failures += 1;
                if let Some(on_failure) = on_failure.take() {
                    on_failure(&error);
                }
                sleep(JOIN_BACKOFF.delay(failures)).await;
            }
        }
    };
    on_joined(&lease);
    let _held = lease;
    std::future::pending().await
}

#[cfg(test)]
mod tests;
