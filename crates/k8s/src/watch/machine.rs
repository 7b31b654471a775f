//! The life of one watch.
//!
//! ```text
//!            ┌────── closed, silent: again at once ──────┐
//!            ▼                                           │
//!  ──▶ Connect ──stands──▶ Live ──the history is gone──▶ Look ──▶ Connect
//!            │ ▲                                          │
//!      fails │ │ 1, 2, 4, 8, 16, 30 s                     │ fails
//!            ▼ │                                          ▼
//!            Wait ◀───────────────────────────────────────┘
//! ```
//!
//! Only a watch that cannot be established, or breaks before it has said anything,
//! counts as a failure. Five in a row are told to the members, once; it goes on trying,
//! and the next success is told too.

use std::{pin::pin, sync::Arc};

use futures_util::StreamExt;
use jiff::Timestamp;
use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::{
    source::{Fault, Frame, Source},
    status::Status,
};
use crate::error::ClusterError;
use kubecrier_core::{
    metrics::{WatchEnd, WatchState},
    subscriptions::Change,
};

/// How long to wait after so many failures in a row.
const DELAYS: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];

/// After so many failures in a row the members are told.
const DEGRADED_AFTER: u32 = 5;

/// From here on an operator wants to know.
const WARN_AFTER: u32 = 3;

/// A watch that ended sooner than this waits before the next one: a server that
/// accepts and drops must not be hammered.
const BRIEF: Duration = Duration::from_secs(1);

/// A watch that was opened after failures, and has not broken for so long, holds.
const HOLDS: Duration = Duration::from_millis(500);

/// A server that was asked to end a watch and has not after this much longer is
/// silent.
const GRACE: Duration = Duration::from_secs(10);

/// Runs one watch.
pub(crate) struct Machine<S, O> {
    source: S,
    outlet: O,
    status: Arc<Status>,
    /// How long the server keeps one watch open.
    renewal: Duration,
    version: String,
    failures: u32,
    /// Looks since a watch last stood.
    looks: usize,
    /// The context has come to stand for another cluster.
    moved: bool,
    /// Whether it is the same cluster as before is asked before the next watch: one that
    /// was made anew, or restored, accepts a watch of versions to come, and is silent.
    doubt: bool,
    /// When the version was last known to be of now.
    current: Timestamp,
    /// When the last watch ended, if it had held and so said all there was; it counts
    /// once the next one is of the same cluster.
    ended_well: Option<Timestamp>,
    begin: Then,
    name: String,
}

/// Where goes what a watch sees. Nothing here may wait for anybody.
pub(crate) trait Outlet<S: Source>: Send {
    /// Something was seen.
    fn take(&mut self, seen: S::Item, source: &S, status: &Status);

    /// Everything was looked at. Says where to watch on.
    fn looked(&mut self, look: S::Look, how: &Looked<'_>, source: &S, status: &Status) -> String;

    /// Something has become of the watch itself.
    fn tell(&mut self, change: Change);

    /// Whether there is nothing to wait for if a watch that stood fails like this, again
    /// and again.
    fn gives_up_on(&self, _error: &ClusterError) -> bool {
        false
    }

    /// Whether more can be taken now.
    fn has_room(&self) -> bool {
        true
    }

    /// Hands out what had to wait; does not end while nothing does. Cancel-safe.
    fn hand_out(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// How it came to a look at everything.
pub(crate) struct Looked<'a> {
    /// Until when nothing was missed.
    pub(crate) since: Timestamp,
    /// It is another cluster than before.
    pub(crate) moved: bool,
    /// What is watched.
    pub(crate) watch: &'a str,
}

enum State<F> {
    Connect,
    Live(F),
    Look,
    Wait(Duration, Then),
}

#[derive(Clone, Copy)]
enum Then {
    Connect,
    Look,
}

// === impl Machine ===

impl<S: Source, O: Outlet<S>> Machine<S, O> {
    /// A watch that begins at a version.
    pub(crate) fn new(
        source: S,
        outlet: O,
        status: Arc<Status>,
        renewal: Duration,
        version: String,
        name: String,
    ) -> Self {
        Self {
            source,
            outlet,
            status,
            renewal,
            version,
            failures: 0,
            looks: 0,
            moved: false,
            doubt: false,
            current: Timestamp::now(),
            ended_well: None,
            begin: Then::Connect,
            name,
        }
    }

    /// The same, but it begins with a look at everything.
    #[must_use]
    pub(crate) fn looking_first(mut self) -> Self {
        self.begin = Then::Look;
        self
    }

    /// Watches until it is dropped; returns only if the watch never stood, or if the
    /// outlet gives up on one that is degraded.
    pub(crate) async fn run(mut self) -> ClusterError {
        let mut stood = false;
        let mut state = self.begin.into();
        loop {
            state = match self.step(state).await {
                Ok(next) => {
                    stood |= matches!(next, State::Live(_));
                    next
                }
                Err((error, _)) if !stood => return error,
                Err((error, _))
                    if self.failures + 1 >= DEGRADED_AFTER && self.outlet.gives_up_on(&error) =>
                {
                    return error;
                }
                Err((error, then)) => self.failed(&error, then),
            };
        }
    }

    async fn step(
        &mut self,
        state: State<S::Frames>,
    ) -> Result<State<S::Frames>, (ClusterError, Then)> {
        match state {
            State::Connect => {
                let opening = open(&self.source, &self.version, self.doubt);
                match meanwhile(&mut self.outlet, opening).await {
                    Ok(frames) => {
                        self.current = self.ended_well.take().unwrap_or(self.current);
                        self.status.sign_of_life();
                        // After a failure it has to show first that it holds.
                        if self.failures == 0 {
                            self.established();
                        }
                        Ok(State::Live(frames))
                    }
                    Err(Fault::Gone) => {
                        self.current = self.ended_well.take().unwrap_or(self.current);
                        self.ended(WatchEnd::Gone);
                        Ok(self.look_again())
                    }
                    Err(Fault::Moved) => {
                        self.ended_well = None;
                        self.ended(WatchEnd::Gone);
                        self.moved = true;
                        Ok(self.look_again())
                    }
                    Err(Fault::Failed(error)) => Err((error, Then::Connect)),
                }
            }
            State::Live(frames) => self.live(frames).await,
            State::Look => {
                let look = self.source.since(&self.version);
                let look = match meanwhile(&mut self.outlet, look).await {
                    Ok(look) => look,
                    Err(Fault::Gone) => return Ok(self.look_again()),
                    Err(Fault::Moved) => {
                        self.moved = true;
                        return Ok(self.look_again());
                    }
                    Err(Fault::Failed(error)) => return Err((error, Then::Look)),
                };
                self.status.sign_of_life();
                self.doubt = false;
                let moved = std::mem::take(&mut self.moved);
                let how = Looked {
                    since: self.current,
                    moved: moved || is_before(S::version(&look), &self.version),
                    watch: &self.name,
                };
                let (outlet, source) = (&mut self.outlet, &self.source);
                self.version = outlet.looked(look, &how, source, &self.status);
                self.current = Timestamp::now();
                Ok(State::Connect)
            }
            State::Wait(delay, then) => {
                let status = Arc::clone(&self.status);
                let source = &self.source;
                let changed = async {
                    // However often it changes.
                    sleep(BRIEF).await;
                    source.changed().await;
                };
                let waited = async {
                    tokio::select! {
                        () = sleep(delay) => {}
                        () = status.nudged() => {}
                        () = changed => {}
                    }
                };
                meanwhile(&mut self.outlet, waited).await;
                Ok(then.into())
            }
        }
    }

    async fn live(
        &mut self,
        mut frames: S::Frames,
    ) -> Result<State<S::Frames>, (ClusterError, Then)> {
        let opened = Instant::now();
        // One that ends without a word, not even how far the cluster is.
        self.doubt = true;
        let mut holds = false;
        let next = loop {
            let room = self.outlet.has_room();
            let due = (opened + self.renewal).max(self.status.alive()) + GRACE;
            let frame = tokio::select! {
                biased;
                () = self.outlet.hand_out() => continue,
                frame = frames.next(), if room => frame,
                () = sleep_until(opened + HOLDS), if !holds => {
                    holds = true;
                    self.established();
                    continue;
                }
                () = self.source.changed() => {
                    self.ended_well = holds.then(Timestamp::now);
                    self.ended(WatchEnd::Closed);
                    break Then::Connect;
                }
                () = sleep_until(due) => {
                    self.doubt = true;
                    self.ended(WatchEnd::Silent);
                    return Ok(State::Connect);
                }
            };
            if matches!(frame, Some(Ok(_))) {
                self.doubt = false;
                if !holds {
                    holds = true;
                    self.established();
                }
            }
            match frame {
                Some(Ok(Frame::Seen(seen, version))) => {
                    self.reached(version);
                    self.outlet.take(seen, &self.source, &self.status);
                }
                // How far the cluster is, and it was further: it was made anew, or
                // restored. A look will tell.
                Some(Ok(Frame::Bookmark(version))) if is_before(&version, &self.version) => {
                    self.ended(WatchEnd::Gone);
                    break Then::Look;
                }
                Some(Ok(Frame::Bookmark(version) | Frame::Passed(version))) => {
                    self.reached(version);
                }
                None => {
                    self.status.sign_of_life();
                    self.ended_well = holds.then(Timestamp::now);
                    self.ended(WatchEnd::Closed);
                    break Then::Connect;
                }
                Some(Err(Fault::Gone | Fault::Moved)) => {
                    self.ended(WatchEnd::Gone);
                    break Then::Look;
                }
                Some(Err(Fault::Failed(error))) if !holds => return Err((error, Then::Connect)),
                Some(Err(Fault::Failed(error))) => {
                    tracing::debug!(watch = self.name, %error, "a watch broke off");
                    self.ended(WatchEnd::Broken);
                    break Then::Connect;
                }
            }
        };
        Ok(match next {
            then if opened.elapsed() < BRIEF => State::Wait(DELAYS[0], then),
            then => then.into(),
        })
    }

    /// Looks at what is there; a server that forgets everything at once is not asked
    /// without a pause.
    fn look_again(&mut self) -> State<S::Frames> {
        self.looks += 1;
        match self.looks {
            1 => State::Look,
            more => State::Wait(DELAYS[(more - 2).min(DELAYS.len() - 1)], Then::Look),
        }
    }

    fn reached(&mut self, version: String) {
        self.status.sign_of_life();
        if !version.is_empty() && !is_before(&version, &self.version) {
            self.version = version;
            self.current = Timestamp::now();
        }
    }

    fn ended(&self, why: WatchEnd) {
        tracing::debug!(watch = self.name, ?why, "a watch ended and is renewed");
        self.status.ended(why);
    }

    fn established(&mut self) {
        self.status.sign_of_life();
        let degraded = self.failures >= DEGRADED_AFTER;
        if degraded {
            tracing::info!(
                watch = self.name,
                failures = self.failures,
                "the watch is back"
            );
        }
        self.failures = 0;
        self.looks = 0;
        self.status.enter(WatchState::Live);
        if degraded {
            self.outlet.tell(Change::Recovered);
        }
    }

    /// One more attempt has failed.
    fn failed(&mut self, error: &ClusterError, then: Then) -> State<S::Frames> {
        self.failures = self.failures.saturating_add(1);
        self.doubt = true;
        self.status.ended(WatchEnd::Failed);
        let hint = error.hint().unwrap_or_default();
        let (watch, failures) = (&self.name, self.failures);
        match failures {
            DEGRADED_AFTER => {
                tracing::warn!(watch, failures, %error, hint, "the watch is degraded; it goes on trying");
                self.status.enter(WatchState::Degraded);
                let error = self.source.clean(&error.to_string());
                self.outlet.tell(Change::Degraded { error });
            }
            WARN_AFTER => {
                tracing::warn!(watch, failures, %error, hint, "the watch cannot be established again");
                self.status.enter(WatchState::Reconnecting);
            }
            _ => {
                tracing::debug!(watch, failures, %error, "the watch cannot be established again");
                if failures < DEGRADED_AFTER {
                    self.status.enter(WatchState::Reconnecting);
                }
            }
        }
        let at = usize::try_from(failures).unwrap_or(usize::MAX);
        State::Wait(DELAYS[at.clamp(1, DELAYS.len()) - 1], then)
    }
}

/// Opens a watch; in doubt, only if the cluster is as far as the version.
async fn open<S: Source>(source: &S, version: &str, doubt: bool) -> Result<S::Frames, Fault> {
    let frames = source.open(version).await?;
    if doubt {
        match source.newest().await {
            Ok(newest) if is_before(&newest, version) => return Err(Fault::Moved),
            Err(Fault::Moved) => return Err(Fault::Moved),
            // The watch stands; who cannot be asked is not doubted for it.
            Ok(_) | Err(Fault::Gone | Fault::Failed(_)) => {}
        }
    }
    Ok(frames)
}

/// Whether the version of a cluster is older than one that it has had. Those that are
/// no numbers cannot be compared.
fn is_before(version: &str, known: &str) -> bool {
    let numbers = version.parse::<u64>().ok().zip(known.parse::<u64>().ok());
    numbers.is_some_and(|(is, known)| is < known)
}

/// Waits for something else, while what had to wait goes on being handed out.
async fn meanwhile<S: Source, T>(outlet: &mut impl Outlet<S>, wait: impl Future<Output = T>) -> T {
    let mut wait = pin!(wait);
    loop {
        tokio::select! {
            biased;
            () = outlet.hand_out() => {}
            answer = &mut wait => return answer,
        }
    }
}

// === impl State ===

impl<F> From<Then> for State<F> {
    fn from(then: Then) -> Self {
        match then {
            Then::Connect => Self::Connect,
            Then::Look => Self::Look,
        }
    }
}

#[cfg(test)]
mod tests;
