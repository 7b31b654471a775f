//! An opaque access token whose caller has something open: its issuer is asked about it again as
//! often as answers are renewed, so that a revoked one keeps nothing open.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use kubecrier_oauth::{AccessToken, Authenticator, TokenErrorKind};
use tokio::time::Instant;

use super::revocation::{AskAgain, Recheck};

/// An issuer that does not answer is asked again after that.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A token and whom it named when it was presented.
struct OpaqueToken {
    token: Arc<str>,
    accepted: Arc<AccessToken>,
    issuers: Arc<Authenticator>,
}

/// How an accepted token is asked about, if only its issuer knows whether it still counts. All
/// who ask about one token share one request.
pub(super) fn recheck(
    issuers: &Arc<Authenticator>,
    token: &str,
    accepted: &Arc<AccessToken>,
) -> Option<Recheck> {
    let at = accepted.ask_again?;
    let asked = Arc::new(OpaqueToken {
        token: token.into(),
        accepted: Arc::clone(accepted),
        issuers: Arc::clone(issuers),
    });
    Some(Recheck { at, asked })
}

// === impl OpaqueToken ===

impl fmt::Debug for OpaqueToken {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = &self.accepted.identity;
        f.debug_struct("OpaqueToken")
            .field("identity", identity)
            .finish_non_exhaustive()
    }
}

impl AskAgain for OpaqueToken {
    fn ask_again(&self) -> Pin<Box<dyn Future<Output = Option<Instant>> + Send + '_>> {
        Box::pin(async move {
            let retry = Instant::now() + RETRY_AFTER;
            match self.issuers.authenticate(&self.token).await {
                // Another user, or other groups, would see something else.
                Ok(now) => {
                    let (before, now) = (&self.accepted, &now);
                    let is_same = now.identity == before.identity && now.user == before.user;
                    is_same.then(|| now.ask_again.unwrap_or(retry))
                }
                Err(error) => match error.kind() {
                    TokenErrorKind::Invalid | TokenErrorKind::Forbidden => None,
                    TokenErrorKind::Unavailable => Some(retry),
                },
            }
        })
    }
}
