//! `notifications/resources/updated`: who subscribed to what.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Serialize;
use thiserror::Error;

use crate::delivery::Delivery;
use crate::fan_out::{Broadcast, fan_out};
use crate::method::Method;
use crate::metrics::ResourceType;
use crate::notification::{About, Notification};
use crate::session::{Session, SessionKey, WeakSession};
use crate::teardown::{Detach, Until, give_back};

/// How much may be subscribed to. Start from the default:
///
/// ```
/// let mut limits = mcp_notify::SubscriptionLimits::default();
/// limits.per_session_max = 10;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionLimits {
    /// The most URIs of one session.
    pub per_session_max: usize,
    /// The most subscriptions of all sessions together.
    pub total_max: usize,
    /// The longest URI.
    pub uri_bytes_max: usize,
}

/// Why a subscription was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The session has as many as it may.
    #[error("the session has {0} subscriptions, which is the most it may have")]
    SessionFull(usize),
    /// All sessions together have as many as they may.
    #[error("there are {0} subscriptions, which is the most there may be")]
    Full(usize),
    /// The URI is empty or too long.
    #[error("a URI of {0} bytes is empty or too long")]
    Uri(usize),
    /// The session has ended.
    #[error("the session is closed")]
    Closed,
}

/// Which sessions want to hear of which resources. A clone is the same registry.
///
/// Subscribing twice is subscribing once; unsubscribing from what was not
/// subscribed to does nothing. A session that ends or is pruned is gone from
/// every URI at once, inside a request or outside.
#[derive(Clone)]
pub struct ResourceSubscriptions {
    limits: SubscriptionLimits,
    indexes: Arc<Indexes>,
}

/// A `resources/updated` on its way to become a notification.
#[derive(Debug)]
#[must_use]
pub struct ResourceUpdated<'a, M = ()> {
    uri: &'a str,
    resource_type: Option<ResourceType>,
    meta: Option<&'a M>,
}

#[derive(Default)]
struct Indexes(Mutex<Index>);

/// Both directions under one lock, or they would disagree for a moment.
#[derive(Default)]
struct Index {
    by_uri: HashMap<Arc<str>, Subscribers>,
    by_session: HashMap<SessionKey, HashSet<Arc<str>>>,
    total: usize,
}

/// Who is subscribed to one URI, and what follows it for them.
#[derive(Default)]
struct Subscribers {
    sessions: HashMap<SessionKey, WeakSession>,
    lease: Lease,
}

/// Filled outside the index's lock by whoever subscribes first; whoever holds it
/// when the last subscriber has gone drops it, outside the lock too.
type Lease = Arc<OnceLock<Box<dyn Send + Sync>>>;

// === impl ResourceSubscriptions ===

impl ResourceSubscriptions {
    /// No subscriptions yet.
    pub fn new(limits: SubscriptionLimits) -> Self {
        Self {
            limits,
            indexes: Arc::default(),
        }
    }

    /// Subscribes the session. True if it was not subscribed before.
    ///
    /// # Errors
    /// [`SubscribeError`] if a limit is reached or the session has ended.
    pub fn subscribe(&self, session: &Session, uri: &str) -> Result<bool, SubscribeError> {
        self.insert(session, uri).map(|(added, _lease)| added)
    }

    /// Subscribes the session, and follows the URI for as long as anybody is
    /// subscribed to it: `follow` is called for the first subscriber, and what
    /// it returns is dropped when the last one has gone, for whatever reason.
    ///
    /// No lock is held meanwhile, so `follow` may publish. It must not block;
    /// another session that subscribes to the same URI waits for it. If the
    /// last subscriber goes while the next one comes, the next following may
    /// begin a moment before the last has ended.
    ///
    /// # Errors
    /// [`SubscribeError`] if a limit is reached or the session has ended.
    pub fn subscribe_following<L: Send + Sync + 'static>(
        &self,
        session: &Session,
        uri: &str,
        follow: impl FnOnce() -> L,
    ) -> Result<bool, SubscribeError> {
        let (added, lease) = self.insert(session, uri)?;
        let _held = lease.get_or_init(|| Box::new(follow()));
        Ok(added)
    }

    fn insert(&self, session: &Session, uri: &str) -> Result<(bool, Lease), SubscribeError> {
        if uri.is_empty() || uri.len() > self.limits.uri_bytes_max {
            return Err(SubscribeError::Uri(uri.len()));
        }
        let key = session.key();
        let inserted = self.indexes.0.lock().insert(session, uri, &self.limits)?;
        let part: Arc<dyn Detach> = Arc::clone(&self.indexes) as _;
        if !session.attach(&part, Until::Pruned) {
            part.detach(key);
            return Err(SubscribeError::Closed);
        }
        Ok(inserted)
    }

    /// Ends the subscription. True if there was one.
    pub fn unsubscribe(&self, session: &Session, uri: &str) -> bool {
        let (removed, _unneeded) = self.indexes.0.lock().remove(session.key(), uri);
        removed
    }

    /// Ends all of the session's subscriptions.
    pub fn prune(&self, session: &Session) {
        self.indexes.detach(session.key());
    }

    /// Whether anybody is subscribed to the URI: whether it pays to watch it.
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.indexes.0.lock().by_uri.contains_key(uri)
    }

    /// The session's URIs, sorted.
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

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.indexes.0.lock().total
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pushes the update to the outbox of every subscriber, without waiting
    /// for any. Returns how many took it. Updates that wait for the same URI
    /// are merged there.
    pub fn publish<M: Serialize>(&self, update: &ResourceUpdated<'_, M>) -> usize {
        let targets = self.subscribers(update.uri);
        if targets.is_empty() {
            return 0;
        }
        let notification = update.to_notification();
        targets
            .iter()
            .filter(|s| s.push(notification.clone()).into_result().is_ok())
            .count()
    }

    /// Sends the update to every subscriber through `delivery`, and waits for
    /// each outcome. Those whose connection failed are pruned afterwards.
    /// Dropping the future ends what is still being sent.
    pub async fn notify<M: Serialize>(
        &self,
        delivery: &Delivery,
        update: &ResourceUpdated<'_, M>,
    ) -> Broadcast {
        let targets = self.subscribers(update.uri);
        if targets.is_empty() {
            return Broadcast::default();
        }
        fan_out(delivery, targets, &update.to_notification()).await
    }

    /// Copied under the lock, so that sending happens outside it.
    fn subscribers(&self, uri: &str) -> Vec<Session> {
        let index = self.indexes.0.lock();
        let Some(Subscribers { sessions, .. }) = index.by_uri.get(uri) else {
            return Vec::new();
        };
        let mut subscribers = Vec::with_capacity(sessions.len());
        subscribers.extend(sessions.values().filter_map(WeakSession::upgrade_unowned));
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
    /// Which of the counted types it is of.
    pub fn resource_type(mut self, resource_type: ResourceType) -> Self {
        self.resource_type = Some(resource_type);
        self
    }

    /// What changed, as the notification's `_meta`: an object whose keys carry
    /// a prefix of yours.
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

    /// The notification. One that waits is replaced by the next of the same URI.
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
        let about = About {
            resource_type: *resource_type,
            uri: (*uri).into(),
        };
        Notification::builder(Method::RESOURCE_UPDATED)
            .params(&Params { meta: *meta, uri })
            .coalesce(uri)
            .about(about)
            .build()
    }
}

// === impl Index ===

impl Index {
    /// Whether it is new, and what follows the URI.
    fn insert(
        &mut self,
        session: &Session,
        uri: &str,
        limits: &SubscriptionLimits,
    ) -> Result<(bool, Lease), SubscribeError> {
        let key = session.key();
        let own = self.by_session.get(&key);
        if own.is_some_and(|uris| uris.contains(uri)) {
            let lease = self.by_uri.get(uri).map(|found| Arc::clone(&found.lease));
            return Ok((false, lease.unwrap_or_default()));
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
        subscribers.sessions.insert(key, session.downgrade());
        let lease = Arc::clone(&subscribers.lease);
        self.by_session.entry(key).or_default().insert(uri);
        self.total += 1;
        Ok((true, lease))
    }

    /// Whether there was such a subscription, and what to drop outside the lock.
    fn remove(&mut self, key: SessionKey, uri: &str) -> (bool, Option<Subscribers>) {
        let Some(uris) = self.by_session.get_mut(&key) else {
            return (false, None);
        };
        if !uris.remove(uri) {
            return (false, None);
        }
        if uris.is_empty() {
            self.by_session.remove(&key);
            give_back(&mut self.by_session);
        }
        (true, self.forget(key, uri))
    }

    /// The other half of a removal. Returns what nobody needs any more.
    fn forget(&mut self, key: SessionKey, uri: &str) -> Option<Subscribers> {
        self.total -= 1;
        let found = self.by_uri.get_mut(uri)?;
        found.sessions.remove(&key);
        if !found.sessions.is_empty() {
            give_back(&mut found.sessions);
            return None;
        }
        let last = self.by_uri.remove(uri);
        give_back(&mut self.by_uri);
        last
    }
}

impl Detach for Indexes {
    fn detach(&self, session: SessionKey) {
        let mut index = self.0.lock();
        let uris = index.by_session.remove(&session).unwrap_or_default();
        let unneeded: Vec<_> = uris
            .iter()
            .filter_map(|uri| index.forget(session, uri))
            .collect();
        give_back(&mut index.by_session);
        drop(index);
        // What followed may end in code of others, which may publish.
        drop(unneeded);
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
