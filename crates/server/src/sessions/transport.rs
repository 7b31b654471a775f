//! The transport of rmcp's service for one session.

use std::{convert::Infallible, future::Future, sync::Arc};

use bytes::Bytes;
use mcp_notify::{Method, Notification};
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage, ServerNotification},
    transport::Transport,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{answers::Routed, http_session::HttpSession};

/// The server's end of a session.
pub(crate) struct SessionTransport {
    pub(super) entry: Arc<HttpSession>,
    pub(super) inbound: mpsc::Receiver<Box<ClientJsonRpcMessage>>,
}

impl Transport<RoleServer> for SessionTransport {
    type Error = Infallible;

    /// Waits for no client: what nobody reads is kept, or dropped and counted.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let routed = self.entry.route(message);
        let entry = Arc::clone(&self.entry);
        async move {
            match routed {
                Routed::Taken => {}
                Routed::Unread(answer) => entry.park(answer),
                Routed::Other(message) => publish(&entry, &message),
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        tokio::select! {
            biased;
            () = self.entry.session.closed() => None,
            message = self.inbound.recv() => message.map(|message| *message),
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.inbound.close();
        Ok(())
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
        JsonRpcMessage::Request(_) => {
            let frame = serde_json::to_vec(message).map(Bytes::from);
            if !frame.is_ok_and(|frame| entry.enqueue_request(frame)) {
                tracing::debug!(
                    session = entry.session.name(),
                    "a request to the client is lost"
                );
            }
        }
        // The client of the request has gone, or the request could not be parsed.
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
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
