//! Who wants to hear that something changed, and telling them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::context::current_session;
use crate::delivery::Delivery;
use crate::fan_out::{Broadcast, fan_out};
use crate::notification::Notification;
use crate::session::{Session, SessionKey, WeakSession};
use crate::sink::NotificationSink;
use crate::teardown::{Detach, Until, give_back};

/// When a session becomes an observer by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinPolicy {
    /// When it calls a list method: it has seen a list that may change.
    #[default]
    OnList,
    /// When it says `notifications/initialized`.
    OnInitialized,
    /// Never; only [`ObserverRegistry::remember`] adds one.
    OptIn,
}

/// The sessions that hear of changes, held weakly, behind one sink.
///
/// A session that ends leaves at once, and one whose connection fails for good
/// leaves after the broadcast in which it failed. A clone is the same registry.
#[derive(Clone)]
pub struct ObserverRegistry {
    delivery: Delivery,
    policy: JoinPolicy,
    observers: Arc<Observers>,
}

#[derive(Default)]
struct Observers(Mutex<HashMap<SessionKey, WeakSession>>);

impl ObserverRegistry {
    /// A registry that sends through this sink and lets sessions join on list calls.
    pub fn new(sink: impl NotificationSink) -> Self {
        Self::with_delivery(Delivery::new(sink), JoinPolicy::default())
    }

    /// A registry with a delivery and a policy of your own.
    pub fn with_delivery(delivery: Delivery, policy: JoinPolicy) -> Self {
        Self {
            delivery,
            policy,
            observers: Arc::default(),
        }
    }

    /// Adds the session, whatever the policy. True if it was not there before;
    /// false also if it has ended.
    pub fn remember(&self, session: &Session) -> bool {
        let key = session.key();
        let added = self
            .observers
            .0
            .lock()
            .insert(key, session.downgrade())
            .is_none();
        let part: Arc<dyn Detach> = Arc::clone(&self.observers) as _;
        if session.attach(&part, Until::Pruned) {
            added
        } else {
            part.detach(key);
            false
        }
    }

    /// Call it in list handlers: adds the session of the current request if the
    /// policy is [`JoinPolicy::OnList`]. Outside a request it does nothing.
    pub fn remember_current_session(&self) {
        if let (JoinPolicy::OnList, Some(session)) = (self.policy, current_session()) {
            self.remember(&session);
        }
    }

    /// Call it on `notifications/initialized`: adds the session if the policy
    /// is [`JoinPolicy::OnInitialized`].
    pub fn initialized(&self, session: &Session) {
        if self.policy == JoinPolicy::OnInitialized {
            self.remember(session);
        }
    }

    /// Removes the session. True if it was there.
    pub fn forget(&self, session: &Session) -> bool {
        self.observers.0.lock().remove(&session.key()).is_some()
    }

    /// Removes everybody: for shutdown and for tests.
    pub fn clear(&self) {
        self.observers.0.lock().clear();
    }

    /// How many observers there are.
    pub fn len(&self) -> usize {
        self.observers.0.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends to everybody who is an observer now; who joins or leaves
    /// meanwhile changes nothing. Returns when each one's outcome is known,
    /// which with a hanging sink takes four deadlines and 700 ms; spawn it, or
    /// use an [`OutboxSink`](crate::OutboxSink), where that is too long.
    ///
    /// One session's failure is in its own outcome, and after the broadcast
    /// those whose connection failed are observers no more. Dropping the
    /// future ends what is still being sent.
    pub async fn broadcast(&self, notification: &Notification) -> Broadcast {
        let targets: Vec<Session> = {
            let observers = self.observers.0.lock();
            observers
                .values()
                .filter_map(WeakSession::upgrade_unowned)
                .collect()
        };
        if targets.is_empty() {
            return Broadcast::default();
        }
        fan_out(&self.delivery, targets, notification).await
    }
}

impl Detach for Observers {
    fn detach(&self, session: SessionKey) {
        let mut observers = self.0.lock();
        observers.remove(&session);
        give_back(&mut observers);
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
