//! One notification per fault and minute, for one subscription.

use std::{
    collections::{HashSet, VecDeque, hash_map::RandomState},
    hash::BuildHasher,
    time::Duration,
};

use tokio::time::Instant;

/// How long the same fault is not told again, from when it was told.
pub const WINDOW: Duration = Duration::from_mins(1);

/// As many faults as one subscription can be told of in a window, by far.
const KEYS_MAX: usize = 4096;

/// What makes two warnings the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FaultKey {
    /// The context of the kubeconfig.
    pub cluster: String,
    /// Where the pod lives.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The event's reason.
    pub reason: String,
    /// How often the event was seen: of its series, else its own, else 1.
    pub count: i32,
}

/// What one subscription has been told of. Its size is bounded: with too many
/// faults the oldest is forgotten, and could be told again.
#[derive(Debug)]
pub struct Dedup {
    hasher: RandomState,
    // Hashes are enough, and small: the keys themselves come from workloads.
    told: HashSet<u64>,
    by_age: VecDeque<(Instant, u64)>,
    forgotten: u64,
}

// === impl Dedup ===

impl Dedup {
    /// Has been told nothing.
    pub fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            told: HashSet::new(),
            by_age: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Whether this fault is to be told now. It begins a window; what falls into it
    /// does not make it longer.
    pub fn admit(&mut self, key: &FaultKey) -> bool {
        let now = Instant::now();
        while let Some((at, hash)) = self.by_age.front().copied()
            && now.duration_since(at) >= WINDOW
        {
            self.by_age.pop_front();
            self.told.remove(&hash);
        }
        let hash = self.hasher.hash_one(key);
        if !self.told.insert(hash) {
            return false;
        }
        self.by_age.push_back((now, hash));
        if self.by_age.len() > KEYS_MAX
            && let Some((_, oldest)) = self.by_age.pop_front()
        {
            self.told.remove(&oldest);
            self.forgotten += 1;
        }
        true
    }

    /// How many faults are in their window.
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// How many had to be forgotten before their window was over.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl Default for Dedup {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
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
    async fn the_same_fault_is_told_again_after_a_minute_and_not_before() {
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
        assert!(dedup.admit(&key("web", 1)), "61 s after it was first told");
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
        assert_eq!((dedup.len(), dedup.forgotten()), (4096, 2 * 4096));
        assert!(!dedup.admit(&key("web", 3 * 4096 - 1)));
        assert!(dedup.admit(&key("web", 0)), "forgotten");
        pass(61).await;
        assert!(dedup.admit(&key("web", -1)));
        assert_eq!(dedup.len(), 1);
    }
}
