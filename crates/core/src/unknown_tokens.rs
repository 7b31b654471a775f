//! Tokens that nobody here knows, and that somebody else is asked about: strangers can present as
//! many as they want. Each token is asked about once at a time, so many at a time and in a second,
//! and a refusal is remembered, apart from what is known of good tokens.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::{Duration, timeout};

use crate::{
    access::turns::{TurnLimits, Turns},
    ttl_cache::{CacheLimits, TtlCache},
};

/// What is asked because of strangers. A team that comes to work is served in a second or two.
const LIMITS: TurnLimits = TurnLimits {
    running_max: 16,
    per_second: 50,
    burst: 100,
};

/// How long a token waits for its turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long it is remembered that a token is none.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// How long nobody is asked again who has failed to answer about a token.
const FAILED_FOR: Duration = Duration::from_secs(2);

/// Refusals that are remembered.
const REFUSED_MAX: usize = 10_000;

/// A digest of a token, and of whoever is asked about it.
pub type TokenDigest = [u8; 32];

/// Asks about tokens that are not known. `V` is what is said of a good one.
pub struct UnknownTokens<V: Clone, E: Clone> {
    turns: Turns,
    refused: TtlCache<TokenDigest, NotAccepted<E>>,
    // Held for map operations only.
    asking: Mutex<HashMap<TokenDigest, WeakShared<Asked<V, E>>>>,
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAccepted<E> {
    /// Whoever was asked does not accept it.
    #[error("the token is not accepted")]
    Refused,
    /// Too many others are asked about.
    #[error("too many unknown tokens are presented at once; try again")]
    Busy,
    /// There was no answer.
    #[error("{0}")]
    Failed(E),
}

type Asked<V, E> = BoxFuture<'static, Result<V, NotAccepted<E>>>;

/// A question that is being asked, until its end or until nobody waits for it any more.
struct Asking<V: Clone, E: Clone> {
    of: Weak<UnknownTokens<V, E>>,
    digest: TokenDigest,
}

// === impl UnknownTokens ===

impl<V, E> UnknownTokens<V, E>
where
    V: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Nothing was asked yet.
    #[expect(clippy::new_without_default, reason = "it begins to count turns")]
    pub fn new() -> Self {
        Self {
            turns: Turns::new(&LIMITS),
            refused: TtlCache::new(CacheLimits::new(REFUSED_MAX, REFUSED_FOR)),
            asking: Mutex::default(),
        }
    }

    /// What is said of a token; `None` of `ask` is a refusal. Cancel-safe: when nobody waits for
    /// an answer any more, it is not asked for any more.
    pub async fn ask<F>(
        self: &Arc<Self>,
        digest: TokenDigest,
        ask: impl FnOnce() -> F,
    ) -> Result<V, NotAccepted<E>>
    where
        F: Future<Output = Result<Option<V>, E>> + Send + 'static,
    {
        let known = self.refused.get(&digest);
        let refused = known.filter(|one| matches!(one, NotAccepted::Refused));
        let failed = || self.refused.get_younger_than(&digest, FAILED_FOR);
        if let Some(known) = refused.or_else(failed) {
            return Err(known);
        }
        self.shared(digest, ask).await
    }

    fn shared<F>(
        self: &Arc<Self>,
        digest: TokenDigest,
        ask: impl FnOnce() -> F,
    ) -> Shared<Asked<V, E>>
    where
        F: Future<Output = Result<Option<V>, E>> + Send + 'static,
    {
        let mut asking = self.asking.lock();
        if let Some(asked) = asking.get(&digest).and_then(WeakShared::upgrade) {
            return asked;
        }
        let (this, answer) = (Arc::clone(self), ask());
        let guard = Asking {
            of: Arc::downgrade(self),
            digest,
        };
        let asked = async move {
            let _guard = guard;
            let turn = timeout(PATIENCE, this.turns.take(PATIENCE)).await;
            let Ok(Some(_turn)) = turn else {
                return Err(NotAccepted::Busy);
            };
            let refused = match answer.await {
                Ok(Some(accepted)) => return Ok(accepted),
                Ok(None) => NotAccepted::Refused,
                Err(error) => NotAccepted::Failed(error),
            };
            this.refused.insert(digest, refused.clone());
            Err(refused)
        };
        let asked = asked.boxed().shared();
        if let Some(weak) = asked.downgrade() {
            asking.insert(digest, weak);
        }
        asked
    }
}

impl<V: Clone, E: Clone> fmt::Debug for UnknownTokens<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnknownTokens")
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}

impl<V: Clone, E: Clone> Drop for Asking<V, E> {
    fn drop(&mut self) {
        if let Some(of) = self.of.upgrade() {
            of.asking.lock().remove(&self.digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::{join_all, pending};
    use tokio::time::{Instant, advance, sleep};

    use super::*;

    type Tokens = Arc<UnknownTokens<u32, &'static str>>;

    fn digest(number: usize) -> TokenDigest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        digest
    }

    /// Asks about a token, and counts.
    async fn ask(
        tokens: &Tokens,
        number: usize,
        asked: &Arc<AtomicUsize>,
        answer: Result<Option<u32>, &'static str>,
    ) -> Result<u32, NotAccepted<&'static str>> {
        let asked = Arc::clone(asked);
        let asking = async move {
            asked.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(20)).await;
            answer
        };
        tokens.ask(digest(number), || asking).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_asked_about_once_at_a_time_and_a_refusal_is_remembered() {
        let tokens = Tokens::new(UnknownTokens::new());
        let asked = Arc::<AtomicUsize>::default();
        let count = || asked.load(Ordering::Relaxed);
        let same = (0..50).map(|_| ask(&tokens, 1, &asked, Ok(Some(7))));
        assert!(join_all(same).await.iter().all(|one| *one == Ok(7)));
        assert_eq!(count(), 1);
        for (answer, refused, kept) in [
            (Ok(None), NotAccepted::Refused, REFUSED_FOR),
            (Err("away"), NotAccepted::Failed("away"), FAILED_FOR),
        ] {
            let before = count();
            for _ in 0..50 {
                assert_eq!(ask(&tokens, 2, &asked, answer).await, Err(refused.clone()));
            }
            assert_eq!(count(), before + 1);
            advance(kept).await;
            assert_eq!(ask(&tokens, 2, &asked, answer).await, Err(refused));
            assert_eq!(count(), before + 2);
            advance(REFUSED_FOR).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_are_asked_about_at_a_pace_and_nothing_is_left_of_who_went() {
        let tokens = Tokens::new(UnknownTokens::new());
        let asked = Arc::<AtomicUsize>::default();
        let began = Instant::now();
        let strangers = (0..2000).map(|number| ask(&tokens, number, &asked, Ok(None)));
        let answers = join_all(strangers).await;
        assert!(began.elapsed() <= PATIENCE * 2, "{:?}", began.elapsed());
        assert!(answers.contains(&Err(NotAccepted::Busy)));
        let count = asked.load(Ordering::Relaxed);
        assert!((100..=220).contains(&count), "{count} in two seconds");
        assert!(tokens.asking.lock().is_empty());
        // Whoever does not wait takes no turn with it.
        for number in 3000..3000 + 2 * LIMITS.running_max {
            let never = tokens.ask(digest(number), pending);
            tokio::select! {
                biased;
                answer = never => panic!("{answer:?}"),
                () = sleep(Duration::from_millis(100)) => {}
            }
        }
        assert!(tokens.asking.lock().is_empty());
        assert_eq!(
            ask(&tokens, 1, &asked, Ok(Some(7))).await,
            Err(NotAccepted::Refused)
        );
        assert_eq!(ask(&tokens, 5000, &asked, Ok(Some(7))).await, Ok(7));
    }
}
