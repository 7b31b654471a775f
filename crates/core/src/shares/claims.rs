//! Claims: things that several callers may hold together, such as watches. A thing counts
//! for each caller that has a claim to it, and once however many claims that are.
//!
//! A thing may turn out to be another one, or several: a watch of a whole cluster becomes
//! one per namespace where the whole may not be read. It counts as those from then on.

use std::{collections::HashMap, collections::HashSet, fmt, hash::Hash, sync::Arc};

use parking_lot::Mutex;

use super::{LimitName, LimitReached, ShareKey};

/// Who claims which things. A clone is the same.
pub struct Claims<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    name: LimitName,
    per_caller_max: usize,
    // Claims come and go on many tasks; held for map operations.
    state: Mutex<State<K>>,
}

struct State<K> {
    by_caller: HashMap<ShareKey, HashMap<K, usize>>,
    things: HashMap<K, Thing<K>>,
}

struct Thing<K> {
    /// Of all callers; without one it is forgotten.
    claims: usize,
    /// What it turned out to be; nothing before that is known.
    parts: Vec<K>,
}

/// A claim to some things; given up when dropped.
pub struct Claim<K: Eq + Hash> {
    inner: Arc<Inner<K>>,
    key: ShareKey,
    things: Vec<K>,
}

// === impl Claims ===

impl<K: Clone + Eq + Hash> Claims<K> {
    /// Claims of which each caller may have so many.
    pub fn new(name: LimitName, per_caller_max: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                name,
                per_caller_max,
                state: Mutex::new(State {
                    by_caller: HashMap::new(),
                    things: HashMap::new(),
                }),
            }),
        }
    }

    /// Claims all of these things for a caller, or none.
    ///
    /// # Errors
    /// If the caller would have more than its share.
    pub fn claim(&self, key: &ShareKey, things: Vec<K>) -> Result<Claim<K>, LimitReached> {
        let mut state = self.inner.state.lock();
        let claimed = state.by_caller.get(key);
        let new = |thing: &&K| claimed.is_none_or(|claimed| !claimed.contains_key(thing));
        // What is claimed already costs nothing, even if the share is used up.
        if things.iter().any(|thing| new(&thing)) {
            let before = state.count(key, &[]);
            if state.count(key, &things) > self.inner.per_caller_max.max(before) {
                return Err(self.inner.reached(before));
            }
        }
        let State {
            by_caller,
            things: all,
        } = &mut *state;
        let claimed = by_caller.entry(key.clone()).or_default();
        for thing in &things {
            *claimed.entry(thing.clone()).or_default() += 1;
            let known = all.entry(thing.clone()).or_insert(Thing {
                claims: 0,
                parts: Vec::new(),
            });
            known.claims += 1;
        }
        drop(state);
        Ok(Claim {
            inner: Arc::clone(&self.inner),
            key: key.clone(),
            things,
        })
    }

    /// Records what a thing turned out to be, if anybody claims it.
    ///
    /// # Errors
    /// If every caller that claims the thing would have more than its share. The thing stays
    /// what it was.
    pub fn resolve(&self, thing: &K, parts: Vec<K>) -> Result<(), LimitReached> {
        let mut state = self.inner.state.lock();
        let Some(known) = state.things.get_mut(thing) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut known.parts, parts);
        let claimants = state
            .by_caller
            .iter()
            .filter(|(_, claimed)| claimed.contains_key(thing))
            .map(|(key, _)| state.count(key, &[]));
        let least = claimants.min().unwrap_or_default();
        if least <= self.inner.per_caller_max {
            return Ok(());
        }
        if let Some(known) = state.things.get_mut(thing) {
            known.parts = before;
        }
        Err(self.inner.reached(least))
    }
}

impl<K> Clone for Claims<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> fmt::Debug for Claims<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims")
            .field("what", &self.inner.name.what)
            .field("per_caller_max", &self.inner.per_caller_max)
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl<K> Inner<K> {
    fn reached(&self, used: usize) -> LimitReached {
        LimitReached::Caller {
            name: self.name,
            used,
            max: self.per_caller_max,
        }
    }
}

// === impl State ===

impl<K: Eq + Hash> State<K> {
    /// The number of distinct things of a caller, with some more.
    fn count(&self, key: &ShareKey, more: &[K]) -> usize {
        let claimed = self.by_caller.get(key).into_iter().flat_map(HashMap::keys);
        let mut distinct = HashSet::new();
        for thing in claimed.chain(more) {
            match self.things.get(thing).map(|known| &*known.parts) {
                None | Some([]) => {
                    distinct.insert(thing);
                }
                Some(parts) => distinct.extend(parts),
            }
        }
        distinct.len()
    }
}

// === impl Claim ===

impl<K: Eq + Hash> Drop for Claim<K> {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        let State { by_caller, things } = &mut *state;
        for thing in &self.things {
            if let Some(claimed) = by_caller.get_mut(&self.key) {
                release(claimed, thing, |count| count);
            }
            release(things, thing, |known| &mut known.claims);
        }
        if by_caller.get(&self.key).is_some_and(HashMap::is_empty) {
            by_caller.remove(&self.key);
        }
    }
}

/// Counts one less, and removes what has none left.
fn release<K: Eq + Hash, V>(
    map: &mut HashMap<K, V>,
    key: &K,
    count: impl Fn(&mut V) -> &mut usize,
) {
    if let Some(value) = map.get_mut(key) {
        let count = count(value);
        *count -= 1;
        if *count == 0 {
            map.remove(key);
        }
    }
}

impl<K: Eq + Hash> fmt::Debug for Claim<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("what", &self.inner.name.what)
            .field("key", &self.key)
            .field("things", &self.things.len())
            .finish()
    }
}

#[cfg(test)]
mod tests;
