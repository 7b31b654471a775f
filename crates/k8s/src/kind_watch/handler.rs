//! Feeds what the watch of one kind sees to the observer of all kinds.

use std::{marker::PhantomData, sync::Arc};

use parking_lot::Mutex;

use super::{
    KindObserver, KindSource, KindStatus, ObjectChange, WatchedObject, is_denied,
    source::RelistedObjects, status::short,
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
pub(super) struct KindHandler<T: WatchedObject, O> {
    observer: Arc<O>,
    kind: T::Kind,
    pending: Arc<Mutex<PendingList<T::Kept>>>,
    object_type: PhantomData<fn() -> T>,
}

/// The first list of a kind, which counts once its watch is established: a kind that may be
/// listed but not watched must not come and go with each attempt.
enum PendingList<K> {
    Collecting(Vec<K>),
    Applied,
}

// === impl KindHandler ===

impl<T: WatchedObject, O: KindObserver<T>> KindHandler<T, O> {
    pub(super) fn new(observer: &Arc<O>, kind: T::Kind) -> Self {
        Self {
            observer: Arc::clone(observer),
            kind,
            pending: Arc::new(Mutex::new(PendingList::Collecting(Vec::new()))),
            object_type: PhantomData,
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

impl<T: WatchedObject, O> Clone for KindHandler<T, O> {
    fn clone(&self) -> Self {
        Self {
            observer: Arc::clone(&self.observer),
            kind: self.kind,
            pending: Arc::clone(&self.pending),
            object_type: PhantomData,
        }
    }
}

impl<T: WatchedObject, O: KindObserver<T>> WatchHandler<KindSource<T>> for KindHandler<T, O> {
    fn on_item(
        &mut self,
        change: ObjectChange<T::Kept>,
        _source: &KindSource<T>,
        _health: &WatchHealth,
    ) {
        self.begin();
        self.observer.on_change(self.kind, change);
    }

    fn on_relist(
        &mut self,
        listed: RelistedObjects<T::Kept>,
        _relist: &RelistContext<'_>,
        _source: &KindSource<T>,
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
