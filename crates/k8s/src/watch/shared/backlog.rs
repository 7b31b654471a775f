//! What the log has of the time before, for a server that starts.

use std::sync::Arc;

use jiff::Timestamp;
use kubecrier_history::{Messages, ReadFrom, SharedLogError};
use tokio::time::{Duration, Instant, timeout};

use super::{
    SharedWatching,
    message::{Seen, WatchMessage},
};
use crate::Contexts;
use kubecrier_core::Event;

/// How long the next message may take: those that are kept come at once, and of those to come the
/// first may have to wait for another holder.
const NEXT_MESSAGE: Duration = Duration::from_secs(8);

/// What a holder sees later than this happened later.
const QUIET: Duration = Duration::from_secs(2);

/// Events that other servers have seen, the oldest first.
pub struct SharedBacklog {
    messages: Messages,
    /// The number of the last message that there was at the beginning.
    last: u64,
    /// What is watched from here on is known otherwise.
    until: Option<u64>,
    opened: Instant,
    is_read: bool,
    contexts: Arc<Contexts>,
}

// === impl SharedBacklog ===

impl SharedBacklog {
    /// The events of a topic that were seen after a time, those that are written now up to a
    /// version among them; none if there is no such topic.
    pub(in crate::watch) async fn open(
        shared: &SharedWatching,
        topic: &str,
        since: Timestamp,
        until: Option<u64>,
        contexts: &Arc<Contexts>,
    ) -> Result<Option<Self>, SharedLogError> {
        let Some(last) = shared.log.last(topic).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            messages: shared.log.follow(topic, ReadFrom::Since(since)).await?,
            last: last.number,
            until,
            opened: Instant::now(),
            is_read: false,
            contexts: Arc::clone(contexts),
        }))
    }

    /// The next events; `None` if those were all.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Event>>>, SharedLogError> {
        while !self.is_read
            && let Ok(Some(message)) = timeout(NEXT_MESSAGE, self.messages.recv()).await
        {
            let message = message?;
            let Some(WatchMessage {
                until,
                seen: Seen::Events(events),
                ..
            }) = WatchMessage::parse(&message.bytes)
            else {
                continue;
            };
            self.is_read = message.number >= self.last && self.is_far_enough(&until);
            if !events.is_empty() {
                let events = events.iter();
                let events = events.filter_map(|event| event.to_event(&self.contexts));
                return Ok(Some(events.map(Arc::new).collect()));
            }
        }
        Ok(None)
    }

    /// Whether everything was written up to the version. In a cluster in which nothing happens no
    /// event has so high a version, but then a holder says after a while that there is none.
    fn is_far_enough(&self, written: &str) -> bool {
        let written: u64 = written.parse().unwrap_or(u64::MAX);
        self.until.is_none_or(|until| written >= until) || self.opened.elapsed() >= QUIET
    }
}
