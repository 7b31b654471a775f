//! Takes the lease of a scope, and watches for all servers while it has it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use kubecrier_history::{LEASE_RENEWAL, Lease, SharedLog, SharedLogError};
use kubecrier_lifecycle::Lifecycle;
use tokio::{
    sync::Notify,
    time::{Duration, Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    SharedWatching,
    message::{Seen, WatchMessage},
    publishing::{Publishing, append},
};
use crate::watch::{
    health::WatchHealth,
    source::{RelistedEvents, WatchSource},
    watch_loop::WatchLoop,
};
use kubecrier_core::{Backoff, Event, metrics::WatchMetrics};

/// A server whose watch failed lets others try first.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(3), Duration::from_secs(30));

/// A watch that held for so long has not failed.
const HELD_WELL: Duration = Duration::from_mins(1);

/// An API server from which nothing has come for so long is asked whether it is there, and has so
/// long to answer: another server may reach it. The watch itself notices only when it is renewed.
const CONTACT: Duration = Duration::from_secs(3);

/// How often the log is read again to which a server that had the lease before still writes.
const BEGIN_TRIES: u32 = 3;

/// How long giving the lease back may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The publisher of a scope on this server; it ends when this is dropped.
pub(in crate::watch) struct Publisher {
    /// Whether this server has the lease.
    is_holder: Arc<AtomicBool>,
    _stop: DropGuard,
}

/// Why a watch for all servers ended.
enum HoldEnd {
    /// Another server has the lease, or has written.
    Lost,
    /// The cluster or the log cannot be reached.
    Failed(String),
    /// This server needs the scope no longer.
    Stopped,
}

/// What one turn needs.
struct Turn<'a> {
    shared: &'a SharedWatching,
    topic: &'a Arc<str>,
    renewal: Duration,
    /// Where to begin if the log has nothing.
    version: &'a str,
    /// The publisher began then, in nanoseconds.
    started: i128,
    stop: &'a CancellationToken,
}

// === impl Publisher ===

impl Publisher {
    /// Whether this server watches for the others now.
    pub(in crate::watch) fn is_holder(&self) -> bool {
        self.is_holder.load(Ordering::Relaxed)
    }
}

/// Starts the publisher of a topic, which begins at a version; `source` makes what it reads.
pub(in crate::watch) fn publish<S>(
    lifecycle: &Lifecycle,
    shared: SharedWatching,
    topic: Arc<str>,
    renewal: Duration,
    version: String,
    source: impl Fn() -> S + Send + Sync + 'static,
) -> Publisher
where
    S: WatchSource<Item = Event, Relisted = RelistedEvents>,
{
    let stop = lifecycle.draining().child_token();
    let is_holder = Arc::new(AtomicBool::new(false));
    let publisher = Publisher {
        is_holder: Arc::clone(&is_holder),
        _stop: stop.clone().drop_guard(),
    };
    lifecycle.spawn("shared-watch", async move {
        let mut lease = Lease::new(Arc::clone(&shared.registry), &topic, &shared.server);
        let turn = Turn {
            shared: &shared,
            topic: &topic,
            renewal,
            version: &version,
            started: Timestamp::now().as_nanosecond(),
            stop: &stop,
        };
        let (mut failures, mut turns) = (0, 0_u64);
        while stop.run_until_cancelled(lease.acquire()).await.is_some() {
            is_holder.store(true, Ordering::Relaxed);
            tracing::debug!(topic = &*topic, "this server watches for all");
            let since = Instant::now();
            turns += 1;
            let end = turn.hold(&mut lease, turns, &source).await;
            if since.elapsed() >= HELD_WELL {
                failures = 0;
            }
            is_holder.store(false, Ordering::Relaxed);
            tracing::debug!(topic = &*topic, %end, "this server no longer watches for all");
            let released = timeout(RELEASE_TIMEOUT, lease.release()).await;
            if !matches!(released, Ok(Ok(()))) {
                tracing::debug!(topic = &*topic, "the lease is left to expire");
            }
            let pause = match end {
                HoldEnd::Stopped => return,
                HoldEnd::Lost => LEASE_RENEWAL,
                HoldEnd::Failed(_) => {
                    failures += 1;
                    BACKOFF.delay(failures)
                }
            };
            if turn.pause(pause).await.is_none() {
                return;
            }
        }
    });
    publisher
}

// === impl Turn ===

impl Turn<'_> {
    /// Waits; `None` if this server needs the scope no longer.
    async fn pause(&self, pause: Duration) -> Option<()> {
        self.stop.run_until_cancelled(sleep(pause)).await
    }

    /// Watches and writes for as long as this server has the lease.
    async fn hold<S>(&self, lease: &mut Lease, turn: u64, source: &impl Fn() -> S) -> HoldEnd
    where
        S: WatchSource<Item = Event, Relisted = RelistedEvents>,
    {
        tokio::select! {
            error = self.watch(turn, source) => error,
            () = lease.keep() => HoldEnd::Lost,
            () = self.stop.cancelled() => HoldEnd::Stopped,
        }
    }

    async fn watch<S>(&self, turn: u64, source: &impl Fn() -> S) -> HoldEnd
    where
        S: WatchSource<Item = Event, Relisted = RelistedEvents>,
    {
        // A publisher that ended and its successor on this server are two.
        let turn = format!("{}.{}.{turn}", self.shared.server, self.started);
        let (number, version) = match self.begin(&turn).await {
            Ok(Some(begin)) => begin,
            Ok(None) => return HoldEnd::Lost,
            Err(error) => return HoldEnd::Failed(error.to_string()),
        };
        // It counts as a watch of this server's subscriptions already.
        let health = Arc::new(WatchHealth::new(WatchMetrics::default()));
        let fenced = Arc::new(Notify::new());
        let log: Arc<dyn SharedLog> = Arc::clone(&self.shared.log);
        let handler = Publishing::new(
            log,
            Arc::clone(self.topic),
            turn,
            (number, &version),
            Arc::clone(&health),
            Arc::clone(&fenced),
        );
        let name = format!("{} for all servers", self.topic);
        let contact = (source(), Arc::clone(&health));
        let watch_loop = WatchLoop::new(source(), handler, health, self.renewal, version, name);
        tokio::select! {
            error = Box::pin(watch_loop.run()) => HoldEnd::Failed(error.to_string()),
            () = fenced.notified() => HoldEnd::Lost,
            () = lost_contact(&contact.0, &contact.1) => {
                HoldEnd::Failed("the API server does not answer".to_owned())
            }
        }
    }

    /// Writes that this turn begins, so that a server that had the lease before, and is only slow,
    /// cannot write after that. Returns the number of the message, and the version to watch from;
    /// `None` if others write all the time.
    async fn begin(&self, turn: &str) -> Result<Option<(u64, String)>, SharedLogError> {
        for attempt in 0..BEGIN_TRIES {
            let last = self.shared.log.last(self.topic).await?;
            let number = last.as_ref().map_or(0, |last| last.number);
            let version = last.and_then(|last| Some(WatchMessage::parse(&last.bytes)?.until));
            let version = version.filter(|version| !version.is_empty());
            let version = version.unwrap_or_else(|| self.version.to_owned());
            let by = format!("{turn}.begun.{attempt}");
            let begun = WatchMessage::new(by, &version, &version, Seen::Begun).to_bytes();
            let log = Arc::clone(&self.shared.log);
            if let Some(number) = append(log, Arc::clone(self.topic), number, begun).await {
                return Ok(Some((number, version)));
            }
        }
        Ok(None)
    }
}

/// Waits until an API server with an open watch does not answer.
async fn lost_contact<S: WatchSource>(source: &S, health: &WatchHealth) {
    loop {
        sleep_until(health.last_activity() + CONTACT).await;
        let silent = health.last_activity();
        if silent.elapsed() < CONTACT {
            continue;
        }
        // One that is not open is being opened, and that fails by itself.
        if health.open_since().is_some() {
            let asked = timeout(CONTACT, source.latest_version()).await;
            if asked.is_err() && health.last_activity() == silent {
                return;
            }
        }
        sleep(CONTACT).await;
    }
}

impl fmt::Display for HoldEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("another server has it"),
            Self::Failed(error) => f.write_str(error),
            Self::Stopped => f.write_str("it is needed no longer"),
        }
    }
}
