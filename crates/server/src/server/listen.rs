//! `subscriptions/listen`: the stream of notifications of the newest protocol.

use std::{future::pending, sync::Arc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use mcp_notify::{
    DefaultSink, ListKind, Method, Notification, OutboxConfig, ProtocolVersion, Session,
    rmcp::{ListenSink, PeerSink},
};
use rmcp::{
    ErrorData,
    model::{DetailedTask, RequestId, SubscriptionFilter},
    service::SubscriptionContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::handler::{Handler, SessionLookup};
use crate::{
    audit,
    jsonrpc::TaskIds,
    resources::Requester,
    sessions::SessionPermit,
    tasks::{POLL_INTERVAL, ShownTask, TaskEntry},
};
use kubecrier_core::access::Undecided;

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
        let permit = self.listen_permit();
        if permit.is_err() {
            audit::note_result(context.request_context(), &permit);
        }
        let _permit = permit?;
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
        let uris = resource_subscriptions.as_deref().unwrap_or_default();
        audit::record_begun(context.request_context(), uris);
        let snapshot = self.server.list_snapshot();
        let lists = &self.server.shared.list_changes;
        let client = self.client_key(context.request_context());
        if let (SessionLookup::Single { .. }, Some(client)) = (&self.sessions, &client) {
            // One process has one client, which has what this process gave it and nothing else.
            lists.met(client.clone());
        }
        lists.listen(&session, client.as_ref(), &wanted, &snapshot);
        if let Some(uris) = resource_subscriptions {
            let requester = Requester::stateless(self.caller.clone(), self.peer);
            self.server
                .shared
                .resources
                .listen(&session, uris, &requester);
        }
        tokio::select! {
            () = self.notify_tasks(context) => {}
            () = context.cancelled() => {}
            () = self.caller.revoked() => {}
            // Returning is the graceful end: the client gets its result.
            () = self.server.shared.lifecycle.draining().cancelled() => {}
            end = self.server.delivery(DefaultSink).run(&session) => tracing::debug!(%end, "listen ended"),
        }
        Ok(())
    }

    /// Notifies of the end of those tasks that the listen asks for and that are its caller's.
    /// Never returns. rmcp's filter has no tasks, so the acknowledgement does not name them.
    async fn notify_tasks(&self, context: &SubscriptionContext) {
        let request = context.request_context();
        let ids = TaskIds::of(&request.extensions);
        let tasks = ids.iter().filter_map(|id| self.task(id).ok());
        let mut ended: FuturesUnordered<_> = tasks
            .map(|task| async move {
                task.ended().await;
                task
            })
            .collect();
        if ended.is_empty() {
            return pending().await;
        }
        // rmcp's sink of a listen refuses these; the stream is that of the request.
        let stream = Session::builder()
            .channel(PeerSink::new(request.peer.clone()))
            .build("tasks of a listen");
        let delivery = self.server.delivery(DefaultSink);
        let notify = async {
            while let Some(task) = ended.next().await {
                let ShownTask { task, gate, .. } = shown(&task).await;
                let notification = ended_notification(context.sink().id(), &task);
                let _accounted = stream.push(match gate {
                    Some(gate) => notification.gated(Arc::new(gate)),
                    None => notification,
                });
            }
            pending::<()>().await;
        };
        tokio::select! {
            () = notify => {}
            end = delivery.run(&stream) => tracing::debug!(%end, "no more tasks on a listen"),
        }
        pending::<()>().await;
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

/// A task that has ended as its caller may see it, as soon as that is known.
async fn shown(task: &TaskEntry) -> ShownTask {
    loop {
        match task.show().await {
            Ok(shown) => return shown,
            Err(Undecided) => sleep(POLL_INTERVAL).await,
        }
    }
}

/// `notifications/tasks`: the same as `tasks/get` answers.
fn ended_notification(subscription: &RequestId, task: &DetailedTask) -> Notification {
    let mut params = serde_json::to_value(task).unwrap_or_default();
    if let Value::Object(params) = &mut params {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": subscription});
        params.insert("_meta".to_owned(), meta);
    }
    Notification::builder(Method::TASKS).params(&params).build()
}
