//! Resources as requests ask for them.

use http::request::Parts;
use mcp_notify::Session;
use rmcp::{ErrorData, RoleServer, model::ErrorCode, service::RequestContext};

use super::{Clients, Server, is_modern};
use crate::{
    caller::Caller,
    resources::{Era, ResourceError, Who},
    tools::Client,
};

impl Server {
    /// Whose request it is.
    pub(super) fn who(&self, context: &RequestContext<RoleServer>) -> Who {
        let caller = match context.extensions.get::<Parts>() {
            Some(parts) => Caller::of(parts),
            None => self.caller.clone(),
        };
        // On stdio there is a session, but the newest protocol knows nothing of it.
        let (era, session) = if is_modern(context) {
            (Era::Modern, None)
        } else {
            (Era::Legacy, self.session(&context.extensions))
        };
        Who {
            session,
            caller,
            era,
        }
    }

    /// Whose call it is, and how it can be reached.
    pub(super) fn client(&self, context: &RequestContext<RoleServer>) -> Client {
        let who = self.who(context);
        let (pushes, stream_open) = match (&self.clients, &who.session) {
            (Clients::One(_), _) => (false, false),
            (Clients::Many(sessions), Some(session)) => {
                let entry = sessions.get(session.id());
                (true, entry.is_some_and(|entry| entry.has_stream()))
            }
            (Clients::Many(_), None) => (true, false),
        };
        Client {
            who,
            pushes,
            stream_open,
        }
    }

    /// A caller without a session: what a request of the newest protocol is, and
    /// whom lists that everybody sees are made for.
    pub(super) fn nobody_in_particular(&self) -> Who {
        Who {
            session: None,
            caller: self.caller.clone(),
            era: Era::Modern,
        }
    }

    pub(super) fn session_of(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Session, ErrorData> {
        self.session(&context.extensions)
            .ok_or_else(|| ErrorData::internal_error("the session has ended", None))
    }

    /// `resources/subscribe`, which rmcp lets through for versions that have it.
    pub(super) async fn subscribe_session(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.something_to_subscribe_to("resources/subscribe")?;
        let session = self.session_of(context)?;
        let who = self.who(context);
        let resources = &self.shared.resources;
        let checked = resources.check(uri, &who).await;
        let subscribed = checked.and_then(|()| resources.subscribe(&session, uri, &who));
        subscribed.map(drop).map_err(|error| self.refusal(error))
    }

    /// Why there is no resource: a cluster's own words may have secrets in them, too.
    pub(super) fn refusal(&self, error: ResourceError) -> ErrorData {
        let mut refusal = ErrorData::from(error);
        let clean = self.shared.redactor.workload(&refusal.message).into_owned();
        refusal.message = clean.into();
        refusal
    }

    /// `resources/unsubscribe`: from what was not subscribed to, it does nothing.
    pub(super) fn unsubscribe_session(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.something_to_subscribe_to("resources/unsubscribe")?;
        let session = self.session_of(context)?;
        self.shared.resources.unsubscribe(&session, uri);
        Ok(())
    }

    /// What is not declared is not there.
    fn something_to_subscribe_to(&self, method: &'static str) -> Result<(), ErrorData> {
        if self.shared.resources.any() {
            return Ok(());
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }
}
