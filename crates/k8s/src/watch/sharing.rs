//! Which watches are shared with other servers, and what this one does for them.

use std::sync::Arc;

use jiff::Timestamp;
use kubecrier_history::SharedLogError;

use super::{
    Watches,
    scope::Scope,
    shared::{self, Publisher, ReadAt, SharedBacklog, SharedSource, SharedWatching},
    source::EventSource,
};
use kubecrier_core::filters::Filters;

/// A watch that is shared with other servers.
#[derive(Clone)]
pub(super) struct Sharing {
    with: SharedWatching,
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

    /// The events of a whole context that servers which share their watches have seen since a
    /// time, and up to a version; none if they do not share.
    pub async fn shared_backlog(
        &self,
        context: &str,
        since: Timestamp,
        until: Option<u64>,
    ) -> Result<Option<SharedBacklog>, SharedLogError> {
        let Some(shared) = self.shared.sharing.get() else {
            return Ok(None);
        };
        let topic = shared::topic(&Scope::whole(context, &Filters::default()));
        SharedBacklog::open(shared, &topic, since, until, &self.shared.contexts).await
    }

    pub(super) fn source(&self, scope: &Scope) -> EventSource {
        EventSource::new(
            Arc::clone(&self.shared.contexts),
            Arc::clone(&self.shared.labels),
            scope.clone(),
            self.shared.renewal,
        )
    }

    /// Begins to compete for the watch of a scope, where servers share their watches.
    pub(super) fn share_scope(&self, scope: &Scope, version: &str) -> Option<Sharing> {
        let with = self.shared.sharing.get()?.clone();
        let (this, of) = (self.clone(), scope.clone());
        let publisher = shared::publish(
            &self.shared.lifecycle,
            with.clone(),
            shared::topic(scope).into(),
            self.shared.renewal,
            version.to_owned(),
            move || this.source(&of),
        );
        Some(Sharing {
            with,
            publisher: Arc::new(publisher),
            read_at: Arc::default(),
        })
    }

    /// What a watch reads that is shared.
    pub(super) fn shared_source(
        &self,
        source: EventSource,
        scope: &Scope,
        sharing: &Sharing,
    ) -> SharedSource<EventSource> {
        let Sharing {
            with,
            publisher,
            read_at,
        } = sharing.clone();
        SharedSource::new(
            source,
            with.log,
            shared::topic(scope).into(),
            Arc::clone(&self.shared.contexts),
            read_at,
            publisher,
        )
    }
}
