//! Slices of time: what keeps coming is told once in each, together.
//!
//! ```text
//!  events      a   b c    d        e f g                 h
//!  slices    |           |           |           |           |
//!  told        a          bcd         efg                h
//!              at once    once for the slice             at once
//! ```
//!
//! To touch a subscriber costs far more than to tell it one thing more: its memory has
//! to be fetched, its stream woken and its socket written to. What comes alone is told
//! at once; of what comes closely, everything within a slice is told at its end. The
//! slices are the same for all, so that whoever is touched is touched once.

use tokio::time::{Duration, Instant};

/// How long a slice is: what waits, waits less than a tenth of a second.
pub const SLICE: Duration = Duration::from_millis(80);

/// Streams write this much after the end of a slice, when everything that was gathered
/// in it has reached them.
const AFTER: Duration = Duration::from_millis(4);

/// Where the slices begin.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    from: Instant,
}

// === impl Slices ===

impl Slices {
    /// The first one begins now.
    pub fn from_now() -> Self {
        Self {
            from: Instant::now(),
        }
    }

    /// When that is handed out which is gathered in the slice of this moment.
    pub fn handed_out(self, now: Instant) -> Instant {
        end(self.from, now)
    }

    /// When that is written.
    pub fn written(self, now: Instant) -> Instant {
        end(self.from + AFTER, now)
    }
}

/// The first end of a slice after `now`.
fn end(from: Instant, now: Instant) -> Instant {
    let slice = SLICE.as_micros();
    let past = match now.checked_duration_since(from) {
        Some(since) => since.as_micros() % slice,
        None => (slice - (from - now).as_micros() % slice) % slice,
    };
    now + SLICE - Duration::from_micros(u64::try_from(past).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ends_are_the_same_for_everyone_in_a_slice_and_less_than_one_away(
            micros in 0..10_000_000_u64, more in 0..80_000_u64,
        ) {
            let slices = Slices::from_now();
            for end in [Slices::handed_out, Slices::written] {
                let now = slices.from + Duration::from_micros(micros);
                let first = end(slices, now);
                prop_assert!(first > now && first <= now + SLICE);
                let later = now + Duration::from_micros(more);
                let same = if later < first { first } else { first + SLICE };
                prop_assert_eq!(end(slices, later), same);
            }
            let now = slices.from + Duration::from_micros(micros);
            let apart = slices.written(now).max(slices.handed_out(now))
                - slices.written(now).min(slices.handed_out(now));
            prop_assert!(apart == AFTER || apart == SLICE - AFTER);
        }
    }
}
