//! What comes from the log, as the frames of a watch.

use std::{collections::VecDeque, sync::Arc};

use futures_util::stream::{self, BoxStream};
use kubecrier_history::{Messages, SharedLogError};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant, timeout};

use super::{
    message::{Seen, WatchMessage},
    source::FIRST_MESSAGE,
};
use crate::{
    Contexts,
    error::{ClusterError, ErrorKind},
    watch::{
        source::{WatchError, WatchFrame},
        watch_loop::is_older,
    },
};
use kubecrier_core::Event;

/// A log in which nothing is written for so long has no holder.
const SILENCE: Duration = Duration::from_secs(8);

pub(super) type Frame = Result<WatchFrame<Event>, WatchError>;

/// Where a reader of the log is, kept while its watch is opened again.
#[derive(Default)]
pub(super) struct LogPosition {
    /// The number of the last message that was read.
    pub(super) number: Option<u64>,
    /// The number of the last message that there was when the log was last opened, and when.
    last: Option<(u64, Instant)>,
    /// The log, if it is being read.
    pub(super) open: Option<OpenLog>,
}

/// A log that is being read.
pub(super) struct OpenLog {
    pub(super) messages: Messages,
    /// Everything up to this resourceVersion was passed on.
    version: String,
    last_message: Instant,
    ready: VecDeque<WatchFrame<Event>>,
}

/// Why the log cannot be followed any further.
#[derive(Debug)]
pub(super) enum LogEnd {
    /// Something is missing between what was read and the next message.
    Hole,
    /// No server watches, or the log cannot be read.
    Silent(String),
    /// The history of the API server was gone; the holder has listed.
    Relisted { replaced: bool },
}

// === impl LogPosition ===

impl LogPosition {
    /// Whether nothing was written since the log was last opened, although a holder would have.
    pub(super) fn is_silent(&mut self, last: u64) -> bool {
        match self.last {
            Some((known, since)) if known == last => since.elapsed() >= FIRST_MESSAGE,
            Some(_) | None => {
                self.last = Some((last, Instant::now()));
                false
            }
        }
    }
}

// === impl OpenLog ===

impl OpenLog {
    /// A log that is read for a watch of what comes after this version.
    pub(super) fn new(messages: Messages, version: &str) -> Self {
        Self {
            messages,
            version: version.to_owned(),
            last_message: Instant::now(),
            ready: VecDeque::new(),
        }
    }

    /// Whether a watch of what comes after this version can go on where this one was.
    pub(super) fn goes_on_at(&self, version: &str) -> bool {
        let is_alive = self.last_message.elapsed() < SILENCE && !self.messages.is_closed();
        is_alive && self.ready.is_empty() && self.version == version
    }

    /// Reads the next message into `ready`.
    pub(super) async fn read(
        &mut self,
        patience: Duration,
        number: &mut Option<u64>,
        contexts: &Contexts,
    ) -> Result<(), LogEnd> {
        loop {
            let message = match timeout(patience, self.messages.recv()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return Err(error.into()),
                Ok(None) => return Err(LogEnd::Silent("the shared log has ended".to_owned())),
                Err(_elapsed) => {
                    let seconds = patience.as_secs_f32();
                    let why = format!("no server has written to the shared log for {seconds} s");
                    return Err(LogEnd::Silent(why));
                }
            };
            *number = Some(message.number);
            let Some(read) = WatchMessage::parse(&message.bytes) else {
                return Err(LogEnd::Silent(
                    "the shared log is written by another version of this program".to_owned(),
                ));
            };
            // Who begins may not reach the API server.
            if !matches!(read.seen, Seen::Begun) {
                self.last_message = Instant::now();
                return self.take(read, contexts);
            }
        }
    }

    fn take(&mut self, message: WatchMessage, contexts: &Contexts) -> Result<(), LogEnd> {
        let WatchMessage {
            after, until, seen, ..
        } = message;
        match seen {
            Seen::Begun => Ok(()),
            Seen::Events(events) => {
                if is_older(&self.version, &after) {
                    return Err(LogEnd::Hole);
                }
                let known: u64 = self.version.parse().unwrap_or_default();
                for event in events {
                    if event.version > 0 && event.version <= known {
                        continue;
                    }
                    let version = match event.version {
                        0 => String::new(),
                        version => version.to_string(),
                    };
                    let frame = match event.to_event(contexts) {
                        Some(event) => WatchFrame::Item(event, version),
                        None => WatchFrame::Skipped(version),
                    };
                    self.ready.push_back(frame);
                }
                if is_older(&self.version, &until) {
                    self.version.clone_from(&until);
                    self.ready.push_back(WatchFrame::Bookmark(until));
                } else {
                    // A sign of life; the reader is further.
                    self.ready.push_back(WatchFrame::Skipped(String::new()));
                }
                Ok(())
            }
            // Who has everything up to there misses nothing.
            Seen::Relisted { replaced: false } if !is_older(&self.version, &until) => {
                self.ready.push_back(WatchFrame::Skipped(String::new()));
                Ok(())
            }
            Seen::Relisted { replaced } => Err(LogEnd::Relisted { replaced }),
            Seen::Ended { error } => Err(LogEnd::Silent(error)),
        }
    }
}

/// The frames of a log, which goes back to its position when they are dropped.
pub(super) fn frames(
    log: OpenLog,
    position: Arc<Mutex<LogPosition>>,
    contexts: Arc<Contexts>,
    name: Arc<str>,
) -> BoxStream<'static, Frame> {
    let reading = Reading {
        log: Some(log),
        position,
        contexts,
        name,
    };
    Box::pin(stream::unfold(reading, Reading::next))
}

/// Reads a log for a watch.
struct Reading {
    log: Option<OpenLog>,
    position: Arc<Mutex<LogPosition>>,
    contexts: Arc<Contexts>,
    name: Arc<str>,
}

// === impl Reading ===

impl Reading {
    async fn next(mut self) -> Option<(Frame, Self)> {
        loop {
            let log = self.log.as_mut()?;
            if let Some(frame) = log.ready.pop_front() {
                return Some((Ok(frame), self));
            }
            let mut number = self.position.lock().number;
            let read = log.read(SILENCE, &mut number, &self.contexts).await;
            self.position.lock().number = number;
            if let Err(end) = read {
                // It is opened anew from its position.
                self.log = None;
                return Some((Err(end.into_error(&self.name)), self));
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.position.lock().open = self.log.take();
    }
}

// === impl LogEnd ===

impl LogEnd {
    pub(super) fn into_error(self, name: &str) -> WatchError {
        let why = match self {
            Self::Relisted { replaced: true } => return WatchError::ClusterReplaced,
            Self::Relisted { replaced: false } => return WatchError::Expired,
            Self::Hole => "messages of the shared log are missing".to_owned(),
            Self::Silent(why) => why,
        };
        let doing = format!("cannot follow the shared watch of {name}");
        WatchError::Request(ClusterError::new(ErrorKind::Unreachable, doing, why, None))
    }
}

impl From<SharedLogError> for LogEnd {
    fn from(error: SharedLogError) -> Self {
        Self::Silent(error.to_string())
    }
}
