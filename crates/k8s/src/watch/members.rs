//! Who shares a watch.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use kubecrier_core::{
    Event,
    subscriptions::{Change, Listener},
};

/// Those who hear of what a watch sees.
#[derive(Default)]
pub(super) struct Members {
    // Read per event, written when somebody comes or goes.
    all: RwLock<Vec<Member>>,
    /// The highest key there was.
    newest: AtomicU64,
    /// Why the watch does not work, as the members were told.
    trouble: Mutex<Option<String>>,
    left: Notify,
}

/// What the members want of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// Nothing.
    None,
    /// The event as it came.
    Plain,
    /// The labels of what it is about, too.
    Labelled,
}

/// Those who were there at some moment: later ones have higher keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present(u64);

#[derive(Clone)]
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
        // Only now: whoever counts as present can be asked what it wants.
        self.newest.fetch_max(key, Ordering::Release);
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

    /// Those who are there now.
    pub(super) fn present(&self) -> Present {
        Present(self.newest.load(Ordering::Acquire))
    }

    /// Versions count anew for these: it is another cluster.
    pub(super) fn rebase(&self, present: Present, version: u64) {
        for member in &mut *self.all.write() {
            if present.has(member.key) {
                member.not_before = version;
            }
        }
    }

    /// Whether anybody may want that event, and with its labels; at `any_version` if
    /// it may be of another cluster than the versions that we have.
    pub(super) fn interest(&self, event: &Event, any_version: bool) -> Interest {
        let all = self.all.read();
        let mut interest = Interest::None;
        let wanting = (all.iter())
            .filter(|member| any_version || member.is_news(event))
            .filter(|member| member.listener.wants(event));
        for member in wanting {
            if member.listener.needs_labels() {
                return Interest::Labelled;
            }
            interest = Interest::Plain;
        }
        interest
    }

    /// Gives each what it wants of these, in order. Who came after an event was read
    /// does not get it: whether its labels are needed was decided without him.
    pub(super) fn give(&self, events: &[(Arc<Event>, Present)]) {
        // Not under the lock: who takes may find that it has to leave.
        let all = self.all.read().clone();
        let mut wanted = Vec::with_capacity(events.len());
        for member in all {
            let listener = &member.listener;
            wanted.clear();
            wanted.extend(
                (events.iter())
                    .filter(|(event, present)| present.has(member.key) && member.is_news(event))
                    .map(|(event, _)| event)
                    .filter(|event| listener.wants(event)),
            );
            if !wanted.is_empty() {
                Arc::clone(listener).take(&wanted);
            }
        }
    }

    /// Tells one who has joined what all were told before: that the watch does not work.
    pub(super) fn catch_up(&self, key: u64, listener: &dyn Listener) {
        let Some(error) = self.trouble() else { return };
        listener.hear(key, &Change::Degraded { error });
        // It may have become better since, and he may have been told so first.
        if self.trouble().is_none() {
            listener.hear(key, &Change::Recovered);
        }
    }

    /// Why the watch does not work, if it does not.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Tells everyone.
    pub(super) fn tell(&self, change: &Change) {
        // First: who joins from here on catches up.
        match change {
            Change::Degraded { error } => *self.trouble.lock() = Some(error.clone()),
            Change::Recovered => *self.trouble.lock() = None,
            Change::Gap { .. } => {}
        }
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

// === impl Member ===

impl Member {
    /// Whether it was not there before the member was.
    fn is_news(&self, event: &Event) -> bool {
        event.version.is_none_or(|is| is > self.not_before)
    }
}

// === impl Present ===

impl Present {
    fn has(self, key: u64) -> bool {
        key <= self.0
    }
}
