//! Subscribing, polling, ending: what ties a client's wish to a shared watch.
//!
//! The order matters. First a place under the caps, so that a refused wish costs the
//! cluster nothing; then the watch; then the entry in the ledger, which holds the
//! watch's lease. Whatever fails or is given up on the way lets go of all of it.

use std::{fmt, sync::Arc};

use mcp_notify::{ResourceType, Session};
use serde_json::json;
use tokio::time::{Duration, Instant, interval};
use tokio_util::sync::CancellationToken;

use super::{
    caller::Caller,
    output::ToolError,
    resources::{Era, META, Updates, Who},
};
use kubecrier_core::{
    faults::desk::Desk,
    filters::{Filters, Mode},
    subscriptions::{
        self, Caps, Feed, FeedLimits, Ledger, Outlet, Owner, Subscription, SubscriptionId,
        Unsubscribed, Update,
    },
};
use kubecrier_k8s::Watches;

/// How often what nobody uses is looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// How many subscriptions, how long, and how much they remember.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionSettings {
    /// How many there may be.
    pub caps: Caps,
    /// What each remembers.
    pub feed: FeedLimits,
    /// What is kept by use alone ends when it was not used for this long.
    pub idle_timeout: Duration,
    /// How long one watch request lasts before it is renewed.
    pub watch_renewal: Duration,
}

/// All subscriptions of all clients.
#[derive(Clone, Debug)]
pub(super) struct Subscriptions {
    inner: Arc<Inner>,
}

struct Inner {
    ledger: Arc<Ledger>,
    watches: Watches,
    updates: Updates,
    faults: Desk,
    feed: FeedLimits,
    idle_timeout: Duration,
}

/// A subscription that was made, and what its maker should know.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) subscription: Arc<Subscription>,
    pub(super) warnings: Vec<String>,
}

/// How a subscription will be used.
#[derive(Clone, Copy)]
enum Use<'a> {
    /// By its name; and it is pushed to the session, if there is one.
    Named(Option<&'a Session>),
    /// By its filters: of those that are alike, one is enough.
    Polled,
}

/// Says that the resource of a subscription has changed.
struct Told(Updates);

// === impl SubscriptionSettings ===

impl Default for SubscriptionSettings {
    fn default() -> Self {
        Self {
            caps: Caps::default(),
            feed: FeedLimits::default(),
            idle_timeout: Duration::from_mins(5),
            watch_renewal: Duration::from_mins(1),
        }
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    pub(super) fn new(
        settings: SubscriptionSettings,
        ledger: Arc<Ledger>,
        watches: Watches,
        updates: Updates,
        faults: Desk,
    ) -> Self {
        let inner = Inner {
            ledger,
            watches,
            updates,
            faults,
            feed: settings.feed,
            idle_timeout: settings.idle_timeout,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The watches under them.
    pub(super) fn watches(&self) -> &Watches {
        &self.inner.watches
    }

    /// Where faults get their evidence.
    pub(super) fn faults(&self) -> &Desk {
        &self.inner.faults
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.inner.ledger.len()
    }

    /// Makes one that is pushed to whoever asks.
    pub(super) async fn subscribe(
        &self,
        who: &Who,
        context: Option<&str>,
        filters: Filters,
    ) -> Result<Made, ToolError> {
        let session = who.session.as_ref();
        self.make(who, context, filters, Use::Named(session)).await
    }

    /// The one that this client polls with these filters, made if it has none; who goes
    /// on with one must have it.
    pub(super) async fn polled(
        &self,
        who: &Who,
        context: Option<&str>,
        filters: Filters,
        goes_on: Option<SubscriptionId>,
    ) -> Result<Made, ToolError> {
        let context = self.inner.watches.context(context)?;
        let owned = self.inner.ledger.list(&owner(who));
        let same = owned.into_iter().find(|one| {
            goes_on.as_ref().is_none_or(|id| id == one.id()) && is_polled(one, &context, &filters)
        });
        match same {
            Some(subscription) => Ok(Made {
                subscription,
                warnings: Vec::new(),
            }),
            // Before anything is watched: a cursor that leads nowhere leaves nothing.
            None if goes_on.is_some() => Err(ToolError::Arguments(
                "the cursor is of another subscription than these filters have, or of one that was not \
                 polled for so long that it has ended: call again without it to begin anew; \
                 what happened in between is in events_list"
                    .to_owned(),
            )),
            None => self.make(who, Some(&context), filters, Use::Polled).await,
        }
    }

    async fn make(
        &self,
        who: &Who,
        context: Option<&str>,
        filters: Filters,
        used: Use<'_>,
    ) -> Result<Made, ToolError> {
        let Inner {
            ledger,
            watches,
            updates,
            faults,
            feed,
            ..
        } = &*self.inner;
        if who.era == Era::Legacy && who.session.is_none() {
            // It ended while the call was on its way: nobody is there to be told.
            return Err(ToolError::NotFound("the session has ended".to_owned()));
        }
        let owner = owner(who);
        let slot = ledger
            .reserve(&owner)
            .map_err(|refused| ToolError::Limit(refused.to_string()))?;
        let context = watches.context(context)?;
        let push_to = match used {
            Use::Named(session) => session,
            Use::Polled => None,
        };
        let outlet = Outlet {
            session: push_to.map(Session::downgrade),
            updates: Arc::new(Told(updates.clone())),
            faults: faults.clone(),
        };
        let one = Subscription::new(filters.clone(), &context, outlet, *feed);
        let one = Arc::new(if push_to.is_some() {
            one
        } else {
            one.kept_by_use()
        });
        let listener = Arc::clone(&one) as _;
        let joined = watches.join(&context, &filters, listener).await?;
        let mut warnings = joined.warnings;
        if let Some(rate) = joined.rate.filter(|rate| *rate > NOISY) {
            warnings.push(format!(
                "about {rate} events a minute happen there, before your filters: narrow by namespace, for, \
                 types or reason if that is more than you can read"
            ));
        }
        if filters.mode() == Mode::Faults && faults.is_saturated(&context) {
            warnings.push(
                "as many logs are being fetched as may be at once (--max-log-captures-per-cluster, \
                 --max-log-captures-global): faults may come with `throttled` in place of logs"
                    .to_owned(),
            );
        }
        // Another call with the same filters may have been faster.
        let polled = |other: &Subscription| {
            matches!(used, Use::Polled) && is_polled(other, &context, &filters)
        };
        let made = Arc::clone(&one);
        let one = slot.fill_unless(polled, one, Box::new(joined.lease));
        if !Arc::ptr_eq(&made, &one) {
            made.end();
        }
        if let Some(session) = &who.session {
            self.end_with(session, &owner);
        }
        Ok(Made {
            subscription: one,
            warnings,
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
        if self.inner.ledger.first_of(owner) {
            session.on_close(hook);
        } else if session.is_closed() {
            // It ended while the watch was being made, and its hook has run.
            self.inner.ledger.end_owner(owner);
        }
    }

    /// One of the client's own.
    pub(super) fn get(&self, who: &Who, id: &str) -> Result<Arc<Subscription>, ToolError> {
        let found = self.inner.ledger.get(&owner(who), id);
        found.ok_or_else(|| not_found(id))
    }

    /// The client's own.
    pub(super) fn list(&self, who: &Who) -> Vec<Arc<Subscription>> {
        self.inner.ledger.list(&owner(who))
    }

    /// Ends one of the client's own; once more does no harm.
    pub(super) fn unsubscribe(&self, who: &Who, id: &str) -> Result<Unsubscribed, ToolError> {
        match self.inner.ledger.end(&owner(who), id) {
            Unsubscribed::Unknown => Err(not_found(id)),
            ended => Ok(ended),
        }
    }

    /// Ends what is kept by use and was not used, until told to stop.
    pub(super) async fn sweep(self, stop: CancellationToken) {
        let mut ticks = interval(SWEEP.min(self.inner.idle_timeout));
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _tick = ticks.tick() => self.sweep_once(),
            }
        }
    }

    fn sweep_once(&self) {
        let Inner {
            ledger,
            updates,
            faults,
            idle_timeout,
            ..
        } = &*self.inner;
        faults.forget_old();
        let now = Instant::now();
        for (owner, one) in ledger.all() {
            if !one.is_kept_by_use() {
                continue;
            }
            if updates.wanted(one.uri()) {
                one.touch();
            } else if now.duration_since(one.touched()) >= *idle_timeout {
                tracing::debug!(subscription = %one.id(), "not used any more, ended");
                ledger.end(&owner, one.id().as_str());
            }
        }
    }
}

/// More events a minute than this are worth a word.
const NOISY: usize = 30;

/// Whose a client's subscriptions are: its session's, or its own if it has none.
pub(super) fn owner(who: &Who) -> Owner {
    match (&who.session, who.era) {
        (Some(session), Era::Legacy) => Owner::Session(Arc::clone(session.id())),
        _ => Owner::Caller(name(&who.caller)),
    }
}

fn name(caller: &Caller) -> Arc<str> {
    caller.to_string().into()
}

/// Whether who polls with these filters means this one.
fn is_polled(one: &Subscription, context: &str, filters: &Filters) -> bool {
    one.is_kept_by_use() && one.cluster() == context && one.filters() == filters
}

/// The same words for what never was and for what is another's.
fn not_found(id: &str) -> ToolError {
    let id: String = id.chars().take(80).collect();
    ToolError::NotFound(format!(
        "subscription not found: `{id}`; events_list_subscriptions shows yours"
    ))
}

/// Waits for something after `seq`, for as long as it is worth it.
pub(super) async fn wait(feed: &Feed, seq: u64, patience: Duration, stop: &CancellationToken) {
    if patience.is_zero() {
        return;
    }
    tokio::select! {
        () = feed.grown(seq) => {}
        () = tokio::time::sleep(patience) => {}
        () = stop.cancelled() => {}
    }
}

impl subscriptions::Updates for Told {
    fn wanted(&self, uri: &str) -> bool {
        self.0.wanted(uri)
    }

    fn updated(&self, uri: &str, update: &Update) {
        let counted = Some(ResourceType::Events);
        self.0.updated(uri, counted, Some(&json!({META: update})));
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("subscriptions", &self.ledger.len())
            .field("watches", &self.watches)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_notify::{Metrics, OutboxConfig, OutboxLimits};
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;
    use crate::resources::{Resources, tests::Notes};
    use kubecrier_core::subscriptions::Updates as _;

    #[test]
    fn an_update_of_a_feed_that_is_lost_counts_as_events() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let limits = OutboxLimits {
            messages_max: 1,
            ..OutboxLimits::default()
        };
        let outbox = OutboxConfig::default().limits(limits).metrics(metrics);
        let session = Session::builder().outbox(outbox).build("slow");
        let resources = Resources::new(vec![Box::new(Notes::default())]);
        let who = Who {
            session: Some(session.clone()),
            caller: Caller::current(),
            era: Era::Legacy,
        };
        let told = Told(resources.updates().clone());
        for uri in ["note:///a", "note:///b"] {
            resources.subscribe(&session, uri, &who).unwrap();
            let (seq, count, summary) = (1, 1, String::new());
            told.updated(
                uri,
                &Update {
                    seq,
                    count,
                    summary,
                },
            );
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lost = r#"failures_total{resource_type="events",error_type="other"} 1"#;
        assert!(text.contains(lost), "{text}");
    }
}
