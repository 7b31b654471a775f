//! Whether the server may act as its callers: the permissions of `--cluster-identity
//! impersonate`.
//!
//! Kubernetes 1.36 has constrained impersonation: `impersonate:user-info` says as whom, and
//! `impersonate-on:user-info:VERB` says for which requests. A service account has the word
//! `serviceaccount` in place of `user-info`. Plain `impersonate` says only as whom, and is then
//! good for every request that the user may make, writes too.

use futures_util::future::try_join_all;
use serde::Serialize;

use super::Permission;
use crate::{client::Cluster, error::ClusterError, name::Name};

/// The first minor version of Kubernetes 1 with constrained impersonation.
const CONSTRAINED_SINCE: u32 = 36;

const PURPOSE: &str = "--cluster-identity impersonate";

const ALL: &str = "*";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Which callers a server acts as. Kubernetes has verbs of their own for either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impersonated {
    /// Users and their groups.
    Users,
    /// Service accounts (`--service-account-audience`).
    ServiceAccounts,
}

/// The permissions to act as callers of one sort.
#[derive(Clone, Copy, Debug)]
struct ActingPermissions {
    /// As whom, under the constrained verbs.
    constrained_as: &'static [Permission],
    /// For which requests, under the constrained verbs.
    constrained_reads: &'static [Permission],
    /// The requests without which no tool answers, where not all resources are granted.
    constrained_few: &'static [Permission],
    /// As whom, for every request.
    plain: &'static [Permission],
}

const USERS: ActingPermissions = ActingPermissions {
    constrained_as: &[
        right("impersonate:user-info", AUTHENTICATION, "users"),
        right("impersonate:user-info", AUTHENTICATION, "groups"),
    ],
    constrained_reads: &[
        right("impersonate-on:user-info:get", ALL, ALL),
        right("impersonate-on:user-info:list", ALL, ALL),
        right("impersonate-on:user-info:watch", ALL, ALL),
    ],
    constrained_few: &[
        right("impersonate-on:user-info:get", "", "pods"),
        right("impersonate-on:user-info:list", "", "pods"),
        right("impersonate-on:user-info:get", "", "pods/log"),
        right("impersonate-on:user-info:list", "", "events"),
    ],
    plain: &[
        right("impersonate", "", "users"),
        right("impersonate", "", "groups"),
    ],
};

const SERVICE_ACCOUNTS: ActingPermissions = ActingPermissions {
    constrained_as: &[right(
        "impersonate:serviceaccount",
        AUTHENTICATION,
        "serviceaccounts",
    )],
    constrained_reads: &[
        right("impersonate-on:serviceaccount:get", ALL, ALL),
        right("impersonate-on:serviceaccount:list", ALL, ALL),
        right("impersonate-on:serviceaccount:watch", ALL, ALL),
    ],
    constrained_few: &[
        right("impersonate-on:serviceaccount:get", "", "pods"),
        right("impersonate-on:serviceaccount:list", "", "pods"),
        right("impersonate-on:serviceaccount:get", "", "pods/log"),
        right("impersonate-on:serviceaccount:list", "", "events"),
    ],
    plain: &[right("impersonate", "", "serviceaccounts")],
};

const REVIEW: Permission = right("create", "authorization.k8s.io", "subjectaccessreviews");

const TOKEN_REVIEW: Permission = right("create", AUTHENTICATION, "tokenreviews");

/// How a server may act as its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ImpersonationReview {
    /// Whether the version of the cluster has constrained impersonation.
    pub has_constrained: bool,
    /// What the constrained verbs allow.
    pub constrained: ConstrainedScope,
    /// Whether plain impersonation is allowed, which is good for writes too.
    pub is_plain: bool,
    /// Whether the server may ask what a caller may read.
    pub reviews: bool,
}

/// What the verbs of constrained impersonation allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ConstrainedScope {
    /// Reads of all kinds.
    All,
    /// Reads of all kinds in the namespaces that were named.
    Namespaces,
    /// Reads of some kinds, pods, logs and events among them.
    Some,
    /// Nothing that is enough.
    None,
}

const fn right(verb: &'static str, group: &'static str, resource: &'static str) -> Permission {
    Permission {
        verb,
        group,
        resource,
        namespaced: false,
        required: true,
        purpose: PURPOSE,
    }
}

// === impl ImpersonationReview ===

impl ImpersonationReview {
    /// Whether callers can act as themselves at all.
    pub fn is_possible(&self) -> bool {
        self.is_plain || self.constrained != ConstrainedScope::None
    }
}

// === impl Impersonated ===

impl Impersonated {
    fn permissions(self) -> ActingPermissions {
        match self {
            Self::Users => USERS,
            Self::ServiceAccounts => SERVICE_ACCOUNTS,
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// Reviews whether the credentials may act as callers of one sort, in a cluster of this
    /// version. What is not granted in all namespaces is reviewed in these.
    pub async fn review_impersonation(
        &self,
        whom: Impersonated,
        version: &str,
        namespaces: &[Name],
    ) -> Result<ImpersonationReview, ClusterError> {
        let has_constrained = has_constrained(version);
        let ActingPermissions {
            constrained_as,
            constrained_reads,
            constrained_few,
            plain,
        } = whom.permissions();
        let may_in = async |all: &[Permission], name: Option<&Name>| {
            let reviews = all.iter().map(|right| self.is_allowed(*right, name));
            let allowed = try_join_all(reviews).await?;
            Ok::<bool, ClusterError>(allowed.into_iter().all(|is_allowed| is_allowed))
        };
        let may = async |all: &[Permission]| may_in(all, None).await;
        let may_in_each = async |all: &[Permission]| {
            let names = namespaces.iter().map(|name| may_in(all, Some(name)));
            let allowed = try_join_all(names).await?;
            Ok::<bool, ClusterError>(!allowed.is_empty() && allowed.into_iter().all(|is| is))
        };
        let constrained = match () {
            () if !has_constrained || !may(constrained_as).await? => ConstrainedScope::None,
            () if may(constrained_reads).await? => ConstrainedScope::All,
            () if may(constrained_few).await? => ConstrainedScope::Some,
            () if may_in_each(constrained_reads).await? => ConstrainedScope::Namespaces,
            () => ConstrainedScope::None,
        };
        Ok(ImpersonationReview {
            has_constrained,
            constrained,
            is_plain: may(plain).await?,
            reviews: may(&[REVIEW]).await?,
        })
    }

    /// Reviews whether the credentials may ask whose a token is.
    pub async fn may_review_tokens(&self) -> Result<bool, ClusterError> {
        self.is_allowed(TOKEN_REVIEW, None).await
    }
}

/// Whether a version such as `v1.36.3` or `v1.36+` has constrained impersonation, on by default.
fn has_constrained(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut numbers = version.split('.').map(|part| {
        let digits = part.find(|one: char| !one.is_ascii_digit());
        part[..digits.unwrap_or(part.len())].parse::<u32>().ok()
    });
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(1), Some(minor)) => minor >= CONSTRAINED_SINCE,
        (Some(major), _) => major > 1,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constrained_impersonation_comes_with_1_36() {
        for (version, expected) in [
            ("v1.36.3", true),
            ("v1.37.0-alpha.1", true),
            ("v1.36+", true),
            ("v2.0.0", true),
            ("v1.35.9", false),
            ("v1.9.0", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(has_constrained(version), expected, "{version}");
        }
    }
}
