//! The state that the handle and the service share.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use crate::{access::Access, clock::Clock, faults::FaultInjector, logs::Logs, store::Store};

/// One cluster.
pub(crate) struct Shared {
    // A lock, because a request and a test may be on different threads. It is held for one
    // lookup or one change.
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
    pub(crate) injector: FaultInjector,
}

/// What open streams and pending requests react to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// Incremented with every change of objects, logs or signals.
    pub(crate) changes: u64,
    /// How often all connections were reset.
    pub(crate) cut: u64,
    /// How often all watches were closed.
    pub(crate) closed: u64,
    /// How often all watches were ended with 410 Gone.
    pub(crate) expired: u64,
    pub(crate) frozen: bool,
    pub(crate) connections: ConnectionPolicy,
}

/// Whether new connections are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConnectionPolicy {
    #[default]
    Accept,
    RefuseUntil(Instant),
    Refuse,
}

/// The streams that are open, and the requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) watches: usize,
    pub(crate) watches_max: usize,
    pub(crate) followers: usize,
    pub(crate) requests: u64,
}

/// A guard that counts a stream while it is open.
pub(crate) struct OpenStream {
    shared: Arc<Shared>,
    kind: StreamKind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamKind {
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

    /// Changes the signals and wakes all receivers.
    pub(crate) fn signal(&self, change: impl FnOnce(&mut Signals)) {
        self.signals.send_modify(|signals| {
            signals.changes += 1;
            change(signals);
        });
    }

    pub(crate) fn count_request(&self) {
        self.counts.send_modify(|counts| counts.requests += 1);
    }

    pub(crate) fn refuses_connections(&self) -> bool {
        match self.signals.borrow().connections {
            ConnectionPolicy::Accept => false,
            ConnectionPolicy::Refuse => true,
            ConnectionPolicy::RefuseUntil(end) => Instant::now() < end,
        }
    }
}

// === impl OpenStream ===

impl OpenStream {
    pub(crate) fn new(shared: &Arc<Shared>, kind: StreamKind) -> Self {
        shared.counts.send_modify(|counts| match kind {
            StreamKind::Watch => {
                counts.watches += 1;
                counts.watches_max = counts.watches_max.max(counts.watches);
            }
            StreamKind::Follower => counts.followers += 1,
        });
        Self {
            shared: Arc::clone(shared),
            kind,
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.shared.counts.send_modify(|counts| match self.kind {
            StreamKind::Watch => counts.watches -= 1,
            StreamKind::Follower => counts.followers -= 1,
        });
    }
}
