//! Messages in memory, of one process.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::{
    Appended, Message, Messages, ReadFrom, SharedLog, SharedLogError, SharedLogFuture,
    check_message,
};

/// Messages that wait for a reader.
const WAITING_MAX: usize = 16;

/// A shared log that ends with its process, for tests. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct MemorySharedLog {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    // A lock for one operation on the map.
    topics: Mutex<HashMap<String, Topic>>,
    /// As a store that cannot be reached.
    is_down: AtomicBool,
    /// Tells readers that there is something new.
    news: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Topic {
    messages: Vec<(Timestamp, Message)>,
}

// === impl MemorySharedLog ===

impl MemorySharedLog {
    /// Takes the store away, or brings it back: what is asked of it fails meanwhile, and readers
    /// get an error.
    pub fn set_down(&self, is_down: bool) {
        self.inner.is_down.store(is_down, Ordering::Relaxed);
        self.inner.news.send_replace(());
    }

    /// Removes the oldest messages of a topic, as retention would.
    pub fn remove_oldest(&self, topic: &str, count: usize) {
        if let Some(topic) = self.inner.topics.lock().get_mut(topic) {
            let count = count.min(topic.messages.len());
            topic.messages.drain(..count);
        }
    }

    fn check(&self, doing: &'static str) -> Result<(), SharedLogError> {
        if self.inner.is_down.load(Ordering::Relaxed) {
            let why = "it is down".to_owned();
            return Err(SharedLogError::Unavailable { doing, why });
        }
        Ok(())
    }

    fn append_now(
        &self,
        topic: &str,
        after: u64,
        bytes: Bytes,
    ) -> Result<Appended, SharedLogError> {
        check_message(topic, &bytes)?;
        self.check("written")?;
        let mut topics = self.inner.topics.lock();
        let messages = &mut topics.entry(topic.to_owned()).or_default().messages;
        let last = messages.last().map_or(0, |(_, message)| message.number);
        if last != after {
            return Ok(Appended::Conflict);
        }
        let number = last + 1;
        messages.push((Timestamp::now(), Message { number, bytes }));
        drop(topics);
        self.inner.news.send_replace(());
        Ok(Appended::At(number))
    }

    fn messages_after(&self, topic: &str, after: u64) -> Vec<Message> {
        let topics = self.inner.topics.lock();
        let messages = topics.get(topic).map(|topic| topic.messages.as_slice());
        let messages = messages.unwrap_or_default().iter();
        let later = messages.filter(|(_, message)| message.number > after);
        later.map(|(_, message)| message.clone()).collect()
    }

    fn number_before(&self, topic: &str, from: ReadFrom) -> u64 {
        let since = match from {
            ReadFrom::After(number) => return number,
            ReadFrom::Since(since) => since,
        };
        let topics = self.inner.topics.lock();
        let messages = topics.get(topic).map(|topic| topic.messages.as_slice());
        let messages = messages.unwrap_or_default().iter();
        let before = messages.take_while(|(written, _)| *written < since).last();
        before.map_or(0, |(_, message)| message.number)
    }

    /// Passes on messages until nobody reads them.
    async fn pass_on(
        self,
        topic: String,
        mut after: u64,
        messages: mpsc::Sender<Result<Message, SharedLogError>>,
    ) {
        let mut news = self.inner.news.subscribe();
        loop {
            if let Err(error) = self.check("read") {
                let _gone = messages.send(Err(error)).await;
                return;
            }
            for message in self.messages_after(&topic, after) {
                after = message.number;
                if messages.send(Ok(message)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = news.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = messages.closed() => return,
            }
        }
    }
}

impl SharedLog for MemorySharedLog {
    fn append<'a>(
        &'a self,
        topic: &'a str,
        after: u64,
        bytes: Bytes,
    ) -> SharedLogFuture<'a, Appended> {
        Box::pin(async move { self.append_now(topic, after, bytes) })
    }

    fn last<'a>(&'a self, topic: &'a str) -> SharedLogFuture<'a, Option<Message>> {
        Box::pin(async move {
            check_message(topic, &[])?;
            self.check("read")?;
            Ok(self.messages_after(topic, 0).pop())
        })
    }

    fn follow<'a>(&'a self, topic: &'a str, from: ReadFrom) -> SharedLogFuture<'a, Messages> {
        Box::pin(async move {
            check_message(topic, &[])?;
            self.check("read")?;
            let after = self.number_before(topic, from);
            let (sender, messages) = mpsc::channel(WAITING_MAX);
            let passing_on = self.clone().pass_on(topic.to_owned(), after, sender);
            #[expect(
                clippy::disallowed_methods,
                reason = "it ends with its reader, and is for tests"
            )]
            drop(tokio::spawn(passing_on));
            Ok(messages)
        })
    }
}
