//! One question of one user, and its answer for as long as that is good.

use std::{fmt, sync::Arc};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Duration, Instant},
};

use super::{asked::Asked, question::AccessQuestion, viewer::UserView};

/// How long it is remembered that a user may do something, from when that was asked. A right
/// that is taken away is gone from what is pushed after this time at the latest.
const ALLOWED: Duration = Duration::from_secs(30);

/// The same for what a user may not do.
const DENIED: Duration = Duration::from_secs(10);

/// Whoever may not do something in all namespaces is asked about single ones alone for that long:
/// their answers have what is granted everywhere as well, so that nothing is missed.
const DENIED_EVERYWHERE: Duration = Duration::from_mins(2);

/// An answer in use is asked for again at this age, so that nothing waits for the next one.
const REFRESH: Duration = Duration::from_secs(15);

/// A right of a user, which it may have or not.
pub struct Right {
    view: Arc<UserView>,
    asked: Arc<Asked>,
    /// The same in all namespaces. Whoever has that one needs no other.
    wide: Option<Arc<Self>>,
    // Held for a few instructions.
    state: Mutex<State>,
}

/// What is known at once.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The user may.
    Allowed,
    /// The user may not.
    Denied,
    /// It is being asked.
    Pending(Asking),
}

/// What an authorizer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The user may.
    Allowed,
    /// The user may not.
    Denied,
    /// It could not be asked in time: nothing is shown, and nothing is remembered.
    Unknown,
}

/// An answer under way; all who need it wait for the same.
pub type Asking = Shared<BoxFuture<'static, Answer>>;

#[derive(Default)]
struct State {
    known: Option<Known>,
    asking: Option<Asking>,
}

#[derive(Clone, Copy)]
struct Known {
    is_allowed: bool,
    /// When it was asked: the answer is not younger than that.
    asked: Instant,
}

// === impl Answer ===

impl Answer {
    /// Whether it is a yes.
    pub fn is_allowed(self) -> bool {
        self == Self::Allowed
    }
}

// === impl Right ===

impl Right {
    pub(super) fn new(view: &Arc<UserView>, asked: Arc<Asked>, wide: Option<Arc<Self>>) -> Self {
        Self {
            view: Arc::clone(view),
            asked,
            wide,
            state: Mutex::default(),
        }
    }

    /// The question.
    pub fn question(&self) -> &AccessQuestion {
        &self.asked.question
    }

    /// Whether the user has the right, as far as that is known. Never waits: what is not known,
    /// or not any more, is asked for.
    pub fn check(self: &Arc<Self>) -> Verdict {
        let now = Instant::now();
        let mut state = self.state.lock();
        let known = state.known.filter(|known| self.counts(*known, now));
        let Some(known) = known else {
            let asking = self.ask(&mut state, None);
            drop(state);
            self.count(false);
            return Verdict::Pending(asking);
        };
        if known.is_allowed && now >= known.asked + REFRESH && state.asking.is_none() {
            let _refreshed = self.ask(&mut state, None);
        }
        drop(state);
        self.count(true);
        if known.is_allowed {
            Verdict::Allowed
        } else {
            Verdict::Denied
        }
    }

    /// Whether the user has the right, by what is remembered or else by asking.
    pub async fn decide(self: &Arc<Self>) -> Answer {
        match self.check() {
            Verdict::Allowed => Answer::Allowed,
            Verdict::Denied => Answer::Denied,
            Verdict::Pending(asking) => asking.await,
        }
    }

    /// Whether the user has the right, asked at that moment or later: what was remembered before
    /// does not count.
    pub async fn decide_since(self: &Arc<Self>, since: Instant) -> Answer {
        let since = since.max(self.asked.context.since());
        loop {
            let (asking, is_own) = {
                let mut state = self.state.lock();
                if let Some(known) = state.known.filter(|known| known.asked >= since) {
                    return known.answer();
                }
                match state.asking.clone() {
                    Some(asking) => (asking, false),
                    None => (self.ask(&mut state, Some(since)), true),
                }
            };
            let answer = asking.await;
            if is_own || answer == Answer::Unknown {
                return answer;
            }
        }
    }

    /// Begins to ask, unless that is under way. `since`: nothing may be older than that.
    fn ask(self: &Arc<Self>, state: &mut State, since: Option<Instant>) -> Asking {
        if let Some(asking) = &state.asking {
            return asking.clone();
        }
        let (sender, receiver) = oneshot::channel();
        let right = Arc::clone(self);
        // A task of its own: whoever asked first may have stopped waiting.
        self.view.spawn(async move {
            let found = right.find(since).await;
            let mut state = right.state.lock();
            state.asking = None;
            if found.is_some() {
                state.known = found;
            }
            drop(state);
            // Without a receiver nobody waits any more.
            let _unreceived = sender.send(found.map_or(Answer::Unknown, Known::answer));
        });
        // Without a server to ask, or when it stops, nothing is allowed.
        let asking = receiver.map(|answer| answer.unwrap_or(Answer::Unknown));
        let asking = asking.boxed().shared();
        state.asking = Some(asking.clone());
        asking
    }

    /// Asks for all namespaces, unless that was denied lately, then for the one.
    async fn find(self: &Arc<Self>, since: Option<Instant>) -> Option<Known> {
        if let Some(wide) = self.wide.as_ref().filter(|wide| !wide.was_denied()) {
            let now = Instant::now();
            let since = since.or(now.checked_sub(DENIED)).unwrap_or(now);
            let answer = Box::pin(wide.decide_since(since)).await;
            let known = wide.state.lock().known;
            match answer {
                Answer::Allowed => return known.filter(|known| known.is_allowed),
                Answer::Unknown => return None,
                Answer::Denied => {}
            }
        }
        let asked = Instant::now();
        let decisions = self.view.decisions()?;
        let is_allowed = decisions.review(&self.view, &self.asked).await?;
        // It may be that of the cluster that the context named before.
        if asked < self.asked.context.since() {
            return None;
        }
        Some(Known { is_allowed, asked })
    }

    /// Whether it was denied so lately that it is not asked again on the way to another question.
    fn was_denied(&self) -> bool {
        let known = self.state.lock().known;
        known.is_some_and(|known| {
            let is_of_here = known.asked >= self.asked.context.since();
            !known.is_allowed && is_of_here && known.asked.elapsed() < DENIED_EVERYWHERE
        })
    }

    /// Whether an answer is good at a time.
    fn counts(&self, known: Known, now: Instant) -> bool {
        now < known.until() && known.asked >= self.asked.context.since()
    }

    fn count(&self, is_known: bool) {
        if let Some(decisions) = self.view.decisions() {
            decisions.count_lookup(is_known);
        }
    }

    /// Whether nothing is known any more and nothing is asked.
    pub(super) fn is_spent(&self) -> bool {
        let state = self.state.lock();
        let now = Instant::now();
        state.asking.is_none() && state.known.is_none_or(|known| !self.counts(known, now))
    }
}

impl fmt::Debug for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.view.user().name();
        let Asked {
            context, question, ..
        } = &*self.asked;
        write!(f, "{user}: {question} ({})", context.name())
    }
}

// === impl Known ===

impl Known {
    fn until(self) -> Instant {
        self.asked + if self.is_allowed { ALLOWED } else { DENIED }
    }

    fn answer(self) -> Answer {
        if self.is_allowed {
            Answer::Allowed
        } else {
            Answer::Denied
        }
    }
}
