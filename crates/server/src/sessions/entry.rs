//! One session: what hangs on it, and whether it lives.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, OnceLock},
    task::Waker,
};

use bytes::Bytes;
use mcp_notify::{Batch, Pulse, Session};
use parking_lot::Mutex;
use rmcp::{
    model::{ClientJsonRpcMessage, GetMeta, ProgressToken, RequestId},
    transport::streamable_http_server::session::ServerSseMessage,
};
use tokio::{sync::mpsc, time::Instant};

use super::{admission::Admission, replay::Replay};
use crate::caller::Caller;
use kubecrier_core::slices::Slices;

/// Requests of ours that wait for the stream; there are two kinds, and each is
/// asked again if it is lost.
const ASKED_MAX: usize = 16;

/// Messages on the way to the answer of one POST. Its writer waits when it is
/// full, and nobody waits for that writer.
const ANSWER_CAPACITY: usize = 64;

/// A session and everything that ends with it.
pub(crate) struct Entry {
    pub(super) session: Session,
    /// Whose it is.
    pub(super) caller: Caller,
    /// Boxed: a channel holds room for 32, and messages are large.
    pub(super) inbound: mpsc::Sender<Box<ClientJsonRpcMessage>>,
    /// Its place under the caps, until it ends.
    admission: Mutex<Option<Admission>>,
    pub(super) sending: Mutex<Sending>,
    /// When its stream writes.
    pub(super) slices: Slices,
    answers: Mutex<Answers>,
    asked: Mutex<Asked>,
    life: Mutex<Life>,
    /// Set when the client is ready and may be asked for signs of life.
    pulse: OnceLock<Pulse>,
}

/// What is on its way to the stream. It belongs to the session and not to a stream:
/// what one stream took and did not write, the next one writes.
#[derive(Default)]
pub(super) struct Sending {
    pub(super) replay: Replay,
    pub(super) batch: Option<Batch>,
}

/// Who waits for which answer.
#[derive(Default)]
struct Answers {
    by_request: HashMap<RequestId, mpsc::Sender<ServerSseMessage>>,
    by_token: HashMap<ProgressToken, RequestId>,
}

/// Our own requests, for the stream.
#[derive(Default)]
struct Asked {
    waiting: VecDeque<Bytes>,
    reader: Option<Waker>,
}

struct Life {
    streams: usize,
    posts: usize,
    seen: Instant,
}

/// An answer that is expected, as long as its request may still not have been asked.
pub(super) struct Expected {
    entry: Option<Arc<Entry>>,
    id: RequestId,
}

/// Something open that shows life: while it is held, the session does not idle.
pub(super) struct Open {
    entry: Arc<Entry>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Stream,
    Post,
}

// === impl Entry ===

impl Entry {
    pub(super) fn new(
        session: Session,
        admission: Admission,
        inbound: mpsc::Sender<Box<ClientJsonRpcMessage>>,
        slices: Slices,
    ) -> Self {
        Self {
            session,
            caller: admission.caller().clone(),
            inbound,
            admission: Mutex::new(Some(admission)),
            sending: Mutex::default(),
            slices,
            answers: Mutex::default(),
            asked: Mutex::default(),
            life: Mutex::new(Life {
                streams: 0,
                posts: 0,
                seen: Instant::now(),
            }),
            pulse: OnceLock::new(),
        }
    }

    /// Lets go of all that hangs on the session: whoever waits for an answer, what
    /// was on its way, and its place.
    pub(super) fn release(&self) {
        *self.answers.lock() = Answers::default();
        *self.asked.lock() = Asked::default();
        let batch = self.sending.lock().batch.take();
        drop(batch);
        drop(self.admission.lock().take());
    }

    /// Notes who waits for the answer to a request; `None` if the id is taken, as
    /// it is until the request before has been answered or cancelled.
    pub(super) fn expect(
        self: &Arc<Self>,
        message: &ClientJsonRpcMessage,
    ) -> Option<(Expected, mpsc::Receiver<ServerSseMessage>)> {
        let ClientJsonRpcMessage::Request(request) = message else {
            return None;
        };
        let (sender, receiver) = mpsc::channel(ANSWER_CAPACITY);
        let mut answers = self.answers.lock();
        if answers.by_request.contains_key(&request.id) {
            return None;
        }
        answers.by_request.insert(request.id.clone(), sender);
        if let Some(token) = request.request.get_meta().get_progress_token() {
            answers.by_token.insert(token, request.id.clone());
        }
        drop(answers);
        let expected = Expected {
            entry: Some(Arc::clone(self)),
            id: request.id.clone(),
        };
        Some((expected, receiver))
    }

    /// Where the last message of a request goes; nobody waits after it.
    pub(super) fn take_answer(&self, id: &RequestId) -> Option<mpsc::Sender<ServerSseMessage>> {
        let mut answers = self.answers.lock();
        answers.by_token.retain(|_, request| request != id);
        answers.by_request.remove(id)
    }

    /// Where a message about a running request goes.
    pub(super) fn answer(&self, id: &RequestId) -> Option<mpsc::Sender<ServerSseMessage>> {
        self.answers.lock().by_request.get(id).cloned()
    }

    /// Where progress of a running request goes.
    pub(super) fn answer_for_token(
        &self,
        token: &ProgressToken,
    ) -> Option<mpsc::Sender<ServerSseMessage>> {
        let answers = self.answers.lock();
        answers
            .by_request
            .get(answers.by_token.get(token)?)
            .cloned()
    }

    /// Puts a request of ours onto the stream. False when there is no room.
    pub(super) fn ask(&self, frame: Bytes) -> bool {
        let mut asked = self.asked.lock();
        if asked.waiting.len() >= ASKED_MAX {
            return false;
        }
        asked.waiting.push_back(frame);
        if let Some(reader) = asked.reader.take() {
            reader.wake();
        }
        true
    }

    /// The next request of ours, or a promise to wake.
    pub(super) fn poll_asked(&self, waker: &Waker) -> Option<Bytes> {
        let mut asked = self.asked.lock();
        let next = asked.waiting.pop_front();
        if next.is_none() {
            asked.reader = Some(waker.clone());
        }
        next
    }

    pub(super) fn open(self: &Arc<Self>, kind: Kind) -> Open {
        let mut life = self.life.lock();
        life.seen = Instant::now();
        *life.counter(kind) += 1;
        drop(life);
        self.beat();
        Open {
            entry: Arc::clone(self),
            kind,
        }
    }

    /// A message that opens nothing shows life too.
    pub(super) fn seen(&self) {
        self.life.lock().seen = Instant::now();
    }

    /// From now on signs of life are kept here. False if they are kept already.
    pub(super) fn set_pulse(&self, pulse: Pulse) -> bool {
        self.pulse.set(pulse).is_ok()
    }

    /// The client said something.
    pub(super) fn beat(&self) {
        if let Some(pulse) = self.pulse.get() {
            pulse.beat();
        }
    }

    /// Whether a stream is open.
    pub(crate) fn has_stream(&self) -> bool {
        self.life.lock().streams > 0
    }

    /// Since when nothing was open and nothing came.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let life = self.life.lock();
        (life.streams == 0 && life.posts == 0).then_some(life.seen)
    }

    /// The session itself.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

// === impl Expected ===

impl Expected {
    /// The request is on its way: its answer will come.
    pub(super) fn asked(mut self) {
        self.entry = None;
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            drop(entry.take_answer(&self.id));
        }
    }
}

// === impl Life ===

impl Life {
    fn counter(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Stream => &mut self.streams,
            Kind::Post => &mut self.posts,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut life = self.entry.life.lock();
        // The time of silence begins when the last thing closes.
        life.seen = Instant::now();
        *life.counter(self.kind) -= 1;
    }
}
