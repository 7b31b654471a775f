//! The events of the stream of an answer, and their ids.

use std::{fmt, str::FromStr, sync::Arc};

use bytes::Bytes;
use rmcp::model::ServerJsonRpcMessage;

/// The id of an event in the stream of an answer: `answer-event`. It is unique within the
/// session, and means nothing outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sessions) struct EventId {
    pub(in crate::sessions) answer: u64,
    /// 0 is the event without content that comes first.
    pub(in crate::sessions) event: u64,
}

/// A message of the stream of an answer.
#[derive(Clone, Debug)]
pub(in crate::sessions) enum AnswerEvent {
    /// As the service has sent it.
    Message(Arc<ServerJsonRpcMessage>),
    /// As it is written, for what is parked.
    Frame(Bytes),
}

// === impl AnswerEvent ===

impl AnswerEvent {
    /// The bytes of the message.
    pub(in crate::sessions) fn frame(&self) -> Bytes {
        match self {
            Self::Frame(frame) => frame.clone(),
            // rmcp has serialised it before, or it was never a message.
            Self::Message(message) => serde_json::to_vec(message).unwrap_or_default().into(),
        }
    }
}

// === impl EventId ===

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.answer, self.event)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // Digits and nothing else: `parse` alone would take a sign.
        let number = |text: &str| -> Result<u64, ()> {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().ok_or(())
        };
        let (answer, event) = text.split_once('-').ok_or(())?;
        Ok(Self {
            answer: number(answer)?,
            event: number(event)?,
        })
    }
}
