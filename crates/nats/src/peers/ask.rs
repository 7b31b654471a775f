//! The side that asks.

use std::{sync::Arc, time::Duration};

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;
use kubecrier_history::{PeerAnswer, PeerError};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{
    BYTES_MAX, Heard, KEEPALIVE, SILENCE_MAX, Shared,
    frame::Frame,
    ticks,
    window::{Sending, Taking},
};
use crate::Health;

/// Another server accepts a request within this time, or it is asked whether it is there.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(1);

/// A server that is there and does not accept a request for so long cannot be reached.
const ACCEPT_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// How often it is looked at whether the other server is there.
const LOOK: Duration = Duration::from_millis(250);

/// How long an answer waits for NATS to come back.
const AWAY_MAX: Duration = Duration::from_secs(5);

/// Parts of an answer that wait for who reads them.
const WAITING_MAX: usize = 4;

/// A request that is under way.
struct Asking {
    shared: Arc<Shared>,
    peer: String,
    /// Where the other side listens.
    to: String,
    /// Where this side listens.
    inbox: String,
    heard: Subscriber,
    sending: Sending,
    taking: Taking,
    parts: mpsc::Sender<Result<Bytes, PeerError>>,
}

/// How an answer ended.
enum End {
    Complete,
    /// Nobody reads it any more.
    Unread,
    Broken(PeerError),
}

/// Sends a request; gives the answer once the other server has accepted it.
pub(super) async fn send(
    shared: &Arc<Shared>,
    peer: &str,
    request: Bytes,
) -> Result<PeerAnswer, PeerError> {
    if let Some(away) = away(shared) {
        return Err(away);
    }
    if shared.alive.is_gone(peer) {
        return Err(PeerError::Gone(peer.to_owned()));
    }
    let client = &shared.inner.client;
    let inbox = client.new_inbox();
    let heard = client.subscribe(inbox.clone()).await;
    let mut heard = heard.map_err(|error| PeerError::Unavailable(error.to_string()))?;
    let accepting = accepted(shared, peer, &inbox, &mut heard);
    let to = match timeout(ACCEPT_TIMEOUT_MAX, accepting).await {
        Ok(accepted) => accepted?,
        Err(_) => {
            let why = format!("the server `{peer}` accepts no request");
            return Err(PeerError::Unavailable(why));
        }
    };
    let mut sending = Sending::default();
    sending.push(request);
    let (parts, answer) = mpsc::channel(WAITING_MAX);
    let asking = Asking {
        shared: Arc::clone(shared),
        peer: peer.to_owned(),
        to,
        inbox,
        heard,
        sending,
        taking: Taking::default(),
        parts,
    };
    let lifecycle = &shared.inner.lifecycle;
    lifecycle.spawn("nats_peer_ask", asking.run());
    Ok(answer)
}

/// Has a request accepted; gives the subject for the rest.
async fn accepted(
    shared: &Shared,
    peer: &str,
    inbox: &str,
    heard: &mut Subscriber,
) -> Result<String, PeerError> {
    let subject = shared.subject_of(peer);
    let connection = shared.inner.link.connected().await;
    let opened = shared.say_from(&subject, inbox, &Frame::Open);
    opened.await.map_err(PeerError::Unavailable)?;
    let since = Instant::now();
    let mut looks = ticks(LOOK);
    // Whether the request has reached nobody.
    let mut is_unheard = false;
    loop {
        let delivery = tokio::select! {
            delivery = heard.next() => delivery,
            _look = looks.tick() => {
                if !shared.inner.link.is_current(connection) {
                    let again = "the connection to NATS was lost meanwhile".to_owned();
                    return Err(away(shared).unwrap_or(PeerError::Unavailable(again)));
                }
                if since.elapsed() > ACCEPT_TIMEOUT && shared.alive.is_gone(peer) {
                    return Err(PeerError::Gone(peer.to_owned()));
                }
                if std::mem::take(&mut is_unheard) {
                    let opened = shared.say_from(&subject, inbox, &Frame::Open);
                    opened.await.map_err(PeerError::Unavailable)?;
                }
                continue;
            }
        };
        let Some(delivery) = delivery else {
            let ended = "the connection to NATS has ended".to_owned();
            return Err(PeerError::Unavailable(ended));
        };
        match Heard::new(delivery) {
            (Heard::NobodyListens, _) if shared.inner.link.is_settled() => {
                return Err(PeerError::Gone(peer.to_owned()));
            }
            // It may be on its way back to NATS.
            (Heard::NobodyListens, _) => is_unheard = true,
            (Heard::Frame(Frame::Accepted), Some(to)) => return Ok(to),
            (Heard::Frame(Frame::Failed(why)), _) => return Err(PeerError::Unavailable(why)),
            (Heard::Frame(_) | Heard::Unknown, _) => {}
        }
    }
}

// === impl Asking ===

impl Asking {
    async fn run(mut self) {
        let parts = self.parts.clone();
        let shared = Arc::clone(&self.shared);
        let end = tokio::select! {
            end = self.pass_on() => end,
            () = parts.closed() => End::Unread,
            () = shared.drained() => {
                End::Broken(PeerError::Lost("this server is stopping".to_owned()))
            }
        };
        let broken = match end {
            End::Complete => return,
            End::Unread => None,
            End::Broken(error) => Some(error),
        };
        if let Err(error) = self.shared.say(&self.to, &Frame::Cancel).await {
            tracing::debug!(error, "a request is left to its time");
        }
        if let Some(error) = broken {
            let told = tokio::select! {
                told = self.parts.send(Err(error)) => told.is_ok(),
                () = self.shared.drained() => false,
            };
            tracing::debug!(told, peer = self.peer, "an answer broke off");
        }
    }

    /// Sends the request, and passes on the parts of the answer.
    async fn pass_on(&mut self) -> End {
        let parts = self.parts.clone();
        let mut heard_at = Instant::now();
        let mut said_at = Instant::now();
        let mut looks = ticks(LOOK);
        // A part that has not found room with who reads.
        let mut part: Option<Bytes> = None;
        loop {
            if let Err(why) = self.send_ready(&mut said_at).await {
                return broken(why);
            }
            let is_waiting = part.is_some();
            let delivery = tokio::select! {
                room = parts.reserve(), if is_waiting => {
                    let Ok(room) = room else { return End::Unread };
                    if let Some(part) = part.take() {
                        room.send(Ok(part));
                    }
                    continue;
                }
                // While a part waits, nothing more is taken: the other side waits, too.
                delivery = self.heard.next(), if !is_waiting => delivery,
                _look = looks.tick() => {
                    if is_waiting {
                        // What has come was not looked at.
                        heard_at = Instant::now();
                    }
                    match self.look(heard_at, &mut said_at).await {
                        Ok(()) => continue,
                        Err(error) => return End::Broken(error),
                    }
                }
            };
            let Some(delivery) = delivery else {
                return broken("the connection to NATS has ended".to_owned());
            };
            heard_at = Instant::now();
            let frame = match Heard::new(delivery) {
                (Heard::Frame(frame), _) => frame,
                (Heard::NobodyListens, _) => {
                    return broken(format!("`{}` has dropped the request", self.peer));
                }
                (Heard::Unknown, _) => {
                    return broken(format!("`{}` speaks another language", self.peer));
                }
            };
            match self.take(frame) {
                Ok(taken) => part = taken,
                Err(end) => return end,
            }
        }
    }

    /// Takes what the other side says; gives a part that is complete.
    fn take(&mut self, frame: Frame) -> Result<Option<Bytes>, End> {
        let hole = || broken("a piece of it is missing".to_owned());
        match frame {
            Frame::Piece(piece) => {
                let part = self.taking.take(piece).map_err(|_| hole())?;
                if self.taking.begun() > BYTES_MAX {
                    return Err(broken("a part of it is too large".to_owned()));
                }
                Ok(part)
            }
            Frame::End { number } => {
                self.taking.expect(number).map_err(|_| hole())?;
                Err(End::Complete)
            }
            Frame::Failed(why) => Err(broken(why)),
            Frame::Alive { next, taken } => {
                self.taking.expect(next).map_err(|_| hole())?;
                self.sending.on_taken(taken);
                Ok(None)
            }
            // The first one was heard.
            Frame::Accepted | Frame::Open | Frame::Cancel => Ok(None),
        }
    }

    /// Sends what may be sent: pieces, and what was taken.
    async fn send_ready(&mut self, said_at: &mut Instant) -> Result<(), String> {
        while let Some(piece) = self.sending.pop() {
            self.shared.say(&self.to, &piece).await?;
        }
        if let Some(taken) = self.taking.due() {
            *said_at = Instant::now();
            let next = self.sending.next();
            let alive = Frame::Alive { next, taken };
            self.shared.say_from(&self.to, &self.inbox, &alive).await?;
        }
        Ok(())
    }

    /// Looks whether the other side is there, and says that this one is.
    async fn look(&mut self, heard_at: Instant, said_at: &mut Instant) -> Result<(), PeerError> {
        let lost = |why: String| Err(PeerError::Lost(why));
        if !self.shared.inner.link.is_connected() {
            let back = timeout(AWAY_MAX, self.shared.inner.link.connected()).await;
            if back.is_err() {
                let why = "NATS stays away".to_owned();
                return Err(away(&self.shared).unwrap_or(PeerError::Unavailable(why)));
            }
        }
        if self.shared.alive.is_gone(&self.peer) {
            return lost(format!("the server `{}` is gone", self.peer));
        }
        if heard_at.elapsed() > SILENCE_MAX {
            return lost(format!("the server `{}` says nothing more", self.peer));
        }
        if said_at.elapsed() >= KEEPALIVE {
            *said_at = Instant::now();
            let alive = Frame::Alive {
                next: self.sending.next(),
                taken: self.taking.tell(),
            };
            let said = self.shared.say_from(&self.to, &self.inbox, &alive);
            said.await.map_err(PeerError::Lost)?;
        }
        Ok(())
    }
}

fn broken(why: String) -> End {
    End::Broken(PeerError::Lost(why))
}

/// Why no server can be reached now, if that is so.
fn away(shared: &Shared) -> Option<PeerError> {
    match shared.inner.link.health() {
        Health::Connected | Health::Failing { .. } => None,
        Health::Lost { .. } => {
            let why = shared.inner.why_silent(Duration::ZERO);
            Some(PeerError::Unavailable(why))
        }
    }
}
