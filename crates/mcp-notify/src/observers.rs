//! Observers: the sessions that a broadcast goes to.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::context::current_session;
use crate::delivery::Delivery;
use crate::fan_out::{BroadcastOutcome, fan_out_if};
use crate::notification::Notification;
use crate::session::{Session, SessionKey, WeakSession};
use crate::sink::NotificationSink;
use crate::teardown::{Detach, DetachOn, shrink_sparse};

/// When a session becomes an observer automatically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinPolicy {
    /// When it calls a list method: it has a list that may become stale.
    #[default]
    OnList,
    /// When it sends `notifications/initialized`.
    OnInitialized,
    /// Never; only [`ObserverRegistry::remember`] adds one.
    OptIn,
}

/// The sessions that get broadcasts, held weakly, with one sink for all of them.
///
/// A session that is closed is removed at once, and one whose connection failed is
/// removed after the broadcast in which it failed. Clones share the registry.
#[derive(Clone)]
pub struct ObserverRegistry {
    delivery: Delivery,
    policy: JoinPolicy,
    observers: Arc<Observers>,
}

#[derive(Default)]
struct Observers(Mutex<HashMap<SessionKey, WeakSession>>);

impl ObserverRegistry {
    /// A registry that sends through this sink, with the default policy.
    pub fn new(sink: impl NotificationSink) -> Self {
        Self::with_delivery(Delivery::new(sink), JoinPolicy::default())
    }

    /// A registry with this delivery and this policy.
    pub fn with_delivery(delivery: Delivery, policy: JoinPolicy) -> Self {
        Self {
            delivery,
            policy,
            observers: Arc::default(),
        }
    }

    /// Adds the session, whatever the policy. True if it was not an observer before;
    /// false also if it is closed.
    pub fn remember(&self, session: &Session) -> bool {
        let key = session.key();
        let added = self
            .observers
            .0
            .lock()
            .insert(key, session.downgrade())
            .is_none();
        let registry: Arc<dyn Detach> = Arc::clone(&self.observers) as _;
        if session.attach(&registry, DetachOn::Prune) {
            added
        } else {
            registry.detach(key);
            false
        }
    }

    /// Adds the session of the current request if the policy is [`JoinPolicy::OnList`].
    /// To be called by list handlers; outside of a request it does nothing.
    pub fn remember_current_session(&self) {
        if let (JoinPolicy::OnList, Some(session)) = (self.policy, current_session()) {
            self.remember(&session);
        }
    }

    /// Adds the session if the policy is [`JoinPolicy::OnInitialized`]. To be called on
    /// `notifications/initialized`.
    pub fn initialized(&self, session: &Session) {
        if self.policy == JoinPolicy::OnInitialized {
            self.remember(session);
        }
    }

    /// Removes the session. True if it was an observer.
    pub fn forget(&self, session: &Session) -> bool {
        self.observers.0.lock().remove(&session.key()).is_some()
    }

    /// Removes all observers, for shutdown and for tests.
    pub fn clear(&self) {
        self.observers.0.lock().clear();
    }

    /// The number of observers.
    pub fn len(&self) -> usize {
        self.observers.0.lock().len()
    }

    /// Whether there are no observers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends to a snapshot of the observers: sessions that join or leave meanwhile make
    /// no difference. Returns when all outcomes are known, which with a hanging sink
    /// takes four deadlines and 700 ms. Spawn it, or use an
    /// [`OutboxSink`](crate::OutboxSink), where that is too long.
    ///
    /// The failure of one session does not affect others. A session whose connection
    /// failed is pruned after the broadcast. Dropping the future cancels the sends that
    /// are in flight.
    pub async fn broadcast(&self, notification: &Notification) -> BroadcastOutcome {
        self.broadcast_if(notification, |_| true).await
    }

    /// As [`broadcast`](Self::broadcast), to those observers for which `is_due` returns
    /// true: with [`ListChangedTracker::consume`](crate::ListChangedTracker::consume), to
    /// those that have not been notified of this change.
    ///
    /// `is_due` is asked right before the send. With an [`OutboxSink`](crate::OutboxSink)
    /// a dropped future has therefore sent to every session that was due so far, and has
    /// asked about no other.
    pub async fn broadcast_if(
        &self,
        notification: &Notification,
        is_due: impl Fn(&Session) -> bool + Send,
    ) -> BroadcastOutcome {
        let targets: Vec<Session> = {
            let observers = self.observers.0.lock();
            observers
                .values()
                .filter_map(WeakSession::upgrade_unowned)
                .collect()
        };
        if targets.is_empty() {
            return BroadcastOutcome::default();
        }
        fan_out_if(&self.delivery, targets, notification, is_due).await
    }
}

impl Detach for Observers {
    fn detach(&self, session: SessionKey) {
        let mut observers = self.0.lock();
        observers.remove(&session);
        shrink_sparse(&mut observers);
    }
}

impl fmt::Debug for ObserverRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserverRegistry")
            .field("policy", &self.policy)
            .field("observers", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl ObserverRegistry {
    pub(crate) fn capacity(&self) -> usize {
        self.observers.0.lock().capacity()
    }
}

#[cfg(test)]
mod tests;
