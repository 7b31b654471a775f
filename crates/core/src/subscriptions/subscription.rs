//! A subscription: filters events, keeps those that match in its feed, and notifies.

mod held;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use mcp_notify::{ResourceRef, WeakSession};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    cursor::{ResumePoint, ResumeTag},
    feed::{Feed, FeedEntry, FeedItem, FeedLimits, FeedPage},
    ledger::SubscriptionId,
    listener::{LabelUse, Listener, WatchStatus},
    payload::{First, Templates},
    sighted::{NotKnown, Sighted},
};
use crate::{
    Event, ResourceType, UpdateSummary,
    access::{Gate, Viewer},
    event::LabelsOf,
    faults::{Dedup, FaultKey, FaultQueue, OnReport, Report},
    filters::{Filters, Mode},
    incident::IncidentNotice,
};

/// Kinds of which a subscription tells that their labels cannot be read.
const UNLABELLED_MAX: usize = 32;

/// What a subscription delivers to, and gets its reports from.
#[derive(Clone)]
pub struct SubscriptionDeps {
    /// Session that messages are pushed to, if there is one.
    pub session: Option<WeakSession>,
    /// Notifies clients that subscribe to the resource of the feed.
    pub updates: Arc<dyn UpdateSink>,
    /// Captures the evidence of faults.
    pub faults: FaultQueue,
    /// Through whose eyes the events are seen.
    pub viewer: Viewer,
}

/// Sends `resources/updated`.
pub trait UpdateSink: Send + Sync + 'static {
    /// Whether any client subscribes to this resource. Most have no subscriber, and a summary
    /// that is not sent is not worth writing for every event.
    fn is_subscribed(&self, uri: &str) -> bool;

    /// Notifies the subscribers of this resource, who have to have the rights of the gate when
    /// that is sent.
    fn notify_updated(&self, uri: &str, update: &UpdateSummary, gate: Option<Arc<Gate>>);
}

/// An event subscription.
pub struct Subscription {
    id: SubscriptionId,
    filters: Filters,
    cluster: String,
    uri: String,
    /// Resource that failed messages are counted under.
    resource: ResourceRef,
    /// Templates of messages about what the mode delivers.
    templates: Templates,
    created_at: Timestamp,
    feed: Feed,
    deps: SubscriptionDeps,
    /// What its user may see; a subscription without a user sees everything.
    sighted: Option<Box<Sighted>>,
    ended: AtomicBool,
    /// Errors of the degraded watches, by watch.
    degraded: Mutex<BTreeMap<u64, String>>,
    /// Kinds whose labels could not be read, as far as the client was told.
    unlabelled: Mutex<BTreeSet<String>>,
    dedup: Mutex<Dedup>,
    last_used: Mutex<Instant>,
    /// Whether the subscription has no session and ends when it is idle.
    expires_idle: bool,
    /// What comes before the subscription has what happened earlier; only one that goes on
    /// after a cursor has it.
    held: Option<Mutex<Option<Vec<FeedItem>>>>,
}

// === impl Subscription ===

impl Subscription {
    /// A subscription with an empty feed.
    pub fn new(
        filters: Filters,
        cluster: &str,
        deps: SubscriptionDeps,
        limits: FeedLimits,
    ) -> Self {
        Self::with_id(
            SubscriptionId::random(),
            Timestamp::now(),
            filters,
            cluster,
            deps,
            limits,
        )
    }

    /// The same subscription as one of another process, with an empty feed.
    pub fn with_id(
        id: SubscriptionId,
        created_at: Timestamp,
        filters: Filters,
        cluster: &str,
        deps: SubscriptionDeps,
        limits: FeedLimits,
    ) -> Self {
        let uri = format!("kubecrier://subscriptions/{id}");
        let resource = ResourceRef::new(ResourceType::Events, uri.as_str());
        let first = First {
            subscription_id: &id,
            cluster,
        };
        Self {
            templates: first.templates(filters.mode(), &resource),
            resource,
            uri,
            id,
            filters,
            cluster: cluster.to_owned(),
            created_at,
            feed: Feed::new(limits),
            sighted: (deps.viewer.user()).map(|view| Box::new(Sighted::new(view, cluster))),
            deps,
            ended: AtomicBool::new(false),
            degraded: Mutex::default(),
            unlabelled: Mutex::default(),
            dedup: Mutex::default(),
            last_used: Mutex::new(Instant::now()),
            expires_idle: false,
            held: None,
        }
    }

    /// The subscription, whose cursors can be resumed in the history.
    #[must_use]
    pub fn resumable(mut self, tag: ResumeTag) -> Self {
        self.feed = self.feed.resumable(tag);
        self
    }

    /// The subscription, to be ended when it is idle: no client polls, reads or listens.
    #[must_use]
    pub fn expiring_idle(mut self) -> Self {
        self.expires_idle = true;
        self
    }

    /// Whether the subscription ends when it is idle.
    pub fn expires_idle(&self) -> bool {
        self.expires_idle
    }

    /// Id of the subscription.
    pub fn id(&self) -> &SubscriptionId {
        &self.id
    }

    /// Filters of the events.
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Context of the kubeconfig that is watched.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// URI of the resource that shows the feed.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// When the subscription was made.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Entries so far.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Through whose eyes the events are seen.
    pub fn viewer(&self) -> &Viewer {
        &self.deps.viewer
    }

    /// The entries after `seq`, oldest first, up to a limit: those that may be read now.
    pub async fn read_after(&self, seq: u64, limit: usize) -> FeedPage {
        self.visible(self.feed.after(seq, limit)).await
    }

    /// The newest entries, the oldest of them first: those that may be read now.
    pub async fn read_newest(&self, limit: usize) -> FeedPage {
        self.visible(self.feed.newest(limit)).await
    }

    /// Leaves out what may not be read any more, and tells once that it is gone.
    async fn visible(&self, mut page: FeedPage) -> FeedPage {
        let Some(sighted) = &self.sighted else {
            return page;
        };
        let (entries, withdrawn) = sighted.visible(&page.entries).await;
        page.withheld = (page.entries.len() - entries.len()) as u64;
        page.entries = entries;
        for namespace in withdrawn {
            self.on_withdrawn(&namespace);
        }
        page
    }

    /// Tells a status of the subscription itself, at once.
    pub fn notice(&self, status: WatchStatus) {
        self.record_now([FeedItem::Notice(Arc::new(status))]);
    }

    /// Error of a degraded watch, if there is one.
    pub fn degraded(&self) -> Option<String> {
        self.degraded.lock().values().next().cloned()
    }

    /// Records that a client uses the subscription.
    pub fn touch(&self) {
        *self.last_used.lock() = Instant::now();
    }

    /// When a client last used the subscription.
    pub fn last_used(&self) -> Instant {
        *self.last_used.lock()
    }

    /// Ends the subscription: nothing is delivered any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Delivers those of the incidents that match.
    pub fn on_incidents(&self, notices: &[Arc<IncidentNotice>]) {
        // A user is told of what was derived for users only.
        let is_for_users = self.sighted.is_some();
        let admitted = notices.iter().filter(|notice| {
            notice.gate().is_some() == is_for_users
                && self.filters.admits_incident(notice.objects())
        });
        self.record(admitted.map(|notice| FeedItem::Incident(Arc::clone(notice))));
    }

    /// Adds to the feed and delivers, unless the subscription holds what it receives.
    fn record(&self, items: impl IntoIterator<Item = FeedItem>) {
        if let Some(held) = &self.held
            && let Some(held) = &mut *held.lock()
        {
            if held.len() < held::HELD_MAX {
                held.extend(items);
            }
            return;
        }
        self.record_now(items);
    }

    /// Adds to the feed and delivers, in the same order to every reader.
    fn record_now(&self, items: impl IntoIterator<Item = FeedItem>) {
        self.record_at(items.into_iter().map(|item| (item, None)));
    }

    fn record_at(&self, items: impl IntoIterator<Item = (FeedItem, Option<ResumePoint>)>) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        self.feed.push_at(items, |entries| {
            let newest = entries.clone().next_back();
            if let Some(sighted) = &self.sighted {
                entries
                    .clone()
                    .for_each(|entry| sighted.on_recorded(&entry.item));
            }
            self.push_messages(entries);
            let subscribed = |_: &&FeedEntry| self.deps.updates.is_subscribed(&self.uri);
            if let Some(newest) = newest.filter(subscribed) {
                let update = UpdateSummary {
                    seq: newest.seq,
                    count: newest.seq,
                    summary: newest.item.summary(),
                };
                let gate = self.gate(&newest.item);
                self.deps.updates.notify_updated(&self.uri, &update, gate);
            }
        });
    }

    /// Tells once per kind that events were left out because the labels of their objects
    /// cannot be read.
    fn report_unlabelled(&self, event: &Event) {
        let kind = &event.involved.kind;
        let mut told = self.unlabelled.lock();
        if told.len() >= UNLABELLED_MAX || !told.insert(kind.clone()) {
            return;
        }
        drop(told);
        let why = match kind.as_str() {
            "Secret" => "they are never read",
            _ => "getting them is forbidden, or the API server does not answer in time",
        };
        let detail = format!(
            "the labels of a {kind} cannot be known ({why}), so events about such objects do not match \
             the label selector; drop `labelSelector`, or narrow by `involvedKind` or `involvedName`"
        );
        let kind = kind.clone();
        self.record([FeedItem::Notice(Arc::new(WatchStatus::Unlabelled {
            kind,
            detail,
        }))]);
    }

    /// Enqueues a fault unless its key was delivered within the window; the report is
    /// recorded when it is ready.
    fn enqueue_fault(self: &Arc<Self>, event: &Arc<Event>) {
        let key = FaultKey::new(&self.cluster, event);
        if self.ended.load(Ordering::Acquire) || !self.dedup.lock().admit(&key) {
            return;
        }
        if let Some(sighted) = &self.sighted {
            // Asked while the evidence is captured.
            sighted.expect_evidence(event);
        }
        let this = Arc::clone(self);
        let on_report: OnReport = Box::new(move |event, report| {
            this.record_fault(event, report);
        });
        self.deps.faults.enqueue(key, event, on_report);
    }

    /// Records a fault with as much of its evidence as may be seen.
    fn record_fault(self: &Arc<Self>, event: &Arc<Event>, report: &Arc<Report>) {
        let Some(sighted) = &self.sighted else {
            self.record([FeedItem::Fault(Arc::clone(event), Arc::clone(report))]);
            return;
        };
        let (this, event, report) = (Arc::clone(self), Arc::clone(event), Arc::clone(report));
        match sighted.fault_now(&event, &report) {
            Ok(item) => self.record(item),
            Err(NotKnown) => sighted.view().spawn(async move {
                if let Some(sighted) = &this.sighted {
                    let item = sighted.fault_when_known(&event, &report).await;
                    this.record(item);
                }
            }),
        }
    }

    /// What a reader has to be allowed when an item is sent.
    fn gate(&self, item: &FeedItem) -> Option<Arc<Gate>> {
        self.sighted.as_ref()?.gate(item)
    }

    /// Pushes messages to the session, as far as its log level admits them.
    fn push_messages<'a>(&self, entries: impl ExactSizeIterator<Item = &'a FeedEntry>) {
        let Some(session) = self.deps.session.as_ref().and_then(WeakSession::upgrade) else {
            return;
        };
        let Some(threshold) = session.log_level() else {
            return;
        };
        let mut messages = Vec::with_capacity(entries.len());
        messages.extend(entries.filter_map(|entry| {
            let (level, _) = entry.item.template();
            // A message below the session's level is not worth serialising.
            (threshold <= level).then(|| {
                let first = First {
                    subscription_id: &self.id,
                    cluster: &self.cluster,
                };
                let mut message = entry.message(first, &self.templates, &self.resource);
                if let Some(point) = &entry.resume {
                    message = message.marked(point.mark(&self.id, entry.seq));
                }
                match self.gate(&entry.item) {
                    Some(gate) => message.gated(gate),
                    None => message,
                }
            })
        }));
        session.push_all(messages);
    }
}

impl Listener for Subscription {
    fn wants(&self, event: &Event) -> bool {
        self.filters.admits(event)
    }

    fn label_use(&self) -> LabelUse {
        if self.filters.selects_labels() {
            LabelUse::Matched
        } else {
            LabelUse::Shown
        }
    }

    fn viewer(&self) -> Viewer {
        self.deps.viewer.clone()
    }

    fn on_events(self: Arc<Self>, events: &[&Arc<Event>]) {
        if self.filters.selects_labels() {
            let unreadable = |event: &&&Arc<Event>| event.labels_of == LabelsOf::Unreadable;
            for event in events.iter().filter(unreadable) {
                if !self.filters.admits_labels(event) {
                    self.report_unlabelled(event);
                }
            }
        }
        let admitted = (events.iter().copied()).filter(|event| self.filters.admits_labels(event));
        match self.filters.mode() {
            Mode::Events => self.record(admitted.map(|event| FeedItem::Event(Arc::clone(event)))),
            Mode::Faults => admitted.for_each(|event| self.enqueue_fault(event)),
            // No watch of events has such a subscriber.
            Mode::Incidents => {}
        }
    }

    fn on_withdrawn(&self, namespace: &str) {
        let Some(sighted) = &self.sighted else {
            return;
        };
        if let Some(notice) = sighted.withdraw(namespace) {
            self.record([FeedItem::Notice(Arc::new(notice))]);
        }
    }

    fn on_status(&self, watch: u64, status: &WatchStatus) {
        // Held until the status is recorded: of two concurrent changes, the last one recorded
        // is the one that holds.
        let mut degraded = self.degraded.lock();
        // Of several watches, the first failure and the last recovery are delivered.
        let is_news = match status {
            WatchStatus::Degraded { error } => {
                let first = degraded.is_empty();
                degraded.insert(watch, error.clone());
                first
            }
            WatchStatus::Recovered => degraded.remove(&watch).is_some() && degraded.is_empty(),
            WatchStatus::Gap { .. }
            | WatchStatus::Unlabelled { .. }
            | WatchStatus::Withdrawn { .. } => true,
        };
        if is_news {
            self.record([FeedItem::Notice(Arc::new(status.clone()))]);
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
