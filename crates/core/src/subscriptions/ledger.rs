//! The ledger: all subscriptions by owner, within limits.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use thiserror::Error;
use uuid::Uuid;

use super::subscription::Subscription;
use crate::shares::{self, LimitName, Permit, ShareKey, SharedLimit};

/// Ids of ended subscriptions that an owner may end once more without an error.
const TOMBSTONES_MAX: usize = 256;

/// Limits of the number of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionLimits {
    /// Of one owner. An owner that several callers are, because none of them has a name, may
    /// have so many for each.
    pub per_session_max: usize,
    /// Of one caller, in all of its sessions.
    pub per_caller_max: usize,
    /// Of all owners together.
    pub global_max: usize,
}

/// Owner of a subscription. No other owner can see, use or end it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A session, by its id.
    Session(Arc<str>),
    /// A caller without sessions, by name.
    Caller(Arc<str>),
}

/// Id of a subscription: random, so that it cannot be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId {
    text: Arc<str>,
    /// What the text says: each cursor has it, and to parse it costs more than to keep it.
    id: Uuid,
}

/// All subscriptions.
#[derive(Debug)]
pub struct Ledger {
    caps: SubscriptionLimits,
    /// Active and reserved ones.
    limit: SharedLimit,
    // A lock because sessions come and go on many tasks; held for map operations,
    // and never while something is dropped that may take another lock.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    owners: HashMap<Owner, Owned>,
}

#[derive(Debug, Default)]
struct Owned {
    active: HashMap<SubscriptionId, Active>,
    /// The caller of each.
    reserved: Vec<ShareKey>,
    tombstones: VecDeque<SubscriptionId>,
    /// Whether the owner's cleanup is registered.
    claimed: bool,
}

/// A subscription with what ends with it.
struct Active {
    subscription: Arc<Subscription>,
    _lease: Box<dyn Any + Send + Sync>,
    permit: Permit,
}

/// Room for one more subscription; released when dropped unused.
#[derive(Debug)]
pub struct Reservation {
    ledger: Arc<Ledger>,
    owner: Owner,
    /// Until there is a subscription that has it.
    permit: Option<Permit>,
}

/// Why there is no room for another subscription.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitReached {
    /// The owner has the maximum number.
    #[error(
        "this session has {max} subscriptions, which is the most it may have \
         (--max-subscriptions-per-session): end one with events_unsubscribe; \
         events_list_subscriptions shows them"
    )]
    PerSession {
        /// The limit.
        max: usize,
    },
    /// The caller has the maximum number, in all of its sessions.
    #[error(
        "this caller has {max} subscriptions in all its sessions, which is the most it may have \
         (--caller-share of --max-subscriptions-global): end one with events_unsubscribe, or a \
         session that is not used any more"
    )]
    PerCaller {
        /// The limit.
        max: usize,
    },
    /// All owners together have the maximum number.
    #[error(
        "the server has {max} subscriptions, which is the most it may have \
         (--max-subscriptions-global): try again when others have ended theirs, or use events_list"
    )]
    Global {
        /// The limit.
        max: usize,
    },
}

/// Outcome of a request to end a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsubscribeOutcome {
    /// The subscription has ended now.
    Ended,
    /// The subscription had ended before.
    AlreadyEnded,
    /// The owner has no subscription with that id.
    Unknown,
}

// === impl LimitReached ===

impl From<shares::LimitReached> for LimitReached {
    fn from(reached: shares::LimitReached) -> Self {
        match reached {
            shares::LimitReached::Caller { max, .. } => Self::PerCaller { max },
            shares::LimitReached::Total { max, .. } => Self::Global { max },
        }
    }
}

// === impl SubscriptionLimits ===

impl Default for SubscriptionLimits {
    fn default() -> Self {
        Self {
            per_session_max: 10,
            per_caller_max: 50,
            global_max: 100,
        }
    }
}

// === impl SubscriptionId ===

impl SubscriptionId {
    /// A new id.
    pub fn random() -> Self {
        Self::new(Uuid::new_v4())
    }

    fn new(id: Uuid) -> Self {
        let text = format!("sub-{}", id.simple()).into();
        Self { text, id }
    }

    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sub-")?;
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hex.len() != 32 || !hex.bytes().all(lower) {
            return None;
        }
        let id = Uuid::try_parse(hex).ok()?;
        let text = text.into();
        Some(Self { text, id })
    }

    /// The bytes of the id.
    pub(super) fn as_bytes(&self) -> &[u8; 16] {
        self.id.as_bytes()
    }

    /// The id with these bytes.
    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::new(Uuid::from_bytes(bytes))
    }

    /// A number for the subscription among the few of a session.
    pub fn short(&self) -> u32 {
        let [a, b, c, d, ..] = self.as_bytes();
        u32::from_be_bytes([*a, *b, *c, *d])
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SubscriptionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl serde::Serialize for SubscriptionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

// === impl Ledger ===

impl Ledger {
    /// An empty ledger.
    pub fn new(caps: SubscriptionLimits) -> Arc<Self> {
        let name = LimitName::new("subscriptions", "--max-subscriptions-global");
        Arc::new(Self {
            caps,
            limit: SharedLimit::with_per_caller(name, caps.global_max, caps.per_caller_max),
            inner: Mutex::default(),
        })
    }

    /// The limits.
    pub fn caps(&self) -> SubscriptionLimits {
        self.caps
    }

    /// Reserves room for one more subscription, which counts for its owner and for its caller.
    pub fn reserve(
        self: &Arc<Self>,
        owner: &Owner,
        caller: &ShareKey,
    ) -> Result<Reservation, LimitReached> {
        let mut inner = self.inner.lock();
        let has = (inner.owners.get(owner)).map_or(0, |owned| owned.count(caller));
        if has >= self.caps.per_session_max {
            let max = self.caps.per_session_max;
            return Err(LimitReached::PerSession { max });
        }
        let permit = self.limit.acquire(caller)?;
        let owned = inner.owners.entry(owner.clone()).or_default();
        owned.reserved.push(caller.clone());
        Ok(Reservation {
            ledger: Arc::clone(self),
            owner: owner.clone(),
            permit: Some(permit),
        })
    }

    /// True once per owner: the caller that gets it registers the cleanup that runs when the
    /// owner's session ends.
    pub fn claim_cleanup(&self, owner: &Owner) -> bool {
        let mut inner = self.inner.lock();
        let owned = inner.owners.get_mut(owner);
        owned.is_some_and(|owned| !std::mem::replace(&mut owned.claimed, true))
    }

    /// A subscription, whoever its owner is.
    pub fn find(&self, id: &str) -> Option<Arc<Subscription>> {
        let id = SubscriptionId::parse(id)?;
        let inner = self.inner.lock();
        let mut owners = inner.owners.values();
        let active = owners.find_map(|owned| owned.active.get(&id))?;
        Some(Arc::clone(&active.subscription))
    }

    /// A subscription of the owner.
    pub fn get(&self, owner: &Owner, id: &str) -> Option<Arc<Subscription>> {
        let id = SubscriptionId::parse(id)?;
        let inner = self.inner.lock();
        let active = inner.owners.get(owner)?.active.get(&id)?;
        Some(Arc::clone(&active.subscription))
    }

    /// The subscriptions of the owner, oldest first.
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

    /// The subscriptions of all owners.
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

    /// Number of subscriptions, with reserved ones.
    pub fn len(&self) -> usize {
        self.limit.used()
    }

    /// Whether there is no subscription.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends a subscription of the owner.
    pub fn end(&self, owner: &Owner, id: &str) -> UnsubscribeOutcome {
        let Some(id) = SubscriptionId::parse(id) else {
            return UnsubscribeOutcome::Unknown;
        };
        let mut inner = self.inner.lock();
        let Some(owned) = inner.owners.get_mut(owner) else {
            return UnsubscribeOutcome::Unknown;
        };
        let Some(active) = owned.active.remove(&id) else {
            return if owned.tombstones.contains(&id) {
                UnsubscribeOutcome::AlreadyEnded
            } else {
                UnsubscribeOutcome::Unknown
            };
        };
        if owned.tombstones.len() >= TOMBSTONES_MAX {
            owned.tombstones.pop_front();
        }
        owned.tombstones.push_back(id);
        drop(inner);
        active.subscription.end();
        UnsubscribeOutcome::Ended
    }

    /// Ends all subscriptions of an owner and forgets the owner.
    pub fn end_owner(&self, owner: &Owner) -> usize {
        let mut inner = self.inner.lock();
        let Some(mut owned) = inner.owners.remove(owner) else {
            return 0;
        };
        let active = std::mem::take(&mut owned.active);
        if !owned.reserved.is_empty() {
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

// === impl Owned ===

impl Owned {
    /// The subscriptions of a caller, with those to come.
    fn count(&self, caller: &ShareKey) -> usize {
        let active = self.active.values().map(|active| active.permit.key());
        let all = active.chain(&self.reserved);
        all.filter(|one| *one == caller).count()
    }

    fn remove_reserved(&mut self, caller: &ShareKey) {
        if let Some(at) = self.reserved.iter().position(|one| one == caller) {
            self.reserved.swap_remove(at);
        }
    }
}

// === impl Reservation ===

impl Reservation {
    /// Owner of the subscription to come.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Adds the subscription, and drops `lease` when it ends. If the owner has one that is
    /// `equivalent`, that one stays alone and the reservation is released. Returns the
    /// subscription that is in the ledger.
    pub fn insert_unless(
        mut self,
        equivalent: impl Fn(&Subscription) -> bool,
        subscription: Arc<Subscription>,
        lease: Box<dyn Any + Send + Sync>,
    ) -> Arc<Subscription> {
        let Some(permit) = self.permit.take() else {
            return subscription;
        };
        let mut inner = self.ledger.inner.lock();
        let owned = inner.owners.entry(self.owner.clone()).or_default();
        let mut there = owned.active.values().map(|active| &active.subscription);
        if let Some(other) = there.find(|other| equivalent(other)) {
            self.permit = Some(permit);
            return Arc::clone(other);
        }
        owned.remove_reserved(permit.key());
        let id = subscription.id().clone();
        let active = Active {
            subscription: Arc::clone(&subscription),
            _lease: lease,
            permit,
        };
        owned.active.insert(id, active);
        drop(inner);
        subscription
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(permit) = &self.permit else {
            return;
        };
        let mut inner = self.ledger.inner.lock();
        if let Some(owned) = inner.owners.get_mut(&self.owner) {
            owned.remove_reserved(permit.key());
            if owned.reserved.is_empty() && owned.active.is_empty() && owned.tombstones.is_empty() {
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
