//! Who may do what: roles as RBAC has them, and denials on top for tests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    faults::Matching,
    request::{Asked, Coordinates, Target},
    resource,
    status::{Refusal, Subject},
};

/// Verbs on resources, everywhere or in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Only there; everywhere if none.
    pub namespace: Option<String>,
    /// `get`, `list`, `watch`, ... or `*`.
    pub verbs: Vec<String>,
    /// The empty text is the core group; `*` are all.
    pub groups: Vec<String>,
    /// `pods`, `pods/log`, ... or `*`.
    pub resources: Vec<String>,
}

/// What users may do. Who is not named may do everything.
#[derive(Debug, Default)]
pub(crate) struct Access {
    user: String,
    grants: BTreeMap<String, Vec<Grant>>,
    denials: Vec<Matching>,
}

/// One thing somebody wants to do.
#[derive(Clone, Copy, Debug)]
struct Attempt<'a> {
    user: &'a str,
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
}

// === impl Grant ===

impl Grant {
    /// Everything on everything.
    pub fn everything() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            namespace: None,
            verbs: all(),
            groups: all(),
            resources: all(),
        }
    }

    /// To get, list and watch these core resources.
    pub fn reading<'a>(resources: impl IntoIterator<Item = &'a str>) -> Self {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            namespace: None,
            verbs: own(&["get", "list", "watch"]),
            groups: vec![String::new()],
            resources: resources.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The same, of another group.
    #[must_use]
    pub fn of_group(mut self, group: &str) -> Self {
        self.groups = vec![group.to_owned()];
        self
    }

    /// The same, only in a namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn allows(&self, attempt: &Attempt<'_>) -> bool {
        let named =
            |words: &[String], word: &str| words.iter().any(|one| one == "*" || one == word);
        self.namespace
            .as_deref()
            .is_none_or(|here| attempt.namespace == Some(here))
            && named(&self.verbs, attempt.verb)
            && named(&self.groups, attempt.group)
            && named(&self.resources, attempt.resource)
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

    pub(crate) fn deny(&mut self, what: Matching) {
        self.denials.push(what);
    }

    pub(crate) fn allow_again(&mut self) {
        self.denials.clear();
        self.grants.clear();
    }

    /// Refuses what may not be done.
    pub(crate) fn check(&self, asked: &Asked) -> Result<(), Refusal> {
        let Target::Object(at) = &asked.target else {
            // Discovery and health are for everybody.
            return Ok(());
        };
        let resource = at.full_resource();
        let attempt = Attempt {
            user: asked.user.as_deref().unwrap_or(&self.user),
            verb: asked.verb,
            group: &at.group,
            resource: &resource,
            namespace: at.namespace.as_deref(),
            name: at.name.as_deref(),
        };
        if self.permits(&attempt) {
            Ok(())
        } else {
            Err(self.forbidden(asked, at))
        }
    }

    /// What is said to somebody who may not.
    pub(crate) fn forbidden(&self, asked: &Asked, at: &Coordinates) -> Refusal {
        let user = asked.user.as_deref().unwrap_or(&self.user);
        let mut subject = at.qualified();
        let mut details = json!({"kind": at.resource});
        if !at.group.is_empty() {
            details["group"] = at.group.as_str().into();
        }
        if let Some(name) = &at.name {
            subject = format!("{subject} \"{name}\"");
            details["name"] = name.as_str().into();
        }
        let place = match &at.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{subject} is forbidden: User \"{user}\" cannot {} resource \"{}\" in API group \"{}\" \
             {place}",
            asked.verb,
            at.full_resource(),
            at.group,
        );
        Refusal::forbidden(message, details)
    }

    /// Answers a `SelfSubjectAccessReview`.
    pub(crate) fn review(&self, user: Option<&str>, question: &Value) -> Result<Value, Refusal> {
        let spec = &question["spec"];
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
                self.permits(&Attempt {
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
                let subject = Subject {
                    group: "authorization.k8s.io",
                    kind: "",
                    name: "",
                };
                return Err(Refusal::invalid(
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
    pub(crate) fn rules(&self, user: Option<&str>, question: &Value) -> Result<Value, Refusal> {
        let namespace = question["spec"]["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(Refusal::bad_request("no namespace on request"));
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
                    .is_none_or(|here| here == namespace)
            })
            .map(|grant| rule(&grant.verbs, &grant.groups, &grant.resources))
            .collect();
        let create = ["create".to_owned()];
        for (group, resources) in ASKING {
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
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": PATHS}],
                // A denial cannot be said in rules.
                "incomplete": !self.denials.is_empty(),
            },
        }))
    }

    fn granted(&self, user: &str) -> Option<&[Grant]> {
        self.grants.get(user).map(Vec::as_slice)
    }

    fn permits(&self, attempt: &Attempt<'_>) -> bool {
        let asks_for_itself = ASKING.iter().any(|(group, resources)| {
            attempt.verb == "create"
                && attempt.group == *group
                && resources.contains(&attempt.resource)
        });
        let granted = self
            .granted(attempt.user)
            .is_none_or(|grants| grants.iter().any(|grant| grant.allows(attempt)));
        let denied = self.denials.iter().any(|denial| {
            denial.covers(
                attempt.verb,
                &resource::qualified(attempt.group, attempt.resource),
                attempt.namespace,
                attempt.name,
            )
        });
        (granted || asks_for_itself) && !denied
    }
}

/// What everybody may ask about himself.
const ASKING: [(&str, &[&str]); 2] = [
    (
        "authorization.k8s.io",
        &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    ),
    ("authentication.k8s.io", &["selfsubjectreviews"]),
];

const PATHS: [&str; 11] = [
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
    fn who_is_not_named_may_do_everything() {
        assert!(allowed(
            &Access::new("demo"),
            "demo",
            "delete",
            "pods",
            "shop"
        ));
    }

    #[test]
    fn who_is_named_may_do_what_is_granted() {
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
            Matching::any()
                .verb("watch")
                .resource("events")
                .namespace("shop"),
        );
        assert!(!allowed(&access, "demo", "watch", "events", "shop"));
        assert!(allowed(&access, "demo", "list", "events", "shop"));
        assert!(allowed(&access, "demo", "watch", "events", "other"));
        access.allow_again();
        assert!(allowed(&access, "demo", "watch", "events", "shop"));
    }
}
