//! The life of one watch.
//!
//! ```text
//!            ┌────── closed, silent: again at once ──────┐
//!            ▼                                           │
//!  ──▶ Connect ──opened──▶ Live ──410 Gone──▶ Relist ──▶ Connect
//!            │ ▲                                │
//!      fails │ │ backoff: 1, 2, 4, 8, 16, 30 s  │ fails
//!            ▼ │                                ▼
//!            Wait ◀─────────────────────────────┘
//! ```
//!
//! A failure is a watch that cannot be opened, or that breaks before it has received
//! anything. After five in a row the subscribers are notified, once; after a silence, the
//! first is enough. The loop goes on trying, and notifies them of the next success as well.

mod open;

use std::{pin::pin, sync::Arc};

use futures_util::StreamExt;
use jiff::Timestamp;
use tokio::time::{Duration, Instant, sleep, sleep_until};

pub(super) use self::open::is_older;
use self::open::{open, open_after_silence};
use super::{
    health::WatchHealth,
    source::{WatchError, WatchFrame, WatchSource},
};
use crate::error::ClusterError;
use kubecrier_core::{
    Backoff,
    metrics::{WatchEnd, WatchState},
    subscriptions::WatchStatus,
};

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Failures in a row after which the subscribers are notified.
const DEGRADED_AFTER: u32 = 5;

/// Failures in a row after which the log has a warning.
const WARN_AFTER: u32 = 3;

/// One that ended sooner waits before the next: a server that drops it is not hammered.
const MIN_WATCH_LIFETIME: Duration = Duration::from_secs(1);

/// A watch that was opened after failures counts as established after this.
const STABLE_AFTER: Duration = Duration::from_millis(500);

/// The API server ends a watch after its renewal time. One that is this late is dead.
const RENEWAL_GRACE: Duration = Duration::from_secs(4);

/// Watches that end as they should do not ask again for the version of the cluster sooner.
const VERIFY_INTERVAL: Duration = Duration::from_mins(1);

/// Runs one watch.
pub(crate) struct WatchLoop<S, H> {
    source: S,
    handler: H,
    health: Arc<WatchHealth>,
    /// How long the server keeps one watch open.
    renewal: Duration,
    version: String,
    failures: u32,
    outage: Outage,
    /// Relists since a watch was last established.
    relists: u32,
    /// The context has come to name another cluster.
    replaced: bool,
    /// Whether the cluster has reached our version is asked before the next watch. A
    /// cluster that was made anew, or restored, accepts a watch of a version that it has
    /// yet to reach, and sends nothing, not even bookmarks.
    verify_version: bool,
    /// Until then it is not asked again, if the last watch ended when it was due.
    trusted_until: Option<Instant>,
    /// When the version was last known to be the newest.
    caught_up_at: Timestamp,
    /// When the last watch ended, if it was established and so had sent everything. It
    /// counts once the next watch turns out to be of the same cluster.
    clean_end: Option<Timestamp>,
    first_step: Resume,
    name: String,
}

/// Receives what a watch sees, on the task of the watch: nothing here may wait.
pub(crate) trait WatchHandler<S: WatchSource>: Send {
    /// An object was added or changed.
    fn on_item(&mut self, item: S::Item, source: &S, health: &WatchHealth);

    /// Everything was listed. Returns the version to watch from.
    fn on_relist(
        &mut self,
        listed: S::Relisted,
        relist: &RelistContext<'_>,
        source: &S,
        health: &WatchHealth,
    ) -> String;

    /// The watch is degraded, or has recovered.
    fn on_status(&mut self, status: WatchStatus);

    /// Everything up to this was received.
    fn on_version(&mut self, _version: &str) {}

    /// Whether a watch that was established ends if this error repeats.
    fn is_fatal(&self, _error: &ClusterError) -> bool {
        false
    }

    /// Whether more can be received now.
    fn has_capacity(&self) -> bool {
        true
    }

    /// Delivers what had to wait; pending while nothing has. Cancel-safe.
    fn flush(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// What led to a relist.
pub(crate) struct RelistContext<'a> {
    /// Nothing was missed before this time.
    pub(crate) since: Timestamp,
    /// The cluster is another one than before.
    pub(crate) replaced: bool,
    /// The name of the watch.
    pub(crate) watch: &'a str,
}

/// What is known of a watch that does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    None,
    /// The last watch fell silent, and none was established since.
    Silent,
    /// The subscribers were notified that the watch does not work.
    Degraded,
}

enum State<F> {
    Connect,
    Live(F),
    Relist,
    Wait(Duration, Resume),
}

/// How a watch goes on after a wait.
#[derive(Clone, Copy)]
enum Resume {
    Connect,
    Relist,
}

// === impl WatchLoop ===

impl<S: WatchSource, H: WatchHandler<S>> WatchLoop<S, H> {
    /// A watch that starts at a version.
    pub(crate) fn new(
        source: S,
        handler: H,
        health: Arc<WatchHealth>,
        renewal: Duration,
        version: String,
        name: String,
    ) -> Self {
        Self {
            source,
            handler,
            health,
            renewal,
            version,
            failures: 0,
            outage: Outage::None,
            relists: 0,
            replaced: false,
            verify_version: false,
            trusted_until: None,
            caught_up_at: Timestamp::now(),
            clean_end: None,
            first_step: Resume::Connect,
            name,
        }
    }

    /// The same, starting with a list of everything.
    #[must_use]
    pub(crate) fn relist_first(mut self) -> Self {
        self.first_step = Resume::Relist;
        self
    }

    /// Watches until it is dropped. Returns only if the watch was never established, or
    /// if the handler finds the error of a degraded one fatal.
    pub(crate) async fn run(mut self) -> ClusterError {
        let mut opened = false;
        let mut state = self.first_step.into();
        loop {
            state = match self.step(state).await {
                Ok(next) => {
                    opened |= matches!(next, State::Live(_));
                    next
                }
                Err((error, _)) if !opened => return error,
                Err((error, _))
                    if self.failures + 1 >= DEGRADED_AFTER && self.handler.is_fatal(&error) =>
                {
                    return error;
                }
                Err((error, resume)) => self.on_failure(&error, resume),
            };
        }
    }

    async fn step(
        &mut self,
        state: State<S::Frames>,
    ) -> Result<State<S::Frames>, (ClusterError, Resume)> {
        match state {
            State::Connect => self.connect().await,
            State::Live(frames) => self.receive(frames).await,
            State::Relist => self.relist().await,
            State::Wait(delay, resume) => {
                self.wait(delay).await;
                Ok(resume.into())
            }
        }
    }

    async fn connect(&mut self) -> Result<State<S::Frames>, (ClusterError, Resume)> {
        let trusted = self
            .trusted_until
            .is_some_and(|until| Instant::now() < until);
        let verify = self.verify_version && !trusted;
        let opened = if self.outage == Outage::Silent {
            let opening = open_after_silence(&self.source, &self.version, &self.name);
            while_flushing(&mut self.handler, opening).await
        } else {
            let opening = open(&self.source, &self.version, verify);
            while_flushing(&mut self.handler, opening).await
        };
        if verify {
            self.trusted_until = Some(Instant::now() + VERIFY_INTERVAL);
        }
        match opened {
            Ok(frames) => {
                self.caught_up_at = self.clean_end.take().unwrap_or(self.caught_up_at);
                self.health.record_activity();
                // After a failure the watch has to prove stable first.
                if self.failures == 0 {
                    self.established();
                }
                Ok(State::Live(frames))
            }
            Err(WatchError::Expired) => {
                self.caught_up_at = self.clean_end.take().unwrap_or(self.caught_up_at);
                self.ended(WatchEnd::Gone);
                Ok(self.relist_again())
            }
            Err(WatchError::ClusterReplaced) => {
                self.clean_end = None;
                self.ended(WatchEnd::Gone);
                self.replaced = true;
                Ok(self.relist_again())
            }
            Err(WatchError::Request(error)) => Err((error, Resume::Connect)),
        }
    }

    async fn relist(&mut self) -> Result<State<S::Frames>, (ClusterError, Resume)> {
        let listing = self.source.relist(&self.version);
        let listed = match while_flushing(&mut self.handler, listing).await {
            Ok(listed) => listed,
            Err(WatchError::Expired) => return Ok(self.relist_again()),
            Err(WatchError::ClusterReplaced) => {
                self.replaced = true;
                return Ok(self.relist_again());
            }
            Err(WatchError::Request(error)) => return Err((error, Resume::Relist)),
        };
        self.health.record_activity();
        self.verify_version = false;
        let replaced = std::mem::take(&mut self.replaced);
        let relist = RelistContext {
            since: self.caught_up_at,
            replaced: replaced || is_older(S::version(&listed), &self.version),
            watch: &self.name,
        };
        let (handler, source) = (&mut self.handler, &self.source);
        self.version = handler.on_relist(listed, &relist, source, &self.health);
        self.caught_up_at = Timestamp::now();
        Ok(State::Connect)
    }

    async fn wait(&mut self, delay: Duration) {
        let (health, source) = (Arc::clone(&self.health), &self.source);
        let changed = async {
            // However often the kubeconfig changes, attempts are not made more often.
            sleep(MIN_WATCH_LIFETIME).await;
            source.changed().await;
        };
        let waited = async {
            tokio::select! {
                () = sleep(delay) => {}
                () = health.woken() => {}
                () = changed => {}
            }
        };
        while_flushing(&mut self.handler, waited).await;
    }

    async fn receive(
        &mut self,
        mut frames: S::Frames,
    ) -> Result<State<S::Frames>, (ClusterError, Resume)> {
        let opened = Instant::now();
        let _open = self.health.open();
        // Until a frame shows how far the cluster is.
        self.verify_version = true;
        let trusted_until = self.trusted_until.take();
        let mut stable = false;
        let resume = loop {
            let capacity = self.handler.has_capacity();
            let due = (opened + self.renewal).max(self.health.last_activity()) + RENEWAL_GRACE;
            let frame = tokio::select! {
                biased;
                // What has come already belongs to the same round.
                frame = frames.next(), if capacity => frame,
                () = self.handler.flush() => continue,
                () = sleep_until(opened + STABLE_AFTER), if !stable => {
                    stable = true;
                    self.established();
                    continue;
                }
                () = self.source.changed() => {
                    self.clean_end = stable.then(Timestamp::now);
                    self.ended(WatchEnd::Closed);
                    break Resume::Connect;
                }
                () = sleep_until(due) => {
                    self.verify_version = true;
                    self.outage = Outage::Silent;
                    // Other connections of that client may be as dead.
                    self.source.reconnect();
                    self.ended(WatchEnd::Silent);
                    return Ok(State::Connect);
                }
            };
            if matches!(frame, Some(Ok(_))) {
                self.verify_version = false;
                if !stable {
                    stable = true;
                    self.established();
                }
            }
            match frame {
                Some(Ok(WatchFrame::Item(item, version))) => {
                    self.advance_to(version);
                    self.handler.on_item(item, &self.source, &self.health);
                }
                // The cluster was further before: it was made anew, or restored. The
                // relist finds out.
                Some(Ok(WatchFrame::Bookmark(version))) if is_older(&version, &self.version) => {
                    self.ended(WatchEnd::Gone);
                    break Resume::Relist;
                }
                Some(Ok(WatchFrame::Bookmark(version) | WatchFrame::Skipped(version))) => {
                    self.advance_to(version);
                    self.handler.on_version(&self.version);
                }
                None => {
                    self.health.record_activity();
                    self.clean_end = stable.then(Timestamp::now);
                    let is_due = opened.elapsed() + MIN_WATCH_LIFETIME >= self.renewal;
                    self.trusted_until = trusted_until.filter(|_| is_due);
                    self.ended(WatchEnd::Closed);
                    break Resume::Connect;
                }
                Some(Err(WatchError::Expired | WatchError::ClusterReplaced)) => {
                    self.ended(WatchEnd::Gone);
                    break Resume::Relist;
                }
                Some(Err(WatchError::Request(error))) if !stable => {
                    return Err((error, Resume::Connect));
                }
                Some(Err(WatchError::Request(error))) => {
                    tracing::debug!(watch = self.name, %error, "a watch broke off");
                    self.ended(WatchEnd::Broken);
                    break Resume::Connect;
                }
            }
        };
        Ok(match resume {
            resume if opened.elapsed() < MIN_WATCH_LIFETIME => {
                State::Wait(BACKOFF.delay(1), resume)
            }
            resume => resume.into(),
        })
    }

    /// Relists; a server whose history expires again and again gets a pause in between.
    fn relist_again(&mut self) -> State<S::Frames> {
        self.relists = self.relists.saturating_add(1);
        match self.relists {
            1 => State::Relist,
            more => State::Wait(BACKOFF.delay(more - 1), Resume::Relist),
        }
    }

    fn advance_to(&mut self, version: String) {
        self.health.record_activity();
        if !version.is_empty() && !is_older(&version, &self.version) {
            self.version = version;
            self.caught_up_at = Timestamp::now();
        }
    }

    fn ended(&self, why: WatchEnd) {
        tracing::debug!(watch = self.name, ?why, "a watch ended and is renewed");
        self.health.count_end(why);
    }

    fn established(&mut self) {
        self.health.record_activity();
        let degraded = std::mem::replace(&mut self.outage, Outage::None) == Outage::Degraded;
        if degraded {
            tracing::info!(
                watch = self.name,
                failures = self.failures,
                "the watch is back"
            );
        }
        self.failures = 0;
        self.relists = 0;
        self.health.enter(WatchState::Live);
        if degraded {
            self.handler.on_status(WatchStatus::Recovered);
        }
    }

    fn on_failure(&mut self, error: &ClusterError, resume: Resume) -> State<S::Frames> {
        self.failures = self.failures.saturating_add(1);
        self.verify_version = true;
        self.trusted_until = None;
        self.health.count_end(WatchEnd::Failed);
        let hint = error.hint().unwrap_or_default();
        let (watch, failures) = (&self.name, self.failures);
        let degraded = match self.outage {
            Outage::None => failures >= DEGRADED_AFTER,
            Outage::Silent => true,
            Outage::Degraded => false,
        };
        if degraded {
            tracing::warn!(watch, failures, %error, hint, "the watch is degraded; it goes on trying");
            self.outage = Outage::Degraded;
            self.health.enter(WatchState::Degraded);
            let error = self.source.redact(&error.to_string());
            self.handler.on_status(WatchStatus::Degraded { error });
        } else if failures == WARN_AFTER {
            tracing::warn!(watch, failures, %error, hint, "the watch cannot be established again");
        } else {
            tracing::debug!(watch, failures, %error, "the watch cannot be established again");
        }
        if self.outage != Outage::Degraded {
            self.health.enter(WatchState::Reconnecting);
        }
        State::Wait(BACKOFF.delay(failures), resume)
    }
}

/// Waits for a future while the handler goes on delivering.
async fn while_flushing<S: WatchSource, T>(
    handler: &mut impl WatchHandler<S>,
    wait: impl Future<Output = T>,
) -> T {
    let mut wait = pin!(wait);
    loop {
        tokio::select! {
            biased;
            () = handler.flush() => {}
            answer = &mut wait => return answer,
        }
    }
}

// === impl State ===

impl<F> From<Resume> for State<F> {
    fn from(resume: Resume) -> Self {
        match resume {
            Resume::Connect => Self::Connect,
            Resume::Relist => Self::Relist,
        }
    }
}

#[cfg(test)]
mod tests;
