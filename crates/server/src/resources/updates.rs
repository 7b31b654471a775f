//! Publishes changes of resources: to everybody, or to those who see through the same eyes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use mcp_notify::{Gate, ResourceSubscriptions, ResourceUpdated, Session, SubscriptionLimits};
use parking_lot::Mutex;
use serde::Serialize;

use super::META;
use kubecrier_core::{
    ResourceType,
    access::{UserView, Viewer},
};

/// Publishes changes of resources to those who see through the same eyes. A clone publishes to
/// the same subscribers.
#[derive(Clone, Debug)]
pub struct UpdatePublisher {
    viewer: Viewer,
    subscriptions: ResourceSubscriptions,
    limits: SubscriptionLimits,
    /// Where callers act as users: the subscriptions of each user.
    users: Arc<Mutex<UserSubscriptions>>,
}

#[derive(Debug, Default)]
struct UserSubscriptions {
    by_user: HashMap<Arc<UserView>, ResourceSubscriptions>,
    /// Users at which those without subscriptions are removed.
    clean_at: usize,
}

// === impl UpdatePublisher ===

impl UpdatePublisher {
    pub(super) fn new(limits: SubscriptionLimits) -> Self {
        Self {
            viewer: Viewer::Everything,
            subscriptions: ResourceSubscriptions::new(limits),
            limits,
            users: Arc::default(),
        }
    }

    /// The publisher to those who see through these eyes.
    pub(crate) fn seen_by(&self, viewer: &Viewer) -> Self {
        let Viewer::User(view) = viewer else {
            return self.clone();
        };
        let mut users = self.users.lock();
        if users.by_user.len() >= users.clean_at {
            // One that is held elsewhere is about to be subscribed to.
            users
                .by_user
                .retain(|view, one| !one.is_empty() || Arc::strong_count(view) > 1);
            users.clean_at = users.by_user.len() * 2 + 16;
        }
        let own = (users.by_user.entry(Arc::clone(view)))
            .or_insert_with(|| ResourceSubscriptions::new(self.limits));
        Self {
            viewer: viewer.clone(),
            subscriptions: own.clone(),
            limits: self.limits,
            users: Arc::clone(&self.users),
        }
    }

    /// Through whose eyes the subscribers see.
    pub(crate) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    pub(super) fn subscriptions(&self) -> &ResourceSubscriptions {
        &self.subscriptions
    }

    /// The URIs that a session is subscribed to, through whichever eyes.
    pub(super) fn uris(&self, session: &Session) -> Vec<Arc<str>> {
        let mut uris = self.subscriptions.uris(session);
        let users: Vec<_> = self.users.lock().by_user.values().cloned().collect();
        for subscriptions in users {
            uris.extend(subscriptions.uris(session));
        }
        uris
    }

    /// Ends a subscription, through whichever eyes it was made.
    pub(super) fn unsubscribe(&self, session: &Session, uri: &str) {
        self.subscriptions.unsubscribe(session, uri);
        let users: Vec<_> = self.users.lock().by_user.values().cloned().collect();
        for subscriptions in users {
            subscriptions.unsubscribe(session, uri);
        }
    }

    /// Publishes a change of the resource at `uri` to every subscriber, without waiting
    /// for any: updates that wait for the same URI become one. Failures count under the
    /// type, if it is one of the counted ones. Returns the number of subscribers.
    ///
    /// `meta` describes the change: an object whose keys carry the server's prefix.
    pub fn publish<M: Serialize>(
        &self,
        uri: &str,
        resource_type: Option<ResourceType>,
        meta: Option<&M>,
    ) -> usize {
        self.publish_gated(uri, resource_type, meta, None)
    }

    /// The same behind a gate, which is asked when it would be sent.
    pub(crate) fn publish_gated<M: Serialize>(
        &self,
        uri: &str,
        resource_type: Option<ResourceType>,
        meta: Option<&M>,
        gate: Option<Arc<dyn Gate>>,
    ) -> usize {
        let mut update = ResourceUpdated::new(uri);
        if let Some(resource_type) = resource_type {
            update = update.resource_type(resource_type);
        }
        match (meta, gate) {
            (Some(meta), Some(gate)) => {
                (self.subscriptions).publish_gated(&update.meta(meta), gate)
            }
            (Some(meta), None) => self.subscriptions.publish(&update.meta(meta)),
            (None, Some(gate)) => self.subscriptions.publish_gated(&update, gate),
            (None, None) => self.subscriptions.publish(&update),
        }
    }

    /// Publishes a change with its description under the server's own key.
    pub fn publish_change<C: Serialize>(
        &self,
        uri: &str,
        resource_type: ResourceType,
        changed: &C,
    ) -> usize {
        let meta = BTreeMap::from([(META, changed)]);
        self.publish(uri, Some(resource_type), Some(&meta))
    }

    /// Whether the URI has a subscriber.
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.subscriptions.is_subscribed(uri)
    }
}
