//! What the log has of the time before, for a server that starts.

use std::sync::Arc;

use jiff::Timestamp;
use kubecrier_history::{Messages, ReadFrom, SharedLogError};
use tokio::time::{Duration, timeout};

use super::{
    SharedWatching,
    message::{Seen, WatchMessage},
};
use crate::Contexts;
use kubecrier_core::Event;

/// How long the next message may take: those that are kept come at once.
const NEXT_MESSAGE: Duration = Duration::from_secs(5);

/// Events that other servers have seen, the oldest first.
pub struct SharedBacklog {
    messages: Messages,
    /// The number of the last message that there was at the beginning.
    last: u64,
    is_read: bool,
    contexts: Arc<Contexts>,
}

// === impl SharedBacklog ===

impl SharedBacklog {
    /// The events of a topic that were seen after a time; none if there is no such topic.
    pub(in crate::watch) async fn open(
        shared: &SharedWatching,
        topic: &str,
        since: Timestamp,
        contexts: &Arc<Contexts>,
    ) -> Result<Option<Self>, SharedLogError> {
        let Some(last) = shared.log.last(topic).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            messages: shared.log.follow(topic, ReadFrom::Since(since)).await?,
            last: last.number,
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
            self.is_read = message.number >= self.last;
            if let Some(WatchMessage {
                seen: Seen::Events(events),
                ..
            }) = WatchMessage::parse(&message.bytes)
                && !events.is_empty()
            {
                let events = events.iter();
                let events = events.filter_map(|event| event.to_event(&self.contexts));
                return Ok(Some(events.map(Arc::new).collect()));
            }
        }
        Ok(None)
    }
}
