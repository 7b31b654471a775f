//! Rounds of delivery: what comes while a round is being written is delivered together in
//! the next one.
//!
//! ```text
//!  one subscriber         a  b   c d      e          written in no time: an event is a
//!                         a  b   c d      e          round of its own
//!
//!  many, or busy cores    a  b   c d      e          a round is written (=) and followed
//!                         a==------bcd==------e==    by a rest (-) that it has earned
//! ```
//!
//! To reach a subscriber costs far more than to deliver it one event more: its memory has
//! to be fetched, its stream woken and its socket written to. How long that takes is
//! measured and not assumed. It follows from how many subscribers there are and from how
//! busy the machine is, and so does what is delivered together.

use tokio::{
    task::yield_now,
    time::{Duration, Instant, sleep_until},
};

/// A round rests for so many times as long as it was being written: until the longest rest
/// is reached, delivering takes a twelfth of the time, however many subscribe.
const REST: u32 = 11;

/// The longest rest: an event of a burst waits for no more than this, and for the writing.
const REST_MAX: Duration = Duration::from_millis(15);

/// To write to one subscriber takes no longer. In what goes beyond, others had the cores, and
/// no rest is earned by waiting for them.
const WRITING_EACH_MAX: Duration = Duration::from_micros(20);

/// The runtime's clock has no smaller unit, so that a shorter rest is none.
const REST_MIN: Duration = Duration::from_millis(1);

/// The runtime gives others about so many turns before a task that has yielded has its own.
const TURNS: usize = 61;

/// Says when the next round may begin.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    /// The next round may begin.
    #[default]
    Ready,
    /// The last round began then, has reached so many subscribers, and is being written for so
    /// many yields more.
    Writing {
        since: Instant,
        reached: usize,
        yields: usize,
    },
    /// The last round has been written.
    Resting { until: Instant },
}

// === impl Rounds ===

impl Rounds {
    /// Begins a round: `deliver` returns how many subscribers it has reached.
    pub(super) fn begin(&mut self, deliver: impl FnOnce() -> usize) {
        let since = Instant::now();
        let reached = deliver();
        self.phase = Phase::Writing {
            since,
            reached,
            yields: reached / TURNS + 1,
        };
    }

    /// Waits until the last round has been written, as far as its readers read. To be
    /// called after each round: its time runs until then. Cancel-safe.
    pub(super) async fn written(&mut self) {
        while let Phase::Writing {
            since,
            reached,
            yields,
        } = self.phase
        {
            // The streams that the round has woken have their turns. One whose socket is full
            // was not woken.
            yield_now().await;
            let now = Instant::now();
            self.phase = match (yields - 1, rest_after(now - since, reached)) {
                (0, Some(rest)) => Phase::Resting { until: now + rest },
                (0, None) => Phase::Ready,
                (yields, _) => Phase::Writing {
                    since,
                    reached,
                    yields,
                },
            };
        }
    }

    /// Waits until the last round has been written and has had its rest. Cancel-safe.
    pub(super) async fn rested(&mut self) {
        self.written().await;
        if let Phase::Resting { until } = self.phase {
            sleep_until(until).await;
            self.phase = Phase::Ready;
        }
    }
}

/// The rest after a round that took so long to write to so many subscribers.
pub(super) fn rest_after(written_in: Duration, reached: usize) -> Option<Duration> {
    let reached = u32::try_from(reached).unwrap_or(u32::MAX);
    let writing = written_in.min(WRITING_EACH_MAX.saturating_mul(reached));
    let rest = writing.saturating_mul(REST).min(REST_MAX);
    (rest >= REST_MIN).then_some(rest)
}

#[cfg(test)]
mod tests;
