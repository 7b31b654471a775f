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
//! Only a watch that cannot be established counts as a failure. Five in a row are
//! told to the members, once; it goes on trying, and the next success is told too.

use std::{
    collections::{HashSet, VecDeque},
    pin::pin,
    sync::Arc,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use jiff::Timestamp;
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use super::{
    labels::PATIENCE,
    members::Members,
    memo::Said,
    source::{Fault, Frame, Source},
    status::Status,
};
use crate::{
    cluster::error::ClusterError,
    metrics::{WatchEnd, WatchState},
    subscriptions::{Change, Event, Labels, Listener},
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

/// A server that was asked to end a watch and has not after this much longer is
/// silent.
const GRACE: Duration = Duration::from_secs(10);

/// Events whose labels are being looked up; while there are so many, none is read.
const PENDING_MAX: usize = 256;

/// The same event with the same count is not told twice within this.
const REPEAT: Duration = Duration::from_secs(5);

/// Events that may be repeats.
const REPEATS_MAX: usize = 10_000;

/// Runs one watch for its members.
pub(super) struct Machine<S> {
    source: S,
    outgoing: Outgoing,
    status: Arc<Status>,
    /// How long the server keeps one watch open.
    renewal: Duration,
    version: String,
    failures: u32,
    /// Looks since a watch last stood.
    looks: usize,
    /// The context has come to stand for another cluster.
    moved: bool,
    /// When the version was last known to be of now.
    current: Timestamp,
    name: String,
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

/// Events on their way to the members, in order.
struct Outgoing {
    members: Arc<Members>,
    pending: FuturesOrdered<BoxFuture<'static, Ready>>,
    repeats: Repeats,
}

/// What the members hear next.
enum Ready {
    Event(Box<Event>, Vec<Arc<dyn Listener>>),
    Change(Change),
}

#[derive(Default)]
struct Repeats {
    seen: HashSet<(String, i32)>,
    order: VecDeque<(Instant, (String, i32))>,
}

// === impl Machine ===

impl<S: Source> Machine<S> {
    pub(super) fn new(
        source: S,
        members: Arc<Members>,
        status: Arc<Status>,
        renewal: Duration,
        version: String,
        name: String,
    ) -> Self {
        Self {
            source,
            outgoing: Outgoing {
                members,
                pending: FuturesOrdered::new(),
                repeats: Repeats::default(),
            },
            status,
            renewal,
            version,
            failures: 0,
            looks: 0,
            moved: false,
            current: Timestamp::now(),
            name,
        }
    }

    /// Watches until it is dropped; returns only if the watch never stood.
    pub(super) async fn run(mut self) -> ClusterError {
        let mut stood = false;
        let mut state = State::Connect;
        loop {
            state = match self.step(state).await {
                Ok(next) => {
                    stood |= matches!(next, State::Live(_));
                    next
                }
                Err((error, _)) if !stood => return error,
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
                let opening = self.source.open(&self.version);
                match self.outgoing.meanwhile(opening).await {
                    Ok(frames) => {
                        self.established();
                        Ok(State::Live(frames))
                    }
                    Err(Fault::Gone) => {
                        self.ended(WatchEnd::Gone);
                        Ok(self.look_again())
                    }
                    Err(Fault::Moved) => {
                        self.ended(WatchEnd::Gone);
                        self.moved = true;
                        Ok(self.look_again())
                    }
                    Err(Fault::Failed(error)) => Err((error, Then::Connect)),
                }
            }
            State::Live(frames) => Ok(self.live(frames).await),
            State::Look => {
                let look = self.source.since(&self.version);
                let caught = match self.outgoing.meanwhile(look).await {
                    Ok(caught) => caught,
                    Err(error) => return Err((error, Then::Look)),
                };
                self.status.sign_of_life();
                self.version = caught.version;
                if std::mem::take(&mut self.moved) {
                    self.arrive();
                    return Ok(State::Connect);
                }
                let recovered = caught.events.len();
                for (event, _) in caught.events {
                    self.outgoing.intake(event, &self.source, &self.status);
                }
                self.declare_gap(recovered, caught.complete);
                self.current = Timestamp::now();
                Ok(State::Connect)
            }
            State::Wait(delay, then) => {
                let status = Arc::clone(&self.status);
                let waited = async {
                    tokio::select! {
                        () = sleep(delay) => {}
                        () = status.nudged() => {}
                    }
                };
                self.outgoing.meanwhile(waited).await;
                Ok(match then {
                    Then::Connect => State::Connect,
                    Then::Look => State::Look,
                })
            }
        }
    }

    async fn live(&mut self, mut frames: S::Frames) -> State<S::Frames> {
        let opened = Instant::now();
        loop {
            let room = self.outgoing.pending.len() < PENDING_MAX;
            let due = (opened + self.renewal).max(self.status.alive()) + GRACE;
            let frame = tokio::select! {
                biased;
                Some(ready) = self.outgoing.pending.next(), if !self.outgoing.pending.is_empty() => {
                    hand_out(&self.outgoing.members, ready);
                    continue;
                }
                frame = frames.next(), if room => frame,
                () = sleep_until(due) => {
                    self.ended(WatchEnd::Silent);
                    return State::Connect;
                }
            };
            let next = match frame {
                Some(Ok(Frame::Event(event, version))) => {
                    self.reached(version);
                    self.outgoing.intake(event, &self.source, &self.status);
                    continue;
                }
                Some(Ok(Frame::Bookmark(version))) => {
                    self.reached(version);
                    continue;
                }
                None => {
                    self.status.sign_of_life();
                    self.ended(WatchEnd::Closed);
                    Then::Connect
                }
                Some(Err(Fault::Gone | Fault::Moved)) => {
                    self.ended(WatchEnd::Gone);
                    Then::Look
                }
                Some(Err(Fault::Failed(error))) => {
                    tracing::debug!(watch = self.name, %error, "a watch broke off");
                    self.ended(WatchEnd::Broken);
                    Then::Connect
                }
            };
            return match next {
                then if opened.elapsed() < BRIEF => State::Wait(DELAYS[0], then),
                Then::Connect => State::Connect,
                Then::Look => State::Look,
            };
        }
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

    /// Begins anew, in another cluster.
    fn arrive(&mut self) {
        let version = self.version.parse().unwrap_or_default();
        self.outgoing.members.rebase(version);
        let since = std::mem::replace(&mut self.current, Timestamp::now());
        let detail = "the context now stands for another cluster: its events are told from here on";
        tracing::info!(watch = self.name, detail, "the cluster has changed");
        self.outgoing.tell(Change::Gap {
            since,
            detail: detail.to_owned(),
        });
    }

    fn reached(&mut self, version: String) {
        self.status.sign_of_life();
        if !version.is_empty() {
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
            self.outgoing.tell(Change::Recovered);
        }
    }

    /// One more attempt has failed.
    fn failed(&mut self, error: &ClusterError, then: Then) -> State<S::Frames> {
        self.failures = self.failures.saturating_add(1);
        self.status.ended(WatchEnd::Failed);
        let hint = error.hint().unwrap_or_default();
        let (watch, failures) = (&self.name, self.failures);
        match failures {
            DEGRADED_AFTER => {
                tracing::warn!(watch, failures, %error, hint, "the watch is degraded; it goes on trying");
                self.status.enter(WatchState::Degraded);
                let error = self.source.clean(&error.to_string());
                self.outgoing.tell(Change::Degraded { error });
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

    /// The history was gone. Whatever still exists has been looked at, so something
    /// is missing only if not all was seen, or if what was seen several times counts
    /// once.
    fn declare_gap(&mut self, recovered: usize, complete: bool) {
        if complete && recovered == 0 {
            tracing::debug!(watch = self.name, "nothing has happened since");
            return;
        }
        let detail = if complete {
            format!(
                "the API server's history was gone; {recovered} events were recovered by a list, but \
                 repeats in between count once"
            )
        } else {
            format!(
                "the API server's history was gone and there are too many events to list; {recovered} \
                 were recovered, others may be missing: see events_list"
            )
        };
        tracing::debug!(watch = self.name, detail, "a gap");
        self.outgoing.tell(Change::Gap {
            since: self.current,
            detail,
        });
    }
}

// === impl Outgoing ===

impl Outgoing {
    /// An event was seen: who wants it gets it when its labels are known, and never
    /// before the event that came first.
    fn intake(&mut self, mut event: Box<Event>, source: &impl Source, status: &Status) {
        if self.repeats.is_repeat(&event) {
            return;
        }
        let interested = self.members.interested(&event);
        status.counted(!interested.is_empty());
        if interested.is_empty() {
            return;
        }
        let said = if interested.iter().any(|one| one.needs_labels()) {
            source.labels(&event.involved)
        } else {
            Said::Now(None)
        };
        match said {
            Said::Now(labels) => {
                set_labels(&mut event, labels);
                self.next(Ready::Event(event, interested));
            }
            Said::Later(answer, before) => {
                let labelled = async move {
                    let labels = timeout(PATIENCE, answer).await.ok().flatten().or(before);
                    set_labels(&mut event, labels);
                    Ready::Event(event, interested)
                };
                self.pending.push_back(labelled.boxed());
            }
        }
    }

    /// The members hear of it, after what came before.
    fn tell(&mut self, change: Change) {
        self.next(Ready::Change(change));
    }

    fn next(&mut self, ready: Ready) {
        if self.pending.is_empty() {
            hand_out(&self.members, ready);
        } else {
            self.pending.push_back(async { ready }.boxed());
        }
    }

    /// Waits for something else, while events go on being handed out.
    async fn meanwhile<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        loop {
            tokio::select! {
                biased;
                Some(ready) = self.pending.next(), if !self.pending.is_empty() => hand_out(&self.members, ready),
                answer = &mut wait => return answer,
            }
        }
    }
}

fn set_labels(event: &mut Event, labels: Option<Labels>) {
    if let Some(labels) = labels {
        event.labels = labels;
    }
}

fn hand_out(members: &Members, ready: Ready) {
    match ready {
        Ready::Event(event, interested) => {
            let event = Arc::new(*event);
            for listener in interested {
                listener.take(&event);
            }
        }
        Ready::Change(change) => members.tell(&change),
    }
}

// === impl Repeats ===

impl Repeats {
    fn is_repeat(&mut self, event: &Event) -> bool {
        let now = Instant::now();
        while let Some((seen, key)) = self.order.front()
            && (now.duration_since(*seen) >= REPEAT || self.order.len() >= REPEATS_MAX)
        {
            self.seen.remove(key);
            self.order.pop_front();
        }
        let key = (event.uid.clone(), event.count);
        if !self.seen.insert(key.clone()) {
            return true;
        }
        self.order.push_back((now, key));
        false
    }
}

#[cfg(test)]
mod tests;
