//! A rate: so many a second in all, and a share of them per caller.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{CallerShare, LimitName, LimitReached, ShareKey};

/// A rate that callers share.
#[derive(Debug)]
pub struct SharedRate {
    name: LimitName,
    per_second: usize,
    per_caller: usize,
    // Held for a few additions.
    buckets: Mutex<Buckets>,
}

#[derive(Debug)]
struct Buckets {
    all: Bucket,
    /// Those that are not full, and a few more.
    by_caller: HashMap<ShareKey, Bucket>,
}

/// A bucket that fills at its rate and holds a second's worth.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

// === impl SharedRate ===

impl SharedRate {
    /// A rate of which nothing has been used.
    pub fn new(name: LimitName, per_second: usize, share: CallerShare) -> Self {
        let now = Instant::now();
        Self {
            name,
            per_second,
            per_caller: share.of(per_second),
            buckets: Mutex::new(Buckets {
                all: Bucket::full(per_second, now),
                by_caller: HashMap::new(),
            }),
        }
    }

    /// Takes one.
    ///
    /// # Errors
    /// If the caller, or all callers together, are too fast.
    pub fn take(&self, key: &ShareKey) -> Result<(), LimitReached> {
        let (name, now) = (self.name, Instant::now());
        let mut buckets = self.buckets.lock();
        let known = buckets.by_caller.get(key).copied();
        let mut own = known.unwrap_or(Bucket::full(self.per_caller, now));
        own.fill(self.per_caller, now);
        if own.tokens < 1.0 {
            let (used, max) = (self.per_caller, self.per_caller);
            return Err(LimitReached::Caller { name, used, max });
        }
        buckets.all.fill(self.per_second, now);
        if buckets.all.tokens < 1.0 {
            let (used, max) = (self.per_second, self.per_second);
            return Err(LimitReached::Total { name, used, max });
        }
        buckets.all.tokens -= 1.0;
        own.tokens -= 1.0;
        buckets.by_caller.insert(key.clone(), own);
        // Within a second no more than two seconds' worth is given out, so no more buckets
        // than that can be less than full; a full one need not be remembered.
        if buckets.by_caller.len() > self.per_second.saturating_mul(4) {
            let per_caller = self.per_caller;
            buckets
                .by_caller
                .retain(|_, bucket| !bucket.is_full(per_caller, now));
        }
        Ok(())
    }
}

// === impl Bucket ===

#[expect(clippy::cast_precision_loss, reason = "a rate is small")]
impl Bucket {
    fn full(rate: usize, now: Instant) -> Self {
        Self {
            tokens: rate as f64,
            filled: now,
        }
    }

    fn fill(&mut self, rate: usize, now: Instant) {
        self.tokens = self.level(rate, now);
        self.filled = now;
    }

    fn is_full(&self, rate: usize, now: Instant) -> bool {
        self.level(rate, now) >= rate as f64
    }

    fn level(&self, rate: usize, now: Instant) -> f64 {
        let earned = now.duration_since(self.filled).as_secs_f64() * rate as f64;
        (self.tokens + earned).min(rate as f64)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, advance};

    use super::*;

    const NAME: LimitName = LimitName::new("new sessions a second", "--max-session-rate");

    fn caller(name: &str) -> ShareKey {
        ShareKey::Caller(name.into())
    }

    fn taken(rate: &SharedRate, key: &ShareKey) -> usize {
        (0..1000).take_while(|_| rate.take(key).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_takes_its_share_and_others_keep_theirs_second_by_second() {
        let rate = SharedRate::new(NAME, 10, CallerShare::HALF);
        for _second in 0..5 {
            assert_eq!(taken(&rate, &caller("greedy")), 5);
            assert_eq!(taken(&rate, &caller("modest")), 5);
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(taken(&rate, &caller("greedy")), 5);
        let refused = rate.take(&caller("greedy")).unwrap_err();
        assert!(refused.is_callers());
        assert!(refused.to_string().contains("--max-session-rate"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_silence_earns_no_more_than_a_second_s_worth() {
        let rate = SharedRate::new(NAME, 5, CallerShare::WHOLE);
        assert_eq!(taken(&rate, &caller("a")), 5);
        advance(Duration::from_millis(200)).await;
        assert_eq!(taken(&rate, &caller("a")), 1);
        advance(Duration::from_hours(1)).await;
        assert_eq!(taken(&rate, &caller("a")), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_of_long_ago_are_forgotten() {
        let rate = SharedRate::new(NAME, 10, CallerShare::HALF);
        for number in 0..1000 {
            rate.take(&caller(&number.to_string())).unwrap();
            advance(Duration::from_millis(200)).await;
        }
        assert!(rate.buckets.lock().by_caller.len() <= 40);
    }
}
