//! What is done to whom and when. It follows from the seed alone.

use std::fmt;

use serde::Serialize;
use tokio::time::Duration;

/// Restarts of NATS in a run.
const NATS_RESTARTS: usize = 2;

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Action {
    /// Milliseconds from the beginning of the chaos.
    pub(crate) at: u32,
    pub(crate) kind: ActionKind,
    /// Milliseconds until it is undone.
    pub(crate) lasts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "what", content = "replica")]
pub(crate) enum ActionKind {
    /// SIGKILL, and a new process.
    Kill(usize),
    /// SIGSTOP and SIGCONT.
    Freeze(usize),
    /// Nothing passes between a replica and NATS; connections stay open.
    CutOff(usize),
    /// SIGKILL of nats-server, and a new one with the same store.
    RestartNats,
}

/// A generator of numbers (SplitMix64), the same on every machine.
struct Numbers(u64);

/// The actions of a run, in the order of their times.
pub(crate) fn plan(seed: u64, duration: Duration, every: Duration, replicas: usize) -> Vec<Action> {
    let mut numbers = Numbers(seed);
    let (duration, every) = (millis(duration), millis(every).max(1000));
    let count = (duration / every) as usize;
    // At a third and at two thirds, as far as there are so many actions.
    let of_nats: Vec<_> = (1..=NATS_RESTARTS)
        .map(|nth| count * nth / (NATS_RESTARTS + 1))
        .filter(|_| count > NATS_RESTARTS)
        .collect();
    let mut actions = Vec::with_capacity(count);
    for (nth, at) in (0..count).zip((0..).step_by(every as usize)) {
        // The same numbers are used up whatever they are used for.
        let (kind, replica, part) = (
            numbers.below(3),
            numbers.below(replicas),
            numbers.below(100),
        );
        let kind = match kind {
            _ if of_nats.contains(&nth) => ActionKind::RestartNats,
            0 => ActionKind::Kill(replica),
            1 => ActionKind::Freeze(replica),
            _ => ActionKind::CutOff(replica),
        };
        let (least, most) = match kind {
            ActionKind::RestartNats => (100, every / 4),
            // Some are shorter than a lease, and some longer.
            _ => (1500.min(every / 2), every * 4 / 5),
        };
        let lasts = least + (most.saturating_sub(least)) * u32::try_from(part).unwrap_or(0) / 100;
        actions.push(Action { at, kind, lasts });
    }
    actions
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

// === impl ActionKind ===

impl ActionKind {
    /// The names of all kinds.
    pub(crate) const NAMES: [&'static str; 4] = ["kill", "freeze", "cut off NATS", "kill NATS"];

    pub(crate) fn name(self) -> &'static str {
        let [kill, freeze, cut_off, restart_nats] = Self::NAMES;
        match self {
            Self::Kill(_) => kill,
            Self::Freeze(_) => freeze,
            Self::CutOff(_) => cut_off,
            Self::RestartNats => restart_nats,
        }
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(replica) => write!(f, "kill replica {replica}"),
            Self::Freeze(replica) => write!(f, "freeze replica {replica}"),
            Self::CutOff(replica) => write!(f, "cut replica {replica} off NATS"),
            Self::RestartNats => f.write_str("kill NATS"),
        }
    }
}

// === impl Numbers ===

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_a_run(seed: u64) -> Vec<Action> {
        plan(seed, Duration::from_mins(10), Duration::from_secs(10), 3)
    }

    #[test]
    fn a_seed_is_a_plan() {
        assert_eq!(of_a_run(7), of_a_run(7));
        assert_ne!(of_a_run(7), of_a_run(8));
        let restarts = of_a_run(7);
        let restarts = restarts
            .iter()
            .filter(|action| action.kind == ActionKind::RestartNats);
        assert_eq!(restarts.count(), 2);
    }

    proptest! {
        #[test]
        fn one_thing_is_undone_before_the_next_is_done(
            seed: u64, seconds in 0_u64..900, every in 2_u64..20, replicas in 1_usize..5,
        ) {
            let every = Duration::from_secs(every);
            let actions = plan(seed, Duration::from_secs(seconds), every, replicas);
            for pair in actions.windows(2) {
                prop_assert!(pair[0].at + pair[0].lasts < pair[1].at);
            }
            for action in &actions {
                prop_assert!(action.lasts >= 100);
                if let ActionKind::Kill(replica) | ActionKind::Freeze(replica) = action.kind {
                    prop_assert!(replica < replicas);
                }
            }
        }
    }
}
