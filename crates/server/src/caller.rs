//! The caller of a request: the one module that establishes its identity.
//!
//! - `tokens`: the callers of a file of bearer tokens;
//! - `trusted_user`: the callers that a proxy names in a header;
//! - `kubernetes`: as whom a caller acts in clusters, by names from outside of Kubernetes;
//! - `bearer`: the callers of access tokens, of OAuth and of service accounts (`cluster_reviewer`);
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
use http::{HeaderMap, StatusCode, header};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) use self::{
    bearer::{BearerTokens, TokenReviewer},
    challenge::{Challenge, ChallengeError},
    cluster_reviewer::ClusterReviewer,
    tokens::Tokens,
};
use self::{revocation::Lifetime, unidentified::Unidentified};
pub use self::{
    tokens::{TokenFileError, TokenFileSummary, check_token_file},
    trusted_user::{ProxyMapping, TrustedUserHeader},
};
use kubecrier_core::{KubernetesUser, metrics::RefusalMetrics};
use kubecrier_k8s::Actor;
use kubecrier_oauth::{AccessToken, Scopes};

use crate::{audit::Audit, log_limit::LogLimit, peer::Peer};

tokio::task_local! {
    static CALLER: Caller;
}

/// Stands before the name of a caller that a proxy has named. The name of a token cannot
/// have a colon, so nobody can be both.
const PROXY_PREFIX: &str = "user:";

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
    /// When what it has open ends.
    expires: Instant,
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

    /// The caller of an access token, until it expires.
    fn with_access_token(token: &AccessToken, expires: Instant) -> Self {
        let access = Access {
            scopes: Some(Arc::clone(&token.scopes)),
            expires,
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
    fn reviewed(name: Arc<str>, user: Arc<KubernetesUser>, expires: Instant) -> Self {
        let access = Access {
            scopes: None,
            expires,
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
            expires: self.access.as_ref().map(|access| access.expires),
        }
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Runs work as this caller.
    #[cfg(test)]
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
        f.write_str(self.name().unwrap_or("anonymous"))
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
                Some(token) => bearer.caller_of(token).await.map_err(Unidentified::Token),
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
        Err(unidentified) => {
            if let Some(refusals) = &identity.refusals {
                refusals.refused(unidentified.reason());
            }
            if let Some(error) = unidentified.for_log()
                && identity.log_limit.allows()
            {
                tracing::warn!(%error, "request refused");
            }
            let reason = unidentified.reason();
            let answer = unidentified.response(&identity.challenge);
            if let Some(audit) = &identity.audit {
                audit.unidentified(request.uri().path(), reason, answer.status().as_u16());
            }
            answer
        }
    }
}

/// Middleware for servers whose callers act in clusters as themselves: refuses a caller without
/// a Kubernetes user.
pub(super) async fn require_user(request: Request, next: Next) -> Response {
    const REFUSAL: &str = "callers act in clusters as themselves here (--cluster-identity \
         impersonate), and this caller has no Kubernetes user; whoever runs this server names one \
         in the caller's line of --auth-token-file: `name:token user=ann@example.com groups=dev`\n";
    let caller = Caller::current();
    if caller.kubernetes_user().is_some() {
        return next.run(request).await;
    }
    tracing::debug!(%caller, "request refused: the caller has no Kubernetes user");
    (StatusCode::FORBIDDEN, REFUSAL).into_response()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "ann:0123456789abcdef-ann\nbob:0123456789abcdef-bob\n";

    /// A token, and the name of its owner.
    fn token() -> impl Strategy<Value = (String, Option<&'static str>)> {
        let of = |name| Just((format!("0123456789abcdef-{name}"), Some(name)));
        let wrong = prop_oneof!["[a-z0-9-]{0,24}", "0123456789abcdef-(an|bo|ann?[a-z])?"];
        let wrong = wrong.prop_filter_map("a right one", |token| {
            (!FILE
                .lines()
                .any(|line| line.ends_with(&format!(":{token}"))))
            .then_some((token, None))
        });
        prop_oneof![of("ann"), of("bob"), wrong]
    }

    /// The bytes of an `Authorization` header, and the caller that they make.
    fn authorization() -> impl Strategy<Value = (Vec<u8>, Option<&'static str>)> {
        let anything = prop::collection::vec(any::<u8>(), 0..80).prop_map(|bytes| (bytes, None));
        let scheme = prop_oneof![3 => "(?i)bearer", 1 => "(?i)(basic|bearer-?)?"];
        let parts = (scheme, " {0,3}", token(), " {0,2}");
        let close = parts.prop_map(|(scheme, gap, (token, owner), rest)| {
            let bearer = scheme.eq_ignore_ascii_case("bearer") && !gap.is_empty();
            let bytes = format!("{scheme}{gap}{token}{rest}").into_bytes();
            (bytes, owner.filter(|_| bearer))
        });
        prop_oneof![1 => anything, 3 => close]
    }

    fn tokens() -> Arc<Tokens> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), FILE).unwrap();
        Arc::new(Tokens::read(file.path()).unwrap().0)
    }

    fn user_header() -> TrustedUserHeader {
        TrustedUserHeader {
            header: HeaderName::from_static("x-user"),
            proxies: vec!["10.0.0.0/8".parse().unwrap()],
            mapping: None,
        }
    }

    proptest! {
        #[test]
        fn fuzz_no_header_but_the_right_one_is_a_caller((bytes, expected) in authorization()) {
            let identity = Identity { tokens: Some(tokens()), ..Identity::default() };
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.insert(header::AUTHORIZATION, value);
            }
            let caller = identity.establish(None, &headers).ok();
            prop_assert_eq!(caller, expected.map(Caller::named));
        }

        #[test]
        fn fuzz_a_name_of_the_proxy_is_no_name_of_a_token(
            name in prop_oneof!["(ann|bob)", "[a-z:]{1,8}"],
        ) {
            let identity = Identity { tokens: Some(tokens()), user_header: Some(user_header()), ..Identity::default() };
            let mut headers = HeaderMap::new();
            headers.insert("x-user", HeaderValue::from_str(&name).unwrap());
            let proxy = Peer::at([10, 0, 0, 1].into());
            let caller = identity.establish(Some(&proxy), &headers).unwrap();
            prop_assert_eq!(caller.to_string(), format!("user:{name}"));
            for token in ["ann", "bob"] {
                prop_assert_ne!(&caller, &Caller::named(token));
            }
        }
    }

    /// The name of the caller, or the status of the answer.
    fn status(identity: &Identity, peer: Peer, headers: &[(&'static str, &str)]) -> String {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        match identity.establish(Some(&peer), &headers.collect()) {
            Ok(caller) => caller.to_string(),
            Err(error) => {
                let answer = error.response(&Challenge::default());
                answer.status().as_str().to_owned()
            }
        }
    }

    #[test]
    fn another_user_of_the_machine_needs_a_token() {
        let (same, other) = (Peer::at([10, 1, 2, 3].into()), Peer::of_other_user());
        let user = ("x-user", "ann");
        let token = ("authorization", "Bearer 0123456789abcdef-bob");
        let neither = Identity::default();
        assert_eq!(status(&neither, same, &[]), "anonymous");
        assert_eq!(status(&neither, other, &[]), "403");
        assert_eq!(status(&neither, other, &[user, token]), "403");
        let both = Identity {
            tokens: Some(tokens()),
            user_header: Some(user_header()),
            ..Identity::default()
        };
        assert_eq!(status(&both, same, &[user]), "user:ann");
        assert_eq!(
            status(&both, other, &[user]),
            "403",
            "anyone can write a header"
        );
        assert_eq!(status(&both, other, &[token]), "bob");
        assert_eq!(status(&both, other, &[]), "401");
    }

    #[test]
    fn who_comes_past_the_proxy_needs_a_token() {
        let (proxy, other) = (
            Peer::at([10, 1, 2, 3].into()),
            Peer::at([192, 0, 2, 1].into()),
        );
        let user = ("x-user", "ann");
        let token = ("authorization", "Bearer 0123456789abcdef-bob");
        let wrong = ("authorization", "Bearer 0123456789abcdef-eve");
        let only = Identity {
            user_header: Some(user_header()),
            ..Identity::default()
        };
        assert_eq!(status(&only, proxy, &[user]), "user:ann");
        assert_eq!(status(&only, proxy, &[]), "401");
        assert_eq!(status(&only, proxy, &[token]), "401");
        assert_eq!(status(&only, other, &[]), "401");
        assert_eq!(status(&only, other, &[user]), "403");
        let both = Identity {
            tokens: Some(tokens()),
            user_header: Some(user_header()),
            ..Identity::default()
        };
        assert_eq!(status(&both, proxy, &[user, wrong]), "user:ann");
        assert_eq!(status(&both, proxy, &[token]), "bob");
        assert_eq!(status(&both, proxy, &[]), "401");
        assert_eq!(status(&both, other, &[token]), "bob");
        assert_eq!(status(&both, other, &[wrong]), "401");
        assert_eq!(status(&both, other, &[user, token]), "403");
        let neither = Identity::default();
        assert_eq!(status(&neither, other, &[user, wrong]), "anonymous");
    }

    #[test]
    fn who_comes_with_other_groups_is_another_caller() {
        let as_user = |groups: &[&str]| {
            let user = KubernetesUser::new("ann", groups.iter().copied()).unwrap();
            Caller::named("ann").acting_as(Arc::new(user))
        };
        assert_eq!(as_user(&["dev", "ops"]), as_user(&["ops", "dev"]));
        assert_ne!(as_user(&["dev", "ops"]), as_user(&["dev"]));
        assert_ne!(as_user(&["dev"]), Caller::named("ann"));
    }
}
