//! The RBAC manifest that grants missing permissions.

use serde_json::{Value, json};

use kubecrier_k8s::{Granted, Need, Right};

const NAME: &str = "kubecrier-missing";

/// The manifest that grants the missing permissions to the user: in these namespaces if the
/// user has permissions in namespaces only, else cluster-wide. It is JSON, which kubectl
/// applies as it does YAML; `None` if nothing is missing.
pub(crate) fn manifest(rights: &[Right], user: &str, namespaces: &[String]) -> Option<String> {
    let namespaced = rights
        .iter()
        .any(|right| matches!(&right.granted, Granted::Only(places) if !places.is_empty()));
    let missing = |right: &&Right| match &right.granted {
        Granted::Everywhere | Granted::Unknown(_) => false,
        Granted::Only(places) if namespaced => {
            right.need.namespaced && namespaces.iter().any(|name| !places.contains(name))
        }
        Granted::Only(_) => true,
    };
    let needs: Vec<Need> = rights
        .iter()
        .filter(missing)
        .map(|right| right.need)
        .collect();
    if needs.is_empty() {
        return None;
    }
    let rules = rules(&needs);
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
fn rules(needs: &[Need]) -> Vec<Value> {
    let mut rules: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for need in needs {
        let same =
            |rule: &&mut (&str, &str, Vec<&str>)| rule.0 == need.group && rule.1 == need.resource;
        match rules.iter_mut().find(same) {
            Some(rule) if rule.2.contains(&need.verb) => {}
            Some(rule) => rule.2.push(need.verb),
            None => rules.push((need.group, need.resource, vec![need.verb])),
        }
    }
    let rule = |(group, resource, verbs): (&str, &str, Vec<&str>)| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    rules.into_iter().map(rule).collect()
}

fn pair(role: &str, namespace: Option<&str>, rules: &[Value], user: &str) -> [Value; 2] {
    let mut metadata = json!({"name": NAME});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let mut account = user
        .strip_prefix("system:serviceaccount:")
        .unwrap_or_default()
        .split(':');
    let subject = match (account.next(), account.next()) {
        (Some(space), Some(name)) => {
            json!({"kind": "ServiceAccount", "namespace": space, "name": name})
        }
        _ => json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}),
    };
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
    use kubecrier_k8s::needs;

    fn rights(granted: impl Fn(&Need) -> Granted) -> Vec<Right> {
        let right = |need: Need| Right {
            granted: granted(&need),
            need,
        };
        needs().into_iter().map(right).collect()
    }

    #[test]
    fn nothing_missing_is_no_manifest() {
        let all = rights(|_| Granted::Everywhere);
        assert_eq!(manifest(&all, "me", &["a".to_owned()]), None);
    }

    #[test]
    fn what_is_missing_everywhere_is_granted_everywhere() {
        let none = rights(|need| match need.resource {
            "pods/log" | "events" => Granted::Only(Vec::new()),
            _ => Granted::Everywhere,
        });
        let user = "system:serviceaccount:ops:crier";
        insta::assert_snapshot!(manifest(&none, user, &["a".to_owned()]).unwrap());
    }

    #[test]
    fn a_user_of_one_namespace_gets_the_rest_there() {
        let some = rights(|need| match need.resource {
            "pods/log" => Granted::Only(Vec::new()),
            _ => Granted::Only(vec!["a".to_owned()]),
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
