//! What the client has sent and not got an answer to.

use std::collections::HashSet;

use bytes::Bytes;
use mcp_notify::ProtocolVersion;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};

use crate::jsonrpc::{Refusal, batches_are_known};

/// The requests under way, and what they say about the session.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Requests without an answer, other than those whose answer is a stream.
    unanswered: HashSet<RequestId>,
    batches: Vec<Batch>,
    /// Whether a request has begun the session.
    begun: bool,
    initialized: bool,
    version: Option<ProtocolVersion>,
}

/// A batch whose answers are not complete.
#[derive(Debug)]
struct Batch {
    unanswered: HashSet<RequestId>,
    answers: Vec<Bytes>,
}

// === impl Exchange ===

impl Exchange {
    /// Whether the version that was agreed on has batches.
    pub(super) fn has_batches(&self) -> bool {
        batches_are_known(self.version.as_ref())
    }

    /// Whether the client has said that it is ready for notifications.
    pub(super) fn is_initialized(&self) -> bool {
        self.initialized
    }

    /// Whether every request has its answer.
    pub(super) fn is_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Notes a message of the client. False if it is not for rmcp, which would end the
    /// session for anything but a request before `initialize`.
    pub(super) fn on_received(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                self.begun |= begins(&request.request);
                if !matches!(
                    request.request,
                    ClientRequest::SubscriptionsListenRequest(_)
                ) {
                    self.unanswered.insert(request.id.clone());
                }
                return true;
            }
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    // rmcp does not answer a cancelled request.
                    if let Some(id) = &cancelled.params.request_id {
                        self.answered(id);
                    }
                }
                ClientNotification::InitializedNotification(_) => self.initialized |= self.begun,
                _ => {}
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        self.begun
    }

    /// Begins a batch, before its messages are noted.
    pub(super) fn begin_batch(&mut self, messages: &[ClientJsonRpcMessage], refused: &[Refusal]) {
        let requests = messages.iter().filter_map(|message| match message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        });
        let refused = refused.iter().map(|refusal| refusal.to_json().to_string());
        self.batches.push(Batch {
            unanswered: requests.collect(),
            answers: refused.map(Bytes::from).collect(),
        });
    }

    /// The answers of batches that have become complete without one more answer.
    pub(super) fn complete_batches(&mut self) -> Vec<Bytes> {
        let complete = self
            .batches
            .extract_if(.., |batch| batch.unanswered.is_empty());
        complete.filter_map(Batch::line).collect()
    }

    /// Notes a message to the client. Returns the line to write, if there is one to write
    /// now.
    pub(super) fn on_sent(&mut self, message: &ServerJsonRpcMessage, line: Bytes) -> Option<Bytes> {
        let id = match message {
            JsonRpcMessage::Response(response) => {
                if let ServerResult::InitializeResult(result) = &response.result {
                    let version = ProtocolVersion::new(result.protocol_version.as_str());
                    self.version = Some(version);
                }
                &response.id
            }
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => id,
                None => return Some(line),
            },
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return Some(line),
        };
        self.unanswered.remove(id);
        let Some(at) = (self.batches.iter()).position(|batch| batch.unanswered.contains(id)) else {
            return Some(line);
        };
        let batch = &mut self.batches[at];
        batch.unanswered.remove(id);
        batch.answers.push(line);
        if batch.unanswered.is_empty() {
            return self.batches.remove(at).line();
        }
        None
    }

    fn answered(&mut self, id: &RequestId) {
        self.unanswered.remove(id);
        for batch in &mut self.batches {
            batch.unanswered.remove(id);
        }
    }
}

/// Whether a request begins the session: rmcp answers the others and waits on.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) => false,
        other => other.get_meta().protocol_version().is_some(),
    }
}

// === impl Batch ===

impl Batch {
    /// All answers as one array; `None` if there are none.
    fn line(self) -> Option<Bytes> {
        if self.answers.is_empty() {
            return None;
        }
        let mut line = vec![b'['];
        line.extend(self.answers.join(&b","[..]));
        line.push(b']');
        Some(line.into())
    }
}
