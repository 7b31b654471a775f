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
use kubecrier_oauth::{Authenticator, LEEWAY_SECONDS, TokenError, TokenErrorKind};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{Caller, opaque};

/// What a cluster says of a token is remembered for that long.
const REVIEWED_FOR: Duration = Duration::from_secs(10);

/// Tokens that are remembered.
const REVIEWED_MAX: usize = 10_000;

/// A service account that is deleted keeps its streams for that long at most: a review does not
/// say when a token expires.
const REVIEWED_STREAM_MAX: Duration = Duration::from_mins(10);

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
    reviewer: Option<Reviews>,
}

#[derive(Debug)]
struct Reviews {
    reviewer: Arc<dyn TokenReviewer>,
    users: Arc<TtlCache<TokenDigest, Arc<KubernetesUser>>>,
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
        let reviewer = reviewer.map(|reviewer| Reviews {
            reviewer,
            users: Arc::new(TtlCache::new(CacheLimits::new(REVIEWED_MAX, REVIEWED_FOR))),
            unknown: Arc::new(UnknownTokens::new()),
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
            Some(reviews) => reviews.caller_of(token).await,
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

/// The end of a token with its leeway, by the clock of timers.
fn deadline(expires: Timestamp) -> Instant {
    let left = expires.as_second().saturating_add(LEEWAY_SECONDS) - Timestamp::now().as_second();
    // Timers end within some years; no stream lasts as long.
    let left = u64::try_from(left).unwrap_or_default().min(365 * 24 * 3600);
    Instant::now() + Duration::from_secs(left)
}

// === impl Reviews ===

impl Reviews {
    async fn caller_of(&self, token: &str) -> Result<Caller, BearerError> {
        let digest = self.digest(token);
        let user = match self.users.get(&digest) {
            Some(user) => user,
            None => self.review(digest, token).await?,
        };
        let name = format!("{CLUSTER_PREFIX}{}", user.name());
        let expires = Instant::now() + REVIEWED_STREAM_MAX;
        Ok(Caller::reviewed(name.into(), user, expires))
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
        let reviewed = self.unknown.ask(digest, review).await;
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Knows one token.
    #[derive(Debug, Default)]
    struct Cluster {
        asked: AtomicUsize,
        /// How often the context came to name another one.
        renamed: AtomicUsize,
    }

    impl TokenReviewer for Arc<Cluster> {
        fn review<'a>(&'a self, token: &'a str) -> ReviewFuture<'a> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let none: [&str; 0] = [];
            let user = KubernetesUser::new("system:serviceaccount:shop:agent", none).unwrap();
            Box::pin(async move {
                match token {
                    "agents" => Ok(Some(user)),
                    "down" => Err(ReviewError("it is away".to_owned())),
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
