//! What was just read and may be used again for a short while.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Values that live for a while; with too many the oldest goes first.
#[derive(Debug)]
pub struct ShortMemory<K, V> {
    lives_for: Duration,
    entries_max: usize,
    // A lock because captures run side by side; held for a lookup only.
    entries: Mutex<HashMap<K, (Instant, V)>>,
}

// === impl ShortMemory ===

impl<K: Hash + Eq + Clone, V: Clone> ShortMemory<K, V> {
    /// Remembers so many values for so long.
    pub fn new(lives_for: Duration, entries_max: usize) -> Self {
        Self {
            lives_for,
            entries_max,
            entries: Mutex::default(),
        }
    }

    /// The value, if it is still good.
    pub fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock();
        let (since, value) = entries.get(key)?;
        (since.elapsed() < self.lives_for).then(|| value.clone())
    }

    /// Remembers a value.
    pub fn put(&self, key: K, value: V) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max && !entries.contains_key(&key) {
            entries.retain(|_, (since, _)| since.elapsed() < self.lives_for);
            if entries.len() >= self.entries_max {
                let oldest = entries.iter().min_by_key(|(_, (since, _))| *since);
                if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                    entries.remove(&oldest);
                }
            }
        }
        entries.insert(key, (Instant::now(), value));
    }

    /// Lets go of what is no longer good.
    pub fn forget_old(&self) {
        let mut entries = self.entries.lock();
        entries.retain(|_, (since, _)| since.elapsed() < self.lives_for);
    }

    /// How many are remembered, also those that are no longer good.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_are_good_for_their_time_and_not_too_many() {
        let memory = ShortMemory::new(Duration::from_secs(10), 3);
        for n in 0..3 {
            memory.put(n, n * 10);
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!((memory.get(&0), memory.get(&2)), (Some(0), Some(20)));
        memory.put(3, 30);
        assert_eq!(
            (memory.get(&0), memory.get(&1), memory.len()),
            (None, Some(10), 3)
        );
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!((memory.get(&1), memory.get(&3)), (None, Some(30)));
        memory.forget_old();
        assert_eq!(memory.len(), 2, "what is no longer good");
        memory.put(4, 40);
        let kept = [1, 2, 3, 4].map(|key| memory.get(&key).is_some());
        assert_eq!(
            kept,
            [false, true, true, true],
            "what is no longer good went first"
        );
    }
}
