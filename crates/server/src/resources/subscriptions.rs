//! `kubecrier://subscriptions/{subscriptionId}`: what a subscription has seen, to be
//! read by its owner, and listened to where there are no sessions.

use std::sync::Arc;

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use super::{Family, Lease, Reading, ResourceError, Updates, Who};
use crate::subscriptions::owner;
use kubecrier_core::subscriptions::{Cursor, Ledger, Payload, Subscription};

const PREFIX: &str = "kubecrier://subscriptions/";

/// As many as one looks at; the rest is for events_poll.
const NEWEST: usize = 50;

/// The feeds of subscriptions.
pub(crate) struct SubscriptionFeeds(pub(crate) Arc<Ledger>);

// === impl SubscriptionFeeds ===

impl SubscriptionFeeds {
    fn find(&self, uri: &str, who: &Who) -> Result<Arc<Subscription>, ResourceError> {
        let id = uri.strip_prefix(PREFIX).unwrap_or_default();
        let found = self.0.get(&owner(who), id);
        found.ok_or_else(|| ResourceError::NotFound {
            uri: uri.to_owned(),
            hint: "events_list_subscriptions shows yours, with their resourceUri".to_owned(),
        })
    }
}

impl Family for SubscriptionFeeds {
    fn owns(&self, uri: &str) -> bool {
        uri.starts_with(PREFIX)
    }

    fn entries(&self, _who: &Who) -> Vec<Resource> {
        // They come and go with every subscription, and whoever has one knows it.
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

    fn read<'a>(&'a self, uri: &'a str, who: &'a Who) -> Reading<'a> {
        Box::pin(async move {
            let one = self.find(uri, who)?;
            one.touch();
            let read = one.feed().newest(NEWEST);
            let events: Vec<_> = (read.entries.iter())
                .map(|entry| Payload::new(one.id(), one.cluster(), entry))
                .map(|payload| serde_json::to_value(payload).unwrap_or_default())
                .collect();
            let cursor = Cursor {
                subscription: one.id().clone(),
                seq: read.next,
            };
            let content = json!({
                "subscriptionId": one.id(),
                "cluster": one.cluster(),
                "mode": one.filters().mode(),
                "filters": one.filters(),
                "degraded": one.degraded().is_some(),
                "events": events,
                "cursor": cursor.to_string(),
            });
            let text = ResourceContents::text(content.to_string(), uri);
            Ok(vec![text.with_mime_type("application/json")])
        })
    }

    fn may_subscribe(&self, uri: &str, who: &Who) -> Result<(), ResourceError> {
        self.find(uri, who).map(drop)
    }

    fn follow(&self, _uri: &str, _updates: &Updates) -> Lease {
        // A subscription watches whether its resource is followed or not.
        Lease::none()
    }
}
