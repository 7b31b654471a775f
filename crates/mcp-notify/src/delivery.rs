//! Delivery: sends with a deadline, classification of failures, retries.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::catch::{catch_panic, catch_panic_sync};
use crate::failure::FailureReport;
use crate::gate::Admission;
use crate::logging::{Level, LogMessage};
use crate::metrics::Metrics;
use crate::notification::Notification;
use crate::outbox::{Gap, OutboxItem, ReadEnd};
use crate::retry::{RetryPolicy, attempt_number};
use crate::session::Session;
use crate::sink::{DefaultSink, NotificationSink, SendError};

/// The deadline of one send.
pub const SEND_DEADLINE: Duration = Duration::from_secs(2);

/// Renders the notification that announces a gap to the client, or `None`.
pub type GapRenderer = Arc<dyn Fn(&Session, Gap) -> Option<Notification> + Send + Sync>;

type OutcomeHook = Arc<dyn Fn(&Session, &Notification, &DeliveryOutcome) + Send + Sync>;

/// Delivers notifications to sessions through one sink. Cheap to clone.
///
/// The unit is one notification to one session. Each send has a deadline, and a
/// network failure or timeout is retried after 100, 200 and 400 ms. A notification
/// that cannot be sent is abandoned with one log record and one count. A sink that
/// hangs, panics or returns a wrong error for one session does not affect another.
///
/// Delivery is best effort. A client that must not miss a change reads the resource.
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

/// The outcome of delivering one notification to one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DeliveryOutcome {
    /// The sink accepted it.
    Delivered {
        /// The number of retries that it took.
        retries: u32,
    },
    /// It was abandoned, logged and counted.
    Abandoned {
        /// The last failure.
        error: SendError,
        /// `max(1, retries)`, as in the log record.
        attempt_number: u32,
    },
    /// The session was closed first. This is not a failure: there is no recipient.
    SessionEnded,
}

/// A gate did not admit a notification.
struct NotAdmitted;

// === impl Delivery ===

impl Delivery {
    /// Delivery through this sink, with the default retry policy and deadline.
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

    /// Sets the retry policy; [`RetryPolicy::none`] disables retries.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the deadline of one send.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets where failures are counted. Without it they are only logged.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.report = FailureReport::new(metrics);
        self
    }

    /// Sets how a gap in the stream is announced to the client. The default sends a
    /// `notifications/message` at `warning` to a session whose level admits it, and
    /// nothing to others.
    pub fn gap(
        mut self,
        render: impl Fn(&Session, Gap) -> Option<Notification> + Send + Sync + 'static,
    ) -> Self {
        self.gap = Arc::new(render);
        self
    }

    /// Sets a hook that is called with every outcome, for counters of your own. It must
    /// not block.
    pub fn on_outcome(
        mut self,
        hook: impl Fn(&Session, &Notification, &DeliveryOutcome) + Send + Sync + 'static,
    ) -> Self {
        self.on_outcome = Some(Arc::new(hook));
        self
    }

    /// Delivers one notification to one session: at most four sends and 700 ms of
    /// backoff, and less if the session is closed first.
    ///
    /// Does not prune the session; [`DeliveryOutcome::prunes`] says whether to. Cancel
    /// safety: dropping the future leaves nothing running, and whether the client
    /// received the notification is then unknown.
    pub async fn deliver(&self, session: &Session, notification: &Notification) -> DeliveryOutcome {
        self.deliver_after(session, notification, None).await
    }

    /// As [`deliver`](Self::deliver), after a first send that may have failed already.
    pub(crate) async fn deliver_after(
        &self,
        session: &Session,
        notification: &Notification,
        failed: Option<SendError>,
    ) -> DeliveryOutcome {
        let session = &session.unowned();
        let outcome = self.attempt(session, notification, failed).await;
        self.call_outcome_hook(session, notification, &outcome);
        outcome
    }

    async fn attempt(
        &self,
        session: &Session,
        notification: &Notification,
        mut failed: Option<SendError>,
    ) -> DeliveryOutcome {
        let mut retries = 0;
        loop {
            if session.is_closed() {
                return DeliveryOutcome::SessionEnded;
            }
            let error = match failed.take() {
                Some(error) => error,
                None => tokio::select! {
                    biased;
                    result = self.send_once(session, notification) => match result {
                        Ok(()) => return DeliveryOutcome::Delivered { retries },
                        // Closed during the send: not a failure.
                        Err(_) if session.is_closed() => return DeliveryOutcome::SessionEnded,
                        Err(error) => error,
                    },
                    () = session.closed() => return DeliveryOutcome::SessionEnded,
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
                () = session.closed() => return DeliveryOutcome::SessionEnded,
                () = sleep(delay) => retries += 1,
            }
        }
    }

    /// Delivers everything that is pushed to the session's outbox, in order, until the
    /// session is closed or another reader takes over. Spawn it once per session. The
    /// future does not keep the session alive.
    ///
    /// The session is pruned when a notification is abandoned because of the
    /// connection; the rest of the outbox is still tried.
    ///
    /// Returns [`ReadEnd::Circular`] at once if the sink pushes to the outbox itself.
    /// Cancel-safe: dropping the future puts back what was not sent. When another
    /// reader takes over, the send in flight is dropped and its notification belongs
    /// to that reader; if the sink had sent it nevertheless, the client gets it
    /// twice.
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
                    // The newer reader owns the whole batch already: continuing would
                    // send it twice.
                    let handled = tokio::select! {
                        biased;
                        outcome = delivery.handle(&session, &item) => outcome,
                        () = reader.superseded() => return ReadEnd::Superseded,
                    };
                    let Ok(handled) = handled else {
                        // Nothing has failed: a gap says that it is missing.
                        batch.abandon();
                        batch.abandon_shut();
                        continue;
                    };
                    match handled {
                        None => {
                            batch.deliver();
                        }
                        Some(outcome) => {
                            match outcome {
                                DeliveryOutcome::Delivered { .. } => batch.deliver(),
                                DeliveryOutcome::Abandoned { .. } => batch.abandon(),
                                // Closing has counted all that was pending.
                                DeliveryOutcome::SessionEnded => return ReadEnd::Closed,
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

    /// Sends one item of an outbox. A gap has no outcome; what a gate does not admit is an
    /// error.
    async fn handle(
        &self,
        session: &Session,
        item: &OutboxItem,
    ) -> Result<Option<DeliveryOutcome>, NotAdmitted> {
        match item {
            OutboxItem::Gap(gap) => {
                self.announce(session, *gap).await;
                Ok(None)
            }
            OutboxItem::Notification(notification) => {
                let is_admitted = match notification.admit() {
                    Admission::Open => true,
                    Admission::Shut => false,
                    Admission::Pending(answer) => answer.await,
                };
                if !is_admitted {
                    return Err(NotAdmitted);
                }
                Ok(Some(self.deliver(session, notification).await))
            }
        }
    }

    /// The outcome if the sink can send without waiting; otherwise the argument for
    /// [`deliver_after`](Self::deliver_after).
    pub(crate) fn try_deliver(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Result<DeliveryOutcome, Option<SendError>> {
        let outcome = self.try_attempt(session, notification)?;
        self.call_outcome_hook(session, notification, &outcome);
        Ok(outcome)
    }

    fn call_outcome_hook(
        &self,
        session: &Session,
        notification: &Notification,
        outcome: &DeliveryOutcome,
    ) {
        let Some(hook) = &self.on_outcome else { return };
        // A panicking hook must not stop the delivery to other sessions.
        if catch_unwind(AssertUnwindSafe(|| hook(session, notification, outcome))).is_err() {
            tracing::error!(session = session.name(), "an outcome hook panicked");
        }
    }

    fn try_attempt(
        &self,
        session: &Session,
        notification: &Notification,
    ) -> Result<DeliveryOutcome, Option<SendError>> {
        if session.is_closed() {
            return Ok(DeliveryOutcome::SessionEnded);
        }
        if let Err(error) = notification.pieces() {
            return Ok(self.abandon(session, notification, error.into(), 0));
        }
        match catch_panic_sync(|| self.sink.try_send(session, notification)).ok_or(None)? {
            Ok(()) => Ok(DeliveryOutcome::Delivered { retries: 0 }),
            Err(_) if session.is_closed() => Ok(DeliveryOutcome::SessionEnded),
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
    ) -> DeliveryOutcome {
        self.report
            .abandoned(session, notification, &error, retries);
        DeliveryOutcome::Abandoned {
            error,
            attempt_number: attempt_number(retries),
        }
    }

    /// Announces a gap to the client, in one attempt: the drops are counted already, and
    /// a failed announcement must not make another gap.
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
                    FailureReport::gap_not_announced(session, gap.dropped, &error);
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
    /// Delivery over the session's own channel.
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

// === impl DeliveryOutcome ===

impl DeliveryOutcome {
    /// Whether the sink accepted it.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered { .. })
    }

    /// Whether the session is to be pruned: the connection failed, or the session is
    /// closed.
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
