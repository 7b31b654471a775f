//! The server's own requests to a client: sent on the stream, answered by a POST.
//!
//! There is one kind, `ping`. Requests that come from within a call are not sent: the
//! service of a call ends with its answer, and would not hear of the reply.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use rmcp::model::{ClientResult, RequestId};
use tokio::sync::oneshot;

/// The requests that wait for the stream. A ping that is lost is sent again.
const WAITING_MAX: usize = 16;

/// The requests to one client.
#[derive(Default)]
pub(super) struct ServerRequests {
    // A lock for the heartbeat, the stream and the replies; held for one step.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_id: i64,
    waiting: VecDeque<Bytes>,
    reader: Option<Waker>,
    /// Those that wait for a reply, until the heartbeat gives them up.
    unanswered: Vec<(i64, oneshot::Sender<bool>)>,
}

// === impl ServerRequests ===

impl ServerRequests {
    /// Pings the client, and returns whether it answered. The caller has the deadline.
    /// Cancel-safe.
    pub(super) async fn ping(&self) -> bool {
        let Some(reply) = self.enqueue_ping() else {
            return false;
        };
        reply.await.unwrap_or(false)
    }

    fn enqueue_ping(&self) -> Option<oneshot::Receiver<bool>> {
        let mut state = self.state.lock();
        state.unanswered.retain(|(_, reply)| !reply.is_closed());
        if state.waiting.len() >= WAITING_MAX {
            return None;
        }
        let (sender, reply) = oneshot::channel();
        state.last_id += 1;
        let id = state.last_id;
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        state.waiting.push_back(frame.into());
        state.unanswered.push((id, sender));
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        Some(reply)
    }

    /// Takes the next request for the stream, or registers the waker.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let mut state = self.state.lock();
        match state.waiting.pop_front() {
            Some(frame) => Poll::Ready(frame),
            None => {
                let reader = &mut state.reader;
                if !(reader.as_ref()).is_some_and(|waker| waker.will_wake(cx.waker())) {
                    *reader = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// The client has replied; an error is no answer.
    pub(super) fn reply(&self, id: &RequestId, result: Option<&ClientResult>) {
        // Some clients make a string of a number.
        let id = match id {
            RequestId::Number(number) => Some(*number),
            RequestId::String(text) => text.parse().ok(),
        };
        let mut state = self.state.lock();
        let found = (state.unanswered.iter()).position(|(given, _)| Some(*given) == id);
        if let Some(found) = found {
            let (_, reply) = state.unanswered.swap_remove(found);
            let is_answer = matches!(result, Some(ClientResult::EmptyResult(_)));
            let _given_up = reply.send(is_answer);
        }
    }

    /// Forgets them all.
    pub(super) fn end(&self) {
        *self.state.lock() = State::default();
    }
}

#[cfg(test)]
mod tests;
