//! Checks whether service accounts can be callers (`--service-account-audience`), and prints the
//! RBAC for it.

use kubecrier_k8s::ImpersonationReview;

use super::{
    impersonation::{self, acting},
    report::{Finding, Section},
};

/// The rules for asking whose a token is.
pub(crate) const TOKEN_REVIEW_RULES: &str = "\
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
";

/// The rules for reading as service accounts, with constrained impersonation.
pub(crate) const CONSTRAINED_RULES: &str = "\
- apiGroups: [authentication.k8s.io]
  resources: [serviceaccounts]
  verbs: [\"impersonate:serviceaccount\"]
- apiGroups: [\"*\"]
  resources: [\"*\"]
  verbs: [\"impersonate-on:serviceaccount:get\", \"impersonate-on:serviceaccount:list\", \"impersonate-on:serviceaccount:watch\"]
";

/// The rules for acting as service accounts on older clusters.
pub(crate) const PLAIN_RULES: &str = "\
- apiGroups: [\"\"]
  resources: [serviceaccounts]
  verbs: [impersonate]
";

/// What was reviewed for callers that are service accounts.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccountReview {
    /// Whether the server may ask whose a token is.
    pub(super) reviews_tokens: bool,
    /// Whether it may act as them; `None` if callers act as the server.
    pub(super) acting: Option<ImpersonationReview>,
}

/// The findings on a context in which service accounts are to be callers.
pub(super) fn describe(context: &str, user: &str, review: AccountReview) -> Section {
    let mut rules = String::new();
    let mut findings = vec![if review.reviews_tokens {
        Finding::ok("may ask whose a token is (tokenreviews)")
    } else {
        rules.push_str(TOKEN_REVIEW_RULES);
        Finding::fail(
            "may not ask whose a token is (create tokenreviews), so no service account is known",
        )
    }];
    if let Some(review) = review.acting {
        findings.push(acting("service accounts", review));
        if !impersonation::is_complete(review) {
            rules.push_str(if review.has_constrained {
                CONSTRAINED_RULES
            } else {
                PLAIN_RULES
            });
        }
    }
    let about = format!("context {context}, service accounts as callers");
    let mut section = Section::new(about, findings);
    if !rules.is_empty() {
        let name = "kubecrier-serves-service-accounts";
        section.manifest = Some(impersonation::manifest(name, &rules, user));
    }
    section
}

#[cfg(test)]
mod tests {
    use kubecrier_k8s::ConstrainedScope;

    use super::*;

    fn review(constrained: ConstrainedScope, has_constrained: bool) -> ImpersonationReview {
        ImpersonationReview {
            has_constrained,
            constrained,
            is_plain: false,
            reviews: true,
        }
    }

    fn check(review: AccountReview, findings: &[&str], manifest: &[&str]) {
        let section = describe("dev", "crier", review);
        let texts = section.findings.iter();
        let texts: Vec<_> = texts
            .map(|one| format!("{:?}: {}", one.verdict, one.text))
            .collect();
        assert_eq!(texts.len(), findings.len(), "{texts:?}");
        for (text, part) in texts.iter().zip(findings) {
            assert!(text.starts_with(part), "{part} in {text}");
        }
        let text = section.manifest.unwrap_or_default();
        let rules = text.matches("- apiGroups").count();
        assert_eq!(rules, manifest.len(), "{text}");
        for part in manifest {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_is_missing_is_printed_and_nothing_else() {
        let may = Some(review(ConstrainedScope::All, true));
        let may_not = Some(review(ConstrainedScope::None, true));
        let old = Some(review(ConstrainedScope::None, false));
        let of = |reviews_tokens, acting| AccountReview {
            reviews_tokens,
            acting,
        };
        check(of(true, None), &["Ok: may ask whose"], &[]);
        check(
            of(false, None),
            &["Fail: may not ask whose"],
            &["tokenreviews"],
        );
        check(
            of(true, may),
            &["Ok: may ask", "Ok: may act as service accounts"],
            &[],
        );
        check(
            of(true, may_not),
            &["Ok: may ask", "Fail: may not act as service accounts"],
            &[
                "impersonate:serviceaccount",
                "impersonate-on:serviceaccount:watch",
            ],
        );
        check(
            of(false, old),
            &["Fail: may not ask", "Fail: may not act"],
            &["tokenreviews", "[impersonate]"],
        );
    }
}
