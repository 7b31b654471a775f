//! Requests about resources, and the requester of any request.

use mcp_notify::Session;
use rmcp::{
    ErrorData, RoleServer,
    model::{ErrorCode, ResourceContents},
    service::RequestContext,
};

use super::handler::{Handler, SessionLookup, is_modern};
use crate::{
    output::ToolError,
    resources::{ProtocolEra, Requester, ResourceError, subscription_id},
    tools::ToolClient,
};
use kubecrier_k8s::identity;

impl Handler {
    /// The requester of a request.
    pub(super) fn requester(&self, context: &RequestContext<RoleServer>) -> Requester {
        // On stdio there is a session, but the newest protocol knows nothing of it.
        let (era, session) = if is_modern(context) {
            (ProtocolEra::Modern, None)
        } else {
            (ProtocolEra::Legacy, self.session(&context.extensions))
        };
        Requester {
            session,
            caller: self.caller.clone(),
            peer: self.peer,
            era,
        }
    }

    /// The client of a call: the requester, and whether it can be pushed to.
    pub(super) fn client(&self, context: &RequestContext<RoleServer>) -> ToolClient {
        let requester = self.requester(context);
        let (pushes, stream_open) = match (&self.sessions, &requester.session) {
            (SessionLookup::Single { .. }, _) => (false, false),
            (SessionLookup::ByHeader(sessions), Some(session)) => {
                let entry = sessions.get(session.id());
                (true, entry.is_some_and(|entry| entry.has_stream()))
            }
            (SessionLookup::ByHeader(_), None) => (true, false),
        };
        ToolClient {
            requester,
            pushes,
            stream_open,
            info: context.client_info(),
        }
    }

    pub(super) fn require_session(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Session, ErrorData> {
        self.session(&context.extensions)
            .ok_or_else(|| ErrorData::internal_error("the session has ended", None))
    }

    /// Reads a resource, with a permit for the work.
    pub(super) async fn read(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Vec<ResourceContents>, ErrorData> {
        let requester = self.requester(context);
        let _call = self.call_permit(&requester)?;
        tokio::select! {
            biased;
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("the read was cancelled", None))
            }
            contents = self.read_contents(uri, &requester) => contents,
        }
    }

    pub(super) async fn read_contents(
        &self,
        uri: &str,
        requester: &Requester,
    ) -> Result<Vec<ResourceContents>, ErrorData> {
        let (resources, work) = (&self.server.shared.resources, &self.server.shared.work);
        let _permit = if resources.is_executed(uri) {
            work.process_permit(requester).await
        } else {
            work.read_permit(requester).await
        };
        if let Some(id) = subscription_id(uri) {
            let brought = self.server.subscriptions().bring(requester, id).await;
            if let Err(error) = brought.or_else(ToolError::unless_unavailable) {
                return Err(self.refusal(ResourceError::Unavailable(error.to_string())));
            }
        }
        let contents = resources.read(uri, requester).await;
        contents.map_err(|error| self.refusal(error))
    }

    /// `resources/subscribe`, which rmcp lets through for versions that have it.
    pub(super) async fn subscribe_session(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.ensure_subscribable("resources/subscribe")?;
        let session = self.require_session(context)?;
        let requester = self.requester(context);
        let _call = self.call_permit(&requester)?;
        let resources = &self.server.shared.resources;
        let checking = resources.check(uri, &requester);
        let checked = tokio::select! {
            biased;
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the request was cancelled", None));
            }
            checked = checking => checked,
        };
        let subscribed = checked.and_then(|()| resources.subscribe(&session, uri, &requester));
        subscribed.map(drop).map_err(|error| self.refusal(error))
    }

    /// The error of a resource request. A cluster's own text may contain secrets, so it
    /// is redacted.
    pub(super) fn refusal(&self, error: ResourceError) -> ErrorData {
        let mut refusal = ErrorData::from(error);
        let redactor = &self.server.shared.redactor;
        refusal.message = identity::sentence(redactor, &refusal.message).into();
        refusal
    }

    /// `resources/unsubscribe`: from what was not subscribed to, it does nothing.
    pub(super) fn unsubscribe_session(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.ensure_subscribable("resources/unsubscribe")?;
        let session = self.require_session(context)?;
        self.server.shared.resources.unsubscribe(&session, uri);
        Ok(())
    }

    /// A method that is not declared does not exist.
    fn ensure_subscribable(&self, method: &'static str) -> Result<(), ErrorData> {
        if self.server.shared.resources.any() {
            return Ok(());
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }
}
