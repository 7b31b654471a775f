//! `subscriptions/listen`: what a stream of the newest protocol is told.

use http::request::Parts;
use mcp_notify::{DefaultSink, OutboxConfig, ProtocolVersion, Registry, Session, rmcp::ListenSink};
use rmcp::{ErrorData, model::SubscriptionFilter, service::SubscriptionContext};

use super::{Clients, Server};
use crate::{caller::Caller, sessions::Admission};

impl Server {
    /// What of it the server does; the client is told in the acknowledgement.
    pub(super) fn acceptable(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut accepted = requested.clone();
        accepted.resource_subscriptions = requested.resource_subscriptions.as_ref().map(|uris| {
            let who = self.nobody_in_particular();
            self.shared.resources.listenable(uris, &who)
        });
        accepted
    }

    /// Tells until the client goes or the server drains.
    pub(super) async fn tell(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let _place = self.place_for_listen(context)?;
        let sink = ListenSink::new(context.sink().clone());
        #[cfg(feature = "conformance-fixtures")]
        let sink = crate::fixtures::failing(sink);
        // A listen is a session of its own, for as long as its stream is open.
        let session = Session::builder()
            .outbox(OutboxConfig::default().metrics(self.failures()))
            .protocol_version(ProtocolVersion::V_2026_07_28)
            .channel(sink)
            .build("listen");
        let SubscriptionFilter {
            tools_list_changed,
            prompts_list_changed,
            resources_list_changed,
            resource_subscriptions,
            ..
        } = context.accepted();
        let wanted = [
            (Registry::Tools, tools_list_changed),
            (Registry::Prompts, prompts_list_changed),
            (Registry::Resources, resources_list_changed),
        ];
        let wanted: Vec<_> = wanted
            .into_iter()
            .filter(|(_, on)| **on == Some(true))
            .map(|(list, _)| list)
            .collect();
        self.shared.push.join(&session, &wanted, &self.lists());
        if let Some(uris) = resource_subscriptions {
            let who = self.nobody_in_particular();
            self.shared.resources.listen(&session, uris, &who);
        }
        tokio::select! {
            () = context.cancelled() => {}
            // Returning is the graceful end: the client gets its result.
            () = self.shared.lifecycle.draining().cancelled() => {}
            end = self.delivery(DefaultSink).run(&session) => tracing::debug!(%end, "listen ended"),
        }
        Ok(())
    }

    /// An open listen counts under the caps of sessions, as its caller's.
    fn place_for_listen(
        &self,
        context: &SubscriptionContext,
    ) -> Result<Option<Admission>, ErrorData> {
        let Clients::Many(sessions) = &self.clients else {
            return Ok(None);
        };
        let parts = context.request_context().extensions.get::<Parts>();
        let caller = parts.map_or_else(Caller::current, Caller::of);
        match sessions.enter(&caller) {
            Ok(place) => Ok(Some(place)),
            Err(refused) => Err(ErrorData::internal_error(refused.to_string(), None)),
        }
    }
}
