//! Progress and log messages of a request that is being answered.

use mcp_notify::{Level, LogMessage, LoggingService, Progress, Session};
use serde::Serialize;

/// Reports progress and log messages to the client of one request. Without a progress
/// token or a log level a report costs nothing.
#[derive(Debug)]
pub(super) struct RequestReporter {
    progress: Progress,
    log: LogTarget,
}

/// The destination of a request's log messages.
#[derive(Debug)]
pub(super) enum LogTarget {
    /// The client has set no level.
    Disabled,
    /// To the session, by the level it set.
    Session(LoggingService, Session),
    /// Onto the stream of the answer, by the level in the request: all that the
    /// newest protocol has.
    Stream(LoggingService),
}

// === impl RequestReporter ===

impl RequestReporter {
    pub(super) fn new(progress: Progress, log: LogTarget) -> Self {
        Self { progress, log }
    }

    /// Reports a step on the stream of the request's answer. A value below the last one
    /// is not sent.
    pub(super) fn step(&self, value: f64, total: f64, text: &str) {
        let _went_back = self.progress.set(value, Some(text), Some(total));
    }

    /// Reports progress of which the total or the text may be unknown. A value that is
    /// no progress is not sent.
    pub(super) fn progress(&self, value: f64, total: Option<f64>, text: Option<&str>) {
        let _no_progress = self.progress.set(value, text, total);
    }

    /// Logs to the client. On the stream of the answer it waits for the client to
    /// take it, within the deadline of one send.
    pub(super) async fn log(&self, level: Level, logger: &str, data: &(impl Serialize + Sync)) {
        let message = LogMessage::new(level, data).logger(logger);
        match &self.log {
            LogTarget::Disabled => {}
            LogTarget::Session(logging, session) => {
                logging.publish_to(session, message);
            }
            LogTarget::Stream(logging) => {
                let _accounted = logging.log(message).await;
            }
        }
    }
}
