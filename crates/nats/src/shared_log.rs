//! The log in a stream: a topic is a subject, a message's number is its sequence.

use std::{fmt, sync::Arc};

use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use kubecrier_history::{
    Appended, Message, Messages, ReadFrom, SharedLog, SharedLogError, SharedLogFuture,
    check_message,
};

use crate::{
    Health,
    failures::Doing,
    follow::Reader,
    store::{Inner, Written},
};

/// The log that servers share. A clone is the same.
#[derive(Clone)]
pub struct NatsSharedLog {
    inner: Arc<Inner>,
}

// === impl NatsSharedLog ===

impl NatsSharedLog {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }
}

impl SharedLog for NatsSharedLog {
    fn append<'a>(
        &'a self,
        topic: &'a str,
        after: u64,
        bytes: Bytes,
    ) -> SharedLogFuture<'a, Appended> {
        Box::pin(async move {
            check_message(topic, &bytes)?;
            let message = PublishMessage::build()
                .payload(bytes)
                .expected_last_subject_sequence(after);
            let written = self.inner.publish(self.inner.names.topic(topic), message);
            match self.inner.call(Doing::WriteLog, written).await {
                Ok(Written::At(number)) => Ok(Appended::At(number)),
                Ok(Written::Conflict) => Ok(Appended::Conflict),
                Err(why) => Err(unavailable("written", why)),
            }
        })
    }

    fn last<'a>(&'a self, topic: &'a str) -> SharedLogFuture<'a, Option<Message>> {
        Box::pin(async move {
            check_message(topic, &[])?;
            let names = &self.inner.names;
            let last = self.inner.last(&names.log, names.topic(topic));
            match self.inner.call(Doing::ReadLog, last).await {
                Ok(last) => Ok(last.map(|message| Message {
                    number: message.sequence,
                    bytes: message.payload,
                })),
                Err(why) => Err(unavailable("read", why)),
            }
        })
    }

    fn failure(&self) -> Option<String> {
        match self.inner.health() {
            Health::Connected => None,
            Health::Failing { since, why } => Some(format!("since {since}: {why}")),
            Health::Lost { since, why } => {
                let url = &self.inner.url;
                Some(format!(
                    "NATS at {url} cannot be reached since {since}: {why}"
                ))
            }
        }
    }

    fn follow<'a>(&'a self, topic: &'a str, from: ReadFrom) -> SharedLogFuture<'a, Messages> {
        Box::pin(async move {
            check_message(topic, &[])?;
            let reader = Reader::start(Arc::clone(&self.inner), topic, from);
            reader.await.map_err(|why| unavailable("read", why))
        })
    }
}

impl fmt::Debug for NatsSharedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSharedLog")
            .field("url", &self.inner.url)
            .field("fleet", &self.inner.names.fleet)
            .finish_non_exhaustive()
    }
}

pub(crate) fn unavailable(doing: &'static str, why: String) -> SharedLogError {
    SharedLogError::Unavailable { doing, why }
}
