//! The transports of rmcp's services: that of the handshake of a session, and that of one
//! message of it.

use std::{
    convert::Infallible,
    future::{Future, pending},
    sync::Arc,
};

use mcp_notify::{Method, Notification};
use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientRequest, InitializeRequestParams, JsonRpcMessage,
        ServerJsonRpcMessage, ServerNotification, ServerResult,
    },
    transport::Transport,
};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{answers::Routed, http_session::HttpSession, running::RunNumber};

/// Carries `initialize` and its answer. Then it ends, and rmcp's service with it: what rmcp
/// keeps for a service is several times what the rest of an idle session takes.
pub(crate) struct HandshakeTransport {
    entry: Arc<HttpSession>,
    initialize: Option<oneshot::Receiver<Box<ClientJsonRpcMessage>>>,
    params: Option<InitializeRequestParams>,
}

/// Carries one message of a session and what it leads to.
pub(super) struct MessageTransport {
    entry: Arc<HttpSession>,
    number: RunNumber,
    message: Option<Box<ClientJsonRpcMessage>>,
    /// There is nothing more to come: the answer was sent, or there will be none.
    is_complete: bool,
}

/// Nobody would wait for the reply.
#[derive(Debug, thiserror::Error)]
#[error("the client cannot be asked from within a call")]
pub(super) struct CannotAsk;

// === impl HandshakeTransport ===

impl HandshakeTransport {
    pub(super) fn new(
        entry: Arc<HttpSession>,
        initialize: oneshot::Receiver<Box<ClientJsonRpcMessage>>,
    ) -> Self {
        Self {
            entry,
            initialize: Some(initialize),
            params: None,
        }
    }
}

impl Transport<RoleServer> for HandshakeTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(result) = &response.result
            && let Some(mut params) = self.params.take()
        {
            // As rmcp does: from here on the version is the negotiated one.
            params.protocol_version = result.protocol_version.clone();
            self.entry.set_client(params);
        }
        hand_over(&self.entry, message);
        async { Ok(()) }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.initialize.as_mut()?.await;
        self.initialize = None;
        let message = *message.ok()?;
        if let JsonRpcMessage::Request(request) = &message
            && let ClientRequest::InitializeRequest(initialize) = &request.request
        {
            self.params = Some(initialize.params.clone());
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

// === impl MessageTransport ===

impl MessageTransport {
    pub(super) fn new(
        entry: Arc<HttpSession>,
        number: RunNumber,
        message: ClientJsonRpcMessage,
    ) -> Self {
        Self {
            entry,
            number,
            is_complete: !matches!(message, JsonRpcMessage::Request(_)),
            message: Some(Box::new(message)),
        }
    }
}

impl Transport<RoleServer> for MessageTransport {
    type Error = CannotAsk;

    /// Waits for no client: what nobody reads is kept, or dropped and counted.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), CannotAsk>> + Send + 'static {
        let sent = match &message {
            JsonRpcMessage::Request(_) => Err(CannotAsk),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                self.is_complete = true;
                Ok(())
            }
            JsonRpcMessage::Notification(_) => Ok(()),
        };
        // What was cancelled may still speak, and its id may be another request's by now.
        if sent.is_ok() && self.entry.running.is_running(self.number) {
            hand_over(&self.entry, message);
        }
        async { sent }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        match self.message.take() {
            Some(message) => Some(*message),
            // rmcp asks again after each message that it sends.
            None if self.is_complete => None,
            None => pending().await,
        }
    }

    async fn close(&mut self) -> Result<(), CannotAsk> {
        self.entry.running.finish(self.number);
        Ok(())
    }
}

/// Gives a message of the service to the answer that it belongs to, or to the stream.
fn hand_over(entry: &HttpSession, message: ServerJsonRpcMessage) {
    match entry.route(message) {
        Routed::Taken => {}
        Routed::Unread(answer) => entry.park(answer),
        Routed::Other(message) => publish(entry, &message),
    }
}

/// Puts a message that belongs to no POST onto the stream.
fn publish(entry: &HttpSession, message: &ServerJsonRpcMessage) {
    match message {
        JsonRpcMessage::Notification(notification) => {
            if let Some(notification) = shared(&notification.notification) {
                let _accounted = entry.session.push(notification);
            }
        }
        // The client of the request has gone, or the request could not be parsed.
        JsonRpcMessage::Request(_) | JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
    }
}

/// rmcp's notification as the library shares it.
fn shared(notification: &ServerNotification) -> Option<Notification> {
    let mut value = serde_json::to_value(notification).ok()?;
    let method = Method::new(value.get("method")?.as_str()?).ok()?;
    let builder = Notification::builder(method);
    Some(match value.get_mut("params").map(Value::take) {
        Some(params @ Value::Object(_)) => builder.params(&params).build(),
        _ => builder.build(),
    })
}
