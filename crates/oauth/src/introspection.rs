//! Opaque tokens: only their issuer knows what they are (RFC 7662).

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use form_urlencoded::Serializer;
use http::{HeaderValue, Uri};
use jiff::{SignedDuration, Timestamp};
use kubecrier_core::{
    ttl_cache::{CacheLimits, Lookup, TtlCache},
    unknown_tokens::{NotAccepted, TokenDigest, UnknownTokens},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::{FetchError, IssuerUrl, TokenError, UrlError, claims::Claims, fetch::Fetcher, url};

/// An answer is good for that long, unless the token expires before.
const ANSWER_TTL: Duration = Duration::from_mins(1);

/// After a request that failed, the next one waits for that long.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// While the issuer is away, its last answer counts for that long.
const KNOWN_FOR: SignedDuration = SignedDuration::from_mins(10);

/// Tokens whose answers are kept.
const ANSWERS_MAX: usize = 10_000;

/// Where and as whom to ask about tokens.
#[derive(Clone, Debug)]
pub struct IntrospectionConfig {
    url: Uri,
    client_id: String,
    secret_file: PathBuf,
}

/// Asks an issuer about tokens.
#[derive(Debug)]
pub(crate) struct Introspection {
    asking: Arc<Asking>,
    /// What was said of tokens that were active.
    answers: TtlCache<TokenDigest, Arc<Answer>>,
    unknown: Arc<UnknownTokens<Arc<Answer>, Arc<FetchError>>>,
}

#[derive(Debug)]
struct Asking {
    config: IntrospectionConfig,
    /// Of tokens whose answer names none.
    issuer: IssuerUrl,
    fetcher: Arc<Fetcher>,
    error: Mutex<Option<Arc<FetchError>>>,
}

#[derive(Debug)]
struct Answer {
    at: Timestamp,
    /// Until when nobody asks again.
    until: Instant,
    /// `None` if the token is not active.
    claims: Option<Claims>,
}

/// What an issuer says of an active token.
#[derive(Debug)]
pub(crate) struct Introspected {
    pub(crate) claims: Claims,
    /// When it is to be asked again.
    pub(crate) until: Instant,
}

// === impl IntrospectionConfig ===

impl IntrospectionConfig {
    /// The endpoint, and the credentials of this server there.
    pub fn new(url: &str, client_id: String, secret_file: PathBuf) -> Result<Self, UrlError> {
        Ok(Self {
            url: url::checked(url)?,
            client_id,
            secret_file,
        })
    }
}

// === impl Introspection ===

impl Introspection {
    pub(crate) fn new(
        config: IntrospectionConfig,
        issuer: IssuerUrl,
        fetcher: Arc<Fetcher>,
    ) -> Self {
        let limits = CacheLimits::new(ANSWERS_MAX, ANSWER_TTL).negative_ttl(RETRY_AFTER);
        Self {
            asking: Arc::new(Asking {
                config,
                issuer,
                fetcher,
                error: Mutex::new(None),
            }),
            answers: TtlCache::new(limits),
            unknown: Arc::new(UnknownTokens::new()),
        }
    }

    /// Who is asked, and whose the tokens are.
    pub(crate) fn issuer(&self) -> &IssuerUrl {
        &self.asking.issuer
    }

    /// The claims of a token. Concurrent requests for one token are one.
    pub(crate) async fn claims(
        &self,
        digest: TokenDigest,
        token: &str,
    ) -> Result<Introspected, TokenError> {
        if !self.answers.contains(&digest) {
            return self.claims_of_unknown(digest, token).await;
        }
        let asking = Arc::clone(&self.asking);
        let text = token.to_owned();
        let found = match self.answers.lookup(&digest, || asking.ask(text)) {
            Lookup::Ready(answer) => answer,
            Lookup::Pending(fetch, last) => fetch.await.or(last),
        };
        // An answer that could not be renewed counts for a while.
        let is_known =
            |answer: &Arc<Answer>| Timestamp::now().duration_since(answer.at) < KNOWN_FOR;
        match found.filter(is_known) {
            Some(answer) => answer.introspected(),
            None => {
                let error = self.asking.error.lock().clone();
                let error = error.unwrap_or_else(|| {
                    Arc::new(FetchError::File("the issuer gave no answer".to_owned()))
                });
                Err(TokenError::Unavailable(error))
            }
        }
    }

    /// The claims of a token that may be a stranger's: it takes nothing from those that are known.
    async fn claims_of_unknown(
        &self,
        digest: TokenDigest,
        token: &str,
    ) -> Result<Introspected, TokenError> {
        let (asking, text) = (Arc::clone(&self.asking), token.to_owned());
        let ask = || async move {
            let answer = asking.answer(&text).await?;
            Ok(Some(answer).filter(|answer| answer.claims.is_some()))
        };
        match self.unknown.ask(digest, ask).await {
            Ok(answer) => {
                self.answers.insert(digest, Arc::clone(&answer));
                answer.introspected()
            }
            Err(NotAccepted::Refused) => Err(TokenError::Inactive),
            Err(NotAccepted::Busy) => Err(TokenError::Busy),
            Err(NotAccepted::Failed(error)) => Err(TokenError::Unavailable(error)),
        }
    }
}

// === impl Answer ===

impl Answer {
    fn introspected(&self) -> Result<Introspected, TokenError> {
        let claims = self.claims.clone().ok_or(TokenError::Inactive)?;
        // While the issuer is away, it is tried again in a while.
        let until = self.until.max(Instant::now() + RETRY_AFTER);
        Ok(Introspected { claims, until })
    }
}

// === impl Asking ===

impl Asking {
    async fn ask(self: Arc<Self>, token: String) -> Option<Arc<Answer>> {
        self.answer(&token).await.ok()
    }

    async fn answer(&self, token: &str) -> Result<Arc<Answer>, Arc<FetchError>> {
        match self.request(token).await {
            Ok(claims) => Ok(Arc::new(Answer {
                at: Timestamp::now(),
                until: Instant::now() + ANSWER_TTL,
                claims,
            })),
            Err(error) => {
                tracing::warn!(%error, "cannot introspect a token");
                let error = Arc::new(error);
                *self.error.lock() = Some(Arc::clone(&error));
                Err(error)
            }
        }
    }

    async fn request(&self, token: &str) -> Result<Option<Claims>, FetchError> {
        let IntrospectionConfig { url, .. } = &self.config;
        let form = Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let text = self
            .fetcher
            .post_form(url, self.authorization().await?, form)
            .await?;
        let wrong = |why: &str| FetchError::Answer {
            url: url.to_string(),
            why: why.to_owned(),
        };
        let mut claims: Claims =
            serde_json::from_slice(&text).map_err(|_| wrong("is not a JSON object"))?;
        match claims.get("active") {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Ok(None),
            _ => return Err(wrong("does not say whether the token is active")),
        }
        if !claims.contains_key("iss") {
            let issuer = self.issuer.as_str().into();
            claims.insert("iss".to_owned(), issuer);
        }
        // A program has a token for itself, and may have no subject.
        if !claims.contains_key("sub")
            && let Some(client) = claims.get("client_id").cloned()
        {
            claims.insert("sub".to_owned(), client);
        }
        Ok(Some(claims))
    }

    /// The credentials of this server, as RFC 6749 writes them in a header.
    async fn authorization(&self) -> Result<HeaderValue, FetchError> {
        let IntrospectionConfig {
            client_id,
            secret_file,
            ..
        } = &self.config;
        let path = secret_file.display();
        let secret = tokio::fs::read_to_string(secret_file).await;
        let secret = secret.map_err(|error| {
            FetchError::File(format!(
                "cannot read --oauth-introspection-secret-file `{path}`: {error}"
            ))
        })?;
        let encoded =
            |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encoded(client_id), encoded(secret.trim_end()));
        let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
            .map_err(|_| FetchError::File(format!("`{path}` cannot stand in a header")))?;
        value.set_sensitive(true);
        Ok(value)
    }
}
