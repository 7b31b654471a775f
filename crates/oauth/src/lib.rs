//! Access tokens of OAuth 2.1: a token in, the caller that it proves out.
//!
//! ```text
//!  token ─▶ Authenticator ─▶ cache, by SHA-256 ───────────────────────────▶ AccessToken
//!              ├─ a JWT: jws ─▶ keys of its issuer ─▶ claims ─▶ mapping ──▶
//!              └─ opaque: introspection ────────────▶ claims ─▶ mapping ──▶
//! ```
//!
//! - `authenticator` decides which way a token goes, and remembers what it has verified;
//! - `jws` reads the header of a JWT and verifies its signature, over `ring`;
//! - `keys` fetches and keeps the keys of an issuer, `key_set` is one such set, `discovery`
//!   finds where it is;
//! - `claims` checks times, issuer and audience; `mapping` turns claims into a user of
//!   Kubernetes; `scopes` are what a token permits;
//! - `introspection` asks the issuer about opaque tokens;
//! - `fetch` is the HTTP client; `url` says which addresses may be asked;
//! - `error` says why a token is not accepted.
//!
//! No error shows a token. Nothing here needs the issuer before the first token comes.

mod algorithm;
mod authenticator;
mod check;
mod claims;
mod discovery;
mod error;
mod fetch;
mod introspection;
mod jws;
mod key_set;
mod keys;
mod mapping;
mod scopes;
#[cfg(test)]
mod testing;
mod url;

pub use self::{
    algorithm::{Algorithm, UnknownAlgorithm},
    authenticator::{AccessToken, Authenticator, OAuthConfig, TrustedIssuer},
    check::{IssuerCheck, check_issuer},
    error::{TokenError, TokenErrorKind},
    fetch::FetchError,
    introspection::IntrospectionConfig,
    jws::claimed_expiry,
    mapping::{ClaimMapping, ClaimPath, MappingError},
    scopes::Scopes,
    url::{IssuerUrl, UrlError},
};

/// How far clocks may be apart, in seconds.
pub const LEEWAY_SECONDS: i64 = 30;
