//! `kubecrier://subscriptions/{subscriptionId}`: what a subscription has seen, to be
//! read by its owner, and listened to where there are no sessions.

use std::sync::Arc;

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use super::{FollowGuard, ReadFuture, Requester, ResourceError, ResourceProvider, UpdatePublisher};
use crate::{
    shared_reads::SharedRead,
    subscriptions::{NotOwn, OwnLedger},
};
use kubecrier_core::subscriptions::{Payload, Subscription};

const PREFIX: &str = "kubecrier://subscriptions/";

/// The number of events in a read; events_poll has the rest.
const NEWEST: usize = 50;

/// The feeds of subscriptions.
pub(crate) struct SubscriptionFeeds(pub(crate) OwnLedger);

/// The id of the subscription whose feed a URI is.
pub(crate) fn subscription_id(uri: &str) -> Option<&str> {
    uri.strip_prefix(PREFIX)
}

// === impl SubscriptionFeeds ===

impl SubscriptionFeeds {
    fn find(&self, uri: &str, requester: &Requester) -> Result<Arc<Subscription>, ResourceError> {
        let id = uri.strip_prefix(PREFIX).unwrap_or_default();
        self.0.get(requester, id).map_err(|error| match error {
            NotOwn::NoUser(error) => error.into(),
            NotOwn::OtherUser(_) => ResourceError::NotFound {
                uri: uri.to_owned(),
                hint: error.to_string(),
            },
            NotOwn::Unknown(_) => ResourceError::NotFound {
                uri: uri.to_owned(),
                hint: "events_list_subscriptions shows yours, with their resourceUri".to_owned(),
            },
        })
    }
}

impl ResourceProvider for SubscriptionFeeds {
    fn owns(&self, uri: &str) -> bool {
        uri.starts_with(PREFIX)
    }

    fn shared_updates(&self) -> Option<SharedRead> {
        Some(SharedRead::Subscriptions)
    }

    fn list(&self, _requester: &Requester) -> Vec<Resource> {
        // They come and go with every subscription, and its owner has the URI.
        Vec::new()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new(
            format!("{PREFIX}{{subscriptionId}}"),
            "subscription".to_owned(),
        );
        vec![
            template
                .with_description(
                    "What a subscription made with events_subscribe has seen: the newest events, and the \
                     cursor for events_poll",
                )
                .with_mime_type("application/json"),
        ]
    }

    fn read<'a>(&'a self, uri: &'a str, requester: &'a Requester) -> ReadFuture<'a> {
        Box::pin(async move {
            let one = self.find(uri, requester)?;
            one.touch();
            let read = one.read_newest(NEWEST).await;
            let events: Vec<_> = (read.entries.iter())
                .map(|entry| Payload::new(one.id(), one.cluster(), entry))
                .map(|payload| serde_json::to_value(payload).unwrap_or_default())
                .collect();
            let cursor = one.feed().cursor(one.id(), read.next);
            let mut content = json!({
                "subscriptionId": one.id(),
                "cluster": one.cluster(),
                "mode": one.filters().mode(),
                "filters": one.filters(),
                "degraded": one.degraded().is_some(),
                "events": events,
                "cursor": cursor.to_string(),
            });
            if read.withheld > 0 {
                content["withheld"] = read.withheld.into();
            }
            let text = ResourceContents::text(content.to_string(), uri);
            Ok(vec![text.with_mime_type("application/json")])
        })
    }

    fn may_subscribe(&self, uri: &str, requester: &Requester) -> Result<(), ResourceError> {
        self.find(uri, requester).map(drop)
    }

    fn follow(&self, _uri: &str, _updates: &UpdatePublisher) -> FollowGuard {
        // A subscription watches whether its resource is followed or not.
        FollowGuard::none()
    }
}
