//! Teardown of a session: which registries drop its state when it is pruned or
//! closed, and which hooks run.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crate::session::{CloseReason, SessionKey};

/// A close hook: runs once, when the session ends.
pub(crate) type Hook = Box<dyn FnOnce(CloseReason) + Send>;

/// A registry that keeps state per session.
pub(crate) trait Detach: Send + Sync {
    /// Drops the state of the session. Called outside of any lock of the session.
    fn detach(&self, session: SessionKey);
}

/// The event that detaches a session from a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetachOn {
    /// For a registry that makes the session a target of notifications: pruning
    /// or closing, whichever comes first.
    Prune,
    /// For a registry that keeps what belongs to the session: closing only.
    Close,
}

/// The registries and hooks of one session. Registries are held weakly: a session
/// does not keep a registry alive, and a dropped one needs no call.
#[derive(Default)]
pub(crate) struct Teardown {
    closed: Option<CloseReason>,
    hooks: Vec<Hook>,
    registries: Vec<(DetachOn, Weak<dyn Detach>)>,
}

impl Teardown {
    /// Adds the hook. Returns it, with the reason, if the session is closed already.
    pub(crate) fn add_hook(&mut self, hook: Hook) -> Option<(Hook, CloseReason)> {
        if let Some(reason) = self.closed {
            return Some((hook, reason));
        }
        self.hooks.push(hook);
        None
    }

    /// Adds the registry, once. False if the session is closed already.
    pub(crate) fn attach(&mut self, registry: &Arc<dyn Detach>, on: DetachOn) -> bool {
        if self.closed.is_some() {
            return false;
        }
        let registry = Arc::downgrade(registry);
        let known = |(_, other): &(DetachOn, Weak<dyn Detach>)| other.ptr_eq(&registry);
        if !self.registries.iter().any(known) {
            // Dropped registries are removed when the next one attaches.
            self.registries
                .retain(|(_, other)| other.strong_count() > 0);
            self.registries.push((on, registry));
        }
        true
    }

    /// Marks the session as closed. Returns the hooks to run the first time, and
    /// `None` from then on.
    pub(crate) fn close(&mut self, reason: CloseReason) -> Option<Vec<Hook>> {
        if self.closed.is_some() {
            return None;
        }
        self.closed = Some(reason);
        Some(std::mem::take(&mut self.hooks))
    }

    /// Takes the registries to detach from on pruning. Each attaches again if the
    /// session joins it again.
    pub(crate) fn take_pruned(&mut self) -> Vec<Arc<dyn Detach>> {
        let pruned = self
            .registries
            .extract_if(.., |(on, _)| *on == DetachOn::Prune);
        pruned.filter_map(|(_, one)| one.upgrade()).collect()
    }

    /// Takes all registries, to detach from on closing.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<dyn Detach>> {
        std::mem::take(&mut self.registries)
            .iter()
            .filter_map(|(_, one)| one.upgrade())
            .collect()
    }

    /// Runs one hook. A panic is logged and does not reach the other hooks.
    pub(crate) fn run_hook(hook: Hook, reason: CloseReason) {
        if catch_unwind(AssertUnwindSafe(|| hook(reason))).is_err() {
            tracing::error!(?reason, "a close hook panicked");
        }
    }
}

/// Shrinks a map that has become mostly empty. To be called after each removal: it
/// costs nothing until the map is sparse, and then one copy of the remaining entries
/// after at least as many removals.
pub(crate) fn shrink_sparse<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    const SMALL: usize = 64;
    if map.capacity() > SMALL && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
impl Teardown {
    pub(crate) fn registries(&self) -> usize {
        self.registries.len()
    }
}
