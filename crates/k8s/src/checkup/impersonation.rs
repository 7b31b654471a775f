//! Whether the server may act as its callers: the permissions of `--cluster-identity
//! impersonate`.
//!
//! Kubernetes 1.36 has constrained impersonation: `impersonate:user-info` says as whom, and
//! `impersonate-on:user-info:VERB` says for which requests. Plain `impersonate` says only as
//! whom, and is then good for every request that the user may make, writes too.

use futures_util::future::try_join_all;
use serde::Serialize;

use super::Permission;
use crate::{client::Cluster, error::ClusterError, name::Name};

/// The first minor version of Kubernetes 1 with constrained impersonation.
const CONSTRAINED_SINCE: u32 = 36;

const PURPOSE: &str = "--cluster-identity impersonate";

const ALL: &str = "*";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// As whom, under the constrained verbs.
const CONSTRAINED_USERS: [Permission; 2] = [
    right("impersonate:user-info", AUTHENTICATION, "users"),
    right("impersonate:user-info", AUTHENTICATION, "groups"),
];

/// For which requests, under the constrained verbs.
const CONSTRAINED_READS: [Permission; 3] = [
    right("impersonate-on:user-info:get", ALL, ALL),
    right("impersonate-on:user-info:list", ALL, ALL),
    right("impersonate-on:user-info:watch", ALL, ALL),
];

/// The requests without which no tool answers, where not all resources are granted.
const CONSTRAINED_FEW: [Permission; 4] = [
    right("impersonate-on:user-info:get", "", "pods"),
    right("impersonate-on:user-info:list", "", "pods"),
    right("impersonate-on:user-info:get", "", "pods/log"),
    right("impersonate-on:user-info:list", "", "events"),
];

/// As whom, for every request.
const PLAIN: [Permission; 2] = [
    right("impersonate", "", "users"),
    right("impersonate", "", "groups"),
];

const REVIEW: Permission = right("create", "authorization.k8s.io", "subjectaccessreviews");

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

// === impl Cluster ===

impl Cluster {
    /// Reviews whether the credentials may act as users, in a cluster of this version. What is
    /// not granted in all namespaces is reviewed in these.
    pub async fn review_impersonation(
        &self,
        version: &str,
        namespaces: &[Name],
    ) -> Result<ImpersonationReview, ClusterError> {
        let has_constrained = has_constrained(version);
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
            () if !has_constrained || !may(&CONSTRAINED_USERS).await? => ConstrainedScope::None,
            () if may(&CONSTRAINED_READS).await? => ConstrainedScope::All,
            () if may(&CONSTRAINED_FEW).await? => ConstrainedScope::Some,
            () if may_in_each(&CONSTRAINED_READS).await? => ConstrainedScope::Namespaces,
            () => ConstrainedScope::None,
        };
        Ok(ImpersonationReview {
            has_constrained,
            constrained,
            is_plain: may(&PLAIN).await?,
            reviews: may(&[REVIEW]).await?,
        })
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
