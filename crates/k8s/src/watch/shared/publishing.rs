//! What the holder of a watch does with what it sees: it is written to the log, together what
//! came while the message before was on its way.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use kubecrier_history::{Appended, SharedLog};
use tokio::{
    sync::Notify,
    time::{Duration, Instant, sleep, sleep_until},
};

use super::message::{LoggedEvent, Seen, WatchMessage};
use crate::{
    error::ClusterError,
    watch::{
        health::WatchHealth,
        source::{RelistedEvents, WatchSource},
        watch_loop::{RelistContext, WatchHandler},
    },
};
use kubecrier_core::{Event, subscriptions::WatchStatus};

/// How often readers learn that the watch is open, while nothing happens. One that comes waits
/// for that.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How soon a heartbeat that is due follows the opening of the watch.
const OPENED_CHECK: Duration = Duration::from_millis(50);

/// Events that wait to be written; at this number no more are received.
const PENDING_MAX: usize = 4096;

/// Size of the events of a message.
const MESSAGE_BYTES: usize = 128 * 1024;

/// A log that cannot be written is tried again after this.
const RETRY: Duration = Duration::from_millis(500);

/// Writes what a watch sees.
pub(super) struct Publishing {
    log: Arc<dyn SharedLog>,
    topic: Arc<str>,
    /// The name of this turn, which no other turn of any server has.
    turn: String,
    /// How many messages were made in it.
    made: u64,
    /// The number of the last message.
    number: u64,
    /// What was written has everything up to this resourceVersion.
    written: String,
    /// What was seen has everything up to this one.
    seen: String,
    pending: VecDeque<Pending>,
    in_flight: Option<BoxFuture<'static, Option<u64>>>,
    /// When the next heartbeat is due.
    heartbeat: Instant,
    health: Arc<WatchHealth>,
    /// Another server has written to the log.
    fenced: Arc<Notify>,
}

enum Pending {
    Event(LoggedEvent),
    /// The resourceVersion from which everything is known again.
    Relisted {
        until: String,
        replaced: bool,
    },
    Ended(String),
}

// === impl Publishing ===

impl Publishing {
    /// Goes on after the message of that number, which has everything up to that version.
    pub(super) fn new(
        log: Arc<dyn SharedLog>,
        topic: Arc<str>,
        turn: String,
        (number, version): (u64, &str),
        health: Arc<WatchHealth>,
        fenced: Arc<Notify>,
    ) -> Self {
        Self {
            log,
            topic,
            turn,
            made: 0,
            number,
            written: version.to_owned(),
            seen: version.to_owned(),
            pending: VecDeque::new(),
            in_flight: None,
            heartbeat: Instant::now(),
            health,
            fenced,
        }
    }

    /// The next message, if there is something to write.
    fn next_message(&mut self) -> Option<WatchMessage> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        let mut until = self.written.clone();
        while bytes < MESSAGE_BYTES
            && let Some(Pending::Event(_)) = self.pending.front()
            && let Some(Pending::Event(event)) = self.pending.pop_front()
        {
            bytes += event.bytes_len();
            if event.version > 0 {
                until = event.version.to_string();
            }
            events.push(event);
        }
        if !events.is_empty() {
            if self.pending.is_empty() {
                until.clone_from(&self.seen);
            }
            return Some(self.message(until, Seen::Events(events)));
        }
        match self.pending.pop_front()? {
            Pending::Event(_) => None,
            Pending::Relisted { until, replaced } => {
                Some(self.message(until, Seen::Relisted { replaced }))
            }
            Pending::Ended(error) => {
                let until = self.written.clone();
                Some(self.message(until, Seen::Ended { error }))
            }
        }
    }

    fn message(&mut self, until: String, seen: Seen) -> WatchMessage {
        self.made += 1;
        let by = format!("{}.{}", self.turn, self.made);
        let message = WatchMessage::new(by, &self.written, &until, seen);
        self.written = until;
        message
    }

    fn send(&mut self, message: &WatchMessage) {
        let (log, topic) = (Arc::clone(&self.log), Arc::clone(&self.topic));
        let (after, bytes) = (self.number, message.to_bytes());
        self.in_flight = Some(Box::pin(append(log, topic, after, bytes)));
        self.heartbeat = Instant::now() + HEARTBEAT;
    }

    /// Writes the next message, or the rest of the one before. Pending while there is nothing to
    /// write. Cancel-safe.
    async fn write(&mut self) {
        if self.in_flight.is_none() {
            let message = match self.next_message() {
                Some(message) => message,
                None => loop {
                    sleep_until(self.heartbeat).await;
                    // Between two watches nobody knows what happens.
                    if self.health.open_since().is_some() {
                        let until = self.seen.clone();
                        break self.message(until, Seen::Events(Vec::new()));
                    }
                    self.heartbeat = Instant::now() + OPENED_CHECK;
                },
            };
            self.send(&message);
        }
        if let Some(in_flight) = &mut self.in_flight {
            let written = in_flight.await;
            self.in_flight = None;
            match written {
                Some(number) => self.number = number,
                None => {
                    self.fenced.notify_one();
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// Appends a message. Returns its number, or `None` if another server has written. A log that
/// cannot be reached is tried for as long as this server has the lease.
pub(super) async fn append(
    log: Arc<dyn SharedLog>,
    topic: Arc<str>,
    after: u64,
    bytes: Bytes,
) -> Option<u64> {
    let mut is_repeated = false;
    loop {
        match log.append(&topic, after, bytes.clone()).await {
            Ok(Appended::At(number)) => return Some(number),
            // It may have been kept the first time.
            Ok(Appended::Conflict) if is_repeated => match log.last(&topic).await {
                Ok(Some(last)) if last.bytes == bytes => return Some(last.number),
                Ok(_) => return None,
                Err(error) => tracing::debug!(topic = &*topic, %error, "the log cannot be read"),
            },
            Ok(Appended::Conflict) => return None,
            Err(error) => tracing::debug!(topic = &*topic, %error, "the log cannot be written"),
        }
        is_repeated = true;
        sleep(RETRY).await;
    }
}

impl<S> WatchHandler<S> for Publishing
where
    S: WatchSource<Item = Event, Relisted = RelistedEvents>,
{
    fn on_item(&mut self, item: Event, _source: &S, health: &WatchHealth) {
        health.count_event(true);
        if let Some(version) = item.version {
            self.seen = version.to_string();
        }
        if let Some(event) = LoggedEvent::new(&item) {
            self.pending.push_back(Pending::Event(event));
        }
    }

    fn on_version(&mut self, version: &str) {
        version.clone_into(&mut self.seen);
    }

    /// Readers list for themselves: what each of them has seen is its own matter.
    fn on_relist(
        &mut self,
        listed: RelistedEvents,
        relist: &RelistContext<'_>,
        _source: &S,
        _health: &WatchHealth,
    ) -> String {
        let is_gapless = listed.complete && listed.events.is_empty() && !relist.replaced;
        if !is_gapless {
            self.pending.push_back(Pending::Relisted {
                until: listed.version.clone(),
                replaced: relist.replaced,
            });
        }
        self.seen.clone_from(&listed.version);
        listed.version
    }

    fn on_status(&mut self, status: WatchStatus) {
        match status {
            WatchStatus::Degraded { error } => self.pending.push_back(Pending::Ended(error)),
            // The next message says so.
            WatchStatus::Recovered
            | WatchStatus::Unlabelled { .. }
            | WatchStatus::Withdrawn { .. }
            | WatchStatus::Gap { .. } => {}
        }
    }

    /// Another server may reach the cluster.
    fn is_fatal(&self, _error: &ClusterError) -> bool {
        true
    }

    fn has_capacity(&self) -> bool {
        self.pending.len() < PENDING_MAX
    }

    async fn flush(&mut self) {
        self.write().await;
    }
}
