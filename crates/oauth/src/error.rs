//! Why a token is not accepted.

use std::sync::Arc;

use kubecrier_core::metrics::RequestRefusal;

use crate::{Algorithm, FetchError, mapping::MappingError};

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
    /// Its key is not among those of its issuer, which is not asked again just now.
    #[error(
        "the token was signed with a key that {issuer} has not published so far: {why}; its keys \
         are asked for again within half a minute"
    )]
    KeyNotSeen {
        /// The issuer.
        issuer: String,
        /// Which key, or why none fits.
        why: String,
    },
    /// It is for something else, such as a log-out.
    #[error("the token is of the type `{given}`, which is no access token")]
    Type {
        /// What the token names.
        given: String,
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
    /// Too many are asked about.
    #[error("too many unknown tokens are presented at once; try again")]
    Busy,
    /// It is valid, and its claims are no user of Kubernetes.
    #[error("the token is valid, but its claims are no user: {error}")]
    Mapping {
        /// Issuer and subject: who it is that is no user.
        identity: Arc<str>,
        /// Why not.
        error: MappingError,
    },
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

// === impl TokenError ===

impl TokenError {
    pub(crate) fn algorithm(given: &str, accepted: &[Algorithm]) -> Self {
        let accepted: Vec<_> = accepted.iter().map(|one| one.as_str()).collect();
        Self::Algorithm {
            given: shown(given),
            accepted: accepted.join(", "),
        }
    }

    /// Whose the token is, if it was verified: issuer and subject.
    pub fn identity(&self) -> Option<&str> {
        if let Self::Mapping { identity, .. } = self {
            Some(identity)
        } else {
            None
        }
    }

    /// What the answer has to say.
    pub fn kind(&self) -> TokenErrorKind {
        match self {
            Self::Unavailable(_) | Self::KeyNotSeen { .. } | Self::Busy => {
                TokenErrorKind::Unavailable
            }
            Self::Mapping { .. } => TokenErrorKind::Forbidden,
            Self::TooLarge { .. }
            | Self::Malformed(_)
            | Self::Opaque
            | Self::Algorithm { .. }
            | Self::Critical
            | Self::Issuer { .. }
            | Self::Key { .. }
            | Self::Type { .. }
            | Self::Signature
            | Self::Expired
            | Self::NotYetValid
            | Self::Claim(_)
            | Self::Audience { .. }
            | Self::Inactive => TokenErrorKind::Invalid,
        }
    }

    /// The reason without its details, as metrics and the audit log name it.
    pub fn reason(&self) -> RequestRefusal {
        match self {
            Self::TooLarge { .. }
            | Self::Malformed(_)
            | Self::Type { .. }
            | Self::Opaque
            | Self::Critical => RequestRefusal::Malformed,
            Self::Algorithm { .. } => RequestRefusal::Algorithm,
            Self::Issuer { .. } => RequestRefusal::Issuer,
            Self::Key { .. } => RequestRefusal::Key,
            Self::Signature => RequestRefusal::Signature,
            Self::Expired => RequestRefusal::Expired,
            Self::NotYetValid => RequestRefusal::NotYetValid,
            Self::Claim(_) => RequestRefusal::Claim,
            Self::Audience { .. } => RequestRefusal::Audience,
            Self::Inactive => RequestRefusal::Inactive,
            Self::Unavailable(_) | Self::KeyNotSeen { .. } | Self::Busy => {
                RequestRefusal::Unavailable
            }
            Self::Mapping { .. } => RequestRefusal::Mapping,
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
