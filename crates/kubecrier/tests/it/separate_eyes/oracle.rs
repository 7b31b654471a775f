//! What each user may read, and when: what it was told is held against that.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use super::{GRANTED_MAX, LABEL, PUSHED_MAX, SLACK};

/// A way in which something reaches a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Way {
    /// On the stream of a session.
    Pushed,
    /// On a listen.
    Listened,
    /// By a poll of a session.
    Polled,
    /// By a poll without a session.
    PolledModern,
    /// By reading the resource of the feed.
    Read,
    /// Again, after a connection was lost.
    Replayed,
}

/// Everything that was made and granted, and everything that was seen.
pub(super) struct Oracle {
    events: Vec<(Instant, &'static str)>,
    /// The changes of each right, from the beginning on.
    rights: HashMap<(&'static str, &'static str), Vec<(Instant, bool)>>,
    seen: BTreeMap<Way, BTreeSet<(&'static str, usize)>>,
    leaks: Vec<String>,
    /// The longest time that a right was gone when something was pushed.
    seen_after: Duration,
}

// === impl Way ===

impl Way {
    /// How long a right may be gone for what comes this way: what answers a request is decided
    /// then.
    fn stale_max(self) -> Duration {
        match self {
            Self::Polled | Self::PolledModern | Self::Read => SLACK,
            Self::Pushed | Self::Listened | Self::Replayed => PUSHED_MAX + SLACK,
        }
    }
}

// === impl Oracle ===

impl Oracle {
    pub(super) fn new(users: &[&'static str], spaces: &[&'static str]) -> Self {
        let now = Instant::now();
        let pairs = users
            .iter()
            .flat_map(|user| spaces.iter().map(move |space| (*user, *space)));
        Self {
            events: Vec::new(),
            rights: pairs.map(|pair| (pair, vec![(now, false)])).collect(),
            seen: BTreeMap::new(),
            leaks: Vec::new(),
            seen_after: Duration::ZERO,
        }
    }

    /// The number of an event that is about to be made.
    pub(super) fn next_event(&mut self, space: &'static str) -> usize {
        self.events.push((Instant::now(), space));
        self.events.len() - 1
    }

    pub(super) fn set(&mut self, user: &'static str, space: &'static str, is_granted: bool) {
        let changes = self.rights.get_mut(&(user, space)).unwrap();
        changes.push((Instant::now(), is_granted));
    }

    pub(super) fn is_granted(&self, user: &'static str, space: &'static str) -> bool {
        self.rights[&(user, space)]
            .last()
            .is_some_and(|(_, granted)| *granted)
    }

    /// Notes what a user received, in answer to a request at that time.
    pub(super) fn received(&mut self, user: &'static str, way: Way, asked: Instant, text: &str) {
        if text.contains(LABEL) {
            self.leaks
                .push(format!("{user} saw a label, {way:?}: {text}"));
        }
        if text.contains("eyes-shut") {
            self.leaks
                .push(format!("{user} heard of what is shut, {way:?}: {text}"));
        }
        for part in text.split("eyes-event-").skip(1) {
            let number: usize = part.split('-').next().unwrap().parse().unwrap();
            self.seen.entry(way).or_default().insert((user, number));
            let (_, space) = self.events[number];
            let gone = self.gone_for(user, space, asked);
            if gone > way.stale_max() {
                let text = format!("{user} saw {number} of {space}, {way:?}, {gone:?} after");
                self.leaks.push(text);
            }
            if matches!(way, Way::Pushed | Way::Listened) && gone < Duration::MAX {
                self.seen_after = self.seen_after.max(gone);
            }
        }
    }

    /// How long a right is gone at a time; for ever if it was never there.
    fn gone_for(&self, user: &'static str, space: &'static str, at: Instant) -> Duration {
        let changes = &self.rights[&(user, space)];
        let before = changes.iter().filter(|(time, _)| *time <= at);
        // A right that is granted later than the answer was asked for may count already.
        let granted_since = changes.iter().any(|(time, granted)| *time > at && *granted);
        let mut gone = if granted_since { Some(at) } else { None };
        for (time, granted) in before {
            gone = match (granted, gone) {
                (true, _) => Some(at),
                (false, Some(_)) => Some(*time),
                (false, None) => None,
            };
        }
        gone.map_or(Duration::MAX, |since| at.duration_since(since))
    }

    pub(super) fn leaks(&self) -> &[String] {
        &self.leaks
    }

    pub(super) fn seen_after(&self) -> Duration {
        self.seen_after
    }

    /// How many events had to arrive, and which of them did not: those of a right that held long
    /// enough before and after.
    pub(super) fn missing(&self, way: Way) -> (usize, Vec<String>) {
        let none = BTreeSet::new();
        let seen = self.seen.get(&way).unwrap_or(&none);
        let (mut expected, mut missing) = (0, Vec::new());
        for (number, (made, space)) in self.events.iter().enumerate() {
            for (user, of) in self.rights.keys().filter(|(_, of)| of == space) {
                let changes = &self.rights[&(*user, *of)];
                let last = changes.iter().rev().find(|(time, _)| time <= made);
                let is_old = last.is_some_and(|(time, granted)| {
                    *granted && made.duration_since(*time) > GRANTED_MAX
                });
                // A poll asks again for whatever it gives, so that the right has to stay; what is
                // pushed is on its way soon.
                let stays_for = match way {
                    Way::Pushed => Duration::from_secs(6),
                    _ => Duration::MAX,
                };
                let goes = |time: &Instant| time > made && time.duration_since(*made) <= stays_for;
                let stays = !changes.iter().any(|(time, _)| goes(time));
                if is_old && stays {
                    expected += 1;
                    if !seen.contains(&(*user, number)) {
                        missing.push(format!("{number} of {space} to {user}"));
                    }
                }
            }
        }
        (expected, missing)
    }
}
