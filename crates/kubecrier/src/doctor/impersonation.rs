//! Checks whether a server may act in a cluster as its callers, and prints the RBAC for it.

use kubecrier_k8s::{ConstrainedScope, ImpersonationReview};

use super::{
    manifest::subject,
    report::{Finding, Section},
};

/// The rules for clusters with constrained impersonation: reads, as anyone but nodes, service
/// accounts and `system:masters`.
pub(crate) const CONSTRAINED_RULES: &str = "\
- apiGroups: [authentication.k8s.io]
  resources: [users, groups]
  verbs: [\"impersonate:user-info\"]
- apiGroups: [\"*\"]
  resources: [\"*\"]
  verbs: [\"impersonate-on:user-info:get\", \"impersonate-on:user-info:list\", \"impersonate-on:user-info:watch\"]
";

/// The rules for older clusters: everything, as anyone.
pub(crate) const PLAIN_RULES: &str = "\
- apiGroups: [\"\"]
  resources: [users, groups]
  verbs: [impersonate]
";

/// The rules for asking what a caller may read.
pub(crate) const REVIEW_RULES: &str = "\
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
";

/// The role that is printed.
const NAME: &str = "kubecrier-acts-as-callers";

/// What plain impersonation means.
const PLAIN_MEANS: &str = "by plain impersonation: with the credentials of this server one can act as any \
     user, also to write, even though this server only reads";

/// The findings on a context in which callers are to act as themselves.
pub(super) fn describe(context: &str, user: &str, review: ImpersonationReview) -> Section {
    let mut findings = vec![acting("callers", review)];
    findings.push(if review.reviews {
        Finding::ok("may ask what a caller may read (subjectaccessreviews)")
    } else {
        Finding::fail("may not ask what a caller may read (create subjectaccessreviews)")
    });
    let mut section = Section::new(format!("context {context}, acting as callers"), findings);
    if !is_complete(review) || !review.reviews {
        let rules = if review.has_constrained {
            CONSTRAINED_RULES
        } else {
            PLAIN_RULES
        };
        section.manifest = Some(manifest(NAME, &format!("{rules}{REVIEW_RULES}"), user));
    }
    section
}

/// The finding on whether the server may act as callers, or as some of them.
pub(super) fn acting(whom: &str, review: ImpersonationReview) -> Finding {
    let plain = || Finding::note(format!("may act as {whom} {PLAIN_MEANS}"));
    match (review.constrained, review.is_plain) {
        (ConstrainedScope::All, false) => Finding::ok(format!(
            "may act as {whom}, to read only (constrained impersonation)"
        )),
        (ConstrainedScope::Some, false) => Finding::note(format!(
            "may act as {whom} to read pods, logs and events, but not all kinds (constrained \
             impersonation)"
        ))
        .hint("they cannot read the other kinds, whatever their own rights are"),
        (ConstrainedScope::Namespaces, false) => Finding::ok(format!(
            "may act as {whom}, to read only, in the namespaces that were checked (constrained \
             impersonation)"
        )),
        (ConstrainedScope::None, false) => Finding::fail(format!(
            "may not act as {whom}, so no call of theirs is answered"
        )),
        (ConstrainedScope::None, true) if review.has_constrained => {
            plain().hint("this cluster has constrained impersonation: grant that instead")
        }
        (ConstrainedScope::None, true) => {
            plain().hint("from Kubernetes 1.36 on it can be limited to reads")
        }
        (ConstrainedScope::All | ConstrainedScope::Namespaces | ConstrainedScope::Some, true) => {
            plain().hint("constrained impersonation is granted as well: take `impersonate` away")
        }
    }
}

/// Whether nothing is to be granted besides.
pub(super) fn is_complete(review: ImpersonationReview) -> bool {
    match review.constrained {
        ConstrainedScope::All | ConstrainedScope::Namespaces => true,
        ConstrainedScope::Some => review.is_plain,
        ConstrainedScope::None => review.is_plain && !review.has_constrained,
    }
}

/// The manifest that grants these rules to a user, everywhere.
pub(super) fn manifest(name: &str, rules: &str, user: &str) -> String {
    const API: &str = "rbac.authorization.k8s.io";
    let subject = subject(user);
    format!(
        "apiVersion: {API}/v1\n\
         kind: ClusterRole\n\
         metadata: {{name: {name}}}\n\
         rules:\n\
         {rules}\
         ---\n\
         apiVersion: {API}/v1\n\
         kind: ClusterRoleBinding\n\
         metadata: {{name: {name}}}\n\
         roleRef: {{apiGroup: {API}, kind: ClusterRole, name: {name}}}\n\
         subjects:\n\
         - {subject}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(constrained: ConstrainedScope, is_plain: bool) -> ImpersonationReview {
        ImpersonationReview {
            has_constrained: true,
            constrained,
            is_plain,
            reviews: true,
        }
    }

    fn check(review: ImpersonationReview, part: &str, manifest: Option<&str>) {
        let section = describe("dev", "crier", review);
        let first = &section.findings[0];
        let text = format!("{:?}: {} {:?}", first.verdict, first.text, first.hint);
        assert!(text.contains(part), "{text}");
        match (manifest, &section.manifest) {
            (None, None) => {}
            (Some(part), Some(text)) => assert!(text.contains(part), "{text}"),
            (expected, found) => panic!("{expected:?}, not {found:?}"),
        }
    }

    #[test]
    fn the_manifest_fits_the_cluster() {
        let old = |is_plain| ImpersonationReview {
            has_constrained: false,
            ..review(ConstrainedScope::None, is_plain)
        };
        let (constrained, plain) = (Some("impersonate-on:user-info:list"), Some("[impersonate]"));
        check(review(ConstrainedScope::All, false), "Ok: may act", None);
        check(
            review(ConstrainedScope::Namespaces, false),
            "Ok: may act",
            None,
        );
        check(
            review(ConstrainedScope::Some, false),
            "not all kinds",
            constrained,
        );
        check(
            review(ConstrainedScope::None, false),
            "Fail: may not act",
            constrained,
        );
        check(
            review(ConstrainedScope::None, true),
            "grant that instead",
            constrained,
        );
        check(
            review(ConstrainedScope::All, true),
            "take `impersonate` away",
            None,
        );
        check(old(true), "from Kubernetes 1.36 on", None);
        check(old(false), "Fail: may not act", plain);
        let blind = ImpersonationReview {
            reviews: false,
            ..review(ConstrainedScope::All, false)
        };
        check(blind, "Ok: may act", Some("subjectaccessreviews"));
    }

    #[test]
    fn the_manifest_is_what_kubectl_takes() {
        let user = "system:serviceaccount:ops:crier";
        let printed = |review, user| describe("dev", user, review).manifest.unwrap();
        insta::assert_snapshot!(printed(review(ConstrainedScope::None, false), user));
        let old = ImpersonationReview {
            has_constrained: false,
            ..review(ConstrainedScope::None, false)
        };
        insta::assert_snapshot!(printed(old, "x509: \"a\""));
    }
}
