//! Resources: providers that each own some URIs, and one registry of subscribers for
//! every protocol version.
//!
//! ```text
//!  resources/subscribe ───┐                       ┌── first subscriber: ResourceProvider::follow
//!  subscriptions/listen ──┴▶ ResourceSubscriptions┤
//!                                  ▲              └── last one gone, for any reason: drop(FollowGuard)
//!  UpdatePublisher::publish ───────┘──▶ every subscriber's outbox, the newest per URI
//! ```
//!
//! - `provider`: the trait that each provider implements;
//! - `uri`: the one type of `k8s://` URIs, with `events`, `podlogs`, `graph` and `incidents`
//!   as their providers; `subscriptions`: the feeds under `kubecrier://`;
//! - `updates`: who is told of a change;
//! - `closed`: what the operator has switched off;
//! - `completion`: values that a cluster can complete.

mod closed;
mod completion;
mod events;
mod graph;
mod incidents;
mod podlogs;
mod provider;
mod subscriptions;
mod updates;
mod uri;

use std::{collections::BTreeMap, fmt, sync::Arc};

use mcp_notify::{ResourceUpdated, Session, SubscribeError, SubscriptionLimits};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

#[cfg(feature = "conformance-fixtures")]
pub(super) use self::completion::matching;
pub(super) use self::{
    closed::ClosedResources,
    completion::complete_from_cluster,
    events::EventResources,
    graph::GraphResources,
    incidents::IncidentResources,
    podlogs::LogResources,
    subscriptions::{SubscriptionFeeds, subscription_id},
    uri::{ClusterUri, UriTarget},
};
pub use self::{
    completion::{CompletionFuture, CompletionRequest},
    provider::{
        CheckFuture, FollowGuard, ProtocolEra, ReadFuture, Requester, ResourceError,
        ResourceProvider,
    },
    updates::UpdatePublisher,
};
use crate::{tool_filter::ToolFilter, viewers::Viewers};
use kubecrier_core::{
    UpdateSummary,
    shares::{CallerShare, LimitName, LimitReached, SharedLimit},
};
use kubecrier_k8s::{ClusterError, ErrorKind};

/// The most URIs of one listen. The SDK's client gives a subscription up when 64
/// notifications wait in it, and three of those may be changed lists.
pub(super) const LISTEN_URIS_MAX: usize = 60;

/// The key of an update's summary.
pub(super) const META: &str = "kubecrier/update";

/// Every resource of the server.
pub(super) struct Resources {
    providers: Vec<Box<dyn ResourceProvider>>,
    tool_filter: ToolFilter,
    updates: UpdatePublisher,
    viewers: Viewers,
    subscriptions: SharedLimit,
}

// === impl Resources ===

impl Resources {
    pub(super) fn new(
        providers: Vec<Box<dyn ResourceProvider>>,
        tool_filter: ToolFilter,
        share: CallerShare,
    ) -> Self {
        let limits = SubscriptionLimits::default();
        let name = LimitName::new("subscriptions to resources", "");
        Self {
            providers,
            tool_filter,
            updates: UpdatePublisher::new(limits),
            viewers: Viewers::Everything,
            subscriptions: SharedLimit::new(name, limits.total_max, share),
        }
    }

    /// The same, for callers that see what is shared through these eyes.
    #[must_use]
    pub(super) fn seen_by(mut self, viewers: Viewers) -> Self {
        self.viewers = viewers;
        self
    }

    /// The publisher of changes.
    pub(super) fn updates(&self) -> &UpdatePublisher {
        &self.updates
    }

    /// Whether there are resources at all.
    pub(super) fn any(&self) -> bool {
        self.providers.iter().any(|family| family.is_open())
    }

    /// The answer of `resources/list` to `requester`.
    pub(super) fn list(&self, requester: &Requester) -> Vec<Resource> {
        let providers = self.providers.iter();
        providers
            .flat_map(|family| family.list(requester))
            .collect()
    }

    /// The answer of `resources/templates/list`.
    pub(super) fn templates(&self) -> Vec<ResourceTemplate> {
        let providers = self.providers.iter();
        providers.flat_map(|family| family.templates()).collect()
    }

    /// Whether a read of the URI may run an executable.
    pub(super) fn is_executed(&self, uri: &str) -> bool {
        self.family(uri).is_ok_and(ResourceProvider::is_executed)
    }

    pub(super) async fn read(
        &self,
        uri: &str,
        requester: &Requester,
    ) -> Result<Vec<ResourceContents>, ResourceError> {
        self.family(uri)?.read(uri, requester).await
    }

    /// Reads with a smaller limit than the provider's own.
    pub(super) async fn read_within(
        &self,
        uri: &str,
        requester: &Requester,
        bytes_max: usize,
    ) -> Result<Vec<ResourceContents>, ResourceError> {
        self.family(uri)?
            .read_within(uri, requester, bytes_max)
            .await
    }

    /// Checks that a URI can be subscribed to and exists.
    pub(super) async fn check(
        &self,
        uri: &str,
        requester: &Requester,
    ) -> Result<(), ResourceError> {
        let family = self.subscribable(uri, requester)?;
        family.check(uri, requester).await
    }

    /// Subscribes a session to a URI. True if an update will follow when the provider
    /// has started.
    pub(super) fn subscribe(
        &self,
        session: &Session,
        uri: &str,
        requester: &Requester,
    ) -> Result<bool, ResourceError> {
        let family = self.subscribable(uri, requester)?;
        let refused = |reached: LimitReached| ResourceError::Refused(reached.to_string());
        let permit = self.subscriptions.acquire(&requester.share_key());
        let held = (permit.map_err(refused)?, family.claim(uri, requester)?);
        let mut begun = false;
        // Who sees the same is told the same, by one follower.
        let updates = self.updates.seen_by(&self.viewers.of(&requester.caller)?);
        (updates.subscriptions()).subscribe_holding(session, uri, held, || {
            begun = true;
            family.follow(uri, &updates)
        })?;
        Ok(begun && family.notifies_on_start())
    }

    /// The URIs that a session is subscribed to, sorted.
    pub(super) fn uris(&self, session: &Session) -> Vec<Arc<str>> {
        self.updates.uris(session)
    }

    pub(super) fn unsubscribe(&self, session: &Session, uri: &str) {
        self.updates.unsubscribe(session, uri);
    }

    /// Those of the URIs that a listen of `requester` gets: each once, and as many as a
    /// client can hold.
    pub(super) fn listenable(&self, uris: &[String], requester: &Requester) -> Vec<String> {
        let mut accepted: Vec<String> = Vec::new();
        for uri in uris {
            let known = self.subscribable(uri, requester);
            if known.is_ok() && !accepted.contains(uri) && accepted.len() < LISTEN_URIS_MAX {
                accepted.push(uri.clone());
            }
        }
        accepted
    }

    /// Subscribes a listen. It gets one update of each URI, because it cannot know what
    /// changed before it: at once, or when the provider has started. A URI that is
    /// refused, because a limit was reached since the acknowledgement, gets an update
    /// that says so; the others are followed all the same.
    pub(super) fn listen(&self, session: &Session, uris: &[String], requester: &Requester) {
        for uri in uris {
            let refused = match self.subscribe(session, uri, requester) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(error) => Some(UpdateSummary {
                    seq: 0,
                    count: 0,
                    summary: format!("not followed, listen again to try again: {error}"),
                }),
            };
            let mut update = ResourceUpdated::new(uri);
            let family = self.family(uri).ok();
            if let Some(resource_type) = family.and_then(ResourceProvider::resource_type) {
                update = update.resource_type(resource_type);
            }
            let notification = match refused {
                Some(refused) => {
                    let meta = BTreeMap::from([(META, refused)]);
                    update.meta(&meta).to_notification()
                }
                None => update.to_notification(),
            };
            let _accounted = session.push(notification);
        }
    }

    /// Values for a variable of a template; `None` if no provider has the template.
    pub(super) fn complete<'a>(
        &'a self,
        asked: CompletionRequest<'a>,
    ) -> Option<CompletionFuture<'a>> {
        let mut providers = self.providers.iter();
        providers.find_map(|family| family.complete(asked))
    }

    /// The provider of a URI that this requester may subscribe to.
    fn subscribable(
        &self,
        uri: &str,
        requester: &Requester,
    ) -> Result<&dyn ResourceProvider, ResourceError> {
        let family = self.family(uri)?;
        family.may_subscribe(uri, requester)?;
        if let Some(read) = family.shared_updates() {
            let checked = self.tool_filter.check_shared(read);
            checked.map_err(|refused| ResourceError::Invalid(refused.to_string()))?;
        }
        Ok(family)
    }

    fn family(&self, uri: &str) -> Result<&dyn ResourceProvider, ResourceError> {
        let found = self.providers.iter().find(|family| family.owns(uri));
        match found {
            Some(family) => Ok(family.as_ref()),
            None => Err(ResourceError::not_found(uri)),
        }
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("families", &self.providers.len())
            .field("updates", &self.updates)
            .finish_non_exhaustive()
    }
}

/// The error of a cluster as the error of a read.
fn of_cluster(uri: &str, error: &ClusterError) -> ResourceError {
    let hint = error.hint().map(|hint| format!("; {hint}"));
    let text = format!("{error}{}", hint.unwrap_or_default());
    match error.kind() {
        ErrorKind::Context | ErrorKind::NotFound => ResourceError::NotFound {
            uri: uri.to_owned(),
            hint: text,
        },
        ErrorKind::Forbidden => ResourceError::Forbidden(text),
        _ => ResourceError::Unavailable(text),
    }
}

impl From<SubscribeError> for ResourceError {
    fn from(error: SubscribeError) -> Self {
        Self::Refused(error.to_string())
    }
}

#[cfg(test)]
pub(super) mod tests;
