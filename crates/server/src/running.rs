//! What a running request can say to its client: how far it is, and log messages.

use mcp_notify::{Level, LogMessage, LoggingService, Progress, Session};
use serde::Serialize;

/// The voice of one request. What nobody asked for goes nowhere and costs nothing.
#[derive(Debug)]
pub(super) struct Running {
    progress: Progress,
    log: Log,
}

/// Where log messages of a request go.
#[derive(Debug)]
pub(super) enum Log {
    /// The client did not ask for any.
    Nowhere,
    /// To the session, by the level it set.
    Session(LoggingService, Session),
    /// Onto the stream of the answer, by the level in the request: all that the
    /// newest protocol has.
    Stream(LoggingService),
}

// === impl Running ===

impl Running {
    pub(super) fn new(progress: Progress, log: Log) -> Self {
        Self { progress, log }
    }

    /// Says how far the request is, and in words, on the stream of its answer. A value that is less than the last says nothing.
    pub(super) fn step(&self, value: f64, total: f64, words: &str) {
        let _went_back = self.progress.set(value, Some(words), Some(total));
    }

    /// The same of what may know neither how much there is nor words for it. Says
    /// nothing either where a value is none.
    pub(super) fn reached(&self, value: f64, total: Option<f64>, words: Option<&str>) {
        let _no_progress = self.progress.set(value, words, total);
    }

    /// Logs to the client. On the stream of the answer it waits for the client to
    /// take it, within the deadline of one send.
    pub(super) async fn log(&self, level: Level, logger: &str, data: &(impl Serialize + Sync)) {
        let message = LogMessage::new(level, data).logger(logger);
        match &self.log {
            Log::Nowhere => {}
            Log::Session(logging, session) => {
                logging.publish_to(session, message);
            }
            Log::Stream(logging) => {
                let _accounted = logging.log(message).await;
            }
        }
    }
}
