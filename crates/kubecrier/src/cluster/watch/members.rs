//! Who shares a watch.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::subscriptions::{Change, Event, Listener};

/// Those who hear of what a watch sees.
#[derive(Default)]
pub(super) struct Members {
    // Read per event, written when somebody comes or goes.
    all: RwLock<Vec<Member>>,
    left: Notify,
}

struct Member {
    key: u64,
    /// What is not newer than this was there before the member was.
    not_before: u64,
    listener: Arc<dyn Listener>,
}

// === impl Members ===

impl Members {
    pub(super) fn add(&self, key: u64, not_before: u64, listener: Arc<dyn Listener>) {
        self.all.write().push(Member {
            key,
            not_before,
            listener,
        });
    }

    pub(super) fn remove(&self, key: u64) {
        let gone = {
            let mut all = self.all.write();
            let at = all.iter().position(|member| member.key == key);
            at.map(|at| all.swap_remove(at))
        };
        if gone.is_some() {
            self.left.notify_one();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.read().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until the last one has left. Cancel-safe.
    pub(super) async fn empty(&self) {
        while !self.is_empty() {
            self.left.notified().await;
        }
    }

    /// Versions count anew from here: it is another cluster.
    pub(super) fn rebase(&self, version: u64) {
        for member in &mut *self.all.write() {
            member.not_before = version;
        }
    }

    /// Who may want that event.
    pub(super) fn interested(&self, event: &Event) -> Vec<Arc<dyn Listener>> {
        let all = self.all.read();
        all.iter()
            .filter(|member| event.version.is_none_or(|is| is > member.not_before))
            .filter(|member| member.listener.wants(event))
            .map(|member| Arc::clone(&member.listener))
            .collect()
    }

    /// Tells everyone.
    pub(super) fn tell(&self, change: &Change) {
        let all: Vec<_> = {
            let all = self.all.read();
            all.iter()
                .map(|member| (member.key, Arc::clone(&member.listener)))
                .collect()
        };
        for (key, listener) in all {
            listener.hear(key, change);
        }
    }
}
