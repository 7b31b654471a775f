//! The answers to the requests of one session: what was sent of each, and what waits for a
//! client that has lost its connection.
//!
//! ```text
//!             is read                    written at once
//!  request ─▶ running ─────▶ answered ──────────────────▶ forgotten
//!               │ connection    │ nobody reads it, or it took long
//!               ▼ lost          ▼
//!             goes on         parked ──▶ resumed, as often as the client asks
//!                               └──────▶ lost: expired, cancelled, or no room
//! ```
//!
//! Only decisions: the clock, the limit and the connections are the caller's.

mod answer;
mod event;
mod loss;

use std::{
    collections::{HashMap, VecDeque},
    task::{Poll, Waker},
};

use bytes::Bytes;
use rmcp::model::{
    ClientJsonRpcMessage, GetMeta, JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage,
    ServerNotification,
};
use tokio::time::{Duration, Instant};

use self::answer::{Answer, AnswerState};
pub(super) use self::{
    event::{AnswerEvent, EventId},
    loss::LossReason,
};
use super::parking::ParkedPermit;

/// Answers whose loss is remembered, to be told to who resumes them.
const LOST_MAX: usize = 16;

/// The longest id of a request that is remembered so.
const LOST_ID_BYTES_MAX: usize = 256;

/// A connection that has just brought the request is alive, and what is written to it
/// arrives. One that was silent for longer may be dead without a sign.
pub(super) const HEALTHY_FOR: Duration = Duration::from_secs(1);

/// The answers of a session.
#[derive(Debug, Default)]
pub(super) struct Answers {
    last_answer: u64,
    open: HashMap<u64, Answer>,
    /// Requests that are not answered yet.
    by_request: HashMap<RequestId, u64>,
    by_token: HashMap<ProgressToken, u64>,
    lost: VecDeque<LostAnswer>,
    /// The number before the first answer.
    begins_after: u64,
    /// The session goes on on another server: what is read here is read to its end, and nothing
    /// is resumed.
    has_left: bool,
    /// The session has ended: a request that comes in that moment is not answered.
    has_ended: bool,
}

/// A connection that reads an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) answer: u64,
    number: u64,
}

/// What a connection reads.
#[derive(Clone, Debug)]
pub(super) enum Read {
    Event(EventId, AnswerEvent),
    /// So many messages are no longer there.
    Missing(u64),
}

/// What became of a message of the service.
#[derive(Debug)]
pub(super) enum Routed {
    /// It belongs to an answer.
    Taken,
    /// It completes an answer that nobody reads: it is to be parked.
    Unread(u64),
    /// It belongs to no answer.
    Other(Box<ServerJsonRpcMessage>),
}

/// Why there is nothing to resume.
#[derive(Debug)]
pub(super) enum NotResumed {
    /// The client has everything.
    Complete,
    /// The answer to this request is gone.
    Lost(RequestId, LossReason),
    /// It is gone for so long that nothing is known of it.
    Forgotten,
    /// There was no such event.
    NeverSent,
}

#[derive(Debug)]
struct LostAnswer {
    answer: u64,
    /// The event that was the answer; `None` if there was none yet.
    last_event: Option<u64>,
    request: RequestId,
    reason: LossReason,
}

// === impl Answers ===

impl Answers {
    /// Those of a session that may have been elsewhere before: their numbers begin where those of no
    /// other process do, so that an id of one means nothing in another.
    pub(super) fn beginning_after(number: u64) -> Self {
        Self {
            last_answer: number,
            begins_after: number,
            ..Self::default()
        }
    }

    /// Begins the answer to a request, with a connection that reads it; `None` if the
    /// message is none, or if its id is taken, as it is until the earlier request has been
    /// answered or cancelled.
    pub(super) fn register(
        &mut self,
        message: &ClientJsonRpcMessage,
        is_resumable: bool,
        now: Instant,
    ) -> Option<Connection> {
        let JsonRpcMessage::Request(request) = message else {
            return None;
        };
        if self.by_request.contains_key(&request.id) {
            return None;
        }
        self.last_answer += 1;
        let answer = self.last_answer;
        self.by_request.insert(request.id.clone(), answer);
        if let Some(token) = request.request.get_meta().get_progress_token() {
            self.by_token.insert(token, answer);
        }
        let is_resumable = is_resumable && !self.has_left;
        let mut begun = Answer::new(request.id.clone(), is_resumable, now);
        let number = begun.connect();
        self.open.insert(answer, begun);
        Some(Connection { answer, number })
    }

    /// Adds a message of the service to the answer that it belongs to.
    pub(super) fn route(&mut self, message: ServerJsonRpcMessage) -> Routed {
        let Some(id) = self.answer_of(&message) else {
            return Routed::Other(Box::new(message));
        };
        let is_last = matches!(
            message,
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)
        );
        let Some(answer) = self.open.get_mut(&id) else {
            return Routed::Other(Box::new(message));
        };
        // Of a client that left and cannot resume, nothing is kept.
        if answer.is_resumable || answer.reader.is_some() {
            answer.push(message);
        }
        if !is_last {
            return Routed::Taken;
        }
        answer.state = AnswerState::Answered;
        let (request, is_read) = (answer.request.clone(), answer.reader.is_some());
        let is_resumable = answer.is_resumable;
        self.answered(id, &request);
        match (is_read, is_resumable) {
            (true, _) => Routed::Taken,
            (false, true) => Routed::Unread(id),
            (false, false) => {
                self.remove(id);
                Routed::Taken
            }
        }
    }

    /// The next message for a connection; `None` when there is nothing more for it.
    pub(super) fn poll(
        &mut self,
        connection: Connection,
        next: &mut u64,
        waker: &Waker,
    ) -> Poll<Option<Read>> {
        let answer = self.open.get_mut(&connection.answer);
        let answer = answer.filter(|answer| answer.is_read_by(connection));
        let Some(answer) = answer.filter(|_| !self.has_ended) else {
            return Poll::Ready(None);
        };
        if let Some(missing) = answer.first.checked_sub(*next).filter(|count| *count > 0) {
            *next = answer.first;
            return Poll::Ready(Some(Read::Missing(missing)));
        }
        let index = usize::try_from(*next - answer.first).unwrap_or(usize::MAX);
        if let Some(event) = answer.events.get(index).cloned() {
            let id = EventId {
                answer: connection.answer,
                event: *next,
            };
            *next += 1;
            if !answer.is_resumable {
                answer.events.pop_front();
                answer.first += 1;
            }
            return Poll::Ready(Some(Read::Event(id, event)));
        }
        if !matches!(answer.state, AnswerState::Running) {
            return Poll::Ready(None);
        }
        if let Some(reader) = &mut answer.reader {
            reader.waker = Some(waker.clone());
        }
        Poll::Pending
    }

    /// A connection is gone, after it took everything or not. Returns an answer that is to
    /// be parked.
    pub(super) fn disconnect(
        &mut self,
        connection: Connection,
        took_everything: bool,
        now: Instant,
    ) -> Option<u64> {
        let answer = self.open.get_mut(&connection.answer)?;
        if !answer.is_read_by(connection) {
            return None;
        }
        answer.reader = None;
        let was_healthy = now.duration_since(answer.began) < HEALTHY_FOR;
        match answer.state {
            AnswerState::Running => {
                if !answer.is_resumable {
                    answer.events.clear();
                }
                None
            }
            AnswerState::Parked { .. } => None,
            AnswerState::Answered if !answer.is_resumable => {
                self.remove(connection.answer);
                None
            }
            AnswerState::Answered if took_everything && was_healthy => {
                self.lose(connection.answer, LossReason::Written);
                None
            }
            AnswerState::Answered => Some(connection.answer),
        }
    }

    /// The messages of a complete answer that nobody reads.
    pub(super) fn unread(&self, answer: u64) -> Option<Vec<AnswerEvent>> {
        let answer = self.open.get(&answer)?;
        let is_unread = answer.reader.is_none() && matches!(answer.state, AnswerState::Answered);
        is_unread.then(|| answer.events.iter().cloned().collect())
    }

    /// Parks a complete answer, unless it has found a reader again.
    pub(super) fn park(
        &mut self,
        answer: u64,
        frames: Vec<Bytes>,
        permit: ParkedPermit,
        until: Instant,
    ) {
        if self.unread(answer).is_none() {
            return;
        }
        if let Some(answer) = self.open.get_mut(&answer) {
            answer.events = frames.into_iter().map(AnswerEvent::Frame).collect();
            answer.state = AnswerState::Parked {
                until,
                _permit: permit,
            };
        }
    }

    /// Drops a complete answer, unless it has found a reader again; true if it was dropped.
    pub(super) fn drop_unread(&mut self, answer: u64, reason: LossReason) -> bool {
        let is_unread = self.unread(answer).is_some();
        if is_unread {
            self.lose(answer, reason);
        }
        is_unread
    }

    /// Cancels a request; true if its answer was parked.
    pub(super) fn cancel(&mut self, request: &RequestId) -> bool {
        if let Some(answer) = self.by_request.get(request).copied() {
            self.lose(answer, LossReason::Cancelled);
            return false;
        }
        let parked = self.open.iter().find(|(_, answer)| {
            answer.request == *request && matches!(answer.state, AnswerState::Parked { .. })
        });
        let parked = parked.map(|(id, _)| *id);
        parked.is_some_and(|answer| {
            self.lose(answer, LossReason::Cancelled);
            true
        })
    }

    /// Drops parked answers whose time is over and that nobody reads; returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> u64 {
        let expired: Vec<_> = (self.open.iter())
            .filter(|(_, answer)| match answer.state {
                AnswerState::Parked { until, .. } => answer.reader.is_none() && until <= now,
                AnswerState::Running | AnswerState::Answered => false,
            })
            .map(|(id, _)| *id)
            .collect();
        for answer in &expired {
            self.lose(*answer, LossReason::Expired);
        }
        expired.len() as u64
    }

    /// Connects a client again that has seen an event of an answer. The connection before
    /// it, if there is one, reads nothing more.
    pub(super) fn resume(&mut self, seen: EventId) -> Result<Connection, NotResumed> {
        let EventId { answer: id, event } = seen;
        if let Some(answer) = self.open.get_mut(&id) {
            if !answer.is_resumable || event >= answer.first + answer.events.len() as u64 {
                return Err(NotResumed::NeverSent);
            }
            let number = answer.connect();
            return Ok(Connection { answer: id, number });
        }
        let Some(lost) = self.lost.iter().find(|lost| lost.answer == id) else {
            let was_given = id > self.begins_after && id <= self.last_answer;
            // Those of a session that was elsewhere before have other numbers.
            let may_be_elsewheres = self.begins_after > 0 && id > 0;
            return Err(if was_given || may_be_elsewheres {
                NotResumed::Forgotten
            } else {
                NotResumed::NeverSent
            });
        };
        Err(match lost.last_event {
            Some(last) if event == last => NotResumed::Complete,
            Some(last) if event > last => NotResumed::NeverSent,
            _ => NotResumed::Lost(lost.request.clone(), lost.reason),
        })
    }

    /// The session goes on on another server. What is being read here is read to its end; of
    /// everything else nobody will ask. Returns the requests whose answers nobody can read, and the
    /// number of parked answers.
    pub(super) fn leave(&mut self) -> (Vec<RequestId>, u64) {
        self.has_left = true;
        let (mut unread, mut parked) = (Vec::new(), 0);
        self.open.retain(|_, answer| {
            answer.is_resumable = false;
            let is_read = answer.reader.is_some();
            match answer.state {
                AnswerState::Running if !is_read => unread.push(answer.request.clone()),
                AnswerState::Parked { .. } if !is_read => parked += 1,
                AnswerState::Running | AnswerState::Answered | AnswerState::Parked { .. } => {}
            }
            is_read
        });
        self.lost.clear();
        (unread, parked)
    }

    /// The request of a connection that is gone, if the session has left and nobody will read its
    /// answer.
    pub(super) fn abandoned(&self, connection: Connection) -> Option<RequestId> {
        let answer = self.open.get(&connection.answer)?;
        let is_running = matches!(answer.state, AnswerState::Running);
        (self.has_left && answer.reader.is_none() && is_running).then(|| answer.request.clone())
    }

    /// Forgets everything; what is being read ends. Returns the number of parked answers.
    pub(super) fn end(&mut self) -> u64 {
        self.has_ended = true;
        let ended = std::mem::take(&mut self.open);
        self.by_request.clear();
        self.by_token.clear();
        self.lost.clear();
        let mut parked = 0;
        for (_, answer) in ended {
            parked += u64::from(matches!(answer.state, AnswerState::Parked { .. }));
            answer.wake();
        }
        parked
    }

    /// The answer that a message belongs to.
    fn answer_of(&self, message: &ServerJsonRpcMessage) -> Option<u64> {
        let of_request = |id: &Option<RequestId>| self.by_request.get(id.as_ref()?).copied();
        match message {
            JsonRpcMessage::Response(response) => self.by_request.get(&response.id).copied(),
            JsonRpcMessage::Error(error) => of_request(&error.id),
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ProgressNotification(progress) => {
                    let token = &progress.params.progress_token;
                    self.by_token.get(token).copied()
                }
                ServerNotification::CancelledNotification(cancelled) => {
                    of_request(&cancelled.params.request_id)
                }
                _ => None,
            },
            JsonRpcMessage::Request(_) => None,
        }
    }

    /// The id and the token of a request are free again.
    fn answered(&mut self, answer: u64, request: &RequestId) {
        self.by_token.retain(|_, of| *of != answer);
        if self.by_request.get(request) == Some(&answer) {
            self.by_request.remove(request);
        }
        if self.by_request.is_empty() {
            (self.by_request, self.by_token) = (HashMap::new(), HashMap::new());
        }
    }

    /// Removes an answer. A session that asks nothing keeps no room for answers.
    fn remove(&mut self, id: u64) -> Option<Answer> {
        let removed = self.open.remove(&id);
        if self.open.is_empty() {
            self.open = HashMap::new();
        }
        removed
    }

    /// Removes an answer and remembers why.
    fn lose(&mut self, id: u64, reason: LossReason) {
        let Some(answer) = self.remove(id) else {
            return;
        };
        answer.wake();
        self.answered(id, &answer.request);
        let is_small = match &answer.request {
            RequestId::Number(_) => true,
            RequestId::String(id) => id.len() <= LOST_ID_BYTES_MAX,
        };
        if !answer.is_resumable || !is_small {
            return;
        }
        let is_complete = !matches!(answer.state, AnswerState::Running);
        if self.lost.len() >= LOST_MAX {
            self.lost.pop_front();
        }
        self.lost.push_back(LostAnswer {
            answer: id,
            last_event: is_complete.then(|| answer.first + answer.events.len() as u64 - 1),
            request: answer.request,
            reason,
        });
    }
}

#[cfg(test)]
mod tests;
