//! Flush clock: events that follow each other closely are delivered together, once per
//! flush interval.
//!
//! ```text
//!  events        a   b c    d      e f g               h
//!  intervals |           |           |           |           |
//!  delivered     a       bcd         efg               h
//!                at once  at the flush                 at once
//! ```
//!
//! To reach a subscriber costs far more than to deliver it one event more: its memory has
//! to be fetched, its stream woken and its socket written to. An event that comes alone is
//! delivered at once. Of events that come closely, all of one interval are delivered at its
//! end, or at the end of the next interval if they are few. All watches and streams share
//! one clock, so that a subscriber is reached once per interval.

use tokio::time::{Duration, Instant};

/// Length of a flush interval: an event of a burst waits less than a tenth of a second.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(80);

/// Streams write without holding back around a flush, when watches deliver what they have
/// gathered. The open window begins this long before the flush, so that a stream that held
/// back has written its own backlog by then.
const OPEN_BEFORE: Duration = Duration::from_millis(2);

/// The open window ends this long after the flush: a stream may get several messages, and
/// delivery to thousands of streams takes time.
const OPEN_AFTER: Duration = Duration::from_millis(12);

/// The clock of all flushes.
#[derive(Clone, Copy, Debug)]
pub struct FlushClock {
    epoch: Instant,
}

// === impl FlushClock ===

impl FlushClock {
    /// Starts the first interval now.
    pub fn start() -> Self {
        Self {
            epoch: Instant::now(),
        }
    }

    /// The flush at the end of the interval that `now` is in.
    pub fn next_flush(self, now: Instant) -> Instant {
        next_tick(self.epoch, now)
    }

    /// How long a stream that last wrote at `written` holds back; `None` if it may write.
    pub fn hold_until(self, written: Instant, now: Instant) -> Option<Instant> {
        let opens = next_tick(self.epoch + FLUSH_INTERVAL.saturating_sub(OPEN_BEFORE), now);
        let opened = opens - FLUSH_INTERVAL;
        let open = now < opened + OPEN_BEFORE + OPEN_AFTER;
        (written >= opened && !open).then_some(opens)
    }
}

/// The first multiple of the interval, counted from `epoch`, after `now`.
fn next_tick(epoch: Instant, now: Instant) -> Instant {
    let interval = FLUSH_INTERVAL.as_micros();
    let past = match now.checked_duration_since(epoch) {
        Some(since) => since.as_micros() % interval,
        None => (interval - (epoch - now).as_micros() % interval) % interval,
    };
    now + FLUSH_INTERVAL - Duration::from_micros(u64::try_from(past).unwrap_or(0))
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
        fn an_interval_has_one_flush_and_it_is_at_most_an_interval_away(
            at in 0..10_000_000_u64, more in 0..80_000_u64,
        ) {
            let clock = FlushClock::start();
            let now = clock.epoch + micros(at);
            let flush = clock.next_flush(now);
            prop_assert!(flush > now && flush <= now + FLUSH_INTERVAL);
            let later = now + micros(more);
            let expected = if later < flush { flush } else { flush + FLUSH_INTERVAL };
            prop_assert_eq!(clock.next_flush(later), expected);
        }

        /// However long ago the stream wrote, and whatever the moment.
        #[test]
        fn a_stream_holds_back_if_it_wrote_in_this_interval_and_never_around_a_flush(
            at in 0..1_000_000_u64, since in 0..200_000_u64,
        ) {
            let clock = FlushClock::start();
            let written = clock.epoch + FLUSH_INTERVAL + micros(at);
            let now = written + micros(since);
            let flush = clock.next_flush(now);
            let near = now + OPEN_BEFORE >= flush || now < flush - FLUSH_INTERVAL + OPEN_AFTER;
            match clock.hold_until(written, now) {
                Some(until) => {
                    prop_assert!(!near);
                    prop_assert_eq!(until, flush - OPEN_BEFORE);
                    prop_assert!(written >= flush - FLUSH_INTERVAL - OPEN_BEFORE);
                }
                None => prop_assert!(near || written < flush - FLUSH_INTERVAL - OPEN_BEFORE),
            }
        }
    }
}
