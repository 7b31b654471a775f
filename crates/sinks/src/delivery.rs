//! The delivery of messages: one after the other, tried again with a backoff for as long as the
//! queue holds them.

use std::{future::Future, time::Duration};

use kubecrier_core::{Backoff, metrics::SinkOutcome};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::{notice::Notice, secret::SecretError, sink::Shared};

/// A target that is away is asked again after a second, and each minute in the end.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// Attempts for a message that the target refuses for what it is configured with. That takes
/// three minutes, in which a token or a path can be mended.
pub(crate) const REFUSED_ATTEMPTS: u32 = 8;

/// The time for what still waits when the process ends.
const LAST_CHANCE: Duration = Duration::from_secs(2);

/// Why a message was not delivered, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeliveryError {
    /// The target is away or busy: it is tried again for as long as there is room.
    #[error("{reason}")]
    Unavailable {
        /// What happened.
        reason: String,
        /// The delay that the target asks for.
        retry_after: Option<Duration>,
    },
    /// The target refuses us, which a change of the configuration may mend: it is tried again
    /// a few times.
    #[error("{reason}")]
    Refused {
        /// What happened.
        reason: String,
    },
    /// The target does not take this message: it is not tried again.
    #[error("{reason}")]
    Rejected {
        /// What happened.
        reason: String,
    },
}

/// Delivers one message. A trait for tests with a target that fails on purpose.
pub(crate) trait Deliver: Send + Sync {
    fn deliver(&self, notice: &Notice) -> impl Future<Output = Result<(), DeliveryError>> + Send;
}

/// Delivers what waits until the process ends.
pub(crate) async fn run(shared: &Shared, target: &impl Deliver, stop: &CancellationToken) {
    let mut health = Health::default();
    loop {
        let notice = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            notice = shared.next() => notice,
        };
        let sending = target.deliver(&notice);
        let result = tokio::select! {
            biased;
            () = stop.cancelled() => {
                shared.put_back(notice);
                break;
            }
            result = sending => result,
        };
        let Some(pause) = settle(shared, &mut health, notice, result) else {
            continue;
        };
        tokio::select! {
            () = stop.cancelled() => break,
            () = sleep_until(Instant::now() + pause) => {}
        }
    }
    let flush = async {
        while let Some(notice) = shared.try_next() {
            if let Err(error) = target.deliver(&notice).await {
                tracing::debug!(sink = shared.name(), %error, "the last attempt failed");
                shared.put_back(notice);
                return;
            }
            shared.metrics().count(SinkOutcome::Delivered, 1);
        }
    };
    let _cut = timeout(LAST_CHANCE, flush).await;
    shared.drop_rest();
}

/// Notes what became of a message; the delay before the next attempt, if it failed.
fn settle(
    shared: &Shared,
    health: &mut Health,
    notice: Notice,
    result: Result<(), DeliveryError>,
) -> Option<Duration> {
    let error = match result {
        Ok(()) => {
            shared.metrics().count(SinkOutcome::Delivered, 1);
            health.delivered(shared.name());
            return None;
        }
        Err(error) => error,
    };
    let id = notice.incident().id.clone();
    let give_up = match &error {
        DeliveryError::Rejected { .. } => true,
        DeliveryError::Refused { .. } => health.refused(&id) >= REFUSED_ATTEMPTS,
        DeliveryError::Unavailable { .. } => false,
    };
    if give_up {
        shared.metrics().count(SinkOutcome::Rejected, 1);
        tracing::warn!(sink = shared.name(), incident = id, %error, "an incident was not delivered, and is not tried again");
        health.give_up();
        return None;
    }
    shared.metrics().count(SinkOutcome::Failed, 1);
    shared.put_back(notice);
    Some(health.failed(shared.name(), &error))
}

/// How deliveries went lately.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failures: u32,
    /// The incident that was refused, and how often in a row.
    refused: (String, u32),
}

// === impl Health ===

impl Health {
    pub(crate) fn delivered(&mut self, sink: &str) {
        if self.failures > 0 {
            tracing::info!(
                sink,
                failures = self.failures,
                "the sink takes incidents again"
            );
        }
        *self = Self::default();
    }

    /// Counts a failure; the delay before the next attempt. An outage is said once.
    pub(crate) fn failed(&mut self, sink: &str, error: &DeliveryError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            tracing::warn!(sink, %error, "a sink does not take incidents; they wait and are tried again");
        } else {
            tracing::debug!(sink, %error, failures = self.failures, "the sink still does not take incidents");
        }
        let asked = match error {
            DeliveryError::Unavailable { retry_after, .. } => retry_after.unwrap_or_default(),
            DeliveryError::Refused { .. } | DeliveryError::Rejected { .. } => Duration::ZERO,
        };
        BACKOFF.delay(self.failures).max(asked)
    }

    fn refused(&mut self, id: &str) -> u32 {
        if self.refused.0 != id {
            self.refused = (id.to_owned(), 0);
        }
        self.refused.1 += 1;
        self.refused.1
    }

    fn give_up(&mut self) {
        self.refused = (String::new(), 0);
    }
}

// === impl DeliveryError ===

impl DeliveryError {
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable {
            reason: reason.into(),
            retry_after: None,
        }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused {
            reason: reason.into(),
        }
    }

    pub(crate) fn rejected(reason: impl Into<String>) -> Self {
        Self::Rejected {
            reason: reason.into(),
        }
    }
}

impl From<SecretError> for DeliveryError {
    fn from(error: SecretError) -> Self {
        Self::refused(error.to_string())
    }
}

#[cfg(test)]
mod tests;
