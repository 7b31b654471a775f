//! Waiting until things are quiet, or until a window is over.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::teardown::give_back;

/// How many keys may wait at once. One more is refused, not the oldest lost:
/// whoever triggers can act at once instead.
pub const KEYS_MAX: usize = 65_536;

/// When a key fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timing {
    /// When nothing triggered it for so long: each trigger starts anew.
    Trailing(Duration),
    /// So long after the first trigger, whatever comes in between: one batch
    /// per window.
    Window(Duration),
}

/// Collects triggers per key and hands out each key once when its time comes,
/// with the newest value. A clone is the same debouncer.
///
/// Triggering never waits. Somebody has to ask for what fired with
/// [`fired`](Self::fired), in a task of its own.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use mcp_notify::{Debouncer, Timing};
///
/// let debouncer = Debouncer::new(Timing::Trailing(Duration::from_millis(250)));
/// for value in 0..10 {
///     debouncer.trigger("roots", value);
/// }
/// let fired = debouncer.fired().await;
/// assert_eq!((fired.key, fired.value, fired.triggers), ("roots", 9, 10));
/// # }
/// ```
pub struct Debouncer<K, V = ()>(Arc<Shared<K, V>>);

/// A key whose time came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fired<K, V> {
    /// The key.
    pub key: K,
    /// The value of its last trigger.
    pub value: V,
    /// How many triggers became this one.
    pub triggers: u64,
}

struct Shared<K, V> {
    timing: Timing,
    queue: Mutex<Queue<K, V>>,
    /// Something was triggered or forgotten: the next time may be another one.
    changed: Notify,
}

/// What waits, by key and by time.
struct Queue<K, V> {
    by_key: HashMap<K, Waiting<V>>,
    by_time: BTreeMap<Due, K>,
    next_ticket: u64,
}

struct Waiting<V> {
    due: Due,
    value: V,
    triggers: u64,
}

/// When, and a ticket that tells apart what is due at the same moment.
type Due = (Instant, u64);

impl<K: Hash + Eq + Clone, V> Debouncer<K, V> {
    /// A debouncer with nothing waiting.
    pub fn new(timing: Timing) -> Self {
        let queue = Queue {
            by_key: HashMap::new(),
            by_time: BTreeMap::new(),
            next_ticket: 0,
        };
        Self(Arc::new(Shared {
            timing,
            queue: Mutex::new(queue),
            changed: Notify::new(),
        }))
    }

    /// Triggers the key. False, and nothing done, if [`KEYS_MAX`] others wait.
    pub fn trigger(&self, key: K, value: V) -> bool {
        let triggered = self.0.queue.lock().trigger(self.0.timing, key, value);
        if triggered {
            self.0.changed.notify_one();
        }
        triggered
    }

    /// Takes the key back. True if it waited.
    pub fn forget(&self, key: &K) -> bool {
        self.0.queue.lock().remove(key).is_some()
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.0.queue.lock().by_key.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next key whose time comes; for ever, if nothing is triggered.
    ///
    /// Cancel-safe: a key is taken only when it is returned. One task at a
    /// time should wait; of several, any one gets a key.
    pub async fn fired(&self) -> Fired<K, V> {
        loop {
            let next = match self.0.queue.lock().take_due() {
                Ok(fired) => return fired,
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
    fn trigger(&mut self, timing: Timing, key: K, value: V) -> bool {
        let (Timing::Trailing(delay) | Timing::Window(delay)) = timing;
        self.next_ticket += 1;
        let due = (Instant::now() + delay, self.next_ticket);
        let full = self.by_key.len() >= KEYS_MAX;
        match self.by_key.entry(key) {
            Entry::Vacant(_) if full => return false,
            Entry::Vacant(entry) => {
                self.by_time.insert(due, entry.key().clone());
                entry.insert(Waiting {
                    due,
                    value,
                    triggers: 1,
                });
            }
            Entry::Occupied(mut entry) => {
                let waiting = entry.get_mut();
                waiting.value = value;
                waiting.triggers += 1;
                if let Timing::Trailing(_) = timing {
                    let before = std::mem::replace(&mut waiting.due, due);
                    let key = self
                        .by_time
                        .remove(&before)
                        .expect("what waits has its time");
                    self.by_time.insert(due, key);
                }
            }
        }
        true
    }

    fn remove(&mut self, key: &K) -> Option<Waiting<V>> {
        let waiting = self.by_key.remove(key)?;
        self.by_time.remove(&waiting.due);
        give_back(&mut self.by_key);
        Some(waiting)
    }

    /// The key that is due, or when the next one will be.
    fn take_due(&mut self) -> Result<Fired<K, V>, Option<Instant>> {
        let Some((&(at, _), key)) = self.by_time.first_key_value() else {
            return Err(None);
        };
        if at > Instant::now() {
            return Err(Some(at));
        }
        let key = key.clone();
        let Waiting {
            value, triggers, ..
        } = self.remove(&key).expect("a time has its key");
        Ok(Fired {
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
            .field("timing", &self.0.timing)
            .field("waiting", &self.0.queue.lock().by_key.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
