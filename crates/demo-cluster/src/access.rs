//! Authorization: grants as RBAC roles give them, and denials on top of them for tests.

use std::collections::BTreeMap;

use kubecrier_k8s_api::{kinds, names::group_resource};
use serde_json::{Value, json};

use crate::{
    faults::RequestMatcher,
    request::{RequestInfo, RequestTarget, ResourcePath},
    status::{InvalidObject, StatusError},
};

/// Permission for verbs on resources, everywhere or in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The only namespace; `None` is the whole cluster.
    pub namespace: Option<String>,
    /// `get`, `list`, `watch`, ... or `*`.
    pub verbs: Vec<String>,
    /// API groups. The core group is empty; `*` is all of them.
    pub groups: Vec<String>,
    /// `pods`, `pods/log`, ... or `*`.
    pub resources: Vec<String>,
}

/// The permissions of all users. A user without grants may do everything.
#[derive(Debug, Default)]
pub(crate) struct Access {
    user: String,
    grants: BTreeMap<String, Vec<Grant>>,
    denials: Vec<RequestMatcher>,
}

/// What a request is authorized by.
#[derive(Clone, Copy, Debug)]
struct Attributes<'a> {
    user: &'a str,
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
}

// === impl Grant ===

impl Grant {
    /// All verbs on all resources.
    pub fn everything() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            namespace: None,
            verbs: all(),
            groups: all(),
            resources: all(),
        }
    }

    /// `get`, `list` and `watch` on these core resources.
    pub fn reading<'a>(resources: impl IntoIterator<Item = &'a str>) -> Self {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            namespace: None,
            verbs: own(&["get", "list", "watch"]),
            groups: vec![String::new()],
            resources: resources.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Limits the grant to a namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let named =
            |words: &[String], word: &str| words.iter().any(|one| one == "*" || one == word);
        self.namespace
            .as_deref()
            .is_none_or(|namespace| attributes.namespace == Some(namespace))
            && named(&self.verbs, attributes.verb)
            && named(&self.groups, attributes.group)
            && named(&self.resources, attributes.resource)
    }
}

// === impl Access ===

impl Access {
    pub(crate) fn new(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn set(&mut self, user: &str, grants: Vec<Grant>) {
        self.grants.insert(user.to_owned(), grants);
    }

    pub(crate) fn deny(&mut self, what: RequestMatcher) {
        self.denials.push(what);
    }

    pub(crate) fn reset(&mut self) {
        self.denials.clear();
        self.grants.clear();
    }

    /// Fails with 403 unless the request is permitted.
    pub(crate) fn check(&self, request: &RequestInfo) -> Result<(), StatusError> {
        let RequestTarget::Resource(at) = &request.target else {
            // Discovery and health need no permission.
            return Ok(());
        };
        let resource = at.full_resource();
        let attributes = Attributes {
            user: request.user.as_deref().unwrap_or(&self.user),
            verb: request.verb,
            group: &at.group,
            resource: &resource,
            namespace: at.namespace.as_deref(),
            name: at.name.as_deref(),
        };
        if self.permits(&attributes) {
            Ok(())
        } else {
            Err(self.forbidden(request, at))
        }
    }

    /// The 403 for a request, in the words of the RBAC authorizer.
    pub(crate) fn forbidden(&self, request: &RequestInfo, at: &ResourcePath) -> StatusError {
        let user = request.user.as_deref().unwrap_or(&self.user);
        let mut subject = at.group_resource();
        let mut details = json!({"kind": at.resource});
        if !at.group.is_empty() {
            details["group"] = at.group.as_str().into();
        }
        if let Some(name) = &at.name {
            subject = format!("{subject} \"{name}\"");
            details["name"] = name.as_str().into();
        }
        let scope = match &at.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{subject} is forbidden: User \"{user}\" cannot {} resource \"{}\" in API group \"{}\" \
             {scope}",
            request.verb,
            at.full_resource(),
            at.group,
        );
        StatusError::forbidden(message, details)
    }

    /// Answers a `SelfSubjectAccessReview`.
    pub(crate) fn review(&self, user: Option<&str>, review: &Value) -> Result<Value, StatusError> {
        let spec = &review["spec"];
        let text = |field: &str| {
            spec["resourceAttributes"][field]
                .as_str()
                .unwrap_or_default()
        };
        let allowed = match (
            spec.get("resourceAttributes"),
            spec.get("nonResourceAttributes"),
        ) {
            (Some(_), None) => {
                let mut resource = text("resource").to_owned();
                if !text("subresource").is_empty() {
                    resource = format!("{resource}/{}", text("subresource"));
                }
                let some = |field| Some(text(field)).filter(|text| !text.is_empty());
                self.permits(&Attributes {
                    user: user.unwrap_or(&self.user),
                    verb: text("verb"),
                    group: text("group"),
                    resource: &resource,
                    namespace: some("namespace"),
                    name: some("name"),
                })
            }
            (None, Some(_)) => true,
            _ => {
                let subject = InvalidObject {
                    group: "authorization.k8s.io",
                    kind: "",
                    name: "",
                };
                return Err(StatusError::invalid(
                    &subject,
                    "FieldValueInvalid",
                    "spec.resourceAttributes",
                    "Invalid value: null: exactly one of nonResourceAttributes or \
                     resourceAttributes must be specified",
                ));
            }
        };
        Ok(json!({
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": spec,
            "status": {"allowed": allowed},
        }))
    }

    /// Answers a `SelfSubjectRulesReview`.
    pub(crate) fn rules(&self, user: Option<&str>, review: &Value) -> Result<Value, StatusError> {
        let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(StatusError::bad_request("no namespace on request"));
        }
        let rule = |verbs: &[String], groups: &[String], resources: &[String]| json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
        let everything = [Grant::everything()];
        let grants = self
            .granted(user.unwrap_or(&self.user))
            .unwrap_or(&everything);
        let mut rules: Vec<_> = grants
            .iter()
            .filter(|grant| {
                grant
                    .namespace
                    .as_deref()
                    .is_none_or(|own| own == namespace)
            })
            .map(|grant| rule(&grant.verbs, &grant.groups, &grant.resources))
            .collect();
        let create = ["create".to_owned()];
        for (group, resources) in SELF_REVIEWS {
            let resources: Vec<_> = resources.iter().map(|name| (*name).to_owned()).collect();
            rules.push(rule(&create, &[group.to_owned()], &resources));
        }
        Ok(json!({
            "kind": "SelfSubjectRulesReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {},
            "status": {
                "resourceRules": rules,
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": NON_RESOURCE_URLS}],
                // Rules cannot express a denial.
                "incomplete": !self.denials.is_empty(),
            },
        }))
    }

    fn granted(&self, user: &str) -> Option<&[Grant]> {
        self.grants.get(user).map(Vec::as_slice)
    }

    fn permits(&self, attributes: &Attributes<'_>) -> bool {
        let is_self_review = SELF_REVIEWS.iter().any(|(group, resources)| {
            attributes.verb == "create"
                && attributes.group == *group
                && resources.contains(&attributes.resource)
        });
        let granted = self
            .granted(attributes.user)
            .is_none_or(|grants| grants.iter().any(|grant| grant.allows(attributes)));
        let denied = self.denials.iter().any(|denial| {
            denial.matches(
                attributes.verb,
                &group_resource(attributes.group, attributes.resource),
                attributes.namespace,
                attributes.name,
            )
        });
        (granted || is_self_review) && !denied
    }
}

/// The reviews that every user may create, by group.
const SELF_REVIEWS: [(&str, &[&str]); 2] = [
    (
        kinds::SELF_SUBJECT_ACCESS_REVIEW.group,
        &[
            kinds::SELF_SUBJECT_ACCESS_REVIEW.plural,
            kinds::SELF_SUBJECT_RULES_REVIEW.plural,
        ],
    ),
    (
        kinds::SELF_SUBJECT_REVIEW.group,
        &[kinds::SELF_SUBJECT_REVIEW.plural],
    ),
];

const NON_RESOURCE_URLS: [&str; 11] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(access: &Access, user: &str, verb: &str, resource: &str, namespace: &str) -> bool {
        let question = json!({"spec": {"resourceAttributes": {
            "verb": verb, "resource": resource, "namespace": namespace,
        }}});
        access.review(Some(user), &question).unwrap()["status"]["allowed"] == true
    }

    #[test]
    fn a_user_without_grants_may_do_everything() {
        assert!(allowed(
            &Access::new("demo"),
            "demo",
            "delete",
            "pods",
            "shop"
        ));
    }

    #[test]
    fn a_user_with_grants_may_do_what_is_granted() {
        let mut access = Access::new("demo");
        access.set("team", vec![Grant::reading(["pods"]).within("shop")]);
        assert!(allowed(&access, "team", "list", "pods", "shop"));
        assert!(!allowed(&access, "team", "list", "pods", "other"));
        assert!(!allowed(&access, "team", "list", "pods", ""));
        assert!(!allowed(&access, "team", "delete", "pods", "shop"));
        assert!(!allowed(&access, "team", "list", "secrets", "shop"));
        assert!(allowed(&access, "demo", "list", "secrets", "shop"));
    }

    #[test]
    fn a_denial_takes_from_what_was_granted() {
        let mut access = Access::new("demo");
        access.deny(
            RequestMatcher::any()
                .verb("watch")
                .resource("events")
                .namespace("shop"),
        );
        assert!(!allowed(&access, "demo", "watch", "events", "shop"));
        assert!(allowed(&access, "demo", "list", "events", "shop"));
        assert!(allowed(&access, "demo", "watch", "events", "other"));
        access.reset();
        assert!(allowed(&access, "demo", "watch", "events", "shop"));
    }
}
