//! A bounded cache of answers that are good for a while.
//!
//! An answer that has expired is kept until there is a better one: if fetching it again
//! fails, the old one is still better than none. Time is tokio's, so that tests can
//! pause it.

use std::{future::Future, hash::Hash, num::NonZeroUsize, task::Poll};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// An answer that is being fetched; concurrent lookups of one key share the request.
pub type Fetch<V> = Shared<BoxFuture<'static, Option<V>>>;

/// A cache with a limited number of entries, of which the least recently used one goes
/// first. "There is none" is an answer as well, with a lifetime of its own.
pub struct TtlCache<K, V> {
    limits: CacheLimits,
    // Held for map operations only.
    entries: Mutex<LruCache<K, CacheEntry<V>>>,
}

/// How many answers a cache keeps, and how long they are good for.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// The number of entries.
    pub entries_max: NonZeroUsize,
    /// The lifetime of a value.
    pub ttl: Duration,
    /// The lifetime of the answer that there is no value.
    pub negative_ttl: Duration,
}

/// What a lookup finds.
pub enum Lookup<V> {
    /// An answer that is still good, or the last one if fetching it again has failed.
    Ready(Option<V>),
    /// The request under way, and the last value if there was one.
    Pending(Fetch<V>, Option<V>),
}

struct CacheEntry<V> {
    answer: Answer<V>,
    /// When the answer was asked for: it is not younger than that.
    asked: Instant,
    /// The last value before this answer.
    stale: Option<V>,
}

enum Answer<V> {
    Known(V),
    Fetching(Fetch<V>),
}

// === impl CacheLimits ===

impl CacheLimits {
    /// Limits where a missing value lives as long as a present one.
    pub const fn new(entries_max: usize, ttl: Duration) -> Self {
        let entries_max = match NonZeroUsize::new(entries_max) {
            Some(entries_max) => entries_max,
            None => NonZeroUsize::MIN,
        };
        Self {
            entries_max,
            ttl,
            negative_ttl: ttl,
        }
    }

    /// The same with another lifetime for the answer that there is no value.
    #[must_use]
    pub const fn negative_ttl(mut self, negative_ttl: Duration) -> Self {
        self.negative_ttl = negative_ttl;
        self
    }
}

// === impl TtlCache ===

impl<K: Clone + Eq + Hash, V: Clone + Send + Sync + 'static> TtlCache<K, V> {
    /// An empty cache.
    pub fn new(limits: CacheLimits) -> Self {
        // Made with its capacity, it would allocate for all entries at once.
        let mut entries = LruCache::unbounded();
        entries.resize(limits.entries_max);
        Self {
            limits,
            entries: Mutex::new(entries),
        }
    }

    /// The value, if there is one that is still good.
    pub fn get(&self, key: &K) -> Option<V> {
        self.get_younger_than(key, self.limits.ttl)
    }

    /// The value, if there is one that is younger than this.
    pub fn get_younger_than(&self, key: &K, age_max: Duration) -> Option<V> {
        let mut entries = self.entries.lock();
        let entry = entries.get(key)?;
        match entry.poll() {
            Poll::Ready(value) if entry.asked.elapsed() < age_max => value,
            _ => None,
        }
    }

    /// Whether there is an entry, whatever it is good for.
    pub fn contains(&self, key: &K) -> bool {
        self.entries.lock().contains(key)
    }

    /// Keeps a value.
    pub fn insert(&self, key: K, value: V) {
        let entry = CacheEntry {
            answer: Answer::Known(value),
            asked: Instant::now(),
            stale: None,
        };
        self.entries.lock().put(key, entry);
    }

    /// The answer for a key. `fetch` is called if there is none that is still good, and
    /// no request under way.
    pub fn lookup<F>(&self, key: &K, fetch: impl FnOnce() -> F) -> Lookup<V>
    where
        F: Future<Output = Option<V>> + Send + 'static,
    {
        self.lookup_younger_than(key, self.limits.ttl, fetch)
    }

    /// The same for a value that has to be younger than this.
    pub fn lookup_younger_than<F>(
        &self,
        key: &K,
        age_max: Duration,
        fetch: impl FnOnce() -> F,
    ) -> Lookup<V>
    where
        F: Future<Output = Option<V>> + Send + 'static,
    {
        let mut entries = self.entries.lock();
        let mut stale = None;
        if let Some(entry) = entries.get(key) {
            let age = entry.asked.elapsed();
            match (entry.poll(), &entry.answer) {
                (Poll::Ready(Some(value)), _) if age < age_max => {
                    return Lookup::Ready(Some(value));
                }
                (Poll::Ready(None), _) if age < self.limits.negative_ttl => {
                    return Lookup::Ready(entry.stale.clone());
                }
                (Poll::Ready(value), _) => stale = value.or_else(|| entry.stale.clone()),
                (Poll::Pending, Answer::Fetching(request)) => {
                    return Lookup::Pending(request.clone(), entry.stale.clone());
                }
                (Poll::Pending, Answer::Known(_)) => {}
            }
        }
        let request = fetch().boxed().shared();
        let entry = CacheEntry {
            answer: Answer::Fetching(request.clone()),
            asked: Instant::now(),
            stale: stale.clone(),
        };
        entries.put(key.clone(), entry);
        Lookup::Pending(request, stale)
    }

    /// Drops every answer that has expired, also those that a failed request could fall
    /// back to.
    pub fn remove_expired(&self) {
        let mut entries = self.entries.lock();
        let expired: Vec<K> = (entries.iter())
            .filter(|(_, entry)| entry.asked.elapsed() >= self.limits.ttl)
            .map(|(key, _)| key.clone())
            .collect();
        for key in expired {
            entries.pop(&key);
        }
    }

    /// The number of entries, with those that have expired.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V> std::fmt::Debug for TtlCache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TtlCache")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

// === impl CacheEntry ===

impl<V: Clone> CacheEntry<V> {
    /// The answer, if it has arrived.
    fn poll(&self) -> Poll<Option<V>> {
        match &self.answer {
            Answer::Known(value) => Poll::Ready(Some(value.clone())),
            // A request that its callers have stopped waiting for is polled here, or
            // its answer would never be seen.
            Answer::Fetching(request) => {
                let arrived = || request.clone().now_or_never();
                let answer = request.peek().cloned().or_else(arrived);
                answer.map_or(Poll::Pending, Poll::Ready)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    const LIMITS: CacheLimits =
        CacheLimits::new(10, Duration::from_mins(1)).negative_ttl(Duration::from_secs(5));

    async fn get(cache: &TtlCache<u32, u32>, key: u32, answer: Option<u32>) -> (Option<u32>, bool) {
        let fetched = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&fetched);
        let found = cache.lookup(&key, || async move {
            counter.fetch_add(1, Ordering::Relaxed);
            answer
        });
        let value = match found {
            Lookup::Ready(value) => value,
            Lookup::Pending(request, stale) => request.await.or(stale),
        };
        (value, fetched.load(Ordering::Relaxed) == 1)
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_value_is_used_when_fetching_it_again_fails() {
        let cache = TtlCache::new(LIMITS);
        assert_eq!(get(&cache, 1, Some(7)).await, (Some(7), true));
        assert_eq!(get(&cache, 1, Some(8)).await, (Some(7), false));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(get(&cache, 1, None).await, (Some(7), true), "stale");
        assert_eq!(get(&cache, 1, Some(9)).await, (Some(7), false));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(get(&cache, 1, Some(9)).await, (Some(9), true));
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_share_one_request() {
        let cache = TtlCache::new(LIMITS);
        let fetched = Arc::new(AtomicUsize::new(0));
        let mut waiting = Vec::new();
        for _ in 0..5 {
            let counter = Arc::clone(&fetched);
            let found = cache.lookup(&1, || async move {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some(3)
            });
            let Lookup::Pending(request, _) = found else {
                panic!("there is no answer yet");
            };
            waiting.push(request);
        }
        for request in waiting {
            assert_eq!(request.await, Some(3));
        }
        assert_eq!(fetched.load(Ordering::Relaxed), 1);
    }

    /// The age of an answer counts from when it was asked for, also if the callers
    /// stopped waiting for it.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_arrives_late_expires_as_well() {
        for (late, ttl) in [
            (None, Duration::from_secs(5)),
            (Some(7), Duration::from_mins(1)),
        ] {
            let cache: TtlCache<u32, u32> = TtlCache::new(LIMITS);
            let (answer, receiver) = tokio::sync::oneshot::channel();
            let _abandoned = cache.lookup(&1, || async move { receiver.await.unwrap() });
            assert_eq!(answer.send(late), Ok(()));
            let (almost, rest) = (ttl.mul_f32(0.9), ttl.mul_f32(0.1));
            tokio::time::advance(almost).await;
            assert_eq!(get(&cache, 1, Some(8)).await, (late, false));
            tokio::time::advance(rest).await;
            assert_eq!(get(&cache, 1, Some(8)).await, (Some(8), true));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn values_expire_and_the_least_recently_used_goes_first() {
        let cache = TtlCache::new(CacheLimits::new(3, Duration::from_secs(10)));
        for key in 0..3 {
            cache.insert(key, key * 10);
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!((cache.get(&0), cache.get(&2)), (Some(0), Some(20)));
        cache.insert(3, 30);
        assert_eq!(
            (cache.get(&1), cache.get(&0), cache.len()),
            (None, Some(0), 3)
        );
        assert_eq!(cache.get_younger_than(&0, Duration::from_secs(6)), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!((cache.get(&0), cache.get(&3)), (None, Some(30)));
        cache.remove_expired();
        assert_eq!(cache.len(), 2, "expired values are dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_entries_is_bounded() {
        let cache = TtlCache::new(LIMITS);
        for key in 0..1000 {
            get(&cache, key % 37, Some(key)).await;
            tokio::time::advance(Duration::from_secs(7)).await;
            assert!(cache.len() <= 10);
        }
    }
}
