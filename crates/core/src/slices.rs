//! Slices of time: what keeps coming is told once in each, together.
//!
//! ```text
//!  events        a   b c    d      e f g               h
//!  slices    |           |           |           |           |
//!  told          a       bcd         efg               h
//!                at once  for the slice                at once
//! ```
//!
//! To touch a subscriber costs far more than to tell it one thing more: its memory has
//! to be fetched, its stream woken and its socket written to. What comes alone is told
//! at once; of what comes closely, everything within a slice is told at its end, and if
//! that is little, at the end of the next. The slices are the same for all, so that
//! whoever is touched is touched once.

use tokio::time::{Duration, Instant};

/// How long a slice is: what is gathered of a flood waits less than a tenth of a second.
pub const SLICE: Duration = Duration::from_millis(80);

/// Streams are open for everything around the end of a slice, when others hand out what
/// they have gathered: from so much before it, so that a stream that rests is done with
/// that by then,
const BEFORE: Duration = Duration::from_millis(2);

/// to so much after it, because a stream may be handed several things, and to hand out
/// to thousands takes its time.
const AFTER: Duration = Duration::from_millis(12);

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

    /// Until when a stream rests that has written before; `None` if it need not.
    pub fn rests(self, written: Instant, now: Instant) -> Option<Instant> {
        let opens = end(self.from + SLICE.saturating_sub(BEFORE), now);
        let opened = opens - SLICE;
        let open = now < opened + BEFORE + AFTER;
        (written >= opened && !open).then_some(opens)
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

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    proptest! {
        #[test]
        fn a_slice_has_one_end_for_all_and_it_is_less_than_a_slice_away(
            at in 0..10_000_000_u64, more in 0..80_000_u64,
        ) {
            let slices = Slices::from_now();
            let now = slices.from + micros(at);
            let ends = slices.handed_out(now);
            prop_assert!(ends > now && ends <= now + SLICE);
            let later = now + micros(more);
            let expected = if later < ends { ends } else { ends + SLICE };
            prop_assert_eq!(slices.handed_out(later), expected);
        }

        /// However long it has been since it wrote, and whatever the moment.
        #[test]
        fn a_stream_rests_if_it_has_written_in_this_slice_and_never_when_others_hand_out(
            at in 0..1_000_000_u64, since in 0..200_000_u64,
        ) {
            let slices = Slices::from_now();
            let written = slices.from + SLICE + micros(at);
            let now = written + micros(since);
            let handed_out = slices.handed_out(now);
            let near = now + BEFORE >= handed_out || now < handed_out - SLICE + AFTER;
            match slices.rests(written, now) {
                Some(until) => {
                    prop_assert!(!near);
                    prop_assert_eq!(until, handed_out - BEFORE);
                    prop_assert!(written >= handed_out - SLICE - BEFORE);
                }
                None => prop_assert!(near || written < handed_out - SLICE - BEFORE),
            }
        }
    }
}
