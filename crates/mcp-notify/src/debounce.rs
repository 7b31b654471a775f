//! Debouncing: triggers per key are gathered until they stop, or for a window of time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::teardown::shrink_sparse;

/// Maximum number of pending keys. One more is refused instead of evicting the oldest:
/// the caller can act immediately instead.
pub const DEBOUNCE_KEYS_MAX: usize = 65_536;

/// When a key is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DebounceMode {
    /// This long after its last trigger: each trigger restarts the delay.
    Trailing(Duration),
    /// This long after its first trigger, whatever comes in between: one batch per
    /// window.
    Window(Duration),
}

/// Gathers triggers per key, and returns each key once, with its newest value, when it
/// is due. Clones share the debouncer.
///
/// Triggering never waits. A task has to call [`next`](Self::next) in a loop.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use mcp_notify::{Debouncer, DebounceMode};
///
/// let debouncer = Debouncer::new(DebounceMode::Trailing(Duration::from_millis(250)));
/// for value in 0..10 {
///     debouncer.trigger("roots", value);
/// }
/// let due = debouncer.next().await;
/// assert_eq!((due.key, due.value, due.triggers), ("roots", 9, 10));
/// # }
/// ```
pub struct Debouncer<K, V = ()>(Arc<Shared<K, V>>);

/// A key that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Debounced<K, V> {
    /// The key.
    pub key: K,
    /// The value of its last trigger.
    pub value: V,
    /// The number of triggers that were gathered.
    pub triggers: u64,
}

struct Shared<K, V> {
    mode: DebounceMode,
    queue: Mutex<Queue<K, V>>,
    /// A key was triggered: the next due time may have changed.
    changed: Notify,
}

/// The pending keys, by key and by due time.
struct Queue<K, V> {
    by_key: HashMap<K, Pending<V>>,
    by_time: BTreeMap<Due, K>,
    next_ticket: u64,
}

struct Pending<V> {
    due: Due,
    value: V,
    triggers: u64,
}

/// The due time, and a ticket that distinguishes keys with the same one.
type Due = (Instant, u64);

impl<K: Hash + Eq + Clone, V> Debouncer<K, V> {
    /// A debouncer without pending keys.
    pub fn new(mode: DebounceMode) -> Self {
        let queue = Queue {
            by_key: HashMap::new(),
            by_time: BTreeMap::new(),
            next_ticket: 0,
        };
        Self(Arc::new(Shared {
            mode,
            queue: Mutex::new(queue),
            changed: Notify::new(),
        }))
    }

    /// Triggers the key. False, without effect, if [`DEBOUNCE_KEYS_MAX`] others are
    /// pending.
    pub fn trigger(&self, key: K, value: V) -> bool {
        let triggered = self.0.queue.lock().trigger(self.0.mode, key, value);
        if triggered {
            self.0.changed.notify_one();
        }
        triggered
    }

    /// Cancels the key. True if it was pending.
    pub fn cancel(&self, key: &K) -> bool {
        self.0.queue.lock().remove(key).is_some()
    }

    /// The number of pending keys.
    pub fn len(&self) -> usize {
        self.0.queue.lock().by_key.len()
    }

    /// Whether no key is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next key that is due.
    ///
    /// Cancel-safe: a key is taken only when it is returned. One task at a time should
    /// wait; of several, any one gets a key.
    pub async fn next(&self) -> Debounced<K, V> {
        loop {
            let next = match self.0.queue.lock().take_due() {
                Ok(due) => return due,
                Err(next) => next,
            };
            match next {
                None => self.0.changed.notified().await,
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.0.changed.notified() => {}
                },
            }
        }
    }
}

impl<K: Hash + Eq + Clone, V> Queue<K, V> {
    fn trigger(&mut self, mode: DebounceMode, key: K, value: V) -> bool {
        let (DebounceMode::Trailing(delay) | DebounceMode::Window(delay)) = mode;
        self.next_ticket += 1;
        let due = (Instant::now() + delay, self.next_ticket);
        let full = self.by_key.len() >= DEBOUNCE_KEYS_MAX;
        match self.by_key.entry(key) {
            Entry::Vacant(_) if full => return false,
            Entry::Vacant(entry) => {
                self.by_time.insert(due, entry.key().clone());
                entry.insert(Pending {
                    due,
                    value,
                    triggers: 1,
                });
            }
            Entry::Occupied(mut entry) => {
                let pending = entry.get_mut();
                pending.value = value;
                pending.triggers += 1;
                if let DebounceMode::Trailing(_) = mode {
                    let before = std::mem::replace(&mut pending.due, due);
                    let key = self
                        .by_time
                        .remove(&before)
                        .expect("a pending key has its due time");
                    self.by_time.insert(due, key);
                }
            }
        }
        true
    }

    fn remove(&mut self, key: &K) -> Option<Pending<V>> {
        let pending = self.by_key.remove(key)?;
        self.by_time.remove(&pending.due);
        shrink_sparse(&mut self.by_key);
        Some(pending)
    }

    /// Takes a key that is due, or returns the time when the next one will be.
    fn take_due(&mut self) -> Result<Debounced<K, V>, Option<Instant>> {
        let Some((&(at, _), key)) = self.by_time.first_key_value() else {
            return Err(None);
        };
        if at > Instant::now() {
            return Err(Some(at));
        }
        let key = key.clone();
        let Pending {
            value, triggers, ..
        } = self.remove(&key).expect("a due time has its key");
        Ok(Debounced {
            key,
            value,
            triggers,
        })
    }
}

impl<K, V> Clone for Debouncer<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V> fmt::Debug for Debouncer<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debouncer")
            .field("mode", &self.0.mode)
            .field("pending", &self.0.queue.lock().by_key.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
