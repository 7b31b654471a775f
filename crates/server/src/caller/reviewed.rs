//! A token of a service account whose caller has something open: the cluster is asked about it
//! again, so that an account that was deleted keeps nothing open.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use kubecrier_core::KubernetesUser;
use tokio::time::Instant;

use super::{
    bearer::{BearerError, Reviews},
    revocation::{AskAgain, Recheck},
};

/// Between two questions. With the seconds for which an answer is remembered, and the API server's
/// own, about a minute.
const ASKED_EVERY: Duration = Duration::from_secs(45);

/// A cluster that does not answer is asked again after that.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A token and whom it named when it was presented.
struct ReviewedToken {
    token: Arc<str>,
    user: Arc<KubernetesUser>,
    reviews: Arc<Reviews>,
}

/// How the cluster is asked about a token that it has accepted.
pub(super) fn recheck(reviews: &Arc<Reviews>, token: &str, user: &Arc<KubernetesUser>) -> Recheck {
    let asked = Arc::new(ReviewedToken {
        token: token.into(),
        user: Arc::clone(user),
        reviews: Arc::clone(reviews),
    });
    Recheck {
        at: Instant::now() + ASKED_EVERY,
        asked,
    }
}

// === impl ReviewedToken ===

impl fmt::Debug for ReviewedToken {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReviewedToken")
            .field("user", &self.user.name())
            .finish_non_exhaustive()
    }
}

impl AskAgain for ReviewedToken {
    fn ask_again(&self) -> Pin<Box<dyn Future<Output = Option<Instant>> + Send + '_>> {
        Box::pin(async move {
            match self.reviews.user_of(&self.token).await {
                // Another user, or other groups, would see something else.
                Ok(user) if user == self.user => Some(Instant::now() + ASKED_EVERY),
                Ok(_) | Err(BearerError::NotReviewed | BearerError::Token(_)) => None,
                Err(BearerError::Review(_) | BearerError::Busy) => {
                    Some(Instant::now() + RETRY_AFTER)
                }
            }
        })
    }
}
