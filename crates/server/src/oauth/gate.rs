//! Refuses what the token of a caller does not permit, before it is answered.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header::WWW_AUTHENTICATE};
use kubecrier_core::metrics::{RefusalMetrics, RequestRefusal};

use super::scopes::{MissingScopes, Modes, ScopePolicy};
use crate::{
    caller::{Caller, Challenge, ChallengeError},
    jsonrpc::Shape,
    resources::LISTEN_URIS_MAX,
    subscriptions::Subscriptions,
};

/// Checks the scopes of the caller of the request under way.
#[derive(Clone, Debug)]
pub(crate) struct ScopeGate {
    pub(crate) policy: ScopePolicy,
    pub(crate) challenge: Challenge,
    pub(crate) refusals: RefusalMetrics,
}

// === impl ScopeGate ===

impl ScopeGate {
    /// The answer to a request without a message, if it is refused.
    pub(crate) fn check_base(&self) -> Option<Response> {
        let caller = Caller::current();
        let refused = self.policy.check_base(caller.scopes()?).err()?;
        Some(self.refuse(&caller, &refused))
    }

    /// The answer to a message, if it is refused.
    pub(crate) async fn check_body(
        &self,
        body: &[u8],
        shape: Shape,
        subscriptions: &Subscriptions,
    ) -> Option<Response> {
        let caller = Caller::current();
        let granted = caller.scopes()?;
        let mut modes = Modes::new();
        let check = |modes: &Modes| self.policy.check_body(granted, body, shape, modes).err();
        let mut refused = check(&modes)?;
        // Only now: most tokens permit whatever a subscription tells.
        let named = self.policy.named_subscriptions(body, shape);
        for id in named.into_iter().take(LISTEN_URIS_MAX) {
            if let Some(mode) = subscriptions.mode_of(&caller, &id).await {
                modes.insert(id, mode);
            }
        }
        if !modes.is_empty() {
            refused = check(&modes)?;
        }
        Some(self.refuse(&caller, &refused))
    }

    fn refuse(&self, caller: &Caller, refused: &MissingScopes) -> Response {
        let MissingScopes { missing, wanted } = refused;
        let missing = missing.join(" ");
        tracing::debug!(%caller, missing, "request refused: the token does not permit it");
        self.refusals.refused(RequestRefusal::Scope);
        let description = format!("the token lacks the scopes {missing}");
        let header = self.challenge.header(ChallengeError::InsufficientScope {
            scope: &wanted.join(" "),
            description: &description,
        });
        let head = [(WWW_AUTHENTICATE, header)];
        (StatusCode::FORBIDDEN, head, format!("{description}\n")).into_response()
    }
}

/// Middleware for pages: checks the base.
pub(crate) async fn check_page(
    State(gate): State<Arc<ScopeGate>>,
    request: Request,
    next: Next,
) -> Response {
    match gate.check_base() {
        Some(refused) => refused,
        None => next.run(request).await,
    }
}
