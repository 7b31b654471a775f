//! `subscriptions/listen`: the stream of notifications of the newest protocol.

use mcp_notify::{DefaultSink, ListKind, OutboxConfig, ProtocolVersion, Session, rmcp::ListenSink};
use rmcp::{ErrorData, model::SubscriptionFilter, service::SubscriptionContext};

use super::handler::{Handler, SessionLookup};
use crate::{resources::Requester, sessions::SessionPermit};

impl Handler {
    /// The part of a filter that the server honours; the acknowledgement says so.
    pub(super) fn accepted_filter(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut accepted = requested.clone();
        accepted.resource_subscriptions = requested.resource_subscriptions.as_ref().map(|uris| {
            let requester = Requester::stateless(self.caller.clone(), self.peer);
            self.server.shared.resources.listenable(uris, &requester)
        });
        accepted
    }

    /// Serves a stream until its client goes or the server drains.
    pub(super) async fn serve_listen(
        &self,
        context: &SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let _permit = self.listen_permit()?;
        let sink = ListenSink::new(context.sink().clone());
        #[cfg(feature = "conformance-fixtures")]
        let sink = crate::fixtures::failing(sink);
        // A listen is a session of its own, for as long as its stream is open.
        let session = Session::builder()
            .outbox(OutboxConfig::default().metrics(self.server.notification_metrics()))
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
            (ListKind::Tools, tools_list_changed),
            (ListKind::Prompts, prompts_list_changed),
            (ListKind::Resources, resources_list_changed),
        ];
        let wanted: Vec<_> = wanted
            .into_iter()
            .filter(|(_, on)| **on == Some(true))
            .map(|(list, _)| list)
            .collect();
        let snapshot = self.server.list_snapshot();
        let lists = &self.server.shared.list_changes;
        let client = self.client_key(context.request_context());
        lists.listen(&session, client.as_ref(), &wanted, &snapshot);
        if let Some(uris) = resource_subscriptions {
            let requester = Requester::stateless(self.caller.clone(), self.peer);
            self.server
                .shared
                .resources
                .listen(&session, uris, &requester);
        }
        tokio::select! {
            () = context.cancelled() => {}
            () = self.caller.revoked() => {}
            // Returning is the graceful end: the client gets its result.
            () = self.server.shared.lifecycle.draining().cancelled() => {}
            end = self.server.delivery(DefaultSink).run(&session) => tracing::debug!(%end, "listen ended"),
        }
        Ok(())
    }

    /// An open listen counts under the caps of sessions, as its caller's.
    fn listen_permit(&self) -> Result<Option<SessionPermit>, ErrorData> {
        let SessionLookup::ByHeader(sessions) = &self.sessions else {
            return Ok(None);
        };
        match sessions.acquire(&self.caller, self.peer) {
            Ok(permit) => Ok(Some(permit)),
            Err(refused) => Err(ErrorData::internal_error(refused.to_string(), None)),
        }
    }
}
