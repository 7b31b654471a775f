//! Requests between servers, over core NATS.
//!
//! ```text
//!  asker                                              the other server
//!    Open ──────────▶ <fleet>.peers.<name> ─────────▶ listens
//!    ◀─────────────── Accepted, and a subject for this request
//!    the request in pieces ──────────────────────────▶ PeerHandler::answer
//!    ◀────────────────────── its parts in pieces, as many as the window lets, then the end
//!    Alive, with what was taken ◀────────────────────▶ Alive
//!    Cancel ─────────────────────────────────────────▶ the work is dropped
//! ```
//!
//! NATS promises no delivery here: pieces are numbered, and one that is missing ends the answer.
//! Who hears nothing of the other side for a while ends, too. `alive` says who is there at all.

mod alive;
mod answer;
mod ask;
mod frame;
mod window;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_nats::{Message as Delivery, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use kubecrier_history::{PeerAnswer, PeerError, PeerFuture, PeerHandler, Peers};
use parking_lot::Mutex;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use self::{alive::Alive, frame::Frame};
use crate::{ConnectError, store::Inner};

/// How often each side of a request says that it is there.
const KEEPALIVE: Duration = Duration::from_secs(3);

/// A side that hears nothing of the other for so long ends.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How long requests go on when the server drains.
const DRAINING_MAX: Duration = Duration::from_secs(5);

/// Requests that are answered at the same time.
const REQUESTS_MAX: usize = 8192;

/// The largest request, in bytes. The parts of an answer may be as large.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The other servers of a fleet. A clone is the same.
#[derive(Clone)]
pub struct NatsPeers {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<Inner>,
    name: String,
    alive: Arc<Alive>,
    // A lock for one exchange of the handler.
    handler: Mutex<Option<Arc<dyn PeerHandler>>>,
    /// Requests that are being answered.
    answering: AtomicUsize,
}

/// One request that is being answered.
struct Place(Arc<Shared>);

/// What NATS or the other side says about a request.
enum Heard {
    Frame(Frame),
    /// Nobody listens there any more.
    NobodyListens,
    /// Nothing that is known.
    Unknown,
}

// === impl NatsPeers ===

impl NatsPeers {
    pub(crate) async fn start(inner: Arc<Inner>, name: &str) -> Result<Self, ConnectError> {
        if !is_name(name) {
            let shown: String = name.chars().take(80).collect();
            return Err(ConnectError::Settings(format!(
                "`{shown}` is no name of a server: it has letters, digits and `-`"
            )));
        }
        let beats = inner.client.subscribe(alive::subject(&inner)).await;
        let beats = beats.map_err(|error| ConnectError::Refused {
            url: inner.url.clone(),
            what: "subscribe".to_owned(),
            why: error.to_string(),
        })?;
        let alive = Arc::new(Alive::default());
        let beating = Arc::clone(&alive).run(Arc::clone(&inner), name.to_owned(), beats);
        inner.lifecycle.spawn("nats_peers_alive", beating);
        Ok(Self {
            shared: Arc::new(Shared {
                inner,
                name: name.to_owned(),
                alive,
                handler: Mutex::default(),
                answering: AtomicUsize::new(0),
            }),
        })
    }
}

impl Peers for NatsPeers {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn send<'a>(
        &'a self,
        peer: &'a str,
        request: Bytes,
    ) -> PeerFuture<'a, Result<PeerAnswer, PeerError>> {
        Box::pin(async move {
            if !is_name(peer) {
                return Err(PeerError::Gone(peer.chars().take(80).collect()));
            }
            if request.len() > BYTES_MAX {
                return Err(PeerError::Lost(format!(
                    "a request of {} bytes is not sent, the most is {BYTES_MAX}",
                    request.len()
                )));
            }
            ask::send(&self.shared, peer, request).await
        })
    }

    fn serve(&self, handler: Arc<dyn PeerHandler>) {
        if self.shared.handler.lock().replace(handler).is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let client = shared.inner.client.clone();
        let subject = shared.subject_of(&shared.name);
        let mut subscribing = async move { client.subscribe(subject).await }.boxed();
        // Usually at once: what is sent after this is sent after the subscription.
        let subscribed = subscribing.as_mut().now_or_never();
        let listening = async move {
            let subscribed = match subscribed {
                Some(subscribed) => subscribed,
                None => subscribing.await,
            };
            match subscribed {
                Ok(requests) => shared.listen(requests).await,
                Err(error) => tracing::warn!(%error, "requests of other servers are not heard"),
            }
        };
        self.shared
            .inner
            .lifecycle
            .spawn("nats_peers_listen", listening);
    }
}

impl fmt::Debug for NatsPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsPeers")
            .field("name", &self.shared.name)
            .field("fleet", &self.shared.inner.names.fleet)
            .finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    /// Where a server listens.
    fn subject_of(&self, peer: &str) -> String {
        format!("{}.peers.{peer}", self.inner.names.fleet)
    }

    /// Answers requests until the server drains.
    async fn listen(self: Arc<Self>, mut requests: Subscriber) {
        let draining = self.inner.lifecycle.draining().clone();
        loop {
            let request = tokio::select! {
                () = draining.cancelled() => return,
                request = requests.next() => request,
            };
            let Some(request) = request else { return };
            let (Some(reply), Some(Frame::Open)) = (request.reply, Frame::decode(request.payload))
            else {
                continue;
            };
            let Some(handler) = self.handler.lock().clone() else {
                continue;
            };
            let reply = reply.to_string();
            let answering: PeerFuture<'static, ()> = match Place::take(&self) {
                Some(place) => Box::pin(answer::answer(place, handler, reply)),
                None => {
                    let shared = Arc::clone(&self);
                    let full = Frame::Failed("the server answers too many requests".to_owned());
                    Box::pin(async move { drop(shared.say(&reply, &full).await) })
                }
            };
            self.inner.lifecycle.spawn("nats_peer_answer", answering);
        }
    }

    /// Sends a frame to a subject.
    async fn say(&self, subject: &str, frame: &Frame) -> Result<(), String> {
        let sent = self
            .inner
            .client
            .publish(subject.to_owned(), frame.encode());
        sent.await.map_err(|error| error.to_string())
    }

    /// Sends a frame, and where it can be answered: if nobody listens, NATS says so there.
    async fn say_from(&self, subject: &str, from: &str, frame: &Frame) -> Result<(), String> {
        let (subject, from) = (subject.to_owned(), from.to_owned());
        let client = &self.inner.client;
        let sent = client.publish_with_reply(subject, from, frame.encode());
        sent.await.map_err(|error| error.to_string())
    }

    /// Waits until the server has drained for a while.
    async fn drained(&self) {
        self.inner.lifecycle.draining().cancelled().await;
        tokio::time::sleep(DRAINING_MAX).await;
    }
}

// === impl Place ===

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let place = Self(Arc::clone(shared));
        let before = shared.answering.fetch_add(1, Ordering::Relaxed);
        (before < REQUESTS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Heard ===

impl Heard {
    fn new(delivery: Delivery) -> (Self, Option<String>) {
        if delivery.status == Some(StatusCode::NO_RESPONDERS) {
            return (Self::NobodyListens, None);
        }
        let reply = delivery.reply.map(|reply| reply.to_string());
        match Frame::decode(delivery.payload) {
            Some(frame) => (Self::Frame(frame), reply),
            None => (Self::Unknown, reply),
        }
    }
}

/// Ticks for what is looked at while a request is under way, the first after a period.
fn ticks(period: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !name.is_empty() && name.len() <= 100 && name.bytes().all(is_letter)
}
