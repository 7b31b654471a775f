//! One subscription: it hears of events, keeps those that match, and says so.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use mcp_notify::{About, ResourceType, Voice, WeakSession};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use super::{
    feed::{Entry, Feed, FeedLimits, Item},
    ledger::SubscriptionId,
    listener::{Change, Listener},
    payload::First,
};
use crate::faults::{
    dedup::{Dedup, FaultKey},
    desk::{Desk, Told},
};
use crate::{
    Event,
    filters::{Filters, Mode},
};

/// Where a subscription speaks.
#[derive(Clone)]
pub struct Outlet {
    /// The session that hears messages, if there is one.
    pub session: Option<WeakSession>,
    /// For those who follow its resource.
    pub updates: Arc<dyn Updates>,
    /// Where faults get their evidence.
    pub faults: Desk,
}

/// Tells of resources that have changed.
pub trait Updates: Send + Sync + 'static {
    /// Whether anybody follows this one: most are not, and a line for nobody is not
    /// worth writing for every event.
    fn wanted(&self, uri: &str) -> bool;

    /// This one has.
    fn updated(&self, uri: &str, update: &Update);
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Update {
    /// The newest entry.
    pub seq: u64,
    /// How many there have been.
    pub count: u64,
    /// One line.
    pub summary: String,
}

/// A subscription that stands.
pub struct Subscription {
    id: SubscriptionId,
    filters: Filters,
    cluster: String,
    uri: String,
    /// What its messages count as when they fail.
    about: About,
    /// Says events, or faults.
    voice: Voice,
    created_at: Timestamp,
    feed: Feed,
    outlet: Outlet,
    ended: AtomicBool,
    /// Which of its watches do not work, and why.
    degraded: Mutex<BTreeMap<u64, String>>,
    /// Faults of the last minute.
    told: Mutex<Dedup>,
    touched: Mutex<Instant>,
    /// No session keeps it, only that somebody polls, reads or listens.
    by_use: bool,
}

// === impl Subscription ===

impl Subscription {
    /// One that has seen nothing yet.
    pub fn new(filters: Filters, cluster: &str, outlet: Outlet, limits: FeedLimits) -> Self {
        let id = SubscriptionId::random();
        let uri = format!("kubecrier://subscriptions/{id}");
        let about = About::resource(ResourceType::Events, uri.as_str());
        let first = First {
            subscription_id: &id,
            cluster,
        };
        Self {
            voice: first.voice(filters.mode(), &about),
            about,
            uri,
            id,
            filters,
            cluster: cluster.to_owned(),
            created_at: Timestamp::now(),
            feed: Feed::new(limits),
            outlet,
            ended: AtomicBool::new(false),
            degraded: Mutex::default(),
            told: Mutex::default(),
            touched: Mutex::new(Instant::now()),
            by_use: false,
        }
    }

    /// The same, to be ended when nobody uses it any more.
    #[must_use]
    pub fn kept_by_use(mut self) -> Self {
        self.by_use = true;
        self
    }

    /// Whether it ends when nobody uses it any more.
    pub fn is_kept_by_use(&self) -> bool {
        self.by_use
    }

    /// Its name.
    pub fn id(&self) -> &SubscriptionId {
        &self.id
    }

    /// What it is for.
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// The context it watches.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The resource that shows its feed.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Since when it stands.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// What it has seen.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Why its watch does not work, if it does not.
    pub fn degraded(&self) -> Option<String> {
        self.degraded.lock().values().next().cloned()
    }

    /// Somebody uses it.
    pub fn touch(&self) {
        *self.touched.lock() = Instant::now();
    }

    /// When somebody last used it.
    pub fn touched(&self) -> Instant {
        *self.touched.lock()
    }

    /// From here on it says nothing more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Adds to the feed and tells, in this order for everybody.
    fn record(&self, items: impl IntoIterator<Item = Item>) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        self.feed.push(items, |entries| {
            let newest = entries.clone().next_back();
            self.say(entries);
            let wanted = |_: &&Entry| self.outlet.updates.wanted(&self.uri);
            if let Some(newest) = newest.filter(wanted) {
                let update = Update {
                    seq: newest.seq,
                    count: newest.seq,
                    summary: newest.item.summary(),
                };
                self.outlet.updates.updated(&self.uri, &update);
            }
        });
    }

    /// A fault is told with its evidence, once a minute.
    fn look_into(self: &Arc<Self>, event: &Arc<Event>) {
        let key = FaultKey {
            cluster: self.cluster.clone(),
            namespace: event.namespace.clone(),
            pod: event.involved.name.clone(),
            reason: event.reason.clone(),
            count: event.count,
        };
        if self.ended.load(Ordering::Acquire) || !self.told.lock().admit(&key) {
            return;
        }
        let this = Arc::clone(self);
        let told: Told = Box::new(move |event, report| {
            this.record([Item::Fault(Arc::clone(event), Arc::clone(report))]);
        });
        self.outlet.faults.file(&self.cluster, event, told);
    }

    /// To the session, as far as its level admits it.
    fn say<'a>(&self, entries: impl ExactSizeIterator<Item = &'a Entry>) {
        let Some(session) = self.outlet.session.as_ref().and_then(WeakSession::upgrade) else {
            return;
        };
        let Some(threshold) = session.log_level() else {
            return;
        };
        let mut messages = Vec::with_capacity(entries.len());
        messages.extend(entries.filter_map(|entry| {
            let (level, _) = entry.item.voice();
            // Not worth serialising for a session that would not get it.
            (threshold <= level).then(|| {
                let first = First {
                    subscription_id: &self.id,
                    cluster: &self.cluster,
                };
                entry.message(first, &self.voice, &self.about)
            })
        }));
        session.push_all(messages);
    }
}

impl Listener for Subscription {
    fn wants(&self, event: &Event) -> bool {
        self.filters.admits(event)
    }

    fn take(self: Arc<Self>, events: &[&Arc<Event>]) {
        let admitted = (events.iter().copied()).filter(|event| self.filters.admits_labels(event));
        match self.filters.mode() {
            Mode::Events => self.record(admitted.map(|event| Item::Event(Arc::clone(event)))),
            Mode::Faults => admitted.for_each(|event| self.look_into(event)),
        }
    }

    fn hear(&self, watch: u64, change: &Change) {
        // Held until it is told: of two who tell at once, the one that is right is last.
        let mut degraded = self.degraded.lock();
        // With several watches: told when the first fails, and when the last is back.
        let news = match change {
            Change::Degraded { error } => {
                let first = degraded.is_empty();
                degraded.insert(watch, error.clone());
                first
            }
            Change::Recovered => degraded.remove(&watch).is_some() && degraded.is_empty(),
            Change::Gap { .. } => true,
        };
        if news {
            self.record([Item::Notice(Arc::new(change.clone()))]);
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("id", &self.id.as_str())
            .field("cluster", &self.cluster)
            .field("mode", &self.filters.mode())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests;
