//! The caller of a request: the one module that establishes its identity.
//!
//! - `tokens`: the callers of a file of bearer tokens;
//! - `trusted_user`: the callers that a proxy names in a header;
//! - `kubernetes`: as whom a caller acts in clusters, by names from outside of Kubernetes;
//! - `bearer`: the callers of access tokens, of OAuth and of service accounts (`cluster_reviewer`);
//! - `opaque`: access tokens that only their issuer can vouch for, while something is open with them; `reviewed`: the same
//!   for those that only a cluster can vouch for;
//! - `challenge`: what a client is told that has to authenticate, or to ask for more;
//! - `unidentified`: the answer to a request without a caller;
//! - `revocation`: the end of what a caller has under way when its token is revoked or expires.
//!
//! The caller travels as a task-local of the HTTP request. rmcp makes a handler inside
//! of that request and runs it on another task, so the handler takes the caller with it
//! when it is made.

mod bearer;
mod challenge;
mod cluster_reviewer;
mod kubernetes;
mod opaque;
mod reviewed;
mod revocation;
mod tokens;
mod trusted_user;
mod unidentified;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::{
    bearer::may_be_of_account,
    tokens::{TokenFileError, TokenFileSummary, check_token_file},
    trusted_user::{ProxyMapping, TrustedUserHeader},
};
pub(super) use self::{
    bearer::{BearerTokens, TokenReviewer},
    challenge::{Challenge, ChallengeError},
    cluster_reviewer::ClusterReviewer,
    tokens::Tokens,
};
use self::{
    revocation::{Lifetime, Recheck},
    unidentified::Unidentified,
};
use kubecrier_core::{
    KubernetesUser,
    metrics::{RefusalMetrics, RequestRefusal},
    shares::ShareKey,
};
use kubecrier_k8s::Actor;
use kubecrier_oauth::{AccessToken, Scopes};

use crate::{
    audit::Audit,
    http::{HEAD_BYTES_MAX, HeadCut},
    log_limit::LogLimit,
    peer::Peer,
};

tokio::task_local! {
    static CALLER: Caller;
}

/// Stands before the name of a caller that a proxy has named. The name of a token cannot
/// have a colon, so nobody can be both.
const PROXY_PREFIX: &str = "user:";

/// The name of a caller without one.
const ANONYMOUS: &str = "anonymous";

/// A caller, by name. Without authentication all are the same one.
#[derive(Clone, Debug)]
pub struct Caller {
    name: Option<Arc<str>>,
    /// Cancelled when the token that the caller has presented is revoked. No part of the
    /// identity: a name with a new token is the same caller.
    revoked: Option<CancellationToken>,
    /// As whom the caller acts in clusters, if it has an identity there.
    user: Option<Arc<KubernetesUser>>,
    /// What its access token permits; without one, scopes do not limit it.
    access: Option<Access>,
}

/// What a caller has of its access token. No part of the identity either.
#[derive(Clone, Debug)]
struct Access {
    scopes: Option<Arc<Scopes>>,
    /// When what it has open ends, if it says so.
    expires: Option<Instant>,
    /// How its issuer, or its cluster, is asked about it meanwhile, if only that one knows.
    recheck: Option<Recheck>,
}

/// How callers are told apart. With neither, all callers are the same one.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// By the bearer token they present.
    pub(super) tokens: Option<Arc<Tokens>>,
    /// By the header that a proxy sends.
    pub(super) user_header: Option<TrustedUserHeader>,
    /// By an access token that somebody else has issued.
    pub(super) bearer: Option<BearerTokens>,
    /// What a client is told that has to authenticate.
    pub(super) challenge: Challenge,
    pub(super) refusals: Option<RefusalMetrics>,
    pub(super) audit: Option<Audit>,
    pub(super) log_limit: LogLimit,
}

// === impl Caller ===

impl Caller {
    /// The caller where there is no authentication.
    pub(crate) const ANONYMOUS: Self = Self {
        name: None,
        revoked: None,
        user: None,
        access: None,
    };

    /// The caller of the request under way.
    pub(crate) fn current() -> Self {
        CALLER.try_with(Clone::clone).unwrap_or(Self::ANONYMOUS)
    }

    fn with_token(name: &str, revoked: CancellationToken) -> Self {
        Self {
            name: Some(name.into()),
            revoked: Some(revoked),
            user: None,
            access: None,
        }
    }

    /// The caller of an access token, until it expires or is found to be revoked.
    fn with_access_token(token: &AccessToken, expires: Instant, recheck: Option<Recheck>) -> Self {
        let access = Access {
            scopes: Some(Arc::clone(&token.scopes)),
            expires: Some(expires),
            recheck,
        };
        let caller = Self {
            name: Some(Arc::clone(&token.identity)),
            revoked: None,
            user: None,
            access: Some(access),
        };
        caller.acting_as(Arc::clone(&token.user))
    }

    /// The caller that a cluster has vouched for. Its rights there are all that limits it.
    fn reviewed(
        name: Arc<str>,
        user: Arc<KubernetesUser>,
        expires: Option<Instant>,
        recheck: Recheck,
    ) -> Self {
        let access = Access {
            scopes: None,
            expires,
            recheck: Some(recheck),
        };
        Self {
            name: Some(name),
            revoked: None,
            user: Some(user),
            access: Some(access),
        }
    }

    fn named_by_proxy(user: &str) -> Self {
        Self {
            name: Some(format!("{PROXY_PREFIX}{user}").into()),
            revoked: None,
            user: None,
            access: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: Some(name.into()),
            revoked: None,
            user: None,
            access: None,
        }
    }

    /// The same caller, who acts in clusters as this user.
    pub(crate) fn acting_as(mut self, user: Arc<KubernetesUser>) -> Self {
        self.user = Some(user);
        self
    }

    /// As whom the caller acts in clusters.
    pub(crate) fn kubernetes_user(&self) -> Option<&Arc<KubernetesUser>> {
        self.user.as_ref()
    }

    /// On whose behalf requests to clusters are made for the caller.
    pub(crate) fn actor(&self) -> Actor {
        Actor::Caller(self.user.clone())
    }

    /// What its token permits; `None` if scopes do not limit it.
    pub(crate) fn scopes(&self) -> Option<&Scopes> {
        self.access.as_ref()?.scopes.as_deref()
    }

    /// Until when what is opened with its token stays open.
    fn lifetime(&self) -> Lifetime {
        Lifetime {
            revoked: self.revoked.clone(),
            expires: self.access.as_ref().and_then(|access| access.expires),
            recheck: self
                .access
                .as_ref()
                .and_then(|access| access.recheck.clone()),
        }
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// For whom something of the caller counts, if it has a name. Not a copy of it: one caller
    /// counts under many limits at once.
    pub(crate) fn share_key(&self) -> ShareKey {
        let name = self.name.clone();
        ShareKey::Caller(name.unwrap_or_else(|| ANONYMOUS.into()))
    }

    /// Runs work as this caller.
    pub(crate) async fn scope<F: Future>(self, work: F) -> F::Output {
        CALLER.scope(self, work).await
    }

    /// Whether the token that was presented is not accepted any more.
    pub(crate) fn is_revoked(&self) -> bool {
        let revoked = self.revoked.as_ref();
        revoked.is_some_and(CancellationToken::is_cancelled)
    }

    /// Waits until the token that was presented is revoked. Cancel-safe.
    pub(crate) async fn revoked(&self) {
        match &self.revoked {
            Some(revoked) => revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl PartialEq for Caller {
    /// Who comes as another user of Kubernetes, or with other groups, is another caller: what
    /// was opened before was decided for the rights of the one before.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.user == other.user
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or(ANONYMOUS))
    }
}

// === impl Identity ===

impl Identity {
    /// Whether callers have to say who they are.
    pub(super) fn is_required(&self) -> bool {
        self.takes_tokens() || self.user_header.is_some()
    }

    /// Whether callers can present a token.
    pub(super) fn takes_tokens(&self) -> bool {
        self.tokens.is_some() || self.bearer.is_some()
    }

    /// The caller of a request that came from a peer. Cancel-safe.
    async fn authenticate(
        &self,
        peer: Option<&Peer>,
        headers: &HeaderMap,
    ) -> Result<Caller, Unidentified> {
        match (self.establish(peer, headers), &self.bearer) {
            (Err(Unidentified::InvalidToken), Some(bearer)) => match bearer_token(headers) {
                // In a box: else every request would have room for it.
                Some(token) => Box::pin(bearer.caller_of(token))
                    .await
                    .map_err(Unidentified::Token),
                None => Err(Unidentified::InvalidToken),
            },
            (established, _) => established,
        }
    }

    /// The same by what is known here, without asking anybody.
    fn establish(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Result<Caller, Unidentified> {
        let from = peer.map(|peer| peer.address);
        // Everything but a token says nothing about another user of the same machine.
        let without_token = |caller| match peer.and_then(|peer| peer.other_user) {
            None => Ok(caller),
            Some(other) => Err(Unidentified::OtherUser(other)),
        };
        if let Some(trusted) = &self.user_header
            && let Some(user) = trusted
                .user(from, headers)
                .map_err(Unidentified::UserHeader)?
        {
            let caller = Caller::named_by_proxy(user);
            let mapped = trusted.kubernetes_user(user, headers);
            return without_token(match mapped.map_err(Unidentified::UserHeader)? {
                Some(user) => caller.acting_as(user),
                None => caller,
            });
        }
        if self.takes_tokens() && headers.contains_key(header::AUTHORIZATION) {
            let token = bearer_token(headers);
            let known = token.zip(self.tokens.as_ref());
            let caller = known.and_then(|(token, tokens)| tokens.caller_of(token));
            return caller.ok_or(Unidentified::InvalidToken);
        }
        if self.is_required() {
            let has_tokens = self.takes_tokens();
            return Err(Unidentified::Missing { has_tokens });
        }
        without_token(Caller::ANONYMOUS)
    }

    /// The answer to a request without a caller, which is counted, logged and recorded.
    fn refuse(&self, unidentified: Unidentified, path: &str) -> Response {
        let reason = unidentified.reason();
        if let Some(refusals) = &self.refusals {
            refusals.refused(reason);
        }
        if let Some(error) = unidentified.for_log()
            && self.log_limit.allows()
        {
            tracing::warn!(%error, "request refused");
        }
        let known = unidentified.identity().map(str::to_owned);
        let answer = unidentified.response(&self.challenge);
        if let Some(audit) = &self.audit {
            let status = answer.status().as_u16();
            match known {
                Some(caller) => audit.refused(&caller, path, reason, status),
                None => audit.unidentified(path, reason, status),
            }
        }
        answer
    }
}

/// The bearer token of a request that presents one.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let only = given.next().filter(|_| given.next().is_none())?;
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Middleware: establishes the caller for the rest of the request, or refuses it.
pub(super) async fn identify(
    State(identity): State<Arc<Identity>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    match identity
        .authenticate(peer.as_ref(), request.headers())
        .await
    {
        Ok(caller) => {
            let lifetime = caller.lifetime();
            let answering = CALLER.scope(caller, next.run(request));
            if lifetime.is_endless() {
                return answering.await;
            }
            let answer = revocation::until_ended(&lifetime, answering).await;
            answer.unwrap_or_else(|| Unidentified::Ended.response(&identity.challenge))
        }
        Err(unidentified) => identity.refuse(unidentified, request.uri().path()),
    }
}

/// Middleware for everything: refuses a request whose head is too large, which is nobody's.
pub(super) async fn refuse_cut_head(
    State(identity): State<Arc<Identity>>,
    request: Request,
    next: Next,
) -> Response {
    if request.extensions().get::<HeadCut>().is_none() {
        return next.run(request).await;
    }
    let token = request.headers().get(header::AUTHORIZATION);
    let is_token = token.is_some_and(|token| token.len() > HEAD_BYTES_MAX / 2);
    let unidentified = Unidentified::HeadTooLarge {
        is_token: is_token && identity.takes_tokens(),
    };
    let mut answer = identity.refuse(unidentified, request.uri().path());
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(header::CONNECTION, close);
    answer
}

/// Middleware for servers whose callers act in clusters as themselves: refuses a caller without
/// a Kubernetes user.
pub(super) async fn require_user(
    State(identity): State<Arc<Identity>>,
    request: Request,
    next: Next,
) -> Response {
    const REFUSAL: &str = "callers act in clusters as themselves here (--cluster-identity \
         impersonate), and this caller has no Kubernetes user; whoever runs this server names one \
         in the caller's line of --auth-token-file: `name:token user=ann@example.com groups=dev`\n";
    let caller = Caller::current();
    if caller.kubernetes_user().is_some() {
        return next.run(request).await;
    }
    tracing::debug!(%caller, "request refused: the caller has no Kubernetes user");
    let reason = RequestRefusal::NoUser;
    if let Some(refusals) = &identity.refusals {
        refusals.refused(reason);
    }
    let answer = (StatusCode::FORBIDDEN, REFUSAL).into_response();
    if let Some(audit) = &identity.audit {
        let (path, status) = (request.uri().path(), answer.status().as_u16());
        audit.refused(&caller.to_string(), path, reason, status);
    }
    answer
}

#[cfg(test)]
mod tests;
