//! Callers of access tokens that somebody else has issued: an authorization server (OAuth), or
//! a cluster, for its service accounts.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use http::StatusCode;
use jiff::Timestamp;
use kubecrier_core::{
    KubernetesUser,
    metrics::RequestRefusal,
    ttl_cache::{CacheLimits, TtlCache},
    unknown_tokens::{NotAccepted, TokenDigest, UnknownTokens},
};
use kubecrier_oauth::{Authenticator, LEEWAY_SECONDS, TokenError, TokenErrorKind, claimed_expiry};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{Caller, opaque, reviewed};

/// What a cluster says of a token is remembered for that long.
const REVIEWED_FOR: Duration = Duration::from_secs(10);

/// Tokens that are remembered.
const REVIEWED_MAX: usize = 10_000;

/// Stands before the name of a caller that a cluster has named. No issuer begins so, and no
/// name of a token has a colon.
const CLUSTER_PREFIX: &str = "kubernetes:";

/// Asks a cluster whose a token is (TokenReview). A trait so that tests need no cluster.
pub(crate) trait TokenReviewer: fmt::Debug + Send + Sync {
    /// The user of a token for this server; `None` if the cluster does not accept it.
    fn review<'a>(&'a self, token: &'a str) -> ReviewFuture<'a>;

    /// Which cluster is asked. The answers of another one are about other accounts.
    fn cluster(&self) -> String;
}

/// A review under way.
pub(crate) type ReviewFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<KubernetesUser>, ReviewError>> + Send + 'a>>;

/// The cluster could not be asked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the token cannot be reviewed now: {0}")]
pub(crate) struct ReviewError(pub(crate) String);

/// The ways to verify an access token.
#[derive(Debug)]
pub(crate) struct BearerTokens {
    oauth: Option<Arc<Authenticator>>,
    reviewer: Option<Arc<Reviews>>,
}

/// What a cluster has said of tokens.
#[derive(Debug)]
pub(super) struct Reviews {
    reviewer: Arc<dyn TokenReviewer>,
    users: Arc<TtlCache<TokenDigest, Arc<KubernetesUser>>>,
    /// Tokens that were accepted before, which wait for no stranger's.
    known: Arc<UnknownTokens<Arc<KubernetesUser>, ReviewError>>,
    unknown: Arc<UnknownTokens<Arc<KubernetesUser>, ReviewError>>,
}

/// Why an access token names no caller. Never shows it.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum BearerError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("the cluster does not accept the token for this server")]
    NotReviewed,
    #[error("too many unknown tokens are presented at once; try again")]
    Busy,
}

// === impl BearerTokens ===

impl BearerTokens {
    pub(crate) fn new(
        oauth: Option<Authenticator>,
        reviewer: Option<Arc<dyn TokenReviewer>>,
    ) -> Option<Self> {
        if oauth.is_none() && reviewer.is_none() {
            return None;
        }
        let reviewer = reviewer.map(|reviewer| {
            Arc::new(Reviews {
                reviewer,
                users: Arc::new(TtlCache::new(CacheLimits::new(REVIEWED_MAX, REVIEWED_FOR))),
                known: Arc::new(UnknownTokens::new()),
                unknown: Arc::new(UnknownTokens::new()),
            })
        });
        Some(Self {
            oauth: oauth.map(Arc::new),
            reviewer,
        })
    }

    /// The caller of a token. Cancel-safe.
    pub(super) async fn caller_of(&self, token: &str) -> Result<Caller, BearerError> {
        let refused = match &self.oauth {
            None => None,
            Some(oauth) => match oauth.authenticate(token).await {
                Ok(accepted) => {
                    let expires = deadline(accepted.expires);
                    let recheck = opaque::recheck(oauth, token, &accepted);
                    return Ok(Caller::with_access_token(&accepted, expires, recheck));
                }
                Err(error) if may_be_of_account(&error) => Some(error),
                Err(error) => return Err(error.into()),
            },
        };
        let reviewed = match &self.reviewer {
            Some(reviews) => caller_of_account(reviews, token).await,
            None => Err(BearerError::NotReviewed),
        };
        match (reviewed, refused) {
            // The issuer's reason says more.
            (Err(BearerError::NotReviewed), Some(error)) => Err(error.into()),
            (reviewed, _) => reviewed,
        }
    }
}

/// Whether the cluster may know a token that is refused: as one of an issuer that is not ours, or as
/// one for the audience of service accounts where its own issuer is among ours.
pub fn may_be_of_account(refused: &TokenError) -> bool {
    matches!(
        refused.reason(),
        RequestRefusal::Issuer | RequestRefusal::Audience
    )
}

/// The caller whom a cluster names, for as long as it does so and the token says.
async fn caller_of_account(reviews: &Arc<Reviews>, token: &str) -> Result<Caller, BearerError> {
    let user = reviews.user_of(token).await?;
    let name = format!("{CLUSTER_PREFIX}{}", user.name());
    let expires = claimed_expiry(token).map(deadline);
    let recheck = reviewed::recheck(reviews, token, &user);
    Ok(Caller::reviewed(name.into(), user, expires, recheck))
}

/// The end of a token with its leeway, by the clock of timers.
fn deadline(expires: Timestamp) -> Instant {
    let left = expires.as_second().saturating_add(LEEWAY_SECONDS) - Timestamp::now().as_second();
    // Timers end within some years; no stream lasts as long.
    let left = u64::try_from(left).unwrap_or_default().min(365 * 24 * 3600);
    Instant::now() + Duration::from_secs(left)
}

// === impl Reviews ===

impl Reviews {
    /// The user whom the cluster names, or has named seconds ago. Cancel-safe.
    pub(super) async fn user_of(&self, token: &str) -> Result<Arc<KubernetesUser>, BearerError> {
        let digest = self.digest(token);
        match self.users.get(&digest) {
            Some(user) => Ok(user),
            None => self.review(digest, token).await,
        }
    }

    /// Of the token in the cluster that is asked now.
    fn digest(&self, token: &str) -> TokenDigest {
        let cluster = Sha256::digest(self.reviewer.cluster());
        Sha256::new_with_prefix(cluster)
            .chain_update(token)
            .finalize()
            .into()
    }

    async fn review(
        &self,
        digest: TokenDigest,
        token: &str,
    ) -> Result<Arc<KubernetesUser>, BearerError> {
        let (reviewer, users) = (Arc::clone(&self.reviewer), Arc::clone(&self.users));
        let token = token.to_owned();
        let review = || async move {
            let user = reviewer.review(&token).await?.map(Arc::new);
            if let Some(user) = &user {
                users.insert(digest, Arc::clone(user));
            }
            Ok(user)
        };
        let asked = if self.users.contains(&digest) {
            &self.known
        } else {
            &self.unknown
        };
        let reviewed = asked.ask(digest, review).await;
        reviewed.map_err(|refused| match refused {
            NotAccepted::Refused => BearerError::NotReviewed,
            NotAccepted::Busy => BearerError::Busy,
            NotAccepted::Failed(error) => error.into(),
        })
    }
}

// === impl BearerError ===

impl BearerError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Token(error) => match error.kind() {
                TokenErrorKind::Invalid => StatusCode::UNAUTHORIZED,
                TokenErrorKind::Forbidden => StatusCode::FORBIDDEN,
                TokenErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            },
            Self::Review(_) | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotReviewed => StatusCode::UNAUTHORIZED,
        }
    }

    pub(super) fn reason(&self) -> RequestRefusal {
        match self {
            Self::Token(error) => error.reason(),
            Self::Review(_) | Self::Busy => RequestRefusal::Unavailable,
            Self::NotReviewed => RequestRefusal::NotReviewed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    use axum::{body::Body, response::Response};
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use futures_util::stream;
    use http_body_util::BodyExt;
    use tokio::time::timeout;

    use super::*;
    use crate::caller::revocation::until_ended;

    /// Knows one account.
    #[derive(Debug, Default)]
    struct Cluster {
        asked: AtomicUsize,
        is_away: AtomicBool,
        is_deleted: AtomicBool,
        /// How often the context came to name another one.
        renamed: AtomicUsize,
    }

    impl TokenReviewer for Arc<Cluster> {
        fn review<'a>(&'a self, token: &'a str) -> ReviewFuture<'a> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let none: [&str; 0] = [];
            let user = KubernetesUser::new("system:serviceaccount:shop:agent", none).unwrap();
            Box::pin(async move {
                let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
                match token {
                    "down" => Err(ReviewError("it is away".to_owned())),
                    _ if is(&self.is_away) => Err(ReviewError("it is away".to_owned())),
                    _ if is(&self.is_deleted) => Ok(None),
                    token if token == "agents" || token.starts_with("e30.") => Ok(Some(user)),
                    _ => Ok(None),
                }
            })
        }

        fn cluster(&self) -> String {
            self.renamed.load(Ordering::Relaxed).to_string()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_is_remembered_for_ten_seconds() {
        let cluster = Arc::new(Cluster::default());
        let reviewer = Arc::new(Arc::clone(&cluster));
        let tokens = BearerTokens::new(None, Some(reviewer)).unwrap();
        for _ in 0..10 {
            let caller = tokens.caller_of("agents").await.unwrap();
            assert_eq!(
                caller.to_string(),
                "kubernetes:system:serviceaccount:shop:agent"
            );
            assert!(caller.scopes().is_none());
            let user = caller.kubernetes_user().unwrap();
            assert_eq!(user.name(), "system:serviceaccount:shop:agent");
        }
        assert_eq!(cluster.asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(REVIEWED_FOR).await;
        tokens.caller_of("agents").await.unwrap();
        assert_eq!(cluster.asked.load(Ordering::Relaxed), 2);
        for (token, status) in [("eves", 401), ("eves", 401), ("down", 503)] {
            let error = tokens.caller_of(token).await.unwrap_err();
            assert_eq!(error.status().as_u16(), status);
        }
        assert_eq!(cluster.asked.load(Ordering::Relaxed), 4);
        assert!(BearerTokens::new(None, None).is_none());
        // What one cluster has said says nothing about another.
        cluster.renamed.fetch_add(1, Ordering::Relaxed);
        tokens.caller_of("agents").await.unwrap();
        assert_eq!(cluster.asked.load(Ordering::Relaxed), 5);
        // Strangers take nothing from who is known.
        for number in 0..2 * REVIEWED_MAX {
            let digest = tokens
                .reviewer
                .as_ref()
                .unwrap()
                .digest(&number.to_string());
            let unknown = &tokens.reviewer.as_ref().unwrap().unknown;
            let none = || async { Ok(None) };
            let refused = unknown.ask(digest, none).await;
            assert!(refused.is_err());
        }
        assert_eq!(tokens.reviewer.as_ref().unwrap().users.len(), 2);
    }

    /// A token that says when it expires.
    fn expiring_in(seconds: i64) -> String {
        let exp = Timestamp::now().as_second() + seconds;
        let claims = URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}"));
        format!("e30.{claims}.c2ln")
    }

    /// A stream that ends with its token alone.
    async fn stream_of(tokens: &BearerTokens, token: &str) -> Body {
        let lifetime = tokens.caller_of(token).await.unwrap().lifetime();
        let endless = Body::from_stream(stream::pending::<Result<&str, Infallible>>());
        let answer = until_ended(&lifetime, async { Response::new(endless) }).await;
        answer.unwrap().into_body()
    }

    async fn is_open(body: &mut Body, minutes: u64) -> bool {
        let end = timeout(Duration::from_mins(minutes), body.frame()).await;
        end.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_an_account_lasts_as_long_as_the_account() {
        let cluster = Arc::new(Cluster::default());
        let tokens = BearerTokens::new(None, Some(Arc::new(Arc::clone(&cluster)))).unwrap();
        for token in ["agents", &expiring_in(24 * 3600)] {
            let mut body = stream_of(&tokens, token).await;
            assert!(is_open(&mut body, 60).await, "the account is there");
            cluster.is_away.store(true, Ordering::Relaxed);
            assert!(is_open(&mut body, 5).await, "the cluster is away");
            cluster.is_away.store(false, Ordering::Relaxed);
            assert!(is_open(&mut body, 1).await);
            cluster.is_deleted.store(true, Ordering::Relaxed);
            let deleted = Instant::now();
            assert!(body.frame().await.is_none());
            let lasted = deleted.elapsed();
            assert!(lasted <= Duration::from_mins(1), "{lasted:?}");
            cluster.is_deleted.store(false, Ordering::Relaxed);
            tokio::time::advance(Duration::from_mins(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_an_account_ends_when_its_token_expires() {
        let cluster = Arc::new(Cluster::default());
        let tokens = BearerTokens::new(None, Some(Arc::new(cluster))).unwrap();
        let mut body = stream_of(&tokens, &expiring_in(600)).await;
        let begun = Instant::now();
        assert!(body.frame().await.is_none());
        let lasted = begun.elapsed().as_secs();
        assert!((629..=631).contains(&lasted), "with the leeway: {lasted}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_has_leeway_and_never_overflows() {
        let now = Timestamp::now();
        for (expires, seconds) in [
            (now, 29..=31),
            (Timestamp::MIN, 0..=0),
            (Timestamp::MAX, 365 * 24 * 3600..=365 * 24 * 3600),
        ] {
            let left = deadline(expires) - Instant::now();
            assert!(seconds.contains(&left.as_secs()), "{left:?}");
        }
    }
}
