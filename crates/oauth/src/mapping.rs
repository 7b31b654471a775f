//! From claims to a user of Kubernetes.

use kubecrier_core::{KubernetesUser, UserError, filters::Glob};
use serde_json::Value;

use crate::{claims::Claims, error::shown};

/// What names of Kubernetes itself begin with.
const RESERVED: &str = "system:";

/// Which claims name a user and its groups.
#[derive(Clone, Debug)]
pub struct ClaimMapping {
    /// The claim with the name of the user.
    pub username_claim: ClaimPath,
    /// Stands before the name.
    pub username_prefix: String,
    /// The claim with the groups; without it there are none.
    pub groups_claim: Option<ClaimPath>,
    /// Stands before each group.
    pub groups_prefix: String,
    /// The groups that are kept, by their names in the claim; without any, all are.
    pub allowed_groups: Vec<Glob>,
}

/// A claim, or one inside of another: `sub`, `realm_access.roles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPath(String);

/// Why claims are no user of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// The name is not there.
    #[error("it has no claim `{0}` with a name (--username-claim)")]
    Username(String),
    /// The address may be another's.
    #[error("its claim `email` is not verified (`email_verified`)")]
    Email,
    /// The claim has something else.
    #[error("its claim `{0}` is not a list of names (--groups-claim)")]
    Groups(String),
    /// The name is one that only Kubernetes gives.
    #[error("the name `{0}` is reserved for Kubernetes (`system:`)")]
    Reserved(String),
    /// There can be no such user.
    #[error(transparent)]
    User(#[from] UserError),
    /// There are too many groups.
    #[error(
        "it has {0} groups, and at most 255 can be sent with a request; keep those that matter with \
         --allowed-groups"
    )]
    TooManyGroups(usize),
}

// === impl ClaimPath ===

impl ClaimPath {
    /// A path; `None` if a part of it is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let is_whole = !text.is_empty() && text.split('.').all(|part| !part.is_empty());
        is_whole.then(|| Self(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value at the path. Names of claims may have dots themselves, as those that are URLs
    /// do, so the longest name is tried first.
    fn find<'a>(&self, claims: &'a Claims) -> Option<&'a Value> {
        fn within<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
            if let Some(value) = claims.get(path) {
                return Some(value);
            }
            path.rmatch_indices('.').find_map(|(at, _)| {
                let inner = claims.get(&path[..at])?.as_object()?;
                within(inner, &path[at + 1..])
            })
        }
        within(claims, &self.0).filter(|value| !value.is_null())
    }
}

// === impl ClaimMapping ===

impl ClaimMapping {
    /// The user that claims name.
    pub(crate) fn user(&self, claims: &Claims) -> Result<KubernetesUser, MappingError> {
        let name = self.username(claims)?;
        let groups = self.groups(claims)?;
        for name in std::iter::once(&name).chain(&groups) {
            if name.starts_with(RESERVED) {
                return Err(MappingError::Reserved(shown(name)));
            }
        }
        let count = groups.len();
        KubernetesUser::new(&name, groups).map_err(|error| match error {
            UserError::Groups(_) => MappingError::TooManyGroups(count),
            error @ UserError::Name { .. } => MappingError::User(error),
        })
    }

    fn username(&self, claims: &Claims) -> Result<String, MappingError> {
        let claim = &self.username_claim;
        let name = match claim.find(claims) {
            Some(Value::String(name)) if !name.is_empty() => name,
            _ => return Err(MappingError::Username(claim.0.clone())),
        };
        // As the API server does: only an address that is said to be unverified is refused.
        let verified = claims.get("email_verified");
        if claim.0 == "email" && verified.is_some_and(|verified| *verified != Value::Bool(true)) {
            return Err(MappingError::Email);
        }
        Ok(format!("{}{name}", self.username_prefix))
    }

    fn groups(&self, claims: &Claims) -> Result<Vec<String>, MappingError> {
        let Some(claim) = &self.groups_claim else {
            return Ok(Vec::new());
        };
        let wrong = || MappingError::Groups(claim.0.clone());
        let names = match claim.find(claims) {
            None => Vec::new(),
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(list)) => {
                let names = list.iter().map(Value::as_str).collect::<Option<_>>();
                names.ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        let is_kept = |name: &&str| {
            self.allowed_groups.is_empty()
                || self.allowed_groups.iter().any(|glob| glob.matches(name))
        };
        let kept = names.into_iter().filter(is_kept);
        Ok(kept
            .map(|name| format!("{}{name}", self.groups_prefix))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn mapping(username: &str, groups: &str, allowed: &[&str]) -> ClaimMapping {
        ClaimMapping {
            username_claim: ClaimPath::parse(username).unwrap(),
            username_prefix: "oidc:".to_owned(),
            groups_claim: ClaimPath::parse(groups),
            groups_prefix: "g:".to_owned(),
            allowed_groups: allowed.iter().map(|glob| Glob::new(glob)).collect(),
        }
    }

    fn object(claims: Value) -> Claims {
        match claims {
            Value::Object(claims) => claims,
            other => unreachable!("claims are an object: {other}"),
        }
    }

    fn check(mapping: &ClaimMapping, claims: Value, expected: Result<(&str, &[&str]), &str>) {
        match (mapping.user(&object(claims)), expected) {
            (Ok(user), Ok((name, groups))) => {
                assert_eq!(user.name(), name);
                let own = user.groups().iter().map(AsRef::as_ref);
                let own: Vec<&str> = own
                    .filter(|group| *group != "system:authenticated")
                    .collect();
                assert_eq!(own, groups);
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (user, expected) => panic!("{user:?}, not {expected:?}"),
        }
    }

    #[test]
    fn claims_name_a_user_and_its_groups() {
        let plain = mapping("sub", "groups", &[]);
        check(&plain, json!({"sub": "ann"}), Ok(("oidc:ann", &[])));
        let claims = json!({"sub": "ann", "groups": ["ops", "dev", "ops"]});
        check(&plain, claims, Ok(("oidc:ann", &["g:dev", "g:ops"])));
        let claims = json!({"sub": "ann", "groups": "ops"});
        check(&plain, claims, Ok(("oidc:ann", &["g:ops"])));
        let nested = mapping("user.name", "realm_access.roles", &["team-*"]);
        let claims = json!({
            "user": {"name": "ann"},
            "realm_access": {"roles": ["team-a", "offline_access", "team-b"]},
        });
        check(&nested, claims, Ok(("oidc:ann", &["g:team-a", "g:team-b"])));
        let dotted = mapping("sub", "https://crier.example/groups", &[]);
        let claims = json!({"sub": "ann", "https://crier.example/groups": ["ops"]});
        check(&dotted, claims, Ok(("oidc:ann", &["g:ops"])));
        let client = mapping("sub", "resource_access.my.client.roles", &[]);
        let claims = json!({"sub": "ann", "resource_access": {"my.client": {"roles": ["ops"]}}});
        check(&client, claims, Ok(("oidc:ann", &["g:ops"])));
    }

    #[test]
    fn claims_that_are_no_user_are_refused() {
        let plain = mapping("name", "groups", &[]);
        for missing in [json!({}), json!({"name": ""}), json!({"name": 7})] {
            check(&plain, missing, Err("--username-claim"));
        }
        check(
            &plain,
            json!({"name": "a\u{0}b"}),
            Err("control characters"),
        );
        for groups in [json!(7), json!({"a": 1}), json!(["a", 7])] {
            check(
                &plain,
                json!({"name": "ann", "groups": groups}),
                Err("--groups-claim"),
            );
        }
        let claims = json!({"name": "ann", "groups": ["ops", "a\r\nb"]});
        check(&plain, claims, Err("control characters"));
        let email = mapping("email", "groups", &[]);
        let claims = |verified: Value| json!({"email": "a@b", "email_verified": verified});
        check(&email, claims(json!(true)), Ok(("oidc:a@b", &[])));
        check(&email, claims(json!(false)), Err("email_verified"));
        check(&email, claims(json!("true")), Err("email_verified"));
    }

    #[test]
    fn names_of_kubernetes_itself_cannot_be_claimed() {
        let bare = ClaimMapping {
            username_prefix: String::new(),
            groups_prefix: String::new(),
            ..mapping("sub", "groups", &[])
        };
        let claims = json!({"sub": "system:admin"});
        check(&bare, claims, Err("reserved"));
        let claims = json!({"sub": "ann", "groups": ["ops", "system:masters"]});
        check(&bare, claims.clone(), Err("reserved"));
        let filtered = ClaimMapping {
            allowed_groups: vec![Glob::new("ops")],
            ..bare
        };
        check(&filtered, claims.clone(), Ok(("ann", &["ops"])));
        let prefixed = mapping("sub", "groups", &[]);
        check(
            &prefixed,
            claims,
            Ok(("oidc:ann", &["g:ops", "g:system:masters"])),
        );
        let sneaky = ClaimMapping {
            username_prefix: "sys".to_owned(),
            ..mapping("sub", "groups", &[])
        };
        check(&sneaky, json!({"sub": "tem:admin"}), Err("reserved"));
    }

    #[test]
    fn ten_thousand_groups_are_refused_unless_a_filter_leaves_few() {
        let groups: Vec<_> = (0..10_000).map(|n| format!("g{n}")).collect();
        let claims = json!({"sub": "ann", "groups": groups});
        let all = mapping("sub", "groups", &[]);
        check(&all, claims.clone(), Err("10000 groups"));
        check(&all, claims.clone(), Err("--allowed-groups"));
        let few = mapping("sub", "groups", &["g77"]);
        check(&few, claims, Ok(("oidc:ann", &["g:g77"])));
    }

    proptest! {
        /// No claim makes a name of Kubernetes' own, whatever is before it.
        #[test]
        fn fuzz_no_name_is_reserved(
            prefix in prop_oneof![Just(String::new()), "(sys|system|system:|oidc:)"],
            name in prop_oneof!["(system:|tem:|:|)[a-z:]{0,8}", ".{0,20}"],
        ) {
            let mapping = ClaimMapping {
                username_prefix: prefix.clone(),
                groups_prefix: prefix,
                ..mapping("sub", "groups", &[])
            };
            let claims = object(json!({"sub": name, "groups": [name]}));
            if let Ok(user) = mapping.user(&claims) {
                prop_assert!(!user.name().starts_with("system:"));
                let own = user.groups().iter().filter(|group| group.starts_with("system:"));
                prop_assert_eq!(own.count(), 1, "only that of everybody");
                prop_assert!(!user.name().contains(char::is_control));
            }
        }
    }
}
