//! Fan-out: one notification to many sessions, independently of each other.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;

use crate::delivery::{Delivery, DeliveryOutcome};
use crate::notification::Notification;
use crate::session::{Session, SessionKey};

/// The outcomes of a broadcast per session, in no particular order.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct BroadcastOutcome {
    outcomes: Vec<(Arc<str>, DeliveryOutcome)>,
    /// The session of each outcome. Ids are given by the server and may be equal.
    keys: Vec<SessionKey>,
}

impl BroadcastOutcome {
    /// The id and the outcome of each session.
    pub fn outcomes(&self) -> &[(Arc<str>, DeliveryOutcome)] {
        &self.outcomes
    }

    /// The number of sessions that it was delivered to.
    pub fn delivered(&self) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| outcome.is_delivered())
            .count()
    }

    /// The outcome for one session.
    pub fn outcome(&self, session: &Session) -> Option<&DeliveryOutcome> {
        let at = self.keys.iter().position(|key| *key == session.key())?;
        self.outcomes.get(at).map(|(_, outcome)| outcome)
    }
}

/// Delivers to all targets. When the last outcome is known, the sessions whose
/// connection failed are pruned: all kinds of broadcasts clean up here.
///
/// A sink that never waits, such as an outbox, costs no future, and one that is ready
/// when first polled costs no task. Pending sends run concurrently, in a set that is
/// aborted when this future is dropped.
pub(crate) async fn fan_out(
    delivery: &Delivery,
    targets: Vec<Session>,
    notification: &Notification,
) -> BroadcastOutcome {
    fan_out_if(delivery, targets, notification, |_| true).await
}

/// As [`fan_out`], to those targets for which `is_due` returns true. It is asked right
/// before the send, with no await in between.
pub(crate) async fn fan_out_if(
    delivery: &Delivery,
    targets: Vec<Session>,
    notification: &Notification,
    is_due: impl Fn(&Session) -> bool + Send,
) -> BroadcastOutcome {
    type Send = Pin<Box<dyn Future<Output = (Session, DeliveryOutcome)> + core::marker::Send>>;

    let mut finished = Vec::with_capacity(targets.len());
    let mut waiting: JoinSet<(Session, DeliveryOutcome)> = JoinSet::new();
    for session in targets {
        // Yields to other tasks, however many sends are ready at once.
        consume_budget().await;
        if !is_due(&session) {
            continue;
        }
        let failed = match delivery.try_deliver(&session, notification) {
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
            // Delivery catches panics of the sink: this one is a bug of this crate.
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
    BroadcastOutcome { outcomes, keys }
}

#[cfg(test)]
mod tests;
