//! Answers that are asked for once and remembered for a while.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    hash::Hash,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// An answer on its way; whoever asks the same meanwhile waits for the same one.
pub(super) type Answer<V> = Shared<BoxFuture<'static, Option<V>>>;

/// A bounded memory of answers. "There is none" is an answer, remembered for less
/// long.
pub(super) struct Memo<K, V> {
    limits: MemoLimits,
    // A lock because several watches ask; held for map operations.
    inner: Mutex<Inner<K, V>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MemoLimits {
    pub(super) entries_max: usize,
    /// How long something is known.
    pub(super) known: Duration,
    /// How long nothing is.
    pub(super) unknown: Duration,
}

struct Inner<K, V> {
    entries: HashMap<K, Kept<V>>,
    /// Oldest first; what was renewed meanwhile is in here twice, and skipped.
    order: VecDeque<(K, Instant)>,
}

struct Kept<V> {
    answer: Answer<V>,
    asked: Instant,
    /// What was known before: better than nothing.
    before: Option<V>,
}

/// What a memo says at once.
pub(super) enum Said<V> {
    /// This is it.
    Now(Option<V>),
    /// It is being asked for.
    Later(Answer<V>, Option<V>),
}

// === impl Memo ===

impl<K: Clone + Eq + Hash, V: Clone + Send + Sync + 'static> Memo<K, V> {
    pub(super) fn new(limits: MemoLimits) -> Self {
        let inner = Inner {
            entries: HashMap::new(),
            order: VecDeque::new(),
        };
        Self {
            limits,
            inner: Mutex::new(inner),
        }
    }

    /// What is known, or the question under way; `ask` is called if it is neither.
    pub(super) fn get<F>(&self, key: &K, ask: impl FnOnce() -> F) -> Said<V>
    where
        F: Future<Output = Option<V>> + Send + 'static,
    {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let mut before = None;
        if let Some(kept) = inner.entries.get(key) {
            let age = now.duration_since(kept.asked);
            // Nobody may have waited for it to the end, and then nobody has seen it.
            let unseen = || kept.answer.clone().now_or_never();
            match kept.answer.peek().cloned().or_else(unseen) {
                None => return Said::Later(kept.answer.clone(), kept.before.clone()),
                Some(value @ Some(_)) if age < self.limits.known => return Said::Now(value),
                Some(None) if age < self.limits.unknown => {
                    return Said::Now(kept.before.clone());
                }
                Some(value) => before = value.or_else(|| kept.before.clone()),
            }
        }
        let answer = ask().boxed().shared();
        let kept = Kept {
            answer: answer.clone(),
            asked: now,
            before: before.clone(),
        };
        inner.entries.insert(key.clone(), kept);
        inner.order.push_back((key.clone(), now));
        inner.shrink(self.limits.entries_max);
        Said::Later(answer, before)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }
}

impl<K: Clone + Eq + Hash, V> Inner<K, V> {
    fn shrink(&mut self, entries_max: usize) {
        while self.entries.len() > entries_max || self.order.len() > entries_max * 2 {
            let Some((key, asked)) = self.order.pop_front() else {
                return;
            };
            if self
                .entries
                .get(&key)
                .is_some_and(|kept| kept.asked == asked)
            {
                self.entries.remove(&key);
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

    const LIMITS: MemoLimits = MemoLimits {
        entries_max: 10,
        known: Duration::from_mins(1),
        unknown: Duration::from_secs(5),
    };

    async fn get(memo: &Memo<u32, u32>, key: u32, answer: Option<u32>) -> (Option<u32>, bool) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let said = memo.get(&key, || async move {
            counter.fetch_add(1, Ordering::Relaxed);
            answer
        });
        let value = match said {
            Said::Now(value) => value,
            Said::Later(answer, before) => answer.await.or(before),
        };
        (value, asked.load(Ordering::Relaxed) == 1)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_remembered_and_outlives_its_object() {
        let memo = Memo::new(LIMITS);
        assert_eq!(get(&memo, 1, Some(7)).await, (Some(7), true));
        assert_eq!(get(&memo, 1, Some(8)).await, (Some(7), false));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(
            get(&memo, 1, None).await,
            (Some(7), true),
            "gone, but known"
        );
        assert_eq!(get(&memo, 1, Some(9)).await, (Some(7), false));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(get(&memo, 1, Some(9)).await, (Some(9), true));
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_ask_once() {
        let memo = Memo::new(LIMITS);
        let asked = Arc::new(AtomicUsize::new(0));
        let mut waiting = Vec::new();
        for _ in 0..5 {
            let counter = Arc::clone(&asked);
            let said = memo.get(&1, || async move {
                counter.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some(3)
            });
            let Said::Later(answer, _) = said else {
                panic!("nothing is known yet");
            };
            waiting.push(answer);
        }
        for answer in waiting {
            assert_eq!(answer.await, Some(3));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    /// Who asked may lose patience; what was answered then counts from when it was
    /// asked, like any other answer.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_waited_for_gets_old_too() {
        for (late, renewed) in [
            (None, Duration::from_secs(5)),
            (Some(7), Duration::from_mins(1)),
        ] {
            let memo: Memo<u32, u32> = Memo::new(LIMITS);
            let (tell, told) = tokio::sync::oneshot::channel();
            let _impatient = memo.get(&1, || async move { told.await.unwrap() });
            assert_eq!(tell.send(late), Ok(()));
            let (almost, rest) = (renewed.mul_f32(0.9), renewed.mul_f32(0.1));
            tokio::time::advance(almost).await;
            assert_eq!(get(&memo, 1, Some(8)).await, (late, false));
            tokio::time::advance(rest).await;
            assert_eq!(get(&memo, 1, Some(8)).await, (Some(8), true));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let memo = Memo::new(LIMITS);
        for key in 0..1000 {
            get(&memo, key % 37, Some(key)).await;
            tokio::time::advance(Duration::from_secs(7)).await;
            assert!(memo.len() <= 10 && memo.inner.lock().order.len() <= 20);
        }
    }
}
