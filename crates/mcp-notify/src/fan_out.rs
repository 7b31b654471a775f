//! One notification to many sessions: nobody waits for anybody else.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;

use crate::delivery::{Delivery, Outcome};
use crate::notification::Notification;
use crate::session::{Session, SessionKey};

/// What became of a broadcast, session by session, in no particular order.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Broadcast {
    outcomes: Vec<(Arc<str>, Outcome)>,
    /// Whose each is: ids are the user's, and may be equal.
    keys: Vec<SessionKey>,
}

impl Broadcast {
    /// Each session's id, and what became of the notification for it.
    pub fn outcomes(&self) -> &[(Arc<str>, Outcome)] {
        &self.outcomes
    }

    /// How many sessions got it.
    pub fn delivered(&self) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| outcome.is_delivered())
            .count()
    }

    /// What became of it for one session.
    pub fn outcome(&self, session: &Session) -> Option<&Outcome> {
        let at = self.keys.iter().position(|key| *key == session.key())?;
        self.outcomes.get(at).map(|(_, outcome)| outcome)
    }
}

/// Delivers to all targets and prunes, after the last outcome is known, those
/// whose connection failed. The one place where stale sessions are cleaned up
/// after a broadcast, whoever broadcasts.
///
/// A sink that never waits, such as an outbox, costs no future; one that is
/// ready when first polled costs no task. Sends that wait go on beside each
/// other, in a set that ends with this future.
pub(crate) async fn fan_out(
    delivery: &Delivery,
    targets: Vec<Session>,
    notification: &Notification,
) -> Broadcast {
    type Send = Pin<Box<dyn Future<Output = (Session, Outcome)> + core::marker::Send>>;

    let mut finished = Vec::with_capacity(targets.len());
    let mut waiting: JoinSet<(Session, Outcome)> = JoinSet::new();
    for session in targets {
        // Lets other tasks run however many sends are ready at once.
        consume_budget().await;
        let failed = match delivery.deliver_now(&session, notification) {
            Ok(outcome) => {
                finished.push((session, outcome));
                continue;
            }
            Err(failed) => failed,
        };
        let (delivery, notification) = (delivery.clone(), notification.clone());
        let mut send: Send = Box::pin(async move {
            let outcome = delivery
                .deliver_after(&session, &notification, failed)
                .await;
            (session, outcome)
        });
        match std::future::poll_fn(|cx| Poll::Ready(send.as_mut().poll(cx))).await {
            Poll::Ready(done) => finished.push(done),
            Poll::Pending => {
                waiting.spawn(send);
            }
        }
    }
    while let Some(joined) = waiting.join_next().await {
        match joined {
            Ok(done) => finished.push(done),
            // Delivery catches the sink's panics; this would be our own.
            Err(error) => tracing::error!(%error, "a delivery ended without an outcome"),
        }
    }
    let mut outcomes = Vec::with_capacity(finished.len());
    let mut keys = Vec::with_capacity(finished.len());
    for (session, outcome) in finished {
        if outcome.prunes() {
            session.prune();
        }
        outcomes.push((Arc::clone(session.id()), outcome));
        keys.push(session.key());
    }
    Broadcast { outcomes, keys }
}

#[cfg(test)]
mod tests;
