//! Which watches are shared with other servers, and what this one does for them.

use std::sync::Arc;

use futures_util::future::join_all;
use jiff::Timestamp;
use kubecrier_history::SharedLogError;

use super::{
    WatchLease, Watches,
    scope::Scope,
    shared::{self, Publisher, ReadAt, SharedBacklog, SharedSource, SharedWatching},
    source::EventSource,
};
use crate::error::ClusterError;

/// A watch that is shared with other servers.
#[derive(Clone)]
pub(super) struct Sharing {
    with: SharedWatching,
    topic: Arc<str>,
    publisher: Arc<Publisher>,
    read_at: Arc<ReadAt>,
}

/// Who watches, where servers share their watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchRole {
    /// This server, for all.
    Holder,
    /// Another server, for all.
    Follower,
    /// This server, for itself: what is shared is no help at the moment.
    Alone,
}

// === impl Sharing ===

impl Sharing {
    pub(super) fn role(&self) -> WatchRole {
        if self.publisher.is_holder() {
            WatchRole::Holder
        } else if self.read_at.is_direct() {
            WatchRole::Alone
        } else {
            WatchRole::Follower
        }
    }
}

// === impl Watches ===

impl Watches {
    /// Shares what is watched from now on with other servers.
    pub fn share(&self, shared: SharedWatching) {
        let _only_once = self.shared.sharing.set(shared);
    }

    /// The events that servers which share their watches have seen of what is watched with a lease,
    /// since a time and up to where it is watched from: one backlog for each watch, none if they do
    /// not share.
    pub async fn shared_backlogs(
        &self,
        lease: &WatchLease,
        since: Timestamp,
    ) -> Vec<Result<SharedBacklog, SharedLogError>> {
        let contexts = &self.shared.contexts;
        let opened = lease.shares.iter().filter_map(|share| {
            let Sharing { with, topic, .. } = share.watch.sharing.as_ref()?;
            Some(SharedBacklog::open(
                with,
                topic,
                since,
                share.version,
                contexts,
            ))
        });
        join_all(opened).await
    }

    pub(super) fn source(&self, scope: &Scope) -> EventSource {
        EventSource::new(
            Arc::clone(&self.shared.contexts),
            Arc::clone(&self.shared.labels),
            scope.clone(),
            self.shared.renewal,
        )
    }

    /// Which cluster a context leads to, where servers share their watches.
    pub(super) async fn shared_cluster(
        &self,
        context: &str,
    ) -> Result<Option<Arc<str>>, ClusterError> {
        if self.shared.sharing.get().is_none() {
            return Ok(None);
        }
        self.shared.contexts.cluster_id(context).await.map(Some)
    }

    /// Begins to compete for the watch of a scope, where servers share their watches.
    pub(super) fn share_scope(
        &self,
        scope: &Scope,
        version: &str,
        cluster: &str,
    ) -> Option<Sharing> {
        let with = self.shared.sharing.get()?.clone();
        let topic: Arc<str> = shared::topic(scope, cluster).into();
        let (this, of) = (self.clone(), scope.clone());
        let publisher = shared::publish(
            &self.shared.lifecycle,
            with.clone(),
            Arc::clone(&topic),
            self.shared.renewal,
            version.to_owned(),
            move || this.source(&of),
        );
        Some(Sharing {
            with,
            topic,
            publisher: Arc::new(publisher),
            read_at: Arc::default(),
        })
    }

    /// What a watch reads that is shared.
    pub(super) fn shared_source(
        &self,
        source: EventSource,
        sharing: &Sharing,
    ) -> SharedSource<EventSource> {
        let Sharing {
            with,
            topic,
            publisher,
            read_at,
        } = sharing.clone();
        SharedSource::new(
            source,
            with.log,
            topic,
            Arc::clone(&self.shared.contexts),
            read_at,
            publisher,
        )
    }
}
