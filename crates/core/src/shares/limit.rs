//! Permits: a number in all, and a number per caller.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{CallerShare, LimitName, LimitReached, ShareKey};

/// A limit that callers share. A clone is the same limit.
#[derive(Clone)]
pub struct SharedLimit {
    inner: Arc<Inner>,
}

struct Inner {
    name: LimitName,
    total_max: usize,
    per_caller_max: usize,
    // Permits come and go on many tasks; held for two additions.
    used: Mutex<Used>,
    released: Notify,
}

#[derive(Default)]
struct Used {
    total: usize,
    /// Without those that have nothing.
    by_caller: HashMap<ShareKey, usize>,
}

/// A part of a limit; given back when dropped.
pub struct Permit {
    limit: Arc<Inner>,
    key: ShareKey,
    count: usize,
}

// === impl SharedLimit ===

impl SharedLimit {
    /// A limit of which nothing is used.
    pub fn new(name: LimitName, total_max: usize, share: CallerShare) -> Self {
        Self::with_per_caller(name, total_max, share.of(total_max))
    }

    /// A limit with a number per caller.
    pub fn with_per_caller(name: LimitName, total_max: usize, per_caller_max: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                name,
                total_max,
                per_caller_max,
                used: Mutex::default(),
                released: Notify::new(),
            }),
        }
    }

    /// Takes one.
    ///
    /// # Errors
    /// If the caller has its share, or all callers have everything.
    pub fn acquire(&self, key: &ShareKey) -> Result<Permit, LimitReached> {
        self.acquire_many(key, 1)
    }

    /// Takes one, whatever the caller has already: for one that speaks for many.
    ///
    /// # Errors
    /// If all callers have everything.
    pub fn acquire_for_many(&self, key: &ShareKey) -> Result<Permit, LimitReached> {
        self.inner.take(key, 1, self.inner.total_max)?;
        Ok(Permit {
            limit: Arc::clone(&self.inner),
            key: key.clone(),
            count: 1,
        })
    }

    /// Takes this many, or none.
    ///
    /// # Errors
    /// If the caller would have more than its share, or all callers more than everything.
    pub fn acquire_many(&self, key: &ShareKey, count: usize) -> Result<Permit, LimitReached> {
        self.inner.take(key, count, self.inner.per_caller_max)?;
        Ok(Permit {
            limit: Arc::clone(&self.inner),
            key: key.clone(),
            count,
        })
    }

    /// Takes one as soon as there is one. Cancel-safe.
    pub async fn wait(&self, key: &ShareKey) -> Permit {
        loop {
            let released = self.inner.released.notified();
            tokio::pin!(released);
            // Before the attempt: a permit that is given back right after it is noticed.
            released.as_mut().enable();
            if let Ok(permit) = self.acquire(key) {
                return permit;
            }
            released.await;
        }
    }

    /// What is used.
    pub fn used(&self) -> usize {
        self.inner.used.lock().total
    }

    /// What can be used by all callers together.
    pub fn total_max(&self) -> usize {
        self.inner.total_max
    }
}

impl fmt::Debug for SharedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimit")
            .field("what", &self.inner.name.what)
            .field("used", &self.used())
            .field("total_max", &self.inner.total_max)
            .field("per_caller_max", &self.inner.per_caller_max)
            .finish()
    }
}

// === impl Inner ===

impl Inner {
    fn take(&self, key: &ShareKey, count: usize, share: usize) -> Result<(), LimitReached> {
        let mut used = self.used.lock();
        let of_caller = used.by_caller.get(key).copied().unwrap_or_default();
        if self.total_max.saturating_sub(used.total) < count {
            return Err(LimitReached::Total {
                name: self.name,
                used: used.total,
                max: self.total_max,
            });
        }
        if share.saturating_sub(of_caller) < count {
            return Err(LimitReached::Caller {
                name: self.name,
                used: of_caller,
                max: share,
            });
        }
        used.total += count;
        if count > 0 {
            used.by_caller.insert(key.clone(), of_caller + count);
        }
        Ok(())
    }

    fn give_back(&self, key: &ShareKey, count: usize) {
        let mut used = self.used.lock();
        used.total -= count;
        if let Some(of_caller) = used.by_caller.get_mut(key) {
            *of_caller -= count;
            if *of_caller == 0 {
                used.by_caller.remove(key);
            }
        }
        drop(used);
        self.released.notify_waiters();
    }
}

// === impl Permit ===

impl Permit {
    /// Takes this many more.
    ///
    /// # Errors
    /// As [`SharedLimit::acquire_many`]; the permit stays as it was.
    pub fn grow(&mut self, more: usize) -> Result<(), LimitReached> {
        self.limit
            .take(&self.key, more, self.limit.per_caller_max)?;
        self.count += more;
        Ok(())
    }

    /// For whom it counts.
    pub fn key(&self) -> &ShareKey {
        &self.key
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limit.give_back(&self.key, self.count);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("what", &self.limit.name.what)
            .field("key", &self.key)
            .field("count", &self.count)
            .finish()
    }
}

#[cfg(test)]
mod tests;
