//! Deduplication of faults for one subscription: a key passes once per window.

use std::{
    collections::{HashSet, VecDeque, hash_map::RandomState},
    hash::BuildHasher,
};

use tokio::time::Instant;

use super::{WINDOW, key::FaultKey};

/// Far more keys than one subscription can be notified of in a window.
const KEYS_MAX: usize = 4096;

/// The keys that one subscription was notified of. Its size is bounded: with too many keys
/// the oldest is evicted, and could pass again.
#[derive(Debug)]
pub struct Dedup {
    hasher: RandomState,
    // Hashes are enough, and small: the keys themselves come from workloads.
    seen: HashSet<u64>,
    by_age: VecDeque<(Instant, u64)>,
    evicted: u64,
}

// === impl Dedup ===

impl Dedup {
    /// No key has passed yet.
    pub fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            seen: HashSet::new(),
            by_age: VecDeque::new(),
            evicted: 0,
        }
    }

    /// Whether a key passes now. A key that passes starts its window; repeats within the
    /// window do not extend it.
    pub fn admit(&mut self, key: &FaultKey) -> bool {
        let now = Instant::now();
        while let Some((at, hash)) = self.by_age.front().copied()
            && now.duration_since(at) >= WINDOW
        {
            self.by_age.pop_front();
            self.seen.remove(&hash);
        }
        let hash = self.hasher.hash_one(key);
        if !self.seen.insert(hash) {
            return false;
        }
        self.by_age.push_back((now, hash));
        if self.by_age.len() > KEYS_MAX
            && let Some((_, oldest)) = self.by_age.pop_front()
        {
            self.seen.remove(&oldest);
            self.evicted += 1;
        }
        true
    }

    /// Number of keys within their window.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether no key is within its window.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Number of keys that were evicted before their window was over.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

impl Default for Dedup {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(pod: &str, count: i32) -> FaultKey {
        FaultKey {
            cluster: "dev".to_owned(),
            namespace: "shop".to_owned(),
            pod: pod.to_owned(),
            reason: "BackOff".to_owned(),
            count,
        }
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_fault_passes_again_after_a_minute_and_not_before() {
        let mut dedup = Dedup::new();
        assert!(dedup.admit(&key("web", 1)));
        assert!(!dedup.admit(&key("web", 1)));
        pass(59).await;
        assert!(!dedup.admit(&key("web", 1)), "at 59 s");
        pass(2).await;
        assert!(dedup.admit(&key("web", 1)), "at 61 s");
        assert!(!dedup.admit(&key("web", 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_do_not_move_the_window() {
        let mut dedup = Dedup::new();
        assert!(dedup.admit(&key("web", 1)));
        for _ in 0..5 {
            pass(11).await;
            assert!(!dedup.admit(&key("web", 1)));
        }
        pass(6).await;
        assert!(dedup.admit(&key("web", 1)), "61 s after it first passed");
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_differs_is_another_fault() {
        let mut dedup = Dedup::new();
        assert!(dedup.admit(&key("web", 1)));
        assert!(dedup.admit(&key("web", 2)), "counted once more");
        assert!(dedup.admit(&key("db", 1)));
        let other = |change: fn(&mut FaultKey)| {
            let mut one = key("web", 1);
            change(&mut one);
            one
        };
        assert!(dedup.admit(&other(|one| one.cluster = "prod".to_owned())));
        assert!(dedup.admit(&other(|one| one.namespace = "test".to_owned())));
        assert!(dedup.admit(&other(|one| one.reason = "Failed".to_owned())));
        assert_eq!(dedup.len(), 6);
        let mut another = Dedup::new();
        assert!(
            another.admit(&key("web", 1)),
            "each subscription for itself"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn its_size_is_bounded_and_it_empties_with_time() {
        let mut dedup = Dedup::new();
        for n in 0..3 * 4096 {
            assert!(dedup.admit(&key("web", n)));
        }
        assert_eq!((dedup.len(), dedup.evicted()), (4096, 2 * 4096));
        assert!(!dedup.admit(&key("web", 3 * 4096 - 1)));
        assert!(dedup.admit(&key("web", 0)), "evicted");
        pass(61).await;
        assert!(dedup.admit(&key("web", -1)));
        assert_eq!(dedup.len(), 1);
    }
}
