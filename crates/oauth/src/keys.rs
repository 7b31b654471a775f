//! The keys of one issuer, fetched when a token needs them and kept when it does not answer.
//!
//! A key that is not known is looked for once for all who wait, and at most once in half a
//! minute: tokens with made-up keys cost the issuer nothing. Keys that were known stay known as
//! long as nothing newer can be had.
//!
//! A token is refused for its key only if the issuer was asked after somebody had presented that
//! key, or has withdrawn it. Until then nobody knows: a stranger may have begun the pause right
//! before the issuer got a new key.

use std::{collections::VecDeque, sync::Arc, time::Duration};

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

/// Keys that are remembered as unknown to the issuer. Few are: who presents one in a pause is not.
const MISSING_MAX: usize = 256;

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
    /// Why the last request failed; `None` if it did not.
    error: Option<Arc<FetchError>>,
    /// What is not among the keys, though it was presented before they were asked for.
    missing: VecDeque<(Option<String>, Algorithm)>,
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
        // The key is not among the old ones, or nobody would have waited.
        let keys = fetched.map_err(TokenError::Unavailable)?;
        match keys.find(id, algorithm) {
            Ok(_) => Ok(keys),
            Err(why) => {
                self.0.state.lock().note_missing(id, algorithm);
                Err(self.unknown(why))
            }
        }
    }

    /// Newer keys than these, with which a signature is wrong: an issuer may replace a key and keep
    /// its name, or give it none. `None` if there are none, or it is too early to ask. Cancel-safe.
    pub(crate) async fn newer_than(&self, used: &Arc<KeySet>) -> Option<Arc<KeySet>> {
        let fetch = {
            let mut state = self.0.state.lock();
            let is_newer = |keys: &&Arc<KeySet>| !Arc::ptr_eq(keys, used);
            if let Some(newer) = state.keys.as_ref().filter(is_newer) {
                return Some(Arc::clone(newer));
            }
            let is_early = state.asked.is_some_and(|at| at.elapsed() < FETCH_EVERY);
            match &state.fetching {
                Some(fetching) => fetching.clone(),
                None if is_early => return None,
                None => self.begin(&mut state),
            }
        };
        fetch.await.ok()
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
            (Some(Err(why)), None) if asked < pause => Step::Refuse(match &state.error {
                Some(error) => TokenError::Unavailable(Arc::clone(error)),
                None if state.is_known_missing(id, algorithm) => self.unknown(why),
                None => TokenError::KeyNotSeen {
                    issuer: self.0.issuer.to_string(),
                    why,
                },
            }),
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
                    state.renew(Arc::clone(&keys));
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

// === impl State ===

impl State {
    /// Takes new keys. Those that were withdrawn are not looked for again.
    fn renew(&mut self, keys: Arc<KeySet>) {
        if let Some(old) = self.keys.replace(Arc::clone(&keys)) {
            self.missing.extend(old.names());
        }
        self.missing
            .retain(|(id, algorithm)| keys.find(id.as_deref(), *algorithm).is_err());
        self.trim();
    }

    fn note_missing(&mut self, id: Option<&str>, algorithm: Algorithm) {
        if !self.is_missing(id, algorithm) {
            self.missing.push_back((id.map(str::to_owned), algorithm));
            self.trim();
        }
    }

    /// Whether the issuer has no such key, or has it for something else.
    fn is_known_missing(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        let has_name = |keys: &Arc<KeySet>| id.is_some_and(|id| keys.has_name(id));
        self.keys.as_ref().is_some_and(has_name) || self.is_missing(id, algorithm)
    }

    fn is_missing(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        let is_it =
            |(other, of): &(Option<String>, Algorithm)| other.as_deref() == id && *of == algorithm;
        self.missing.iter().any(is_it)
    }

    fn trim(&mut self) {
        let surplus = self.missing.len().saturating_sub(MISSING_MAX);
        self.missing.drain(..surplus);
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
