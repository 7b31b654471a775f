//! Whose subscriptions there are, and how many there may be.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use thiserror::Error;

use super::subscription::Subscription;

/// Ids that were in use and may be ended once more, per owner.
const TOMBSTONES_MAX: usize = 256;

/// How many subscriptions there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Of one owner.
    pub per_session_max: usize,
    /// In all.
    pub global_max: usize,
}

/// Who a subscription belongs to. Nobody else can see, use or end it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A session, by its id.
    Session(Arc<str>),
    /// A caller without sessions, by name.
    Caller(Arc<str>),
}

/// The name of a subscription: random, so that nobody can guess it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(Arc<str>);

/// All subscriptions.
#[derive(Debug)]
pub struct Ledger {
    caps: Caps,
    // A lock because sessions come and go on many tasks; held for map operations,
    // and never while something is dropped that may take another lock.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    owners: HashMap<Owner, Owned>,
    /// Those there are, and those about to be.
    total: usize,
}

#[derive(Debug, Default)]
struct Owned {
    active: HashMap<SubscriptionId, Active>,
    reserved: usize,
    tombstones: VecDeque<SubscriptionId>,
    /// Somebody has been told to end all of it.
    claimed: bool,
}

/// A subscription, and what ends with it.
struct Active {
    subscription: Arc<Subscription>,
    _lease: Box<dyn Any + Send + Sync>,
}

/// A place for one more; given back when dropped unfilled.
#[derive(Debug)]
pub struct Slot {
    ledger: Arc<Ledger>,
    owner: Owner,
    filled: bool,
}

/// Why there is no place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The owner has as many as it may.
    #[error(
        "this session has {max} subscriptions, which is the most it may have \
         (--max-subscriptions-per-session): end one with events_unsubscribe; \
         events_list_subscriptions shows them"
    )]
    PerSession {
        /// So many.
        max: usize,
    },
    /// All owners together have as many as they may.
    #[error(
        "the server has {max} subscriptions, which is the most it may have \
         (--max-subscriptions-global): try again when others have ended theirs, or use events_list"
    )]
    Global {
        /// So many.
        max: usize,
    },
}

/// What became of the wish to end a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsubscribed {
    /// It has ended now.
    Ended,
    /// It had ended before.
    Already,
    /// There is none of that name, as far as this owner can know.
    Unknown,
}

// === impl Caps ===

impl Default for Caps {
    fn default() -> Self {
        Self {
            per_session_max: 10,
            global_max: 100,
        }
    }
}

// === impl SubscriptionId ===

impl SubscriptionId {
    /// A new one.
    pub fn random() -> Self {
        let text = format!("sub-{}", uuid::Uuid::new_v4().simple());
        Self(text.into())
    }

    /// One that was written down.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sub-")?;
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (hex.len() == 32 && hex.bytes().all(lower)).then(|| Self(text.into()))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubscriptionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for SubscriptionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

// === impl Ledger ===

impl Ledger {
    /// None yet.
    pub fn new(caps: Caps) -> Arc<Self> {
        Arc::new(Self {
            caps,
            inner: Mutex::default(),
        })
    }

    /// How many there may be.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// A place for one more.
    pub fn reserve(self: &Arc<Self>, owner: &Owner) -> Result<Slot, Refused> {
        let mut inner = self.inner.lock();
        let has = (inner.owners.get(owner)).map_or(0, |owned| owned.active.len() + owned.reserved);
        if has >= self.caps.per_session_max {
            let max = self.caps.per_session_max;
            return Err(Refused::PerSession { max });
        }
        if inner.total >= self.caps.global_max {
            let max = self.caps.global_max;
            return Err(Refused::Global { max });
        }
        inner.total += 1;
        inner.owners.entry(owner.clone()).or_default().reserved += 1;
        Ok(Slot {
            ledger: Arc::clone(self),
            owner: owner.clone(),
            filled: false,
        })
    }

    /// True once per owner: whoever gets it sees to it that the owner's end is told.
    pub fn first_of(&self, owner: &Owner) -> bool {
        let mut inner = self.inner.lock();
        let owned = inner.owners.get_mut(owner);
        owned.is_some_and(|owned| !std::mem::replace(&mut owned.claimed, true))
    }

    /// One of the owner's.
    pub fn get(&self, owner: &Owner, id: &str) -> Option<Arc<Subscription>> {
        let id = SubscriptionId::parse(id)?;
        let inner = self.inner.lock();
        let active = inner.owners.get(owner)?.active.get(&id)?;
        Some(Arc::clone(&active.subscription))
    }

    /// All of the owner's, the oldest first.
    pub fn list(&self, owner: &Owner) -> Vec<Arc<Subscription>> {
        let inner = self.inner.lock();
        let mut all: Vec<_> = (inner.owners.get(owner).into_iter())
            .flat_map(|owned| owned.active.values())
            .map(|active| Arc::clone(&active.subscription))
            .collect();
        drop(inner);
        all.sort_by_key(|one| one.created_at());
        all
    }

    /// Everyone's.
    pub fn all(&self) -> Vec<(Owner, Arc<Subscription>)> {
        let inner = self.inner.lock();
        let each = |(owner, owned): (&Owner, &Owned)| {
            let owner = owner.clone();
            let of_owner = owned.active.values();
            let pairs = of_owner.map(move |one| (owner.clone(), Arc::clone(&one.subscription)));
            pairs.collect::<Vec<_>>()
        };
        inner.owners.iter().flat_map(each).collect()
    }

    /// How many there are, with those about to be.
    pub fn len(&self) -> usize {
        self.inner.lock().total
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends one of the owner's.
    pub fn end(&self, owner: &Owner, id: &str) -> Unsubscribed {
        let Some(id) = SubscriptionId::parse(id) else {
            return Unsubscribed::Unknown;
        };
        let mut inner = self.inner.lock();
        let Some(owned) = inner.owners.get_mut(owner) else {
            return Unsubscribed::Unknown;
        };
        let Some(active) = owned.active.remove(&id) else {
            return if owned.tombstones.contains(&id) {
                Unsubscribed::Already
            } else {
                Unsubscribed::Unknown
            };
        };
        if owned.tombstones.len() >= TOMBSTONES_MAX {
            owned.tombstones.pop_front();
        }
        owned.tombstones.push_back(id);
        inner.total -= 1;
        drop(inner);
        active.subscription.end();
        Unsubscribed::Ended
    }

    /// Ends all of an owner's, and forgets it.
    pub fn end_owner(&self, owner: &Owner) -> usize {
        let mut inner = self.inner.lock();
        let Some(mut owned) = inner.owners.remove(owner) else {
            return 0;
        };
        let active = std::mem::take(&mut owned.active);
        inner.total -= active.len();
        if owned.reserved > 0 {
            owned.tombstones.clear();
            inner.owners.insert(owner.clone(), owned);
        }
        drop(inner);
        for one in active.values() {
            one.subscription.end();
        }
        active.len()
    }
}

// === impl Slot ===

impl Slot {
    /// Whose it will be.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The subscription stands, and `lease` is dropped when it ends; unless the owner has
    /// one that will do: then that one stays alone, and the place is given back. Comes
    /// back with the one that stands.
    pub fn fill_unless(
        mut self,
        will_do: impl Fn(&Subscription) -> bool,
        subscription: Arc<Subscription>,
        lease: Box<dyn Any + Send + Sync>,
    ) -> Arc<Subscription> {
        let mut inner = self.ledger.inner.lock();
        let owned = inner.owners.entry(self.owner.clone()).or_default();
        let mut there = owned.active.values().map(|active| &active.subscription);
        if let Some(other) = there.find(|other| will_do(other)) {
            return Arc::clone(other);
        }
        owned.reserved = owned.reserved.saturating_sub(1);
        let id = subscription.id().clone();
        let active = Active {
            subscription: Arc::clone(&subscription),
            _lease: lease,
        };
        owned.active.insert(id, active);
        drop(inner);
        self.filled = true;
        subscription
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.filled {
            return;
        }
        let mut inner = self.ledger.inner.lock();
        inner.total -= 1;
        if let Some(owned) = inner.owners.get_mut(&self.owner) {
            owned.reserved = owned.reserved.saturating_sub(1);
            if owned.reserved == 0 && owned.active.is_empty() && owned.tombstones.is_empty() {
                inner.owners.remove(&self.owner);
            }
        }
    }
}

impl fmt::Debug for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.subscription.fmt(f)
    }
}

#[cfg(test)]
mod tests;
