//! The RBAC manifest that grants missing permissions.

use serde_json::{Value, json};

use kubecrier_k8s::{GrantedScope, Permission, PermissionReview};

const NAME: &str = "kubecrier-missing";

/// The manifest that grants the missing permissions to the user: in these namespaces if the
/// user has permissions in namespaces only, else cluster-wide. It is JSON, which kubectl
/// applies as it does YAML; `None` if nothing is missing.
pub(crate) fn manifest(
    reviews: &[PermissionReview],
    user: &str,
    namespaces: &[String],
) -> Option<String> {
    let namespaced = reviews
        .iter()
        .any(|review| matches!(&review.granted, GrantedScope::Only(places) if !places.is_empty()));
    let missing = |review: &&PermissionReview| match &review.granted {
        GrantedScope::Everywhere | GrantedScope::Unknown(_) => false,
        GrantedScope::Only(places) if namespaced => {
            review.permission.namespaced && namespaces.iter().any(|name| !places.contains(name))
        }
        GrantedScope::Only(_) => true,
    };
    let permissions: Vec<Permission> = reviews
        .iter()
        .filter(missing)
        .map(|review| review.permission)
        .collect();
    if permissions.is_empty() {
        return None;
    }
    let rules = rules(&permissions);
    let items: Vec<Value> = if namespaced {
        let pair = |name: &String| pair("Role", Some(name), &rules, user);
        namespaces.iter().flat_map(pair).collect()
    } else {
        pair("ClusterRole", None, &rules, user).into()
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    serde_json::to_string_pretty(&list).ok()
}

/// One rule per group and resource.
fn rules(permissions: &[Permission]) -> Vec<Value> {
    let mut rules: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for permission in permissions {
        let same = |rule: &&mut (&str, &str, Vec<&str>)| {
            rule.0 == permission.group && rule.1 == permission.resource
        };
        match rules.iter_mut().find(same) {
            Some(rule) if rule.2.contains(&permission.verb) => {}
            Some(rule) => rule.2.push(permission.verb),
            None => rules.push((permission.group, permission.resource, vec![permission.verb])),
        }
    }
    let rule = |(group, resource, verbs): (&str, &str, Vec<&str>)| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    rules.into_iter().map(rule).collect()
}

/// The subject of a binding for a user.
pub(super) fn subject(user: &str) -> Value {
    let mut account = user
        .strip_prefix("system:serviceaccount:")
        .unwrap_or_default()
        .split(':');
    match (account.next(), account.next()) {
        (Some(space), Some(name)) => {
            json!({"kind": "ServiceAccount", "namespace": space, "name": name})
        }
        _ => json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}),
    }
}

fn pair(role: &str, namespace: Option<&str>, rules: &[Value], user: &str) -> [Value; 2] {
    let mut metadata = json!({"name": NAME});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let subject = subject(user);
    let api = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": api, "kind": role, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": api, "kind": format!("{role}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
            "subjects": [subject],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_k8s::permissions;

    fn reviews(granted: impl Fn(&Permission) -> GrantedScope) -> Vec<PermissionReview> {
        let review = |permission: Permission| PermissionReview {
            granted: granted(&permission),
            permission,
        };
        permissions().into_iter().map(review).collect()
    }

    #[test]
    fn nothing_missing_is_no_manifest() {
        let all = reviews(|_| GrantedScope::Everywhere);
        assert_eq!(manifest(&all, "me", &["a".to_owned()]), None);
    }

    #[test]
    fn what_is_missing_everywhere_is_granted_everywhere() {
        let none = reviews(|permission| match permission.resource {
            "pods/log" | "events" => GrantedScope::Only(Vec::new()),
            _ => GrantedScope::Everywhere,
        });
        let user = "system:serviceaccount:ops:crier";
        insta::assert_snapshot!(manifest(&none, user, &["a".to_owned()]).unwrap());
    }

    #[test]
    fn a_user_of_one_namespace_gets_the_rest_there() {
        let some = reviews(|permission| match permission.resource {
            "pods/log" => GrantedScope::Only(Vec::new()),
            _ => GrantedScope::Only(vec!["a".to_owned()]),
        });
        let text = manifest(&some, "me", &["a".to_owned()]).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(list["items"][0]["kind"], "Role");
        assert_eq!(list["items"][0]["metadata"]["namespace"], "a");
        let rules = json!([{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]);
        assert_eq!(list["items"][0]["rules"], rules);
        assert_eq!(list["items"][1]["subjects"][0]["name"], "me");
    }
}
