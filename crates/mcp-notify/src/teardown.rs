//! What happens when a session is pruned or ends, each part of it once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crate::session::{CloseReason, SessionKey};

/// Runs once, when the session ends.
pub(crate) type Hook = Box<dyn FnOnce(CloseReason) + Send>;

/// A part of the library that keeps something per session.
pub(crate) trait Detach: Send + Sync {
    /// Forget the session. Called outside of any lock of the session.
    fn detach(&self, session: SessionKey);
}

/// When a part forgets the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// It made the session a target of notifications: when it is pruned or ends.
    Pruned,
    /// It keeps what belongs to the session: only when it ends.
    Closed,
}

/// Who wants to know. Parts are held weakly: a registry that is gone needs no
/// word, and a session does not keep it.
#[derive(Default)]
pub(crate) struct Teardown {
    ended: Option<CloseReason>,
    hooks: Vec<Hook>,
    parts: Vec<(Until, Weak<dyn Detach>)>,
}

impl Teardown {
    /// Keeps the hook, or gives it back with the reason if it is too late.
    pub(crate) fn add_hook(&mut self, hook: Hook) -> Option<(Hook, CloseReason)> {
        if let Some(reason) = self.ended {
            return Some((hook, reason));
        }
        self.hooks.push(hook);
        None
    }

    /// Keeps the part unless it is kept already. False: too late.
    pub(crate) fn attach(&mut self, part: &Arc<dyn Detach>, until: Until) -> bool {
        if self.ended.is_some() {
            return false;
        }
        let part = Arc::downgrade(part);
        if !self.parts.iter().any(|(_, kept)| kept.ptr_eq(&part)) {
            // Those of dropped registries go when the next one comes.
            self.parts.retain(|(_, kept)| kept.strong_count() > 0);
            self.parts.push((until, part));
        }
        true
    }

    /// The hooks to run, the first time; `None` ever after.
    pub(crate) fn close(&mut self, reason: CloseReason) -> Option<Vec<Hook>> {
        if self.ended.is_some() {
            return None;
        }
        self.ended = Some(reason);
        Some(std::mem::take(&mut self.hooks))
    }

    /// The parts to tell that the session was pruned. They attach again if it
    /// joins again.
    pub(crate) fn take_pruned(&mut self) -> Vec<Arc<dyn Detach>> {
        let pruned = self
            .parts
            .extract_if(.., |(until, _)| *until == Until::Pruned);
        pruned.filter_map(|(_, part)| part.upgrade()).collect()
    }

    /// The parts to tell that it ended.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<dyn Detach>> {
        std::mem::take(&mut self.parts)
            .iter()
            .filter_map(|(_, part)| part.upgrade())
            .collect()
    }

    /// Runs one hook; its panic is logged and stays its own.
    pub(crate) fn run_hook(hook: Hook, reason: CloseReason) {
        if catch_unwind(AssertUnwindSafe(|| hook(reason))).is_err() {
            tracing::error!(?reason, "a close hook panicked");
        }
    }
}

/// Returns memory that a map no longer needs, once it is mostly empty. To be
/// called after removing; costs nothing until then, and a copy of the rest
/// after at least as many removals.
pub(crate) fn give_back<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    const SMALL: usize = 64;
    if map.capacity() > SMALL && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
impl Teardown {
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }
}
