//! Event subscriptions: subscribing, polling, ending.
//!
//! The order of steps matters. First a slot and a claim under the caps, so that a refused
//! request costs the cluster nothing; then the watch; then the entry in the ledger, which holds
//! the watch's lease. A failure or cancellation on the way releases all of it.

mod before;
mod events;
mod failure;
mod incidents;
mod kept;
mod own;
mod polls;
mod reading;
mod record;
mod revived;
mod shared;

pub(super) use self::{
    own::{NotOwn, OwnLedger},
    polls::{BehindPoll, Polled},
    reading::Reading,
    record::SubscriptionRecord,
    revived::WakeFrom,
};
use self::{polls::is_polled, revived::Asleep, shared::Sharing};

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use mcp_notify::Session;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Duration, Instant, interval};
use tokio_util::sync::CancellationToken;

use super::{
    caller::Caller,
    history::{CaughtUp, resume},
    incidents::Incidents,
    output::ToolError,
    resources::{META, ProtocolEra, Requester, UpdatePublisher},
    sessions::{NotKept, Sessions},
    viewers::Viewers,
};
use kubecrier_core::{
    ResourceType, UpdateSummary,
    access::{Gate, Viewer},
    faults::FaultQueue,
    filters::{Filters, Mode},
    subscriptions::{
        FeedLimits, Ledger, Owner, Subscription, SubscriptionDeps, SubscriptionId,
        SubscriptionLimits, UnsubscribeOutcome, UpdateSink,
    },
};
use kubecrier_history::History;
use kubecrier_incidents::Incident;
use kubecrier_k8s::{WatchLease, Watches};

/// How often unused subscriptions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Limits and times of subscriptions.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionSettings {
    /// The number of subscriptions.
    pub caps: SubscriptionLimits,
    /// What a feed keeps.
    pub feed: FeedLimits,
    /// A subscription that only polling keeps alive ends after this long without a
    /// poll.
    pub idle_timeout: Duration,
    /// How long one watch request lasts before it is renewed.
    pub watch_renewal: Duration,
}

/// All subscriptions of all clients.
#[derive(Clone, Debug)]
pub(super) struct Subscriptions {
    inner: Arc<Inner>,
}

/// Where what is delivered comes from.
pub(super) struct Sources {
    pub(super) watches: Watches,
    pub(super) incidents: Incidents,
    pub(super) faults: FaultQueue,
    /// What happened before, if it is kept.
    pub(super) history: Option<History>,
    pub(super) caught_up: Arc<CaughtUp>,
}

struct Inner {
    ledger: Arc<Ledger>,
    own: OwnLedger,
    sources: Sources,
    viewers: Viewers,
    updates: UpdatePublisher,
    feed: FeedLimits,
    idle_timeout: Duration,
    /// Those of sessions that are continued, before the client has said what it has.
    // A lock for one map operation.
    asleep: Mutex<HashMap<SubscriptionId, Asleep>>,
    /// The servers that share those of callers without a session; empty if none do.
    sharing: OnceLock<Sharing>,
    /// The sessions, whose records have theirs; empty on stdio.
    sessions: OnceLock<Weak<Sessions>>,
}

/// A subscription that was made, and what its maker should know.
#[derive(Debug)]
pub(super) struct CreatedSubscription {
    pub(super) subscription: Arc<Subscription>,
    pub(super) warnings: Vec<String>,
    /// The incidents that are open now, in that mode: what is open is not announced as new.
    pub(super) open: Vec<Arc<Incident>>,
    /// Where its client goes on.
    pub(super) reading: Reading,
    /// Whether the history has everything that was received before.
    is_beside_history: bool,
}

/// What a subscription joined.
struct JoinedSource {
    /// Dropping it ends the deliveries.
    lease: Box<dyn Any + Send + Sync>,
    warnings: Vec<String>,
    open: Vec<Arc<Incident>>,
    /// Whether the history has everything that was received before.
    is_beside_history: bool,
}

/// How a subscription is consumed.
#[derive(Clone, Copy)]
enum SubscriptionUse<'a> {
    /// By its name; and it is pushed to the session, if there is one.
    Named(Option<&'a Session>),
    /// By its filters: of those that are alike, one is enough.
    Polled,
    /// By its filters, after a cursor of another one: it holds what comes until it has what
    /// happened before. Of the watches of the history it gets what is above a version.
    Resumed(Option<(&'a WatchLease, u64)>),
}

/// Publishes updates of the resource of a subscription.
struct FeedNotifier(UpdatePublisher);

// === impl SubscriptionSettings ===

impl Default for SubscriptionSettings {
    fn default() -> Self {
        Self {
            caps: SubscriptionLimits::default(),
            feed: FeedLimits::default(),
            idle_timeout: Duration::from_mins(5),
            watch_renewal: Duration::from_secs(20),
        }
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    pub(super) fn new(
        settings: SubscriptionSettings,
        ledger: Arc<Ledger>,
        updates: UpdatePublisher,
        sources: Sources,
        viewers: Viewers,
    ) -> Self {
        let inner = Inner {
            own: OwnLedger::new(Arc::clone(&ledger), viewers.clone()),
            ledger,
            sources,
            viewers,
            updates,
            feed: settings.feed,
            idle_timeout: settings.idle_timeout,
            asleep: Mutex::default(),
            sharing: OnceLock::new(),
            sessions: OnceLock::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The watches under them.
    pub(super) fn watches(&self) -> &Watches {
        &self.inner.sources.watches
    }

    /// The queue in which faults get their evidence.
    pub(super) fn faults(&self) -> &FaultQueue {
        &self.inner.sources.faults
    }

    /// How callers see what is shared.
    pub(super) fn viewers(&self) -> &Viewers {
        &self.inner.viewers
    }

    /// Through whose eyes a requester sees what is shared.
    pub(super) fn viewer(&self, requester: &Requester) -> Result<Viewer, ToolError> {
        Ok(self.inner.viewers.of(&requester.caller)?)
    }

    /// The number of subscriptions.
    pub(super) fn count(&self) -> usize {
        self.inner.ledger.len()
    }

    /// Creates a subscription that is pushed to the requester's session.
    pub(super) async fn subscribe(
        &self,
        requester: &Requester,
        context: Option<&str>,
        filters: Filters,
    ) -> Result<CreatedSubscription, ToolError> {
        let session = requester.session.as_ref();
        let mut created = self
            .create(requester, context, filters, SubscriptionUse::Named(session))
            .await?;
        let kept = match self.shared(requester) {
            Some(shared) => shared.keep(&created.subscription).await.map(|()| None),
            None => self.settle(requester).await,
        };
        match kept {
            Ok(None) => {}
            Ok(Some(error)) => created.warnings.push(format!(
                "if this server ends now, the subscription ends with it: {error}"
            )),
            Err(error) => {
                let id = created.subscription.id();
                self.inner.ledger.end(&owner(requester), id.as_str());
                return Err(error);
            }
        }
        Ok(created)
    }

    /// The sessions whose records have what is subscribed to.
    pub(super) fn keep_with(&self, sessions: &Arc<Sessions>) {
        let _only_once = self.inner.sessions.set(Arc::downgrade(sessions));
    }

    /// Waits until the record of the requester's session has what it is subscribed to, if sessions
    /// are kept.
    async fn settle(&self, requester: &Requester) -> Result<Option<NotKept>, ToolError> {
        let sessions = self.inner.sessions.get().and_then(Weak::upgrade);
        match (sessions, &requester.session) {
            (Some(sessions), Some(session)) => Ok(sessions.settle(session.id()).await?),
            (None, _) | (_, None) => Ok(None),
        }
    }

    async fn create(
        &self,
        requester: &Requester,
        context: Option<&str>,
        filters: Filters,
        used: SubscriptionUse<'_>,
    ) -> Result<CreatedSubscription, ToolError> {
        let Inner {
            ledger,
            sources,
            updates,
            feed,
            viewers,
            ..
        } = &*self.inner;
        let viewer = viewers.of(&requester.caller)?;
        if requester.era == ProtocolEra::Legacy && requester.session.is_none() {
            // The session ended while the call was on its way, so nothing could be
            // delivered.
            return Err(ToolError::NotFound("the session has ended".to_owned()));
        }
        let (owner, caller) = (owner(requester), requester.share_key());
        let slot = ledger
            .reserve(&owner, &caller)
            .map_err(|refused| ToolError::Limit(refused.to_string()))?;
        let context = sources.watches.context(context)?;
        let (push_to, beside) = match used {
            SubscriptionUse::Named(session) => (session, None),
            SubscriptionUse::Polled => (None, None),
            SubscriptionUse::Resumed(beside) => (None, beside),
        };
        let deps = SubscriptionDeps {
            session: push_to.map(Session::downgrade),
            updates: Arc::new(FeedNotifier(updates.seen_by(&viewer))),
            faults: sources.faults.clone(),
            viewer,
        };
        let mut one = Subscription::new(filters.clone(), &context, deps, *feed);
        if let Some(history) = &sources.history {
            one = one.resumable(resume::tag(history, &requester.caller, &context, &filters));
        }
        if matches!(used, SubscriptionUse::Resumed(_)) {
            one = one.holding();
        }
        let one = Arc::new(if push_to.is_some() {
            one
        } else {
            one.expiring_idle()
        });
        let joined = match filters.mode() {
            Mode::Events | Mode::Faults => {
                events::join(sources, &caller, &filters, &one, beside).await?
            }
            Mode::Incidents => incidents::join(&sources.incidents, &caller, &filters, &one).await?,
        };
        let created = Arc::clone(&one);
        // Another call with the same filters may have been faster.
        let polled = |other: &Subscription| {
            matches!(used, SubscriptionUse::Polled)
                && is_polled(other, &context, &filters)
                && other.viewer() == created.viewer()
        };
        let one = slot.insert_unless(polled, one, joined.lease);
        if !Arc::ptr_eq(&created, &one) {
            created.end();
        }
        if let Some(session) = &requester.session {
            self.end_with(session, &owner);
        }
        if requester.caller.is_revoked() {
            // The token was revoked while the watch was being started.
            self.inner.ledger.end(&owner, one.id().as_str());
            return Err(ToolError::NotFound("the token is revoked".to_owned()));
        }
        Ok(CreatedSubscription {
            subscription: one,
            warnings: joined.warnings,
            open: joined.open,
            reading: Reading::Cursor,
            is_beside_history: joined.is_beside_history,
        })
    }

    /// Everything of the owner ends with the session, however that ends.
    fn end_with(&self, session: &Session, owner: &Owner) {
        let ledger = Arc::downgrade(&self.inner.ledger);
        let ended = owner.clone();
        let hook = move |_why| {
            if let Some(ledger) = ledger.upgrade() {
                ledger.end_owner(&ended);
            }
        };
        if self.inner.ledger.claim_cleanup(owner) {
            session.on_close(hook);
        } else if session.is_closed() {
            // The session ended while the watch was being started, and its hook has
            // run.
            self.inner.ledger.end_owner(owner);
        }
    }

    /// The number of subscriptions of a caller; `is_own` knows its sessions.
    pub(super) fn count_of(&self, caller: &Caller, is_own: impl Fn(&str) -> bool) -> usize {
        let own = |owner: &Owner| match owner {
            Owner::Session(id) => is_own(id),
            Owner::Caller(other) => **other == *name(caller),
        };
        let all = self.inner.ledger.all();
        all.iter().filter(|(owner, _)| own(owner)).count()
    }

    /// Ends what a caller has subscribed to without a session.
    pub(super) fn end_caller(&self, caller: &Caller) {
        self.inner.ledger.end_owner(&Owner::Caller(name(caller)));
        self.forget_caller(caller);
    }

    /// One of the requester's own subscriptions.
    pub(super) fn get(
        &self,
        requester: &Requester,
        id: &str,
    ) -> Result<Arc<Subscription>, ToolError> {
        Ok(self.inner.own.get(requester, id)?)
    }

    /// The client's own.
    pub(super) fn list(&self, requester: &Requester) -> Result<Vec<Arc<Subscription>>, ToolError> {
        Ok(self.inner.own.list(requester)?)
    }

    /// Ends one of the client's own; once more does no harm.
    pub(super) fn unsubscribe(
        &self,
        requester: &Requester,
        id: &str,
    ) -> Result<UnsubscribeOutcome, ToolError> {
        match self.inner.ledger.end(&owner(requester), id) {
            UnsubscribeOutcome::Unknown => Err(not_found(id)),
            ended => Ok(ended),
        }
    }

    /// Ends unused subscriptions, until `stop`.
    pub(super) async fn sweep(self, stop: CancellationToken) {
        let mut ticks = interval(SWEEP.min(self.inner.idle_timeout));
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _tick = ticks.tick() => {
                    self.sweep_once();
                    self.sweep_shared().await;
                }
            }
        }
    }

    fn sweep_once(&self) {
        let Inner {
            ledger,
            updates,
            sources,
            idle_timeout,
            viewers,
            ..
        } = &*self.inner;
        sources.faults.remove_expired();
        viewers.remove_expired();
        self.forget_asleep();
        let now = Instant::now();
        for (owner, one) in ledger.all() {
            if !one.expires_idle() {
                continue;
            }
            if updates.seen_by(one.viewer()).is_subscribed(one.uri()) {
                one.touch();
            } else if now.duration_since(one.last_used()) >= *idle_timeout {
                tracing::debug!(subscription = %one.id(), "not used any more, ended");
                ledger.end(&owner, one.id().as_str());
            }
        }
    }
}

// === impl CreatedSubscription ===

impl CreatedSubscription {
    /// One that was there.
    fn there(subscription: Arc<Subscription>) -> Self {
        Self {
            subscription,
            warnings: Vec::new(),
            open: Vec::new(),
            reading: Reading::Cursor,
            is_beside_history: false,
        }
    }
}

/// The owner of a requester's subscriptions: its session, or its caller if it has none.
pub(super) fn owner(requester: &Requester) -> Owner {
    match (&requester.session, requester.era) {
        (Some(session), ProtocolEra::Legacy) => Owner::Session(Arc::clone(session.id())),
        _ => Owner::Caller(name(&requester.caller)),
    }
}

fn name(caller: &Caller) -> Arc<str> {
    caller.to_string().into()
}

fn not_found(id: &str) -> ToolError {
    NotOwn::unknown(id).into()
}

impl UpdateSink for FeedNotifier {
    fn is_subscribed(&self, uri: &str) -> bool {
        self.0.is_subscribed(uri)
    }

    fn notify_updated(&self, uri: &str, update: &UpdateSummary, gate: Option<Arc<Gate>>) {
        let counted = Some(ResourceType::Events);
        let gate = gate.map(|gate| gate as _);
        (self.0).publish_gated(uri, counted, Some(&json!({META: update})), gate);
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("subscriptions", &self.ledger.len())
            .field("watches", &self.sources.watches)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
