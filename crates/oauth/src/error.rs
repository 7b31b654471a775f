//! Why a token is not accepted.

use crate::{Algorithm, FetchError, mapping::MappingError};
use std::sync::Arc;

/// Why a token is not accepted. Never shows a token.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is longer than a token can be.
    #[error("the token has more than {max} bytes")]
    TooLarge {
        /// The limit.
        max: usize,
    },
    /// It cannot be read.
    #[error("the token is not a signed JWT: {0}")]
    Malformed(&'static str),
    /// It is no JWT, and there is no way to ask about it.
    #[error("the token is opaque, and this server cannot introspect tokens")]
    Opaque,
    /// Its algorithm is not accepted.
    #[error("the token is signed with `{given}`; accepted are {accepted}")]
    Algorithm {
        /// What the token names.
        given: String,
        /// What may be used.
        accepted: String,
    },
    /// It has header parameters that must be understood, and are not.
    #[error("the token has critical header parameters (`crit`), which are not supported")]
    Critical,
    /// It names no issuer that is trusted.
    #[error("the token was issued by {given}, which this server does not trust")]
    Issuer {
        /// What the token names.
        given: String,
    },
    /// Its key is not among those of its issuer.
    #[error("the token was signed with a key that {issuer} does not publish: {why}")]
    Key {
        /// The issuer.
        issuer: String,
        /// Which key, or why none fits.
        why: String,
    },
    /// The signature is wrong.
    #[error("the signature of the token is wrong")]
    Signature,
    /// It is too late for it.
    #[error("the token has expired")]
    Expired,
    /// It is too early for it.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// A claim is not there or has the wrong type.
    #[error("the token has no valid claim `{0}`")]
    Claim(&'static str),
    /// It is for another server.
    #[error("the token is for the audience {given}, not for this server ({accepted})")]
    Audience {
        /// What the token names.
        given: String,
        /// The audiences of this server.
        accepted: String,
    },
    /// Its issuer says that it is not valid, or not any more.
    #[error("the token is not active, says its issuer")]
    Inactive,
    /// The issuer could not be asked.
    #[error("the token cannot be verified now: {0}")]
    Unavailable(Arc<FetchError>),
    /// It is valid, and its claims are no user of Kubernetes.
    #[error("the token is valid, but its claims are no user: {0}")]
    Mapping(#[from] MappingError),
}

/// What an answer to a token that is not accepted has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenErrorKind {
    /// Another token is needed: 401.
    Invalid,
    /// The caller is known, and cannot be served: 403.
    Forbidden,
    /// The same token may be accepted later: 503.
    Unavailable,
}

/// Why requests are refused, for metrics: a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The token cannot be read.
    Malformed,
    /// The algorithm is not accepted.
    Algorithm,
    /// The issuer is not trusted.
    Issuer,
    /// The key is not known.
    Key,
    /// The signature is wrong.
    Signature,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is for another server.
    Audience,
    /// A claim is missing.
    Claim,
    /// It is not active.
    Inactive,
    /// The issuer does not answer.
    Unavailable,
    /// Claims that are no user.
    Mapping,
}

// === impl TokenError ===

impl TokenError {
    pub(crate) fn algorithm(given: &str, accepted: &[Algorithm]) -> Self {
        let accepted: Vec<_> = accepted.iter().map(|one| one.as_str()).collect();
        Self::Algorithm {
            given: shown(given),
            accepted: accepted.join(", "),
        }
    }

    /// What the answer has to say.
    pub fn kind(&self) -> TokenErrorKind {
        match self {
            Self::Unavailable(_) => TokenErrorKind::Unavailable,
            Self::Mapping(_) => TokenErrorKind::Forbidden,
            Self::TooLarge { .. }
            | Self::Malformed(_)
            | Self::Opaque
            | Self::Algorithm { .. }
            | Self::Critical
            | Self::Issuer { .. }
            | Self::Key { .. }
            | Self::Signature
            | Self::Expired
            | Self::NotYetValid
            | Self::Claim(_)
            | Self::Audience { .. }
            | Self::Inactive => TokenErrorKind::Invalid,
        }
    }

    /// The reason without its details.
    pub fn reason(&self) -> RefusalReason {
        match self {
            Self::TooLarge { .. } | Self::Malformed(_) | Self::Opaque | Self::Critical => {
                RefusalReason::Malformed
            }
            Self::Algorithm { .. } => RefusalReason::Algorithm,
            Self::Issuer { .. } => RefusalReason::Issuer,
            Self::Key { .. } => RefusalReason::Key,
            Self::Signature => RefusalReason::Signature,
            Self::Expired => RefusalReason::Expired,
            Self::NotYetValid => RefusalReason::NotYetValid,
            Self::Claim(_) => RefusalReason::Claim,
            Self::Audience { .. } => RefusalReason::Audience,
            Self::Inactive => RefusalReason::Inactive,
            Self::Unavailable(_) => RefusalReason::Unavailable,
            Self::Mapping(_) => RefusalReason::Mapping,
        }
    }
}

// === impl RefusalReason ===

impl RefusalReason {
    /// The label of metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::Issuer => "issuer",
            Self::Key => "key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Audience => "audience",
            Self::Claim => "claim",
            Self::Inactive => "inactive",
            Self::Unavailable => "unavailable",
            Self::Mapping => "mapping",
        }
    }
}

/// Text of a token that nobody has vouched for, as an error shows it: short, in one line.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    let plain = text.chars().filter(|c| !c.is_control());
    let mut short: String = plain.take(CHARS_MAX).collect();
    if text.chars().count() > CHARS_MAX {
        short.push('…');
    }
    short
}
