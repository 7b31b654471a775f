//! The keys of one issuer, fetched when a token needs them and kept when it does not answer.
//!
//! A key that is not known is looked for once for all who wait, and at most once in half a
//! minute: tokens with made-up keys cost the issuer nothing. Keys that were known stay known as
//! long as nothing newer can be had.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    Algorithm, FetchError, IssuerUrl, TokenError, discovery, fetch::Fetcher, key_set::KeySet,
};

/// Between two requests for keys, while there are some.
const FETCH_EVERY: Duration = Duration::from_secs(30);

/// The same while there are none: nobody can call until then.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Older keys are fetched again, so that one that was withdrawn is not accepted for long.
const FRESH_FOR: Duration = Duration::from_mins(10);

/// A request that takes longer has been left by whoever began it.
const ABANDONED_AFTER: Duration = Duration::from_secs(12);

type Fetch = Shared<BoxFuture<'static, Result<Arc<KeySet>, Arc<FetchError>>>>;

/// The keys of one issuer.
#[derive(Clone, Debug)]
pub(crate) struct IssuerKeys(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    issuer: IssuerUrl,
    fetcher: Arc<Fetcher>,
    // A lock because all requests read it; held for a few lines.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    fetched: Option<Instant>,
    asked: Option<Instant>,
    fetching: Option<Fetch>,
    error: Option<Arc<FetchError>>,
}

/// What to do for a token.
enum Step {
    Use(Arc<KeySet>),
    Wait(Fetch),
    /// Wait, and be content with these if that fails.
    Renew(Fetch, Arc<KeySet>),
    Refuse(TokenError),
}

// === impl IssuerKeys ===

impl IssuerKeys {
    pub(crate) fn new(issuer: IssuerUrl, fetcher: Arc<Fetcher>) -> Self {
        Self(Arc::new(Inner {
            issuer,
            fetcher,
            state: Mutex::default(),
        }))
    }

    pub(crate) fn issuer(&self) -> &IssuerUrl {
        &self.0.issuer
    }

    /// A set with the key that a token names. Cancel-safe: a request that is left goes on with
    /// the next token.
    pub(crate) async fn with_key(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Arc<KeySet>, TokenError> {
        let fetched = match self.next_step(id, algorithm) {
            Step::Use(keys) => return Ok(keys),
            Step::Refuse(error) => return Err(error),
            Step::Renew(fetch, old) => return Ok(fetch.await.unwrap_or(old)),
            Step::Wait(fetch) => fetch.await,
        };
        let keys = fetched.or_else(|error| {
            // The key is not among the old ones, or nobody would have waited.
            let known = self.0.state.lock().keys.clone();
            known.ok_or(TokenError::Unavailable(error))
        })?;
        match keys.find(id, algorithm) {
            Ok(_) => Ok(keys),
            Err(why) => Err(self.unknown(why)),
        }
    }

    fn next_step(&self, id: Option<&str>, algorithm: Algorithm) -> Step {
        let mut state = self.0.state.lock();
        let since = |at: Option<Instant>| at.map_or(Duration::MAX, |at| at.elapsed());
        let (age, asked) = (since(state.fetched), since(state.asked));
        let pause = match &state.keys {
            Some(_) => FETCH_EVERY,
            None => RETRY_AFTER,
        };
        let known = state.keys.clone().map(|keys| {
            let found = keys.find(id, algorithm).map(drop);
            found.map(|()| keys)
        });
        match (known, &state.fetching) {
            (Some(Ok(keys)), None) if age < FRESH_FOR || asked < pause => Step::Use(keys),
            // Whoever began it waits for it; if they have gone, somebody has to.
            (Some(Ok(keys)), Some(_)) if asked < ABANDONED_AFTER => Step::Use(keys),
            (Some(Ok(keys)), Some(fetching)) => Step::Renew(fetching.clone(), keys),
            (Some(Ok(keys)), None) => Step::Renew(self.begin(&mut state), keys),
            (_, Some(fetching)) => Step::Wait(fetching.clone()),
            (Some(Err(why)), None) if asked < pause => Step::Refuse(self.unknown(why)),
            (None, None) if asked < pause => match &state.error {
                Some(error) => Step::Refuse(TokenError::Unavailable(Arc::clone(error))),
                None => Step::Wait(self.begin(&mut state)),
            },
            (_, None) => Step::Wait(self.begin(&mut state)),
        }
    }

    fn unknown(&self, why: String) -> TokenError {
        TokenError::Key {
            issuer: self.0.issuer.to_string(),
            why,
        }
    }

    /// Begins a request. It ends by itself within the deadlines of two answers.
    fn begin(&self, state: &mut State) -> Fetch {
        let inner = Arc::clone(&self.0);
        let fetch = async move {
            let fetched = inner.fetch().await;
            let mut state = inner.state.lock();
            state.fetching = None;
            match fetched {
                Ok(keys) => {
                    let keys = Arc::new(keys);
                    tracing::debug!(issuer = %inner.issuer, keys = keys.len(), "keys fetched");
                    state.keys = Some(Arc::clone(&keys));
                    state.fetched = Some(Instant::now());
                    state.error = None;
                    Ok(keys)
                }
                Err(error) => {
                    let keeps = state.keys.is_some();
                    tracing::warn!(issuer = %inner.issuer, %error, keeps, "cannot fetch the keys of an issuer");
                    let error = Arc::new(error);
                    state.error = Some(Arc::clone(&error));
                    Err(error)
                }
            }
        };
        let fetch = fetch.boxed().shared();
        state.asked = Some(Instant::now());
        state.fetching = Some(fetch.clone());
        fetch
    }
}

// === impl Inner ===

impl Inner {
    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let (_, metadata) = discovery::discover(&self.fetcher, &self.issuer).await?;
        fetch_keys(&self.fetcher, &metadata).await
    }
}

/// The keys that metadata leads to.
pub(crate) async fn fetch_keys(
    fetcher: &Fetcher,
    metadata: &discovery::Metadata,
) -> Result<KeySet, FetchError> {
    let address = metadata.keys_address()?;
    let text = fetcher.get(&address).await?;
    let wrong = |why: String| FetchError::Answer {
        url: address.to_string(),
        why,
    };
    let keys =
        KeySet::parse(&text).map_err(|error| wrong(format!("is no set of keys: {error}")))?;
    if keys.len() == 0 {
        return Err(wrong("has no key that could verify a token".to_owned()));
    }
    Ok(keys)
}
