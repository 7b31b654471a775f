//! The state of each kind that is watched.

use std::collections::BTreeMap;

use crate::error::ClusterError;

/// The length of a reason in a note.
const REASON_CHARS_MAX: usize = 240;

/// The state of the watch of one kind.
#[derive(Clone, Debug)]
pub(crate) enum KindStatus {
    /// It has not been listed yet.
    Pending,
    Watching,
    /// It cannot be watched at the moment, and the redacted reason.
    Stale(String),
    /// It may not be read, and the redacted reason.
    LeftOut(ClusterError, String),
}

/// The state of all kinds.
#[derive(Clone, Debug)]
pub(crate) struct KindStatuses<K>(BTreeMap<K, KindStatus>);

/// A reason that is short enough for a note.
pub(super) fn short(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

// === impl KindStatuses ===

impl<K: Ord> KindStatuses<K> {
    /// Nothing has been listed yet.
    pub(crate) fn new(kinds: impl IntoIterator<Item = K>) -> Self {
        let pending = kinds.into_iter().map(|kind| (kind, KindStatus::Pending));
        Self(pending.collect())
    }

    pub(crate) fn set(&mut self, kind: K, status: KindStatus) {
        self.0.insert(kind, status);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &KindStatus)> {
        self.0.iter()
    }

    /// Whether a kind has not been listed yet.
    pub(crate) fn is_pending(&self) -> bool {
        let mut statuses = self.0.values();
        statuses.any(|status| matches!(status, KindStatus::Pending))
    }

    /// The error of a kind that is left out.
    pub(crate) fn left_out(&self, kind: &K) -> Option<&ClusterError> {
        match self.0.get(kind) {
            Some(KindStatus::LeftOut(error, _)) => Some(error),
            _ => None,
        }
    }

    /// The error of the pods, if nothing that lives in a namespace may be read.
    pub(crate) fn unreadable(
        &self,
        pods: &K,
        is_namespaced: impl Fn(&K) -> bool,
    ) -> Option<ClusterError> {
        let mut namespaced = self.0.iter().filter(|(kind, _)| is_namespaced(kind));
        let all = namespaced.all(|(_, status)| matches!(status, KindStatus::LeftOut(..)));
        self.left_out(pods).filter(|_| all).cloned()
    }
}
