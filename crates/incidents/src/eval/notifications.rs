//! What a subscriber is told of a case from its beginning to its end.

use jiff::SignedDuration;

use super::case::Case;
use crate::{
    incident::incidents,
    life::{Life, Transition},
};

/// How long what is wrong stays.
const STAYS: SignedDuration = SignedDuration::from_mins(10);

/// How long a subscriber listens after it is gone.
const LISTENS: SignedDuration = SignedDuration::from_mins(10);

/// How often the state is looked at.
const STEP: SignedDuration = SignedDuration::from_secs(30);

/// How often a subscriber is woken by one case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notifications {
    /// Incidents that were opened.
    pub opened: usize,
    /// Changes of them.
    pub changed: usize,
    /// Incidents that were resolved.
    pub resolved: usize,
    /// Whether what was there when the subscriber came was announced as new.
    pub repeated: bool,
}

/// Feeds a case to a subscriber: it appears, stays for ten minutes and goes.
pub fn notifications(case: &Case) -> Notifications {
    let mut told = Notifications::default();
    let mut late = Life::default();
    let already = late.update(&incidents(&case.state, case.now), case.now);
    told.repeated = !already.is_empty();
    let mut life = Life::default();
    let mut now = case.now;
    life.update(&[], now);
    while now.duration_since(case.now) < STAYS {
        told.count(&life.update(&incidents(&case.state, now), now));
        now += STEP;
    }
    let gone = now;
    while now.duration_since(gone) < LISTENS {
        told.count(&life.update(&[], now));
        now += STEP;
    }
    told
}

// === impl Notifications ===

impl Notifications {
    /// Whether each incident is told once, changes at most twice, and ends once.
    pub fn is_calm(&self) -> bool {
        !self.repeated && self.resolved == self.opened && self.changed <= 2 * self.opened
    }

    fn count(&mut self, transitions: &[Transition]) {
        for transition in transitions {
            match transition {
                Transition::Opened(_) => self.opened += 1,
                Transition::Changed(_) => self.changed += 1,
                Transition::Resolved { .. } => self.resolved += 1,
            }
        }
    }
}
