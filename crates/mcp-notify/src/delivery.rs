//! Sending for real: a deadline, a classification, retries, and an end.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::catch::{catch_panic, catch_panic_now};
use crate::failure::FailureReport;
use crate::logging::{Level, LogMessage};
use crate::metrics::Metrics;
use crate::notification::Notification;
use crate::outbox::{Gap, Item, ReadEnd};
use crate::retry::{RetryPolicy, attempt_number};
use crate::session::Session;
use crate::sink::{DefaultSink, NotificationSink, SendError};

/// How long one send may take before it counts as a timeout.
pub const SEND_DEADLINE: Duration = Duration::from_secs(2);

/// Makes of a gap the notification that tells the client of it, or nothing.
pub type GapRenderer = Arc<dyn Fn(&Session, Gap) -> Option<Notification> + Send + Sync>;

type OutcomeHook = Arc<dyn Fn(&Session, &Notification, &Outcome) + Send + Sync>;

/// Carries notifications to sessions through one sink. A clone is the same.
///
/// One notification to one session is the unit: each is sent within a
/// deadline, and on a network failure or timeout again after 100, 200 and
/// 400 ms. What cannot be sent is given up with one log record and one count.
/// Nothing a sink does to one session, be it to hang, to panic or to return
/// nonsense, reaches another.
///
/// Delivery is best effort. A client that needs to be sure reads the resource.
#[derive(Clone)]
#[must_use]
pub struct Delivery {
    sink: Arc<dyn NotificationSink>,
    retry: RetryPolicy,
    deadline: Duration,
    report: FailureReport,
    gap: GapRenderer,
    on_outcome: Option<OutcomeHook>,
}

/// What became of one notification for one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The sink took it.
    Delivered {
        /// After so many retries.
        retries: u32,
    },
    /// It was given up, logged and counted.
    Abandoned {
        /// The last failure.
        error: SendError,
        /// `max(1, retries)`: what the log record says.
        attempt_number: u32,
    },
    /// The session ended first. Nobody is left to miss it.
    SessionEnded,
}

// === impl Delivery ===

impl Delivery {
    /// Delivery through this sink, with the default policy.
    pub fn new(sink: impl NotificationSink) -> Self {
        Self {
            sink: Arc::new(sink),
            retry: RetryPolicy::default(),
            deadline: SEND_DEADLINE,
            report: FailureReport::default(),
            gap: Arc::new(announce_as_log_message),
            on_outcome: None,
        }
    }

    /// Another retry policy; [`RetryPolicy::none`] switches retries off.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Another deadline for one send.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Where failures are counted. Without it they are only logged.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.report = FailureReport::new(metrics);
        self
    }

    /// How a gap in the stream is told to the client. The default sends a
    /// `notifications/message` at `warning` to sessions whose level admits it,
    /// and nothing to others.
    pub fn gap(
        mut self,
        render: impl Fn(&Session, Gap) -> Option<Notification> + Send + Sync + 'static,
    ) -> Self {
        self.gap = Arc::new(render);
        self
    }

    /// Calls `hook` with every outcome, for counters of your own. It must not
    /// block.
    pub fn on_outcome(
        mut self,
        hook: impl Fn(&Session, &Notification, &Outcome) + Send + Sync + 'static,
    ) -> Self {
        self.on_outcome = Some(Arc::new(hook));
        self
    }

    /// Delivers one notification to one session: at most four sends and 700 ms
    /// of waiting, and less if the session ends first.
    ///
    /// Does not prune the session; [`Outcome::prunes`] says whether to.
    /// Cancel-safe in so far as nothing is left running when the future is
    /// dropped; whether the client has got it is then unknown.
    pub async fn deliver(&self, session: &Session, notification: &Notification) -> Outcome {
        self.deliver_after(session, notification, None).await
    }

    /// As [`deliver`](Self::deliver), where the first send may have been made
    /// already and failed.
    pub(crate) async fn deliver_after(
        &self,
        session: &Session,
        notification: &Notification,
        failed: Option<SendError>,
    ) -> Outcome {
        let session = &session.unowned();
        let outcome = self.attempt(session, notification, failed).await;
        self.tell(session, notification, &outcome);
        outcome
    }

    async fn attempt(
        &self,
        session: &Session,
        notification: &Notification,
        mut failed: Option<SendError>,
    ) -> Outcome {
        let mut retries = 0;
        loop {
            if session.is_closed() {
                return Outcome::SessionEnded;
            }
            let error = match failed.take() {
                Some(error) => error,
                None => tokio::select! {
                    biased;
                    result = self.send_once(session, notification) => match result {
                        Ok(()) => return Outcome::Delivered { retries },
                        // It ended while being sent to: no failure of anything.
                        Err(_) if session.is_closed() => return Outcome::SessionEnded,
                        Err(error) => error,
                    },
                    () = session.closed() => return Outcome::SessionEnded,
                },
            };
            let retry = error.class().retryable;
            let delay = self.retry.delay_after(retries).filter(|_| retry);
            let Some(delay) = delay else {
                return self.abandon(session, notification, error, retries);
            };
            FailureReport::retrying(session, notification, &error);
            tokio::select! {
                biased;
                () = session.closed() => return Outcome::SessionEnded,
                () = sleep(delay) => retries += 1,
            }
        }
    }

    /// Delivers everything that is pushed to the session's outbox, in order,
    /// until the session ends or another reader takes over. Spawn it once per
    /// session. The future does not keep the session alive.
    ///
    /// After a notification was given up because of the connection, the
    /// session is pruned; what else waits is still tried.
    ///
    /// Ends at once with [`ReadEnd::Circular`] if the sink would put everything
    /// back into the outbox. Cancel-safe: dropped in the middle, what was not
    /// sent is back in the outbox. When another reader takes over, a send that
    /// is under way is dropped and its notification is the other reader's; if
    /// the sink had sent it all the same, the client gets it twice.
    pub fn run(&self, session: &Session) -> impl Future<Output = ReadEnd> + Send + 'static {
        let delivery = self.clone();
        let session = session.unowned();
        async move {
            if delivery.sink.queues(&session) {
                tracing::error!(
                    session = session.name(),
                    "the sink leads back into the outbox"
                );
                return ReadEnd::Circular;
            }
            let mut reader = session.outbox().reader();
            loop {
                let mut batch = match reader.next().await {
                    Ok(batch) => batch,
                    Err(end) => return end,
                };
                while let Some(item) = batch.front().cloned() {
                    // The newer reader has all of the batch already: to go on
                    // would be to send it twice.
                    let handled = tokio::select! {
                        biased;
                        outcome = delivery.handle(&session, &item) => outcome,
                        () = reader.superseded() => return ReadEnd::Superseded,
                    };
                    match handled {
                        None => {
                            batch.deliver();
                        }
                        Some(outcome) => {
                            match outcome {
                                Outcome::Delivered { .. } => batch.deliver(),
                                Outcome::Abandoned { .. } => batch.abandon(),
                                // Closing has counted what waits; this is the rest.
                                Outcome::SessionEnded => return ReadEnd::Closed,
                            };
                            if outcome.prunes() {
                                session.prune();
                            }
                        }
                    }
                }
            }
        }
    }

    /// Sends one item of an outbox; a gap has no outcome.
    async fn handle(&self, session: &Session, item: &Item) -> Option<Outcome> {
        match item {
            Item::Gap(gap) => {
                self.announce(session, *gap).await;
                None
            }
            Item::Notification(notification) => Some(self.deliver(session, notification).await),
        }
    }

    /// The outcome if it can be had without waiting; otherwise what is to be
    /// handed to [`deliver_after`](Self::deliver_after).
    pub(crate) fn deliver_now(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Result<Outcome, Option<SendError>> {
        let outcome = self.attempt_now(session, notification)?;
        self.tell(session, notification, &outcome);
        Ok(outcome)
    }

    fn tell(&self, session: &Session, notification: &Notification, outcome: &Outcome) {
        let Some(hook) = &self.on_outcome else { return };
        // The hook's panic must not cost others their notification.
        if catch_unwind(AssertUnwindSafe(|| hook(session, notification, outcome))).is_err() {
            tracing::error!(session = session.name(), "an outcome hook panicked");
        }
    }

    fn attempt_now(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Result<Outcome, Option<SendError>> {
        if session.is_closed() {
            return Ok(Outcome::SessionEnded);
        }
        if let Err(error) = notification.pieces() {
            return Ok(self.abandon(session, notification, error.into(), 0));
        }
        match catch_panic_now(|| self.sink.send_now(session, notification)).ok_or(None)? {
            Ok(()) => Ok(Outcome::Delivered { retries: 0 }),
            Err(_) if session.is_closed() => Ok(Outcome::SessionEnded),
            Err(error) if error.class().retryable => Err(Some(error)),
            Err(error) => Ok(self.abandon(session, notification, error, 0)),
        }
    }

    fn abandon(
        &self,
        session: &Session,
        notification: &Notification,
        error: SendError,
        retries: u32,
    ) -> Outcome {
        self.report
            .abandoned(session, notification, &error, retries);
        Outcome::Abandoned {
            error,
            attempt_number: attempt_number(retries),
        }
    }

    /// Tells the client of a gap, once: a gap that cannot be told is in the
    /// counters all the same, and must not make another gap.
    async fn announce(&self, session: &Session, gap: Gap) {
        let rendered = catch_unwind(AssertUnwindSafe(|| (self.gap)(session, gap)));
        let notification = match rendered {
            Ok(Some(notification)) => notification,
            Ok(None) => return,
            Err(_) => {
                let session = session.name();
                tracing::error!(session, dropped = gap.dropped, "a gap renderer panicked");
                return;
            }
        };
        tokio::select! {
            biased;
            sent = self.send_once(session, &notification) => {
                if let Err(error) = sent {
                    FailureReport::gap_untold(session, gap.dropped, &error);
                }
            }
            () = session.closed() => {}
        }
    }

    async fn send_once(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Result<(), SendError> {
        notification.pieces()?;
        let send = catch_panic(|| self.sink.send(session, notification));
        match timeout(self.deadline, send).await {
            Ok(result) => result,
            Err(_) => Err(SendError::Deadline(self.deadline)),
        }
    }
}

impl Default for Delivery {
    /// Delivery through the session's own send.
    fn default() -> Self {
        Self::new(DefaultSink)
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("retry", &self.retry)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn announce_as_log_message(session: &Session, gap: Gap) -> Option<Notification> {
    let admitted = session
        .log_level()
        .is_some_and(|threshold| threshold <= Level::Warning);
    admitted.then(|| {
        let data = serde_json::json!({ "dropped": gap.dropped });
        LogMessage::new(Level::Warning, &data)
            .logger("mcp-notify")
            .into_notification()
    })
}

// === impl Outcome ===

impl Outcome {
    /// Whether the sink took it.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered { .. })
    }

    /// Whether the session should stop being a target: the connection failed
    /// for good, or the session has ended.
    pub fn prunes(&self) -> bool {
        match self {
            Self::Delivered { .. } => false,
            Self::Abandoned { error, .. } => error.class().prunes,
            Self::SessionEnded => true,
        }
    }
}

#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod tests;
