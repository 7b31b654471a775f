//! Entry points for the fuzz targets: what is decided about a request before a handler sees it.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest};

pub use crate::body::fuzzing::{CheckedBody, check_body};
use crate::resources::ClusterUri;

/// A message as the SDK understands it.
#[derive(Debug)]
pub struct DecodedMessage {
    /// Whether it is a request, which is worked on.
    pub is_request: bool,
    /// Whether it is the request that begins a session.
    pub is_initialize: bool,
    /// The URI that it names, if it names one.
    pub uri: Option<String>,
    /// The message written again.
    pub text: String,
}

/// Decodes a message as the SDK does.
pub fn decode(body: &[u8]) -> Option<DecodedMessage> {
    let message: ClientJsonRpcMessage = serde_json::from_slice(body).ok()?;
    let request = match &message {
        ClientJsonRpcMessage::Request(request) => Some(&request.request),
        _ => None,
    };
    let uri = request.and_then(|request| match request {
        ClientRequest::ReadResourceRequest(read) => Some(read.params.uri.clone()),
        ClientRequest::SubscribeRequest(subscribe) => Some(subscribe.params.uri.clone()),
        _ => None,
    });
    Some(DecodedMessage {
        is_request: request.is_some(),
        is_initialize: matches!(request, Some(ClientRequest::InitializeRequest(_))),
        uri,
        text: serde_json::to_string(&message).ok()?,
    })
}

/// The normal form of a URI of a cluster's resource.
///
/// # Errors
///
/// Says why the URI names no resource.
pub fn normal_uri(uri: &str) -> Result<String, String> {
    match uri.parse::<ClusterUri>() {
        Ok(uri) => Ok(uri.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
