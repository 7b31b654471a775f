//! Which way a token is verified, and what is remembered of it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kubecrier_core::{
    KubernetesUser,
    ttl_cache::{CacheLimits, TtlCache},
};
use ring::digest;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    Algorithm, ClaimMapping, IntrospectionConfig, IssuerUrl, Scopes, TokenError,
    claims::{self, Claims},
    error::shown,
    fetch::Fetcher,
    introspection::{Introspected, Introspection},
    jws,
    key_set::KeySet,
    keys::IssuerKeys,
};

/// What fits into the headers of a request. A token with all groups of a large company is a
/// tenth of it.
const TOKEN_BYTES_MAX: usize = 120 * 1024;

/// A signature is not verified again for that long. A key that is withdrawn counts on for as
/// long.
const VERIFIED_FOR: Duration = Duration::from_mins(1);

/// Tokens that are remembered.
const VERIFIED_MAX: usize = 10_000;

/// A token that does not say when it expires has to be presented again after that.
const LIFETIME_MAX: SignedDuration = SignedDuration::from_hours(1);

/// An issuer, and whom its tokens name.
#[derive(Clone, Debug)]
pub struct TrustedIssuer {
    /// Its name.
    pub url: IssuerUrl,
    /// From the claims of its tokens to a user. A claim says something within one issuer, so that
    /// no two may name the same user.
    pub mapping: ClaimMapping,
}

/// Whose tokens are accepted, and what they mean.
#[derive(Clone, Debug)]
pub struct OAuthConfig {
    /// The issuers; the first one is that of opaque tokens.
    pub issuers: Vec<TrustedIssuer>,
    /// A token has to be for one of these.
    pub audiences: Vec<String>,
    /// The algorithms of signatures.
    pub algorithms: Vec<Algorithm>,
    /// The authorities that sign the issuers' certificates, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// How to ask about opaque tokens.
    pub introspection: Option<IntrospectionConfig>,
}

/// A token that was accepted.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// Issuer and subject in one: the identity of the caller, whatever the token is.
    pub identity: Arc<str>,
    /// Its issuer.
    pub issuer: Arc<str>,
    /// Whose it is, for the issuer.
    pub subject: String,
    /// As whom the caller acts in clusters.
    pub user: Arc<KubernetesUser>,
    /// What it permits.
    pub scopes: Arc<Scopes>,
    /// When it expires, without leeway.
    pub expires: Timestamp,
    /// When its issuer is to be asked about it again, which alone knows whether it still counts;
    /// `None` for a token whose signature vouches for it.
    pub ask_again: Option<Instant>,
}

/// Verifies tokens.
#[derive(Debug)]
pub struct Authenticator {
    issuers: Vec<(IssuerKeys, ClaimMapping)>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    introspection: Option<Introspection>,
    verified: TtlCache<[u8; 32], Arc<AccessToken>>,
}

// === impl Authenticator ===

impl Authenticator {
    /// Nothing is fetched until the first token comes.
    pub fn new(config: OAuthConfig) -> Self {
        jws::install_provider();
        let OAuthConfig {
            issuers,
            audiences,
            algorithms,
            ca_file,
            introspection,
        } = config;
        let fetcher = Arc::new(Fetcher::new(ca_file));
        let introspection = introspection
            .zip(issuers.first().map(|issuer| issuer.url.clone()))
            .map(|(config, issuer)| Introspection::new(config, issuer, Arc::clone(&fetcher)));
        let keys = |issuer: TrustedIssuer| {
            let keys = IssuerKeys::new(issuer.url, Arc::clone(&fetcher));
            (keys, issuer.mapping)
        };
        Self {
            issuers: issuers.into_iter().map(keys).collect(),
            audiences,
            algorithms,
            introspection,
            verified: TtlCache::new(CacheLimits::new(VERIFIED_MAX, VERIFIED_FOR)),
        }
    }

    /// Verifies a token. Cancel-safe.
    pub async fn authenticate(&self, token: &str) -> Result<Arc<AccessToken>, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            let max = TOKEN_BYTES_MAX;
            return Err(TokenError::TooLarge { max });
        }
        let digest = sha256(token);
        if let Some(known) = self.verified.get(&digest) {
            if claims::is_expired(known.expires, Timestamp::now()) {
                return Err(TokenError::Expired);
            }
            return Ok(known);
        }
        match &self.introspection {
            Some(introspection) if !jws::is_jwt(token) => {
                let Introspected { claims, until } = introspection.claims(digest, token).await?;
                let named = claims.get("iss").and_then(|issuer| issuer.as_str());
                // Who is asked speaks for no other issuer, also not for one that is trusted.
                let named = named.unwrap_or_default();
                if named != introspection.issuer().as_str() {
                    let given = shown(named);
                    return Err(TokenError::Issuer { given });
                }
                let issuer = self.issuer(named)?;
                let accepted = self.accept(issuer, &claims)?;
                Ok(Arc::new(AccessToken {
                    ask_again: Some(until),
                    ..accepted
                }))
            }
            None if !token.contains('.') => Err(TokenError::Opaque),
            _ => {
                let accepted = Arc::new(self.verify(token).await?);
                self.verified.insert(digest, Arc::clone(&accepted));
                Ok(accepted)
            }
        }
    }

    async fn verify(&self, token: &str) -> Result<AccessToken, TokenError> {
        let unverified = jws::read(token, &self.algorithms)?;
        let issuer = self.issuer(&unverified.issuer)?;
        let (keys, _mapping) = issuer;
        let (id, algorithm) = (unverified.key_id.as_deref(), unverified.algorithm);
        let verified = |set: &KeySet| {
            let key = set.find(id, algorithm).map_err(|why| TokenError::Key {
                issuer: keys.issuer().to_string(),
                why,
            })?;
            jws::verify(token, algorithm, key)
        };
        let found = keys.with_key(id, algorithm).await?;
        let claims = match verified(&found) {
            Err(TokenError::Signature) => match keys.newer_than(&found).await {
                Some(newer) => verified(&newer)?,
                None => return Err(TokenError::Signature),
            },
            verified => verified?,
        };
        if claims.get("exp").is_none_or(Value::is_null) {
            return Err(TokenError::Claim("exp"));
        }
        self.accept(issuer, &claims)
    }

    /// An issuer, by its exact name.
    fn issuer(&self, named: &str) -> Result<&(IssuerKeys, ClaimMapping), TokenError> {
        let found = self
            .issuers
            .iter()
            .find(|(keys, _)| keys.issuer().as_str() == named);
        found.ok_or_else(|| TokenError::Issuer {
            given: shown(named),
        })
    }

    /// What claims mean that somebody has vouched for.
    fn accept(
        &self,
        (keys, mapping): &(IssuerKeys, ClaimMapping),
        claims: &Claims,
    ) -> Result<AccessToken, TokenError> {
        let now = Timestamp::now();
        let checked = claims::check(claims, &self.audiences, now)?;
        // An issuer has no fragment, so that no other pair is written in the same way.
        let identity: Arc<str> = format!("{}#{}", keys.issuer(), checked.subject).into();
        let user = mapping.user(claims).map_err(|error| TokenError::Mapping {
            identity: Arc::clone(&identity),
            error,
        })?;
        Ok(AccessToken {
            identity,
            issuer: Arc::clone(keys.issuer().shared()),
            subject: checked.subject,
            user: Arc::new(user),
            scopes: Arc::new(Scopes::of_claims(claims)),
            expires: checked
                .expires
                .unwrap_or_else(|| now.saturating_add(LIFETIME_MAX).unwrap_or(now)),
            ask_again: None,
        })
    }
}

fn sha256(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests;
