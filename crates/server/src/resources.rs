//! Resources: families that each know their URIs, and one registry of who is told
//! when one changes, whatever the protocol version.
//!
//! ```text
//!  resources/subscribe ───┐                       ┌── first subscriber: Family::follow ──▶ Lease
//!  subscriptions/listen ──┴▶ ResourceSubscriptions┤
//!                                  ▲              └── last one gone, for any reason: drop(Lease)
//!  Updates::updated ───────────────┘──▶ every subscriber's outbox, the newest per URI
//! ```

mod address;
mod completion;
mod events;
mod family;
mod graph;
mod podlogs;
mod subscriptions;

use std::{collections::BTreeMap, fmt};

use mcp_notify::{
    ResourceSubscriptions, ResourceType, ResourceUpdated, Session, SubscribeError,
    SubscriptionLimits,
};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;

#[cfg(feature = "conformance-fixtures")]
pub(super) use self::completion::words;
pub(super) use self::{
    address::{Address, What},
    completion::of_cluster as complete_of_cluster,
    events::Events,
    graph::GraphResources,
    podlogs::PodLogs,
    subscriptions::SubscriptionFeeds,
};
pub use self::{
    completion::{Completing, Completion},
    family::{Checking, Era, Family, Lease, Reading, ResourceError, Who},
};
use kubecrier_k8s::{ClusterError, ErrorKind};

/// The most URIs of one listen. The SDK's client gives a subscription up when 64
/// notifications wait in it, and three of those may be changed lists.
const LISTEN_URIS_MAX: usize = 60;

/// The key under which an update says what changed.
pub(super) const META: &str = "kubecrier/update";

/// Every resource of the server.
pub(super) struct Resources {
    families: Vec<Box<dyn Family>>,
    updates: Updates,
}

/// Says that a resource has changed. A clone says so to the same subscribers.
#[derive(Clone, Debug)]
pub struct Updates(ResourceSubscriptions);

/// What changed, as every update says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Counts what was told of the resource.
    pub seq: u64,
    /// How much there has been since it is followed.
    pub count: u64,
    /// One line.
    pub summary: String,
}

// === impl Resources ===

impl Resources {
    pub(super) fn new(families: Vec<Box<dyn Family>>) -> Self {
        let subscriptions = ResourceSubscriptions::new(SubscriptionLimits::default());
        Self {
            families,
            updates: Updates(subscriptions),
        }
    }

    /// Where changes are told.
    pub(super) fn updates(&self) -> &Updates {
        &self.updates
    }

    /// Whether there can be anything to subscribe to.
    pub(super) fn any(&self) -> bool {
        !self.families.is_empty()
    }

    /// What `resources/list` shows to `who`.
    pub(super) fn list(&self, who: &Who) -> Vec<Resource> {
        let families = self.families.iter();
        families.flat_map(|family| family.entries(who)).collect()
    }

    /// What `resources/templates/list` shows.
    pub(super) fn templates(&self) -> Vec<ResourceTemplate> {
        let families = self.families.iter();
        families.flat_map(|family| family.templates()).collect()
    }

    pub(super) async fn read(
        &self,
        uri: &str,
        who: &Who,
    ) -> Result<Vec<ResourceContents>, ResourceError> {
        self.family(uri)?.read(uri, who).await
    }

    /// The same, in less room than a read has by itself.
    pub(super) async fn read_within(
        &self,
        uri: &str,
        who: &Who,
        bytes_max: usize,
    ) -> Result<Vec<ResourceContents>, ResourceError> {
        self.family(uri)?.read_within(uri, who, bytes_max).await
    }

    /// Whether there is something to subscribe to.
    pub(super) async fn check(&self, uri: &str, who: &Who) -> Result<(), ResourceError> {
        let family = self.family(uri)?;
        family.may_subscribe(uri, who)?;
        family.check(uri, who).await
    }

    /// Subscribes a session to a URI. True if that is told by an update to come.
    pub(super) fn subscribe(
        &self,
        session: &Session,
        uri: &str,
        who: &Who,
    ) -> Result<bool, ResourceError> {
        let family = self.family(uri)?;
        family.may_subscribe(uri, who)?;
        let mut begun = false;
        self.updates.0.subscribe_following(session, uri, || {
            begun = true;
            family.follow(uri, &self.updates)
        })?;
        Ok(begun && family.says_when_it_follows())
    }

    pub(super) fn unsubscribe(&self, session: &Session, uri: &str) {
        self.updates.0.unsubscribe(session, uri);
    }

    /// Those of the URIs that a listen of `who` gets: each once, and as many as a
    /// client can hold.
    pub(super) fn listenable(&self, uris: &[String], who: &Who) -> Vec<String> {
        let mut accepted: Vec<String> = Vec::new();
        for uri in uris {
            let known = self.family(uri).and_then(|one| one.may_subscribe(uri, who));
            if known.is_ok() && !accepted.contains(uri) && accepted.len() < LISTEN_URIS_MAX {
                accepted.push(uri.clone());
            }
        }
        accepted
    }

    /// Subscribes a listen. It is told once of each URI, because what changed before
    /// it was there it cannot know: at once, or as soon as the URI is followed. A URI
    /// that is refused, because a limit was reached since it was acknowledged, is told
    /// as well: the others are followed all the same.
    pub(super) fn listen(&self, session: &Session, uris: &[String], who: &Who) {
        for uri in uris {
            let refused = match self.subscribe(session, uri, who) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(error) => Some(Changed {
                    seq: 0,
                    count: 0,
                    summary: format!("not followed, listen again to try again: {error}"),
                }),
            };
            let mut update = ResourceUpdated::new(uri);
            let family = self.family(uri).ok();
            if let Some(resource_type) = family.and_then(Family::resource_type) {
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

    /// Values for a variable of a template; `None` if it is nobody's.
    pub(super) fn complete<'a>(&'a self, asked: Completion<'a>) -> Option<Completing<'a>> {
        let mut families = self.families.iter();
        families.find_map(|family| family.complete(asked))
    }

    fn family(&self, uri: &str) -> Result<&dyn Family, ResourceError> {
        let found = self.families.iter().find(|family| family.owns(uri));
        match found {
            Some(family) => Ok(family.as_ref()),
            None => Err(ResourceError::not_found(uri)),
        }
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("families", &self.families.len())
            .field("updates", &self.updates)
            .finish()
    }
}

// === impl Updates ===

impl Updates {
    /// The resource at `uri` has changed: every subscriber is told, none is waited
    /// for, and updates that wait for the same URI become one. Failures count under
    /// the type, if it is one of the counted ones. Returns how many took it.
    ///
    /// `meta` says what changed: an object whose keys carry a prefix of ours.
    pub fn updated<M: Serialize>(
        &self,
        uri: &str,
        resource_type: Option<ResourceType>,
        meta: Option<&M>,
    ) -> usize {
        let mut update = ResourceUpdated::new(uri);
        if let Some(resource_type) = resource_type {
            update = update.resource_type(resource_type);
        }
        match meta {
            Some(meta) => self.0.publish(&update.meta(meta)),
            None => self.0.publish(&update),
        }
    }

    /// The same, with what changed under our own key.
    pub fn changed<C: Serialize>(
        &self,
        uri: &str,
        resource_type: ResourceType,
        changed: &C,
    ) -> usize {
        let meta = BTreeMap::from([(META, changed)]);
        self.updated(uri, Some(resource_type), Some(&meta))
    }

    /// Whether anybody would be told.
    pub fn wanted(&self, uri: &str) -> bool {
        self.0.is_subscribed(uri)
    }
}

/// What a cluster could not answer, as an answer to a read.
fn of_cluster(uri: &str, error: &ClusterError) -> ResourceError {
    let hint = error.hint().map(|hint| format!("; {hint}"));
    let text = format!("{error}{}", hint.unwrap_or_default());
    match error.kind() {
        ErrorKind::Context | ErrorKind::NotFound => ResourceError::NotFound {
            uri: uri.to_owned(),
            hint: text,
        },
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
