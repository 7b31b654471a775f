//! The one path every abandoned notification takes: one record, one count.

use crate::metrics::Metrics;
use crate::notification::Notification;
use crate::retry::attempt_number;
use crate::session::Session;
use crate::sink::SendError;

/// What the label says of a resource that belongs to none of the counted types.
const UNSPECIFIED: &str = "unspecified";

/// Logs and counts notifications that were given up.
///
/// [`Delivery`](crate::Delivery) goes through it by itself. Go through it
/// yourself only if you read an outbox with a loop of your own.
///
/// - A notification about a resource: one record at ERROR with exactly
///   `resource_type`, `uri`, `error_message` and `attempt_number`, and one
///   count if the type is one of the counted ones.
/// - Any other (`list_changed`, progress, custom): one record at WARN with
///   `session`, `method`, `error_message` and `attempt_number`; no count.
#[derive(Clone, Debug, Default)]
pub struct FailureReport {
    metrics: Metrics,
}

impl FailureReport {
    /// Reports that count in `metrics`.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }

    /// The notification was given up for this session, after this many retries.
    pub fn abandoned(
        &self,
        session: &Session,
        notification: &Notification,
        error: &SendError,
        retries_done: u32,
    ) {
        let attempt_number = attempt_number(retries_done);
        let error_message = error.to_string();
        let Some(about) = notification.about() else {
            tracing::warn!(
                session = session.name(),
                method = notification.method().as_str(),
                error_message,
                attempt_number,
                "notification abandoned"
            );
            return;
        };
        // What an outbox refuses, it has counted itself if it counts at all.
        let counted_elsewhere = matches!(error, SendError::Full) && session.outbox().counts();
        if let (Some(resource_type), false) = (about.resource_type, counted_elsewhere) {
            self.metrics.failed(resource_type, error.class().error_type);
        }
        let resource_type = about
            .resource_type
            .map_or(UNSPECIFIED, |known| known.as_str());
        let uri = &*about.uri;
        tracing::error!(
            resource_type,
            uri,
            error_message,
            attempt_number,
            "notification abandoned"
        );
    }

    /// The client could not be told of a gap. What was dropped is counted.
    pub(crate) fn gap_untold(session: &Session, dropped: u64, error: &SendError) {
        tracing::debug!(
            session = session.name(),
            dropped,
            error_message = %error,
            "a gap could not be announced"
        );
    }

    /// A send failed and will be repeated: nothing is lost yet.
    pub(crate) fn retrying(session: &Session, notification: &Notification, error: &SendError) {
        tracing::debug!(
            session = session.name(),
            method = notification.method().as_str(),
            error_message = %error,
            "notification will be sent again"
        );
    }
}
