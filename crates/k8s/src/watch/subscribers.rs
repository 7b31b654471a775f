//! The subscribers of one watch.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::{Mutex, RwLock};

use super::{
    progress::Progress,
    users::{self, UserGroup},
};
use kubecrier_core::{
    Event,
    access::Viewer,
    subscriptions::{LabelUse, Listener, WatchStatus},
};

/// The listeners that events of a watch are delivered to.
pub(super) struct Subscribers {
    this: Weak<Self>,
    /// The context of the watch.
    context: String,
    // Read per event, written when a subscriber joins or leaves.
    all: RwLock<Members>,
    /// The highest key so far.
    newest: AtomicU64,
    /// Subscribers that select by labels.
    matching: AtomicUsize,
    /// The error of a degraded watch, as subscribers were notified of it.
    degradation: Mutex<Option<String>>,
    progress: Progress,
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
pub(super) struct Subscriber {
    key: u64,
    /// Events up to this version happened before the subscription.
    not_before: u64,
    pub(super) listener: Arc<dyn Listener>,
}

/// Subscribers by what they may see: what that is, is decided once for each user.
#[derive(Clone, Default)]
struct Members {
    /// Those who see everything.
    open: Vec<Subscriber>,
    users: Vec<(Arc<UserGroup>, Vec<Subscriber>)>,
    /// Whether a task looks at the rights of the users.
    is_followed: bool,
}

// === impl Subscribers ===

impl Subscribers {
    pub(super) fn new(context: &str) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            context: context.to_owned(),
            all: RwLock::default(),
            newest: AtomicU64::default(),
            matching: AtomicUsize::default(),
            degradation: Mutex::default(),
            progress: Progress::default(),
        })
    }

    pub(super) fn add(&self, key: u64, not_before: u64, listener: Arc<dyn Listener>) {
        let is_matching = listener.label_use() == LabelUse::Matched;
        let viewer = listener.viewer();
        // Before the push: no event may meet the subscriber and not the count.
        self.matching
            .fetch_add(usize::from(is_matching), Ordering::Relaxed);
        let subscriber = Subscriber {
            key,
            not_before,
            listener,
        };
        let mut all = self.all.write();
        match viewer {
            Viewer::Everything => all.open.push(subscriber),
            Viewer::User(view) => {
                let of_user = |(group, _): &&mut (Arc<UserGroup>, _)| group.view() == &view;
                match all.users.iter_mut().find(of_user) {
                    Some((_, members)) => members.push(subscriber),
                    None => {
                        let subscribers = Weak::clone(&self.this);
                        let group = UserGroup::new(&view, &self.context, subscribers);
                        all.users.push((Arc::new(group), vec![subscriber]));
                        if !std::mem::replace(&mut all.is_followed, true) {
                            view.spawn(users::follow_rights(Weak::clone(&self.this)));
                        }
                    }
                }
            }
        }
        drop(all);
        // After the push: a subscriber that belongs to a cohort can be asked. In one order with the
        // events that are received: see `Progress`.
        self.newest.fetch_max(key, Ordering::SeqCst);
    }

    pub(super) fn remove(&self, key: u64) {
        // The listener is dropped without the lock: it may do anything.
        let removed = {
            let mut all = self.all.write();
            let removed = all.remove(key);
            // A group goes with its last subscriber, and with it what waits for it.
            all.users.retain(|(_, members)| !members.is_empty());
            removed
        };
        if removed.is_some_and(|one| one.listener.label_use() == LabelUse::Matched) {
            self.matching.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.read().iter().count()
    }

    /// The subscribers of this moment.
    pub(super) fn cohort(&self) -> Cohort {
        Cohort(self.newest.load(Ordering::SeqCst))
    }

    /// How far they are with what was received.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Replaces the version that counts for a cohort: the cluster is another one.
    pub(super) fn rebase(&self, cohort: Cohort, version: u64) {
        for subscriber in self.all.write().iter_mut() {
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
        let Members { open, users, .. } = self.all.read().clone();
        let mut wanted = Vec::with_capacity(events.len());
        let mut reached = 0;
        for subscriber in open {
            let listener = &subscriber.listener;
            wanted.clear();
            wanted.extend(
                (events.iter())
                    .filter(|(event, cohort)| subscriber.gets(event, *cohort))
                    .map(|(event, _)| event),
            );
            if !wanted.is_empty() {
                Arc::clone(listener).on_events(&wanted);
                reached += 1;
            }
        }
        for (group, members) in users {
            reached += group.deliver(events, &members);
        }
        reached
    }

    /// The subscribers of a group at this moment.
    pub(super) fn members(&self, group: &UserGroup) -> Vec<Subscriber> {
        let all = self.all.read();
        let found = all
            .users
            .iter()
            .find(|(one, _)| std::ptr::eq(Arc::as_ptr(one), group));
        found
            .map(|(_, members)| members.clone())
            .unwrap_or_default()
    }

    /// The groups whose rights are looked at. If there are none, nobody looks at them any more.
    pub(super) fn followed_groups(&self) -> Vec<Arc<UserGroup>> {
        let mut all = self.all.write();
        all.is_followed = !all.users.is_empty();
        let groups = all.users.iter().map(|(group, _)| Arc::clone(group));
        groups.collect()
    }

    /// Notifies a subscriber that has just joined that the watch is degraded, if it is.
    pub(super) fn replay_status(&self, key: u64, listener: &dyn Listener) {
        let Some(error) = self.degradation() else {
            return;
        };
        let told = WatchStatus::Degraded { error }.seen_by(&listener.viewer());
        listener.on_status(key, &told);
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

    /// Notifies all subscribers of a change of the watch itself, which sees more than a user may.
    pub(super) fn notify_status(&self, status: &WatchStatus) {
        // Before the subscribers are read: one that joins later replays it.
        match status {
            WatchStatus::Degraded { error } => *self.degradation.lock() = Some(error.clone()),
            WatchStatus::Recovered => *self.degradation.lock() = None,
            WatchStatus::Gap { .. }
            | WatchStatus::Unlabelled { .. }
            | WatchStatus::Withdrawn { .. } => {}
        }
        let Members { open, users, .. } = self.all.read().clone();
        for subscriber in open {
            subscriber.notify_status(status);
        }
        let told = status.for_user();
        for subscriber in users.iter().flat_map(|(_, members)| members) {
            subscriber.notify_status(&told);
        }
    }
}

// === impl Subscriber ===

impl Subscriber {
    /// Whether the event happened after the subscription.
    fn is_new(&self, event: &Event) -> bool {
        event.version.is_none_or(|is| is > self.not_before)
    }

    /// Whether an event that was received for a cohort is for this subscriber.
    pub(super) fn gets(&self, event: &Event, cohort: Cohort) -> bool {
        cohort.contains(self.key) && self.is_new(event) && self.listener.wants(event)
    }

    pub(super) fn notify_status(&self, status: &WatchStatus) {
        self.listener.on_status(self.key, status);
    }
}

// === impl Members ===

impl Members {
    fn iter(&self) -> impl Iterator<Item = &Subscriber> {
        let users = self.users.iter().flat_map(|(_, members)| members);
        self.open.iter().chain(users)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subscriber> {
        let users = self.users.iter_mut().flat_map(|(_, members)| members);
        self.open.iter_mut().chain(users)
    }

    fn remove(&mut self, key: u64) -> Option<Subscriber> {
        let users = self.users.iter_mut().map(|(_, members)| members);
        std::iter::once(&mut self.open)
            .chain(users)
            .find_map(|some| {
                let at = some.iter().position(|subscriber| subscriber.key == key)?;
                Some(some.swap_remove(at))
            })
    }
}

// === impl Cohort ===

impl Cohort {
    fn contains(self, key: u64) -> bool {
        key <= self.0
    }
}
