//! One answer: its messages, and the connection that reads them.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use rmcp::model::{RequestId, ServerJsonRpcMessage};
use tokio::time::Instant;

use super::{AnswerEvent, Connection};
use crate::sessions::parking::ParkedPermit;

/// Messages that are kept of a running request. Progress replaces progress, so the last
/// ones are enough; a client that misses some gets their number.
const EVENTS_MAX: usize = 64;

/// The stream of one answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) request: RequestId,
    pub(super) is_resumable: bool,
    pub(super) began: Instant,
    /// The number of the first of the events.
    pub(super) first: u64,
    pub(super) events: VecDeque<AnswerEvent>,
    /// The connection that reads it; the newest one does.
    pub(super) reader: Option<Reader>,
    /// The number of connections so far.
    pub(super) connections: u64,
    pub(super) state: AnswerState,
}

/// The connection that reads an answer.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) number: u64,
    pub(super) waker: Option<Waker>,
}

/// How far an answer is.
#[derive(Debug)]
pub(super) enum AnswerState {
    /// The request is worked on.
    Running,
    /// The last event is the answer.
    Answered,
    /// The same, and all events are frames that count under the limit.
    Parked {
        until: Instant,
        _permit: ParkedPermit,
    },
}

// === impl Answer ===

impl Answer {
    pub(super) fn new(request: RequestId, is_resumable: bool, began: Instant) -> Self {
        Self {
            request,
            is_resumable,
            began,
            first: 1,
            events: VecDeque::new(),
            reader: None,
            connections: 0,
            state: AnswerState::Running,
        }
    }

    /// Lets a new connection read; the one before it ends.
    pub(super) fn connect(&mut self) -> u64 {
        self.connections += 1;
        let reader = Reader {
            number: self.connections,
            waker: None,
        };
        if let Some(waker) = self.reader.replace(reader).and_then(|before| before.waker) {
            waker.wake();
        }
        self.connections
    }

    pub(super) fn is_read_by(&self, connection: Connection) -> bool {
        (self.reader.as_ref()).is_some_and(|reader| reader.number == connection.number)
    }

    pub(super) fn push(&mut self, message: ServerJsonRpcMessage) {
        self.events
            .push_back(AnswerEvent::Message(Arc::new(message)));
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
            self.first += 1;
        }
        if let Some(waker) = self.reader.as_mut().and_then(|reader| reader.waker.take()) {
            waker.wake();
        }
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self
            .reader
            .as_ref()
            .and_then(|reader| reader.waker.as_ref())
        {
            waker.wake_by_ref();
        }
    }
}
