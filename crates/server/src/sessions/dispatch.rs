//! The messages of sessions, as rmcp's `SessionManager` gets them: each is handed to a
//! service of rmcp that lives as long as the work for it.

use std::{future::poll_fn, sync::Arc};

use futures_util::{Stream, StreamExt, stream};
use mcp_notify::ProtocolVersion;
use rmcp::{
    ErrorData,
    model::{
        ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
        ServerResult,
    },
    service::serve_directly,
    transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager},
};

use super::{
    answer_stream::PostStream,
    answers::{AnswerEvent, Read},
    http_session::HttpSession,
    limiter::{self, SessionRefused},
    manager::Sessions,
    store::NotKept,
    transport::{HandshakeTransport, MessageTransport},
};
use crate::{caller::Caller, server::Handler};

/// Begins sessions, and answers their messages.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    sessions: Arc<Sessions>,
    handler: Handler,
}

/// The errors that rmcp gets from a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error(transparent)]
    Refused(#[from] SessionRefused),
    #[error("the session has ended")]
    Ended,
    #[error(transparent)]
    NotKept(#[from] NotKept),
    #[error("the session did not answer `initialize`")]
    NoAnswer,
    #[error("streams are opened elsewhere")]
    Elsewhere,
}

// === impl Dispatcher ===

impl Dispatcher {
    pub(crate) fn new(sessions: Arc<Sessions>, handler: Handler) -> Self {
        Self { sessions, handler }
    }

    fn entry(&self, id: &str) -> Result<Arc<HttpSession>, SessionError> {
        self.sessions.get(id).ok_or(SessionError::Ended)
    }

    /// Begins the work for a request or a notification. Requests of a session run side by
    /// side, as many as their caller may have running (`body`).
    fn begin(&self, entry: &Arc<HttpSession>, message: ClientJsonRpcMessage) {
        let client = entry.client().cloned();
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        // The session is the caller's, but what the caller may do is what this request proves.
        let current = Some(Caller::current()).filter(|caller| *caller == entry.caller);
        let caller = current.unwrap_or_else(|| entry.caller.clone());
        let handler = self.handler.for_caller(caller, entry.peer);
        entry.running.begin(request, |number| {
            let transport = MessageTransport::new(Arc::clone(entry), number, message);
            serve_directly(handler, transport, client)
        });
    }
}

impl SessionManager for Dispatcher {
    type Error = SessionError;
    type Transport = HandshakeTransport;

    async fn create_session(&self) -> Result<(SessionId, HandshakeTransport), SessionError> {
        let entry = self.sessions.create()?;
        let transport = HandshakeTransport::new(Arc::clone(&entry), entry.begin_handshake());
        Ok((Arc::clone(entry.session.id()), transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        let entry = self.entry(id)?;
        let answer = entry.register_request(&message);
        let mut answer = answer.ok_or(SessionError::NoAnswer)?;
        if !entry.initialize(message) {
            return Err(SessionError::Ended);
        }
        let first = poll_fn(|cx| answer.poll_read(cx)).await;
        let Some(Read::Event(_, AnswerEvent::Message(message))) = first else {
            return Err(SessionError::NoAnswer);
        };
        let message = Arc::unwrap_or_clone(message);
        if let ServerJsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(result) = &response.result
        {
            // From here on, not from `initialized` on: what a client may send depends on it.
            let version = ProtocolVersion::new(result.protocol_version.as_str());
            entry.session.set_protocol_version(version);
            if let Err(error) = self.sessions.settle_new(id).await {
                limiter::note_not_kept(error.clone());
                return Err(error.into());
            }
        }
        Ok(message)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.sessions.find(id).is_some())
    }

    /// rmcp's service has ended, as it does after the handshake. Without one, there is no
    /// session.
    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        let entry = self.sessions.get(id);
        if entry.is_none_or(|entry| entry.client().is_none()) {
            self.sessions.end(id, "it was not initialized");
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let entry = self.entry(id)?;
        let Some(answer) = entry.register_request(&message) else {
            entry.touch();
            let refusal = async move { refusal(&message) };
            return Ok(stream::once(refusal).left_stream());
        };
        self.begin(&entry, message);
        Ok(PostStream::new(answer).right_stream())
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let entry = self.entry(id)?;
        entry.touch();
        // The heartbeat counts the answer to a ping itself.
        if !matches!(message, JsonRpcMessage::Response(_)) {
            entry.beat();
        }
        match message {
            JsonRpcMessage::Response(response) => {
                let result = Some(&response.result);
                entry.server_requests.reply(&response.id, result);
            }
            JsonRpcMessage::Error(error) => {
                if let Some(request) = &error.id {
                    entry.server_requests.reply(request, None);
                }
            }
            JsonRpcMessage::Notification(_) => match cancelled(&message) {
                // A cancelled request is not answered, so its stream ends here.
                Some(request) => entry.cancel(&request),
                None => self.begin(&entry, message),
            },
            // For a request, rmcp opens a stream.
            JsonRpcMessage::Request(_) => {}
        }
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        _id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Err::<stream::Empty<_>, _>(SessionError::Elsewhere)
    }

    async fn resume(
        &self,
        _id: &SessionId,
        _last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Err::<stream::Empty<_>, _>(SessionError::Elsewhere)
    }
}

/// The request that a message cancels.
fn cancelled(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    let ClientJsonRpcMessage::Notification(notification) = message else {
        return None;
    };
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.clone(),
        _ => None,
    }
}

/// The error for a request whose id an unanswered request still has.
fn refusal(message: &ClientJsonRpcMessage) -> ServerSseMessage {
    let id = match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    };
    let text = "a request with this id is still being answered; use another id";
    let error = ServerJsonRpcMessage::error(ErrorData::invalid_request(text, None), id);
    ServerSseMessage::from_message(error)
}

#[cfg(test)]
mod tests;
