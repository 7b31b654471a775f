//! Waiting until things are quiet, or until a window is over.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

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
    waiting: Mutex<HashMap<K, Waiting<V>>>,
    /// Something was triggered or forgotten: the next time may be another one.
    changed: Notify,
}

struct Waiting<V> {
    due: Instant,
    value: V,
    triggers: u64,
}

impl<K: Hash + Eq + Clone, V> Debouncer<K, V> {
    /// A debouncer with nothing waiting.
    pub fn new(timing: Timing) -> Self {
        let shared = Shared {
            timing,
            waiting: Mutex::default(),
            changed: Notify::new(),
        };
        Self(Arc::new(shared))
    }

    /// Triggers the key. False, and nothing done, if [`KEYS_MAX`] others wait.
    pub fn trigger(&self, key: K, value: V) -> bool {
        let now = Instant::now();
        let mut waiting = self.0.waiting.lock();
        let full = waiting.len() >= KEYS_MAX;
        match (waiting.entry(key), self.0.timing) {
            (Entry::Occupied(mut entry), timing) => {
                let entry = entry.get_mut();
                entry.value = value;
                entry.triggers += 1;
                if let Timing::Trailing(quiet) = timing {
                    entry.due = now + quiet;
                }
            }
            (Entry::Vacant(_), _) if full => return false,
            (Entry::Vacant(entry), Timing::Trailing(delay) | Timing::Window(delay)) => {
                entry.insert(Waiting {
                    due: now + delay,
                    value,
                    triggers: 1,
                });
            }
        }
        drop(waiting);
        self.0.changed.notify_one();
        true
    }

    /// Takes the key back. True if it waited.
    pub fn forget(&self, key: &K) -> bool {
        self.0.waiting.lock().remove(key).is_some()
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.0.waiting.lock().len()
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
            let next = match self.take_due() {
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

    /// The key that is due, or when the next one will be.
    fn take_due(&self) -> Result<Fired<K, V>, Option<Instant>> {
        let mut waiting = self.0.waiting.lock();
        let Some((key, due)) = waiting
            .iter()
            .map(|(key, w)| (key, w.due))
            .min_by_key(|(_, due)| *due)
        else {
            return Err(None);
        };
        if due > Instant::now() {
            return Err(Some(due));
        }
        let key = key.clone();
        let Waiting {
            value, triggers, ..
        } = waiting
            .remove(&key)
            .expect("the key was found under the same lock");
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
            .field("waiting", &self.0.waiting.lock().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
