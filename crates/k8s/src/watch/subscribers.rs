//! The subscribers of one watch.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::{Mutex, RwLock};

use kubecrier_core::{
    Event,
    subscriptions::{LabelUse, Listener, WatchStatus},
};

/// The listeners that events of a watch are delivered to.
#[derive(Default)]
pub(super) struct Subscribers {
    // Read per event, written when a subscriber joins or leaves.
    all: RwLock<Vec<Subscriber>>,
    /// The highest key so far.
    newest: AtomicU64,
    /// Subscribers that select by labels.
    matching: AtomicUsize,
    /// The error of a degraded watch, as subscribers were notified of it.
    degradation: Mutex<Option<String>>,
}

/// What the subscribers need of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// No subscriber wants it.
    None,
    /// The event, and the labels of its involved object for this.
    Event(LabelUse),
}

/// The subscribers at one moment: later ones have higher keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cohort(u64);

#[derive(Clone)]
struct Subscriber {
    key: u64,
    /// Events up to this version happened before the subscription.
    not_before: u64,
    listener: Arc<dyn Listener>,
}

// === impl Subscribers ===

impl Subscribers {
    pub(super) fn add(&self, key: u64, not_before: u64, listener: Arc<dyn Listener>) {
        let is_matching = listener.label_use() == LabelUse::Matched;
        // Before the push: no event may meet the subscriber and not the count.
        self.matching
            .fetch_add(usize::from(is_matching), Ordering::Relaxed);
        self.all.write().push(Subscriber {
            key,
            not_before,
            listener,
        });
        // After the push: a subscriber that belongs to a cohort can be asked.
        self.newest.fetch_max(key, Ordering::Release);
    }

    pub(super) fn remove(&self, key: u64) {
        // The listener is dropped without the lock: it may do anything.
        let removed = {
            let mut all = self.all.write();
            let at = all.iter().position(|subscriber| subscriber.key == key);
            at.map(|at| all.swap_remove(at))
        };
        if removed.is_some_and(|one| one.listener.label_use() == LabelUse::Matched) {
            self.matching.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.read().len()
    }

    /// The subscribers of this moment.
    pub(super) fn cohort(&self) -> Cohort {
        Cohort(self.newest.load(Ordering::Acquire))
    }

    /// Replaces the version that counts for a cohort: the cluster is another one.
    pub(super) fn rebase(&self, cohort: Cohort, version: u64) {
        for subscriber in &mut *self.all.write() {
            if cohort.contains(subscriber.key) {
                subscriber.not_before = version;
            }
        }
    }

    /// Whether any subscriber may want the event, and with its labels; at `any_version`
    /// if the event may be of another cluster than the known versions.
    pub(super) fn interest(&self, event: &Event, any_version: bool) -> Interest {
        let all = self.all.read();
        // As soon as one subscriber needs the most that any does, the others need not be asked.
        let most = match self.matching.load(Ordering::Relaxed) {
            0 => LabelUse::Shown,
            _ => LabelUse::Matched,
        };
        let mut interest = Interest::None;
        let wanting = (all.iter())
            .filter(|subscriber| any_version || subscriber.is_new(event))
            .filter(|subscriber| subscriber.listener.wants(event));
        for subscriber in wanting {
            let needed = subscriber.listener.label_use();
            interest = match interest {
                Interest::Event(before) => Interest::Event(before.max(needed)),
                Interest::None => Interest::Event(needed),
            };
            if interest == Interest::Event(most) {
                break;
            }
        }
        interest
    }

    /// Delivers to each subscriber the events it wants, in order. One that joined after
    /// an event was received does not get it: whether labels are needed was decided
    /// without that subscriber. Returns how many got any.
    pub(super) fn deliver(&self, events: &[(Arc<Event>, Cohort)]) -> usize {
        // Without the lock: a listener may find that it has to leave.
        let all = self.all.read().clone();
        let mut wanted = Vec::with_capacity(events.len());
        let mut reached = 0;
        for subscriber in all {
            let listener = &subscriber.listener;
            wanted.clear();
            wanted.extend(
                (events.iter())
                    .filter(|(event, cohort)| {
                        cohort.contains(subscriber.key) && subscriber.is_new(event)
                    })
                    .map(|(event, _)| event)
                    .filter(|event| listener.wants(event)),
            );
            if !wanted.is_empty() {
                Arc::clone(listener).on_events(&wanted);
                reached += 1;
            }
        }
        reached
    }

    /// Notifies a subscriber that has just joined that the watch is degraded, if it is.
    pub(super) fn replay_status(&self, key: u64, listener: &dyn Listener) {
        let Some(error) = self.degradation() else {
            return;
        };
        listener.on_status(key, &WatchStatus::Degraded { error });
        // The watch may have recovered meanwhile, and the subscriber may have been
        // notified of that first.
        if self.degradation().is_none() {
            listener.on_status(key, &WatchStatus::Recovered);
        }
    }

    /// The error of a degraded watch.
    pub(super) fn degradation(&self) -> Option<String> {
        self.degradation.lock().clone()
    }

    /// Notifies all subscribers of a change of the watch itself.
    pub(super) fn notify_status(&self, status: &WatchStatus) {
        // Before the subscribers are read: one that joins later replays it.
        match status {
            WatchStatus::Degraded { error } => *self.degradation.lock() = Some(error.clone()),
            WatchStatus::Recovered => *self.degradation.lock() = None,
            WatchStatus::Gap { .. } | WatchStatus::Unlabelled { .. } => {}
        }
        let all: Vec<_> = {
            let all = self.all.read();
            all.iter()
                .map(|subscriber| (subscriber.key, Arc::clone(&subscriber.listener)))
                .collect()
        };
        for (key, listener) in all {
            listener.on_status(key, status);
        }
    }
}

// === impl Subscriber ===

impl Subscriber {
    /// Whether the event happened after the subscription.
    fn is_new(&self, event: &Event) -> bool {
        event.version.is_none_or(|is| is > self.not_before)
    }
}

// === impl Cohort ===

impl Cohort {
    fn contains(self, key: u64) -> bool {
        key <= self.0
    }
}
