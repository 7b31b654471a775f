//! Metrics of requests that were refused before they were answered.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRefusal {
    /// Nothing is presented.
    NoCredentials,
    /// The token is none of the file, or was revoked.
    UnknownToken,
    /// The header of a proxy is not acceptable.
    ProxyHeader,
    /// Another user of this machine, without a token.
    OtherUser,
    /// The token cannot be read.
    Malformed,
    /// The algorithm of the signature is not accepted.
    Algorithm,
    /// The issuer is not trusted.
    Issuer,
    /// The issuer does not publish the key.
    Key,
    /// The signature is wrong.
    Signature,
    /// The token has expired.
    Expired,
    /// The token is not valid yet.
    NotYetValid,
    /// The token is for another server.
    Audience,
    /// A claim is missing.
    Claim,
    /// The issuer says that the token is not active.
    Inactive,
    /// The issuer or the cluster cannot be asked.
    Unavailable,
    /// The claims are no user.
    Mapping,
    /// The cluster does not accept the token.
    NotReviewed,
    /// The token does not permit what is asked for.
    Scope,
    /// The caller is nobody in clusters, where callers act there as themselves.
    NoUser,
}

/// Metrics of refused requests. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RefusalMetrics {
    refused: Family<RefusalLabel, Counter>,
    audit_dropped: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabel {
    reason: &'static str,
}

// === impl RequestRefusal ===

impl RequestRefusal {
    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCredentials => "no_credentials",
            Self::UnknownToken => "unknown_token",
            Self::ProxyHeader => "proxy_header",
            Self::OtherUser => "other_user",
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
            Self::NotReviewed => "not_reviewed",
            Self::Scope => "scope",
            Self::NoUser => "no_user",
        }
    }
}

// === impl RefusalMetrics ===

impl RefusalMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "requests_refused",
            "Number of HTTP requests that were refused for want of a caller or a scope, by reason",
            all.refused.clone(),
        );
        registry.register(
            "audit_records_dropped",
            "Number of records of the audit log that were not written",
            all.audit_dropped.clone(),
        );
        all
    }

    /// Counts records of the audit log that were not written.
    pub fn audit_dropped(&self, count: u64) {
        self.audit_dropped.inc_by(count);
    }

    /// Counts a request.
    pub fn refused(&self, reason: RequestRefusal) {
        let reason = reason.as_str();
        self.refused.get_or_create(&RefusalLabel { reason }).inc();
    }
}
