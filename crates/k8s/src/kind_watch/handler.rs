//! Feeds what the watch of one kind sees to the observer of all kinds.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    KindObserver, KindSource, KindStatus, ObjectChange, is_denied, source::RelistedObjects,
    status::short,
};
use crate::{
    error::ClusterError,
    watch::{
        health::WatchHealth,
        watch_loop::{RelistContext, WatchHandler},
    },
};
use kubecrier_core::subscriptions::WatchStatus;

/// Feeds what the watch of one kind sees to the observer. A clone is the same.
pub(super) struct KindHandler<O: KindObserver> {
    observer: Arc<O>,
    kind: O::Kind,
    pending: Arc<Mutex<PendingList<O::Kept>>>,
}

/// The first list of a kind, which counts once its watch is established: a kind that may be
/// listed but not watched must not come and go with each attempt.
enum PendingList<P> {
    Collecting(Vec<P>),
    Applied,
}

// === impl KindHandler ===

impl<O: KindObserver> KindHandler<O> {
    pub(super) fn new(observer: &Arc<O>, kind: O::Kind) -> Self {
        Self {
            observer: Arc::clone(observer),
            kind,
            pending: Arc::new(Mutex::new(PendingList::Collecting(Vec::new()))),
        }
    }

    /// The watch is established: the list that waited for it counts.
    pub(super) fn begin(&self) {
        let pending = std::mem::replace(&mut *self.pending.lock(), PendingList::Applied);
        if let PendingList::Collecting(objects) = pending {
            self.observer.on_relist(self.kind, objects);
        }
    }
}

impl<O: KindObserver> Clone for KindHandler<O> {
    fn clone(&self) -> Self {
        Self {
            observer: Arc::clone(&self.observer),
            kind: self.kind,
            pending: Arc::clone(&self.pending),
        }
    }
}

impl<O: KindObserver> WatchHandler<KindSource<O::Kind, O::Kept>> for KindHandler<O> {
    fn on_item(
        &mut self,
        change: ObjectChange<O::Kept>,
        _source: &KindSource<O::Kind, O::Kept>,
        _health: &WatchHealth,
    ) {
        self.begin();
        self.observer.on_change(self.kind, change);
    }

    fn on_relist(
        &mut self,
        listed: RelistedObjects<O::Kept>,
        _relist: &RelistContext<'_>,
        _source: &KindSource<O::Kind, O::Kept>,
        _health: &WatchHealth,
    ) -> String {
        let mut pending = self.pending.lock();
        if let PendingList::Collecting(objects) = &mut *pending {
            *objects = listed.objects;
            return listed.version;
        }
        drop(pending);
        self.observer.on_relist(self.kind, listed.objects);
        listed.version
    }

    fn is_fatal(&self, error: &ClusterError) -> bool {
        is_denied(error)
    }

    fn on_status(&mut self, status: WatchStatus) {
        let status = match status {
            WatchStatus::Degraded { error } => KindStatus::Stale(short(&error)),
            WatchStatus::Recovered => KindStatus::Watching,
            WatchStatus::Gap { .. }
            | WatchStatus::Unlabelled { .. }
            | WatchStatus::Withdrawn { .. } => return,
        };
        self.observer.on_status(self.kind, status);
    }
}
