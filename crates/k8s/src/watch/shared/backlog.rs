//! What the log has of the time before, for a server that starts.

use std::sync::Arc;

use jiff::Timestamp;
use kubecrier_history::{ReadFrom, SharedLogError};
use tokio::time::{Duration, timeout};

use super::{
    SharedWatching,
    message::{Seen, WatchMessage},
};
use crate::Contexts;
use kubecrier_core::Event;

/// How long the next message may take: those that are kept come at once.
const NEXT_MESSAGE: Duration = Duration::from_secs(5);

/// Passes on the events of a topic that are kept and happened after a time, the oldest first.
pub(in crate::watch) async fn read(
    shared: &SharedWatching,
    topic: &str,
    since: Timestamp,
    contexts: &Contexts,
    mut on_events: impl AsyncFnMut(Vec<Arc<Event>>),
) -> Result<(), SharedLogError> {
    let Some(last) = shared.log.last(topic).await? else {
        return Ok(());
    };
    let mut messages = shared.log.follow(topic, ReadFrom::Since(since)).await?;
    while let Ok(Some(message)) = timeout(NEXT_MESSAGE, messages.recv()).await {
        let message = message?;
        if let Some(WatchMessage {
            seen: Seen::Events(events),
            ..
        }) = WatchMessage::parse(&message.bytes)
        {
            let events = events.iter().filter_map(|event| event.to_event(contexts));
            let events: Vec<_> = events.map(Arc::new).collect();
            if !events.is_empty() {
                on_events(events).await;
            }
        }
        if message.number >= last.number {
            break;
        }
    }
    Ok(())
}
