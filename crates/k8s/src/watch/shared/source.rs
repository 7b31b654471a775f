//! The events of a scope from the log that servers share, or from the API server where that
//! cannot be.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt, stream::BoxStream};
use jiff::{SignedDuration, Timestamp};
use kubecrier_history::{ReadFrom, SharedLog, SharedLogError};
use parking_lot::Mutex;
use tokio::time::{Duration, timeout};

use super::{
    frames::{Frame, LogEnd, LogPosition, OpenLog, frames},
    publisher::Publisher,
};
use crate::{
    Contexts,
    error::ClusterError,
    watch::{
        labels::FoundLabels,
        source::{LabelLookup, RelistedEvents, WatchError, WatchSource},
    },
};
use kubecrier_core::{Event, InvolvedObject, subscriptions::LabelUse, ttl_cache::Lookup};

/// How long the next message of a log that somebody writes to can take: some heartbeats. Who
/// waits for it may be a client that subscribes.
pub(super) const FIRST_MESSAGE: Duration = Duration::from_secs(3);

/// How long asking the store may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

const NOBODY_WRITES: &str = "no server writes to the shared log";

/// A reader that comes anew begins so long ago: what happened since its version is there.
const LOOK_BACK: SignedDuration = SignedDuration::from_secs(30);

/// What a watch of this server reads at the moment.
#[derive(Debug, Default)]
pub(in crate::watch) struct ReadAt {
    is_direct: AtomicBool,
}

/// Reads a scope from the log, and from another source while the log is no help.
pub(in crate::watch) struct SharedSource<S> {
    /// The API server.
    direct: S,
    log: Arc<dyn SharedLog>,
    topic: Arc<str>,
    contexts: Arc<Contexts>,
    position: Arc<Mutex<LogPosition>>,
    read_at: Arc<ReadAt>,
    /// Ends with the watch.
    _publisher: Arc<Publisher>,
}

// === impl ReadAt ===

impl ReadAt {
    /// Whether the API server is watched for this server alone.
    pub(in crate::watch) fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }
}

// === impl SharedSource ===

impl<S: WatchSource<Item = Event>> SharedSource<S> {
    pub(in crate::watch) fn new(
        direct: S,
        log: Arc<dyn SharedLog>,
        topic: Arc<str>,
        contexts: Arc<Contexts>,
        read_at: Arc<ReadAt>,
        publisher: Arc<Publisher>,
    ) -> Self {
        Self {
            direct,
            log,
            topic,
            contexts,
            position: Arc::default(),
            read_at,
            _publisher: publisher,
        }
    }

    /// Follows the log from a version on.
    async fn follow(&self, version: &str) -> Result<BoxStream<'static, Frame>, LogEnd> {
        let kept = self.position.lock().open.take();
        let log = match kept.filter(|log| log.goes_on_at(version)) {
            Some(log) => log,
            None => self.begin(version).await?,
        };
        let (position, contexts) = (Arc::clone(&self.position), Arc::clone(&self.contexts));
        Ok(frames(log, position, contexts, Arc::clone(&self.topic)))
    }

    /// Opens the log, and waits for something that is written now and follows the version.
    async fn begin(&self, version: &str) -> Result<OpenLog, LogEnd> {
        let number = self.position.lock().number.take();
        let from = match number {
            Some(number) => ReadFrom::After(number),
            None => ReadFrom::Since(Timestamp::now() - LOOK_BACK),
        };
        if let Some(failure) = self.log.failure() {
            self.position.lock().number = number;
            return Err(LogEnd::Silent(failure));
        }
        let opening = async {
            let last = self.log.last(&self.topic).await?;
            let messages = self.log.follow(&self.topic, from).await?;
            Ok::<_, SharedLogError>((last.map_or(0, |last| last.number), messages))
        };
        let (last, messages) = match timeout(OPEN_TIMEOUT, opening).await {
            Ok(opened) => opened?,
            Err(_elapsed) => {
                return Err(LogEnd::Silent("the shared log does not answer".to_owned()));
            }
        };
        // A holder writes more often than a watch is opened: events need not wait for one that
        // is not there.
        if self.position.lock().is_silent(last) {
            self.position.lock().number = number;
            return Err(LogEnd::Silent(NOBODY_WRITES.to_owned()));
        }
        let mut log = OpenLog::new(messages, version);
        let mut read = number;
        let is_alive = async {
            // What was written before says nothing of now.
            while read.is_none_or(|read| read <= last) {
                log.read(FIRST_MESSAGE, &mut read, &self.contexts).await?;
            }
            Ok(())
        };
        let is_alive = timeout(FIRST_MESSAGE, is_alive)
            .await
            .unwrap_or_else(|_elapsed| Err(LogEnd::Silent(NOBODY_WRITES.to_owned())));
        // A log that is silent at its number may have been made anew: the next time it is looked
        // for by its time.
        if read != number {
            self.position.lock().number = read;
        }
        is_alive.map(|()| log)
    }
}

impl<S> WatchSource for SharedSource<S>
where
    S: WatchSource<Item = Event, Relisted = RelistedEvents, Frames = BoxStream<'static, Frame>>,
{
    type Item = Event;
    type Relisted = RelistedEvents;
    type Frames = BoxStream<'static, Frame>;

    async fn open(&self, version: &str) -> Result<Self::Frames, WatchError> {
        self.direct.begin()?;
        let is_after_a_list = |end: &LogEnd| matches!(end, LogEnd::Relisted { .. });
        match self.follow(version).await {
            Ok(frames) => {
                self.read_at.is_direct.store(false, Ordering::Relaxed);
                return Ok(frames.boxed());
            }
            Err(end) if is_after_a_list(&end) => return Err(end.into_error(&self.topic)),
            Err(end) => {
                tracing::debug!(topic = &*self.topic, ?end, "this server watches for itself");
            }
        }
        self.read_at.is_direct.store(true, Ordering::Relaxed);
        self.direct.open(version).await
    }

    async fn relist(&self, version: &str) -> Result<RelistedEvents, WatchError> {
        self.direct.relist(version).await
    }

    async fn latest_version(&self) -> Result<String, WatchError> {
        self.direct.latest_version().await
    }

    fn version(listed: &RelistedEvents) -> &str {
        S::version(listed)
    }

    fn begin(&self) -> Result<(), ClusterError> {
        self.direct.begin()
    }

    async fn changed(&self) {
        self.direct.changed().await;
    }

    fn reconnect(&self) {
        self.direct.reconnect();
    }

    fn redact(&self, text: &str) -> String {
        self.direct.redact(text)
    }
}

impl<S: LabelLookup> LabelLookup for SharedSource<S> {
    fn labels(&self, object: &InvolvedObject, needed: LabelUse) -> Lookup<FoundLabels> {
        self.direct.labels(object, needed)
    }
}
