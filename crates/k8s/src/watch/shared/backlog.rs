//! What the log has of the time before, for a server that starts.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kubecrier_history::{Message, Messages, ReadFrom, SharedLogError};
use tokio::time::{Duration, timeout};

use super::{
    SharedWatching,
    message::{Seen, WatchMessage},
};
use crate::{Contexts, watch::watch_loop::is_older};
use kubecrier_core::Event;

/// How long the next message may take: those that are kept come at once, and of those to come the
/// first may have to wait for another holder.
const NEXT_MESSAGE: Duration = Duration::from_secs(8);

/// A holder says each second that it has seen nothing. After so many of that in a row it will not
/// see what happened before the first.
const QUIET: u32 = 3;

/// A holder writes every second: a log that begins so much later than it is read from begins
/// there. Clocks may differ by less.
const BEGINNING: SignedDuration = SignedDuration::from_secs(30);

/// Events that other servers have seen, the oldest first.
pub struct SharedBacklog {
    /// None if nobody has ever written, or not for as long as messages are kept.
    messages: Option<Messages>,
    /// The number of the last message that there was at the beginning.
    last: u64,
    /// What is watched from here on is known otherwise.
    until: Option<u64>,
    /// How many messages in a row, of those written since the beginning, say that nothing was seen.
    quiet: u32,
    is_read: bool,
    contexts: Arc<Contexts>,
    /// What was read is known up to this resourceVersion; empty before the first message.
    version: String,
    /// When that was, in milliseconds.
    known_at: i64,
    gaps: Vec<BacklogGap>,
}

/// A time of which events may be missing in what other servers have seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacklogGap {
    /// Its beginning, in milliseconds.
    pub since: i64,
    /// Its end, in milliseconds.
    pub until: i64,
    /// The reason.
    pub why: String,
}

// === impl SharedBacklog ===

impl SharedBacklog {
    /// The events of a topic that were seen after a time, those that are written now up to a
    /// version among them.
    pub(in crate::watch) async fn open(
        shared: &SharedWatching,
        topic: &str,
        since: Timestamp,
        until: Option<u64>,
        contexts: &Arc<Contexts>,
    ) -> Result<Self, SharedLogError> {
        let last = shared.log.last(topic).await?;
        let messages = match &last {
            Some(_) => Some(shared.log.follow(topic, ReadFrom::Since(since)).await?),
            None => None,
        };
        Ok(Self {
            messages,
            last: last.map_or(0, |last| last.number),
            until,
            quiet: 0,
            is_read: false,
            contexts: Arc::clone(contexts),
            version: String::new(),
            known_at: since.as_millisecond(),
            gaps: Vec::new(),
        })
    }

    /// The next events; `None` if those were all, or no more can be read. An error ends it. What
    /// may be missing is told by [`gaps`](Self::take_gaps).
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Event>>>, SharedLogError> {
        while !self.is_read {
            let message = match &mut self.messages {
                None => Ok(None),
                Some(messages) => timeout(NEXT_MESSAGE, messages.recv()).await,
            };
            let message = match message {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => {
                    self.break_off(&error.to_string());
                    return Err(error);
                }
                Ok(None) => {
                    self.break_off("no server has watched");
                    return Ok(None);
                }
                Err(_elapsed) => {
                    self.break_off("no server has written what it sees");
                    return Ok(None);
                }
            };
            let Some(read) = WatchMessage::parse(&message.bytes) else {
                self.break_off("it is written by another version of this program");
                return Ok(None);
            };
            self.is_read = message.number >= self.last && self.is_far_enough(&message, &read);
            if matches!(read.seen, Seen::Begun) {
                continue;
            }
            let events = self.take(read);
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
        Ok(None)
    }

    /// What may be missing in what was read so far, and was not taken before.
    pub fn take_gaps(&mut self) -> Vec<BacklogGap> {
        std::mem::take(&mut self.gaps)
    }

    fn take(&mut self, message: WatchMessage) -> Vec<Arc<Event>> {
        // One of an older program does not say when it was written.
        let at = if message.at > 0 {
            message.at
        } else {
            self.known_at
        };
        if self.version.is_empty() {
            if at - self.known_at > i64::try_from(BEGINNING.as_millis()).unwrap_or(i64::MAX) {
                self.miss(at, "the shared log begins later");
            }
        } else if is_older(&self.version, &message.after) {
            self.miss(at, "messages of the shared log are missing");
        }
        let events = match message.seen {
            Seen::Events(events) => events,
            Seen::Relisted { .. } => {
                self.miss(at, "the API server had no history of it any more");
                Vec::new()
            }
            // The next one goes on where it was, or says that something is missing.
            Seen::Begun | Seen::Ended { .. } => Vec::new(),
        };
        self.known_at = at;
        self.version = message.until;
        let events = events.iter();
        let events = events.filter_map(|event| event.to_event(&self.contexts));
        events.map(Arc::new).collect()
    }

    /// Ends it before it was read to its end.
    fn break_off(&mut self, why: &str) {
        self.is_read = true;
        self.messages = None;
        self.miss(Timestamp::now().as_millisecond(), why);
    }

    fn miss(&mut self, until: i64, why: &str) {
        self.gaps.push(BacklogGap {
            since: self.known_at.min(until),
            until,
            why: why.to_owned(),
        });
    }

    /// Whether everything was written up to the version. In a cluster in which nothing happens no
    /// event has so high a version; then a holder says again and again that it has seen nothing.
    fn is_far_enough(&mut self, message: &Message, read: &WatchMessage) -> bool {
        // One that begins knows what was known, which is nothing if it is the first.
        if matches!(read.seen, Seen::Begun) && self.version.is_empty() {
            return false;
        }
        let Some(until) = self.until else {
            return true;
        };
        let is_quiet = matches!(&read.seen, Seen::Events(events) if events.is_empty());
        self.quiet = if is_quiet && message.number > self.last {
            self.quiet + 1
        } else {
            0
        };
        let written: u64 = read.until.parse().unwrap_or(u64::MAX);
        written >= until || self.quiet >= QUIET
    }
}
