//! A reader of one topic: an ephemeral consumer of JetStream, made again behind the last message
//! whenever it is lost.
//!
//! ```text
//!  JetStream ── numbered deliveries, flow control, a heartbeat each second ──▶ Reader ──▶ channel
//!                  a number is missing, no heartbeat, another connection: a new consumer
//! ```
//!
//! The consumer numbers its deliveries without holes, so a message that was lost on the way is
//! noticed with the next delivery or heartbeat. NATS sends no more than a window of bytes until
//! this side has passed them on.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Message as Delivery, StatusCode, Subscriber,
    datetime::{DateTime, from_nanos},
    jetstream::{
        consumer::{AckPolicy, DeliverPolicy, push},
        context::ContextBuilder,
        message::Message as JetStreamMessage,
    },
};
use bytes::Bytes;
use futures_util::StreamExt;
use kubecrier_history::{Message, Messages, ReadFrom, SharedLogError};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use crate::{
    failures::Doing,
    shared_log::unavailable,
    store::{CALL_TIMEOUT, Inner},
};

/// Messages that wait for the reader, besides those that NATS sends ahead.
const WAITING_MAX: usize = 16;

/// How often a consumer without messages says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A consumer that says nothing for so long is lost.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// How long a consumer stays in NATS without its reader.
const INACTIVE: Duration = Duration::from_secs(10);

/// How long it is tried to make a consumer again before the reader is told.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between two attempts.
const RECOVERY_PAUSE: Duration = Duration::from_millis(100);

/// Header of a heartbeat: the number of the last delivery.
const LAST_DELIVERY: &str = "Nats-Last-Consumer";

/// Header of a heartbeat: where NATS waits for an answer before it sends more.
const STALLED: &str = "Nats-Consumer-Stalled";

/// What the deliveries of a topic go through.
pub(crate) struct Reader {
    inner: Arc<Inner>,
    subject: String,
    place: Place,
    messages: mpsc::Sender<Result<Message, SharedLogError>>,
}

/// Where a consumer starts.
#[derive(Clone, Copy)]
enum Place {
    After(u64),
    Since(DateTime),
}

/// A consumer in NATS. Dropping it ends the subscription; NATS removes the consumer then.
struct Consumer {
    name: String,
    deliveries: Subscriber,
    /// Number of the last delivery.
    delivered: u64,
    /// Of which connection.
    connection: u64,
}

/// What a delivery means.
enum Next {
    Message(Message),
    /// All is well, and NATS waits for a word on this subject if there is one.
    Alive(Option<String>),
    /// Something is missing.
    Hole,
    /// NATS uses a number again: its machine ended before the last messages were on the disk.
    Again,
}

/// Why a consumer is not read any more.
enum Ended {
    /// There may be another one.
    Lost,
    /// NATS does not have what was read.
    Again,
}

// === impl Reader ===

impl Reader {
    /// Starts to read, with a consumer that is there.
    pub(crate) async fn start(
        inner: Arc<Inner>,
        topic: &str,
        from: ReadFrom,
    ) -> Result<Messages, String> {
        let (sender, messages) = mpsc::channel(WAITING_MAX);
        let reader = Self {
            subject: inner.names.topic(topic),
            place: Place::new(from)?,
            messages: sender,
            inner: Arc::clone(&inner),
        };
        let consumer = inner.call(Doing::ReadLog, reader.consume()).await?;
        let lifecycle = inner.lifecycle.clone();
        lifecycle.spawn("nats_follow", reader.run(consumer));
        Ok(messages)
    }

    async fn run(mut self, mut consumer: Consumer) {
        let draining = self.inner.lifecycle.draining().clone();
        loop {
            let messages = self.messages.clone();
            let stop = async {
                tokio::select! {
                    () = draining.cancelled() => {}
                    () = messages.closed() => {}
                }
            };
            let lost = tokio::select! {
                () = stop => None,
                ended = self.pass_on(&mut consumer) => Some(ended),
            };
            let recovered = match lost {
                None => Ok(false),
                Some(Ended::Lost) => self.recover(&mut consumer).await,
                Some(Ended::Again) => {
                    Err("NATS has lost the last messages, which were read before".to_owned())
                }
            };
            match recovered {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    let _gone = self.messages.send(Err(unavailable("read", why))).await;
                    break;
                }
            }
        }
        self.remove(&consumer.name).await;
    }

    /// Passes on what comes, until the consumer is lost or nobody reads.
    async fn pass_on(&mut self, consumer: &mut Consumer) -> Ended {
        let mut link = self.inner.link.watch();
        // A change before this would not be told.
        if !self.inner.link.is_current(consumer.connection) {
            return Ended::Lost;
        }
        let mut deadline = Instant::now() + SILENCE_MAX;
        loop {
            let delivery = tokio::select! {
                // What has arrived is passed on before anything else is looked at.
                biased;
                delivery = consumer.deliveries.next() => delivery,
                _changed = link.changed() => {
                    if self.inner.link.is_current(consumer.connection) {
                        continue;
                    }
                    return Ended::Lost;
                }
                () = tokio::time::sleep_until(deadline) => {
                    tracing::debug!(subject = self.subject, "a consumer is silent");
                    return Ended::Lost;
                }
            };
            let Some(delivery) = delivery else {
                return Ended::Lost;
            };
            match self.read(consumer, delivery) {
                Next::Message(message) => {
                    let number = message.number;
                    if self.messages.send(Ok(message)).await.is_err() {
                        return Ended::Lost;
                    }
                    self.place = Place::After(number);
                }
                Next::Alive(None) => {}
                Next::Alive(Some(subject)) => {
                    let answer = self.inner.client.publish(subject, Bytes::new());
                    if answer.await.is_err() {
                        return Ended::Lost;
                    }
                }
                Next::Hole => {
                    tracing::debug!(subject = self.subject, "a delivery is missing");
                    return Ended::Lost;
                }
                Next::Again => return Ended::Again,
            }
            // From when this side was ready again.
            deadline = Instant::now() + SILENCE_MAX;
        }
    }

    fn read(&self, consumer: &mut Consumer, delivery: Delivery) -> Next {
        if delivery.status == Some(StatusCode::IDLE_HEARTBEAT) {
            let header = |name: &str| {
                let headers = delivery.headers.as_ref()?;
                Some(headers.get_last(name)?.as_str().to_owned())
            };
            let last = header(LAST_DELIVERY).and_then(|last| last.parse::<u64>().ok());
            if last.is_some_and(|last| last != consumer.delivered) {
                return Next::Hole;
            }
            let asked = delivery.reply.as_ref().map(ToString::to_string);
            return Next::Alive(asked.or_else(|| header(STALLED)));
        }
        // Such as that the consumer is deleted: the silence that follows says so, too.
        if delivery.status.is_some() {
            return Next::Hole;
        }
        let delivery = JetStreamMessage {
            message: delivery,
            context: self.inner.jetstream.clone(),
        };
        let (number, place) = match delivery.info() {
            Ok(info) => (info.stream_sequence, info.consumer_sequence),
            Err(_) => return Next::Hole,
        };
        if place != consumer.delivered + 1 {
            return Next::Hole;
        }
        if matches!(self.place, Place::After(last) if number <= last) {
            return Next::Again;
        }
        consumer.delivered = place;
        Next::Message(Message {
            number,
            bytes: delivery.message.payload,
        })
    }

    /// Makes another consumer behind the last message. False if nobody reads any more.
    async fn recover(&mut self, consumer: &mut Consumer) -> Result<bool, String> {
        let draining = self.inner.lifecycle.draining().clone();
        let mut why = None;
        let again = async {
            loop {
                self.inner.link.connected().await;
                self.remove(&consumer.name).await;
                match self.consume().await {
                    Ok(new) => return new,
                    Err(error) => why = Some(error),
                }
                sleep(RECOVERY_PAUSE).await;
            }
        };
        let again = timeout(RECOVERY_TIMEOUT, again);
        let again = tokio::select! {
            again = again => again,
            () = draining.cancelled() => return Ok(false),
            () = self.messages.closed() => return Ok(false),
        };
        match again {
            Ok(new) => {
                *consumer = new;
                Ok(true)
            }
            Err(_) => Err(match why {
                Some(why) if self.inner.link.is_connected() => why,
                _ => self.inner.why_silent(RECOVERY_TIMEOUT),
            }),
        }
    }

    async fn consume(&self) -> Result<Consumer, String> {
        let connection = self.inner.link.connected().await;
        let client = &self.inner.client;
        let deliver_subject = client.new_inbox();
        let deliveries = client.subscribe(deliver_subject.clone()).await;
        let deliveries = deliveries.map_err(|error| error.to_string())?;
        let wanted = push::Config {
            deliver_subject,
            deliver_policy: self.place.policy(),
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            filter_subject: self.subject.clone(),
            flow_control: true,
            idle_heartbeat: HEARTBEAT,
            inactive_threshold: INACTIVE,
            memory_storage: true,
            num_replicas: 1,
            ..push::Config::default()
        };
        let stream = &self.inner.names.log;
        let made = self
            .inner
            .jetstream
            .create_consumer_on_stream(wanted, stream);
        let made = made.await.map_err(|error| error.to_string())?;
        Ok(Consumer {
            name: made.cached_info().name.clone(),
            deliveries,
            delivered: 0,
            connection,
        })
    }

    /// Takes a consumer away. Without this NATS does it a while later.
    async fn remove(&self, name: &str) {
        if !self.inner.link.is_connected() {
            return;
        }
        let jetstream = ContextBuilder::new()
            .timeout(CALL_TIMEOUT / 4)
            .build(self.inner.client.clone());
        let stream = &self.inner.names.log;
        let removed = jetstream.delete_consumer_from_stream(name, stream).await;
        if let Err(error) = removed {
            tracing::debug!(%error, "a consumer is left to its time");
        }
    }
}

// === impl Place ===

impl Place {
    fn new(from: ReadFrom) -> Result<Self, String> {
        match from {
            ReadFrom::After(number) => Ok(Self::After(number)),
            ReadFrom::Since(time) => {
                let time = from_nanos(time.as_nanosecond());
                time.map(Self::Since).map_err(|error| error.to_string())
            }
        }
    }

    fn policy(self) -> DeliverPolicy {
        match self {
            Self::After(0) => DeliverPolicy::All,
            Self::After(number) => DeliverPolicy::ByStartSequence {
                start_sequence: number + 1,
            },
            Self::Since(start_time) => DeliverPolicy::ByStartTime { start_time },
        }
    }
}
