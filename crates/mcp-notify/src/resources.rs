//! `notifications/resources/updated`, and the subscriptions to resources.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Serialize;
use thiserror::Error;

use crate::delivery::Delivery;
use crate::fan_out::{BroadcastOutcome, fan_out};
use crate::gate::Gate;
use crate::method::Method;
use crate::metrics::ResourceType;
use crate::notification::{Notification, ResourceRef};
use crate::session::{Session, SessionKey, WeakSession};
use crate::teardown::{Detach, DetachOn, shrink_sparse};

/// Limits of subscriptions. Start from the default:
///
/// ```
/// let mut limits = mcp_notify::SubscriptionLimits::default();
/// limits.per_session_max = 10;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionLimits {
    /// Maximum number of subscriptions of one session.
    pub per_session_max: usize,
    /// Maximum number of subscriptions of all sessions together.
    pub total_max: usize,
    /// Maximum length of a URI.
    pub uri_bytes_max: usize,
}

/// Why a subscription was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The session is at its limit.
    #[error("the session has {0} subscriptions, which is the most it may have")]
    SessionFull(usize),
    /// All sessions together are at the limit.
    #[error("there are {0} subscriptions, which is the most there may be")]
    Full(usize),
    /// The URI is empty or too long.
    #[error("a URI of {0} bytes is empty or too long")]
    Uri(usize),
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
}

/// The subscriptions of sessions to resources. Clones share the registry.
///
/// Subscribing is idempotent, and so is unsubscribing. A session that is closed or
/// pruned loses all its subscriptions at once, inside of a request or outside.
#[derive(Clone)]
pub struct ResourceSubscriptions {
    limits: SubscriptionLimits,
    indexes: Arc<Indexes>,
}

/// A `resources/updated`, to be made into a notification.
#[derive(Debug)]
#[must_use]
pub struct ResourceUpdated<'a, M = ()> {
    uri: &'a str,
    resource_type: Option<ResourceType>,
    meta: Option<&'a M>,
}

#[derive(Default)]
struct Indexes(Mutex<Index>);

/// Both directions of the index, under one lock so that they always agree.
#[derive(Default)]
struct Index {
    by_uri: HashMap<Arc<str>, Subscribers>,
    by_session: HashMap<SessionKey, HashSet<Arc<str>>>,
    total: usize,
}

/// The subscribers of one URI, and the guard that is held for them.
#[derive(Default)]
struct Subscribers {
    sessions: HashMap<SessionKey, Subscriber>,
    guard: Guard,
}

/// One subscriber, and what is held for it alone.
struct Subscriber {
    session: WeakSession,
    _held: Box<dyn Send + Sync>,
}

/// What a removal leaves to be dropped, outside of the lock.
#[derive(Default)]
struct Removed {
    _subscriber: Option<Subscriber>,
    _last: Option<Subscribers>,
}

/// The guard that [`ResourceSubscriptions::subscribe_with`] creates. The first
/// subscriber fills it and the removal of the last one drops it, both outside of the
/// lock of the index.
type Guard = Arc<OnceLock<Box<dyn Send + Sync>>>;

// === impl ResourceSubscriptions ===

impl ResourceSubscriptions {
    /// A registry without subscriptions.
    pub fn new(limits: SubscriptionLimits) -> Self {
        Self {
            limits,
            indexes: Arc::default(),
        }
    }

    /// Subscribes the session. True if it was not subscribed before.
    ///
    /// # Errors
    /// [`SubscribeError`] if a limit is reached or the session is closed.
    pub fn subscribe(&self, session: &Session, uri: &str) -> Result<bool, SubscribeError> {
        self.insert(session, uri, ()).map(|(added, _guard)| added)
    }

    /// Subscribes the session, and holds a guard for as long as the URI has a
    /// subscriber: `start` is called for the first one, and the guard it returns (a
    /// watch, for example) is dropped when the last one is removed, for whatever
    /// reason.
    ///
    /// No lock is held meanwhile, so `start` may publish. It must not block: another
    /// session that subscribes to the same URI waits for it. If the last subscriber is
    /// removed while a new one subscribes, the new guard may be created shortly before
    /// the old one is dropped.
    ///
    /// # Errors
    /// [`SubscribeError`] if a limit is reached or the session is closed.
    pub fn subscribe_with<G: Send + Sync + 'static>(
        &self,
        session: &Session,
        uri: &str,
        start: impl FnOnce() -> G,
    ) -> Result<bool, SubscribeError> {
        self.subscribe_holding(session, uri, (), start)
    }

    /// Subscribes the session as [`subscribe_with`](Self::subscribe_with) does, and holds
    /// `held` (a permit, for example) for as long as this session is subscribed. If it was
    /// before, what is held for it already stays and `held` is dropped.
    ///
    /// # Errors
    /// [`SubscribeError`] if a limit is reached or the session is closed.
    pub fn subscribe_holding<H: Send + Sync + 'static, G: Send + Sync + 'static>(
        &self,
        session: &Session,
        uri: &str,
        held: H,
        start: impl FnOnce() -> G,
    ) -> Result<bool, SubscribeError> {
        let (added, guard) = self.insert(session, uri, held)?;
        let _held = guard.get_or_init(|| Box::new(start()));
        Ok(added)
    }

    fn insert(
        &self,
        session: &Session,
        uri: &str,
        held: impl Send + Sync + 'static,
    ) -> Result<(bool, Guard), SubscribeError> {
        if uri.is_empty() || uri.len() > self.limits.uri_bytes_max {
            return Err(SubscribeError::Uri(uri.len()));
        }
        let key = session.key();
        // What is not needed is dropped without the lock: its drop may do anything.
        let mut held: Option<Box<dyn Send + Sync>> = Some(Box::new(held));
        let mut index = self.indexes.0.lock();
        let inserted = index.insert(session, uri, &mut held, &self.limits);
        drop(index);
        let inserted = inserted?;
        let registry: Arc<dyn Detach> = Arc::clone(&self.indexes) as _;
        if !session.attach(&registry, DetachOn::Prune) {
            registry.detach(key);
            return Err(SubscribeError::Closed);
        }
        Ok(inserted)
    }

    /// Unsubscribes the session. True if it was subscribed.
    pub fn unsubscribe(&self, session: &Session, uri: &str) -> bool {
        let (removed, _dropped_unlocked) = self.indexes.0.lock().remove(session.key(), uri);
        removed
    }

    /// Removes all subscriptions of the session.
    pub fn prune(&self, session: &Session) {
        self.indexes.detach(session.key());
    }

    /// Whether the URI has a subscriber.
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.indexes.0.lock().by_uri.contains_key(uri)
    }

    /// The URIs that the session is subscribed to, sorted.
    pub fn uris(&self, session: &Session) -> Vec<Arc<str>> {
        let index = self.indexes.0.lock();
        let mut uris: Vec<_> = index
            .by_session
            .get(&session.key())
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        drop(index);
        uris.sort_unstable();
        uris
    }

    /// The number of subscriptions.
    pub fn len(&self) -> usize {
        self.indexes.0.lock().total
    }

    /// Whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pushes the update to the outbox of every subscriber, without waiting. Returns
    /// the number of outboxes that took it. Pending updates of the same URI are merged
    /// there.
    pub fn publish<M: Serialize>(&self, update: &ResourceUpdated<'_, M>) -> usize {
        self.publish_as(update, ResourceUpdated::to_notification)
    }

    /// As [`publish`](Self::publish), behind a gate that is asked when the update would be
    /// sent.
    pub fn publish_gated<M: Serialize>(
        &self,
        update: &ResourceUpdated<'_, M>,
        gate: Arc<dyn Gate>,
    ) -> usize {
        self.publish_as(update, |update| update.to_notification().gated(gate))
    }

    fn publish_as<'a, M: Serialize>(
        &self,
        update: &ResourceUpdated<'a, M>,
        notification: impl FnOnce(&ResourceUpdated<'a, M>) -> Notification,
    ) -> usize {
        let targets = self.subscribers(update.uri);
        if targets.is_empty() {
            return 0;
        }
        let notification = notification(update);
        targets
            .iter()
            .filter(|s| s.push(notification.clone()).into_result().is_ok())
            .count()
    }

    /// Sends the update to every subscriber through `delivery`, and waits for each
    /// outcome. A session whose connection failed is pruned afterwards. Dropping the
    /// future cancels the sends that are in flight.
    pub async fn notify<M: Serialize>(
        &self,
        delivery: &Delivery,
        update: &ResourceUpdated<'_, M>,
    ) -> BroadcastOutcome {
        let targets = self.subscribers(update.uri);
        if targets.is_empty() {
            return BroadcastOutcome::default();
        }
        fan_out(delivery, targets, &update.to_notification()).await
    }

    /// The subscribers of a URI: copied under the lock, so that sending happens
    /// outside of it.
    fn subscribers(&self, uri: &str) -> Vec<Session> {
        let index = self.indexes.0.lock();
        let Some(Subscribers { sessions, .. }) = index.by_uri.get(uri) else {
            return Vec::new();
        };
        let mut subscribers = Vec::with_capacity(sessions.len());
        let sessions = sessions.values().map(|one| &one.session);
        subscribers.extend(sessions.filter_map(WeakSession::upgrade_unowned));
        subscribers
    }
}

impl Default for ResourceSubscriptions {
    fn default() -> Self {
        Self::new(SubscriptionLimits::default())
    }
}

impl fmt::Debug for ResourceSubscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSubscriptions")
            .field("limits", &self.limits)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Default for SubscriptionLimits {
    /// 1,024 for a session, 100,000 in all, URIs up to 2,048 bytes.
    fn default() -> Self {
        Self {
            per_session_max: 1024,
            total_max: 100_000,
            uri_bytes_max: 2048,
        }
    }
}

// === impl ResourceUpdated ===

impl<'a> ResourceUpdated<'a> {
    /// The resource at `uri` has changed.
    pub fn new(uri: &'a str) -> Self {
        Self {
            uri,
            resource_type: None,
            meta: None,
        }
    }
}

impl<'a, M: Serialize> ResourceUpdated<'a, M> {
    /// Sets the type of the resource, under which failures are counted.
    pub fn resource_type(mut self, resource_type: impl Into<ResourceType>) -> Self {
        self.resource_type = Some(resource_type.into());
        self
    }

    /// Sets the notification's `_meta`, such as what changed: an object whose keys
    /// carry a prefix of yours.
    pub fn meta<N: Serialize>(self, meta: &'a N) -> ResourceUpdated<'a, N> {
        let Self {
            uri,
            resource_type,
            meta: _,
        } = self;
        ResourceUpdated {
            uri,
            resource_type,
            meta: Some(meta),
        }
    }

    /// The notification. A newer one of the same URI replaces it while it is pending.
    pub fn to_notification(&self) -> Notification {
        #[derive(Serialize)]
        struct Params<'a, M> {
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<&'a M>,
            uri: &'a str,
        }
        let Self {
            uri,
            resource_type,
            meta,
        } = self;
        let resource = ResourceRef {
            resource_type: *resource_type,
            uri: (*uri).into(),
        };
        Notification::builder(Method::RESOURCE_UPDATED)
            .params(&Params { meta: *meta, uri })
            .coalesce(uri)
            .resource(resource)
            .build()
    }
}

// === impl Index ===

impl Index {
    /// Whether the subscription is new, and the guard of the URI.
    fn insert(
        &mut self,
        session: &Session,
        uri: &str,
        held: &mut Option<Box<dyn Send + Sync>>,
        limits: &SubscriptionLimits,
    ) -> Result<(bool, Guard), SubscribeError> {
        let key = session.key();
        let own = self.by_session.get(&key);
        if own.is_some_and(|uris| uris.contains(uri)) {
            let guard = self.by_uri.get(uri).map(|found| Arc::clone(&found.guard));
            return Ok((false, guard.unwrap_or_default()));
        }
        let count = own.map_or(0, HashSet::len);
        if count >= limits.per_session_max {
            return Err(SubscribeError::SessionFull(count));
        }
        if self.total >= limits.total_max {
            return Err(SubscribeError::Full(self.total));
        }
        let uri: Arc<str> = match self.by_uri.get_key_value(uri) {
            Some((shared, _)) => Arc::clone(shared),
            None => uri.into(),
        };
        let subscribers = self.by_uri.entry(Arc::clone(&uri)).or_default();
        let subscriber = Subscriber {
            session: session.downgrade(),
            _held: held.take().unwrap_or_else(|| Box::new(())),
        };
        subscribers.sessions.insert(key, subscriber);
        let guard = Arc::clone(&subscribers.guard);
        self.by_session.entry(key).or_default().insert(uri);
        self.total += 1;
        Ok((true, guard))
    }

    /// Whether there was such a subscription, and what is to be dropped outside of the
    /// lock.
    fn remove(&mut self, key: SessionKey, uri: &str) -> (bool, Removed) {
        let Some(uris) = self.by_session.get_mut(&key) else {
            return (false, Removed::default());
        };
        if !uris.remove(uri) {
            return (false, Removed::default());
        }
        if uris.is_empty() {
            self.by_session.remove(&key);
            shrink_sparse(&mut self.by_session);
        }
        (true, self.remove_subscriber(key, uri))
    }

    /// Removes the session from the URI, and the URI if it was the last one.
    fn remove_subscriber(&mut self, key: SessionKey, uri: &str) -> Removed {
        self.total -= 1;
        let Some(found) = self.by_uri.get_mut(uri) else {
            return Removed::default();
        };
        let subscriber = found.sessions.remove(&key);
        let last = if found.sessions.is_empty() {
            let last = self.by_uri.remove(uri);
            shrink_sparse(&mut self.by_uri);
            last
        } else {
            shrink_sparse(&mut found.sessions);
            None
        };
        Removed {
            _subscriber: subscriber,
            _last: last,
        }
    }
}

impl Detach for Indexes {
    fn detach(&self, session: SessionKey) {
        let mut index = self.0.lock();
        let uris = index.by_session.remove(&session).unwrap_or_default();
        let unused: Vec<_> = uris
            .iter()
            .map(|uri| index.remove_subscriber(session, uri))
            .collect();
        shrink_sparse(&mut index.by_session);
        drop(index);
        // Outside of the lock: the drop of a guard may publish.
        drop(unused);
    }
}

#[cfg(test)]
impl ResourceSubscriptions {
    pub(crate) fn capacity(&self) -> usize {
        let index = self.indexes.0.lock();
        index.by_uri.capacity() + index.by_session.capacity()
    }
}

#[cfg(test)]
mod tests;
