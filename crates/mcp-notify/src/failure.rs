//! Failure reports: one log record and one count per abandoned notification; for
//! notifications that a full outbox dropped one count each, and a record that sums up.

use crate::metrics::Metrics;
use crate::notification::{Notification, ResourceRef};
use crate::retry::attempt_number;
use crate::session::Session;
use crate::sink::SendError;

/// The field `resource_type` of a resource without a type.
const UNSPECIFIED: &str = "unspecified";

/// Logs and counts abandoned notifications.
///
/// [`Delivery`](crate::Delivery) does so by itself, and
/// [`OutboxBatch::abandon_failed`](crate::OutboxBatch::abandon_failed) for a stream of your
/// own that reads an outbox. Use it directly only where neither fits.
///
/// - A notification about a resource: one record at ERROR with exactly
///   `resource_type`, `uri`, `error_message` and `attempt_number`, and one count if
///   the resource has a type.
/// - Any other notification (`list_changed`, progress, custom): one record at WARN with
///   `session`, `method`, `error_message` and `attempt_number`, and no count.
#[derive(Clone, Debug, Default)]
pub struct FailureReport {
    metrics: Metrics,
}

impl FailureReport {
    /// A report that counts in `metrics`.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }

    /// Reports that the notification was abandoned for this session after this many
    /// retries.
    pub fn abandoned(
        &self,
        session: &Session,
        notification: &Notification,
        error: &SendError,
        retries_done: u32,
    ) {
        let attempt_number = attempt_number(retries_done);
        let error_message = error.to_string();
        let Some(resource) = notification.resource() else {
            tracing::warn!(
                session = session.name(),
                method = notification.method().as_str(),
                error_message,
                attempt_number,
                "notification abandoned"
            );
            return;
        };
        // An outbox with metrics has counted what it refused.
        let counted_elsewhere = matches!(error, SendError::Full) && session.outbox().counts();
        if let (Some(resource_type), false) = (resource.resource_type, counted_elsewhere) {
            self.metrics.failed(resource_type, error.class().error_type);
        }
        let (resource_type, uri) = (type_name(resource), &*resource.uri);
        tracing::error!(
            resource_type,
            uri,
            error_message,
            attempt_number,
            "notification abandoned"
        );
    }

    /// Logs that the announcement of a gap failed. The dropped notifications are
    /// counted already.
    pub(crate) fn gap_not_announced(session: &Session, dropped: u64, error: &SendError) {
        tracing::debug!(
            session = session.name(),
            dropped,
            error_message = %error,
            "a gap could not be announced"
        );
    }

    /// Logs that a send failed and will be retried.
    pub(crate) fn retrying(session: &Session, notification: &Notification, error: &SendError) {
        tracing::debug!(
            session = session.name(),
            method = notification.method().as_str(),
            error_message = %error,
            "notification will be sent again"
        );
    }
}

/// A log record of notifications that a full outbox dropped: at ERROR with the fields of
/// an abandoned notification if one of them was about a resource, else at WARN. `dropped`
/// counts all of them since the reader fell behind.
#[derive(Debug)]
pub(crate) struct DroppedRecord {
    example: Notification,
    dropped: u64,
    error_message: &'static str,
}

// === impl DroppedRecord ===

impl DroppedRecord {
    pub(crate) fn new(example: &Notification, dropped: u64, error_message: &'static str) -> Self {
        Self {
            example: example.clone(),
            dropped,
            error_message,
        }
    }

    pub(crate) fn log(&self, session: &str) {
        let Self {
            example,
            dropped,
            error_message,
        } = self;
        // Nothing that was dropped is tried again.
        let attempt_number = attempt_number(0);
        if let Some(resource) = example.resource() {
            tracing::error!(
                session,
                resource_type = type_name(resource),
                uri = &*resource.uri,
                error_message,
                attempt_number,
                dropped,
                "notifications dropped"
            );
        } else {
            tracing::warn!(
                session,
                method = example.method().as_str(),
                error_message,
                attempt_number,
                dropped,
                "notifications dropped"
            );
        }
    }
}

fn type_name(resource: &ResourceRef) -> &'static str {
    resource
        .resource_type
        .map_or(UNSPECIFIED, |known| known.as_str())
}
