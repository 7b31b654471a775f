//! What the handle and the service have in common.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use crate::{access::Access, clock::Clock, faults::Script, logs::Logs, store::Store};

/// One cluster.
pub(crate) struct Shared {
    // A lock, because a request and a test may be on different threads; it is held
    // for as long as it takes to look something up.
    state: Mutex<State>,
    signals: watch::Sender<Signals>,
    counts: watch::Sender<Counts>,
    pub(crate) clock: Clock,
    bookmark_every: Duration,
}

pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) logs: Logs,
    pub(crate) access: Access,
    pub(crate) script: Script,
}

/// What open streams and waiting requests have to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// Grows with every change of anything.
    pub(crate) changes: u64,
    /// How often all connections were cut.
    pub(crate) cut: u64,
    /// How often all watches were closed.
    pub(crate) closed: u64,
    /// How often all watches were told that their version is gone.
    pub(crate) expired: u64,
    pub(crate) frozen: bool,
    pub(crate) refusing: Refusing,
}

/// Whether connections come about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Refusing {
    #[default]
    No,
    Until(Instant),
    Always,
}

/// What is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) watches: usize,
    pub(crate) watches_max: usize,
    pub(crate) followers: usize,
    pub(crate) requests: u64,
}

/// Counts a stream while it is open.
pub(crate) struct Open {
    shared: Arc<Shared>,
    what: Opened,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Opened {
    Watch,
    Follower,
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(state: State, clock: Clock, bookmark_every: Duration) -> Self {
        Self {
            state: Mutex::new(state),
            signals: watch::Sender::default(),
            counts: watch::Sender::default(),
            clock,
            bookmark_every,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn signals(&self) -> watch::Receiver<Signals> {
        self.signals.subscribe()
    }

    pub(crate) fn counts(&self) -> watch::Receiver<Counts> {
        self.counts.subscribe()
    }

    pub(crate) fn bookmark_every(&self) -> Duration {
        self.bookmark_every
    }

    /// Tells everybody who waits.
    pub(crate) fn signal(&self, change: impl FnOnce(&mut Signals)) {
        self.signals.send_modify(|signals| {
            signals.changes += 1;
            change(signals);
        });
    }

    pub(crate) fn count_request(&self) {
        self.counts.send_modify(|counts| counts.requests += 1);
    }

    pub(crate) fn refuses(&self) -> bool {
        match self.signals.borrow().refusing {
            Refusing::No => false,
            Refusing::Always => true,
            Refusing::Until(end) => Instant::now() < end,
        }
    }
}

// === impl Open ===

impl Open {
    pub(crate) fn new(shared: &Arc<Shared>, what: Opened) -> Self {
        shared.counts.send_modify(|counts| match what {
            Opened::Watch => {
                counts.watches += 1;
                counts.watches_max = counts.watches_max.max(counts.watches);
            }
            Opened::Follower => counts.followers += 1,
        });
        Self {
            shared: Arc::clone(shared),
            what,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.counts.send_modify(|counts| match self.what {
            Opened::Watch => counts.watches -= 1,
            Opened::Follower => counts.followers -= 1,
        });
    }
}
