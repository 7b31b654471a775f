//! The side that answers.

use std::sync::Arc;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;
use kubecrier_history::{PeerAnswer, PeerHandler};
use tokio::time::Instant;

use super::{
    BYTES_MAX, Heard, KEEPALIVE, Place, SILENCE_MAX, Shared,
    frame::Frame,
    ticks,
    window::{Sending, Taking},
};

/// A request that is being answered.
struct Answering {
    place: Place,
    /// Where the asker listens.
    to: String,
    /// Where this side listens.
    inbox: String,
    heard: Subscriber,
    sending: Sending,
    taking: Taking,
    heard_at: Instant,
    said_at: Instant,
}

/// There is nobody to go on for.
struct Over;

/// Answers one request.
pub(super) async fn answer(place: Place, handler: Arc<dyn PeerHandler>, to: String) {
    let client = &place.0.inner.client;
    let inbox = client.new_inbox();
    let heard = match client.subscribe(inbox.clone()).await {
        Ok(heard) => heard,
        Err(error) => {
            tracing::debug!(%error, "a request cannot be answered");
            return;
        }
    };
    let shared = Arc::clone(&place.0);
    let answering = Answering {
        place,
        to: to.clone(),
        inbox,
        heard,
        sending: Sending::default(),
        taking: Taking::default(),
        heard_at: Instant::now(),
        said_at: Instant::now(),
    };
    tokio::select! {
        // Dropping it drops the work.
        _over = answering.run(handler) => {}
        () = shared.drained() => {
            let stopping = Frame::Failed("the server is stopping".to_owned());
            drop(shared.say(&to, &stopping).await);
        }
    }
}

// === impl Answering ===

impl Answering {
    fn shared(&self) -> &Shared {
        &self.place.0
    }

    async fn run(mut self, handler: Arc<dyn PeerHandler>) -> Result<(), Over> {
        self.say_with_inbox(&Frame::Accepted).await?;
        let request = self.request().await?;
        let mut answering = handler.answer(request);
        let answer = loop {
            tokio::select! {
                answer = &mut answering => break answer,
                over = self.next() => over?,
            }
        };
        self.pass_on(answer).await
    }

    /// Waits for the whole request.
    async fn request(&mut self) -> Result<Bytes, Over> {
        let mut looks = ticks(KEEPALIVE);
        loop {
            let frame = tokio::select! {
                frame = listen(&mut self.heard) => frame?,
                _look = looks.tick() => {
                    self.look().await?;
                    continue;
                }
            };
            self.heard_at = Instant::now();
            let Frame::Piece(piece) = frame else {
                self.on_frame(frame).await?;
                continue;
            };
            let Ok(complete) = self.taking.take(piece) else {
                return Err(self.fail("a piece of the request is missing").await);
            };
            if self.taking.begun() > BYTES_MAX {
                return Err(self.fail("the request is too large").await);
            }
            if let Some(request) = complete {
                return Ok(request);
            }
            if let Some(taken) = self.taking.due() {
                let next = self.sending.next();
                self.say_with_inbox(&Frame::Alive { next, taken }).await?;
            }
        }
    }

    /// Sends the parts of the answer as they come, no faster than the asker takes them.
    async fn pass_on(&mut self, mut answer: PeerAnswer) -> Result<(), Over> {
        loop {
            while let Some(piece) = self.sending.pop() {
                let said = self.shared().say(&self.to, &piece).await;
                said.map_err(|_| Over)?;
            }
            let is_free = self.sending.is_empty();
            let part = tokio::select! {
                part = answer.recv(), if is_free => part,
                over = self.next() => {
                    over?;
                    continue;
                }
            };
            match part {
                Some(Ok(bytes)) => self.sending.push(bytes),
                Some(Err(error)) => return Err(self.fail(&error.to_string()).await),
                None => {
                    let number = self.sending.next();
                    let end = Frame::End { number };
                    return self.shared().say(&self.to, &end).await.map_err(|_| Over);
                }
            }
        }
    }

    /// Waits for something that the asker says, or that is to be said to it. Cancel-safe: what
    /// was heard is acted on without waiting, but for answers.
    async fn next(&mut self) -> Result<(), Over> {
        let wait = KEEPALIVE.saturating_sub(self.said_at.elapsed());
        tokio::select! {
            frame = listen(&mut self.heard) => {
                self.heard_at = Instant::now();
                self.on_frame(frame?).await
            }
            () = tokio::time::sleep(wait) => self.look().await,
        }
    }

    async fn on_frame(&mut self, frame: Frame) -> Result<(), Over> {
        match frame {
            Frame::Alive { next, taken } => {
                self.sending.on_taken(taken);
                if self.taking.expect(next).is_err() {
                    return Err(self.fail("a piece of the request is missing").await);
                }
                Ok(())
            }
            Frame::Cancel => Err(Over),
            // Nothing that an asker says.
            Frame::Open
            | Frame::Accepted
            | Frame::Piece(_)
            | Frame::End { .. }
            | Frame::Failed(_) => Ok(()),
        }
    }

    /// Looks whether the asker is there, and says that this side is.
    async fn look(&mut self) -> Result<(), Over> {
        if self.heard_at.elapsed() > SILENCE_MAX {
            return Err(Over);
        }
        let alive = Frame::Alive {
            next: self.sending.next(),
            taken: self.taking.tell(),
        };
        self.say_with_inbox(&alive).await
    }

    async fn say_with_inbox(&mut self, frame: &Frame) -> Result<(), Over> {
        self.said_at = Instant::now();
        let said = self.shared().say_from(&self.to, &self.inbox, frame);
        said.await.map_err(|_| Over)
    }

    async fn fail(&self, why: &str) -> Over {
        drop(
            self.shared()
                .say(&self.to, &Frame::Failed(why.to_owned()))
                .await,
        );
        Over
    }
}

/// What the asker says.
async fn listen(heard: &mut Subscriber) -> Result<Frame, Over> {
    loop {
        let Some(delivery) = heard.next().await else {
            return Err(Over);
        };
        match Heard::new(delivery) {
            (Heard::Frame(frame), _) => return Ok(frame),
            (Heard::NobodyListens, _) => return Err(Over),
            (Heard::Unknown, _) => {}
        }
    }
}
