//! Rollouts of Deployments: each revision has left a ReplicaSet behind, and two of
//! them next to each other say what was changed. Values of variables are not told,
//! only that they differ.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Map, Value};

use super::{Change, ChangeRow, line};

const REVISION: &str = "deployment.kubernetes.io/revision";
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

/// A revision of a Deployment.
struct Revision {
    number: u64,
    created: Timestamp,
    /// When its ReplicaSet was last written to, by whoever.
    written: Option<Timestamp>,
    template: Value,
}

/// The rollouts since then.
pub(super) fn of(sets: Vec<ReplicaSet>, since: Timestamp) -> Vec<ChangeRow> {
    let mut deployments: BTreeMap<String, Vec<Revision>> = BTreeMap::new();
    for set in sets {
        if let Some((deployment, revision)) = revision(set) {
            deployments.entry(deployment).or_default().push(revision);
        }
    }
    let rows = deployments.into_iter().flat_map(|(name, mut revisions)| {
        revisions.sort_by_key(|one| one.number);
        rollouts(&name, &revisions, since)
    });
    rows.collect()
}

fn revision(set: ReplicaSet) -> Option<(String, Revision)> {
    let meta = set.metadata;
    let owners = meta.owner_references.unwrap_or_default();
    let owner = owners.into_iter().find(|one| one.kind == "Deployment")?;
    let number = meta.annotations?.get(REVISION)?.parse().ok()?;
    let written = meta.managed_fields.into_iter().flatten();
    let written = written
        .filter(|entry| entry.subresource.as_deref() != Some("status"))
        .filter_map(|entry| entry.time.map(|time| time.0))
        .max();
    let revision = Revision {
        number,
        created: meta.creation_timestamp?.0,
        written,
        template: serde_json::to_value(set.spec?.template?).ok()?,
    };
    Some((owner.name, revision))
}

fn rollouts(name: &str, revisions: &[Revision], since: Timestamp) -> Vec<ChangeRow> {
    let each = revisions.iter().enumerate().filter_map(|(index, now)| {
        let before = index.checked_sub(1).map(|index| &revisions[index]);
        // A rollback takes an old ReplicaSet and gives it a new number.
        let back = before.is_some_and(|before| before.created > now.created);
        let at = if back { now.written? } else { now.created };
        if at < since {
            return None;
        }
        let what = match before {
            Some(before) => difference(&before.template, &now.template),
            None => images(&now.template),
        };
        let back = if back { " (rolled back)" } else { "" };
        Some(ChangeRow {
            at,
            change: Change::Rollout,
            object: format!("Deployment/{name}"),
            by: None,
            detail: line(format!("revision {}{back}: {what}", now.number)),
        })
    });
    each.collect()
}

fn images(template: &Value) -> String {
    let each = containers(template).into_iter();
    let each = each.map(|(name, one)| format!("image of {name} is {}", text(&one["image"])));
    each.collect::<Vec<_>>().join("; ")
}

/// What is not the same in two templates.
fn difference(before: &Value, now: &Value) -> String {
    let mut told = Vec::new();
    let (old, new) = (containers(before), containers(now));
    for (name, now) in &new {
        let Some(before) = old.get(name) else {
            told.push(format!(
                "container {name} is new, image {}",
                text(&now["image"])
            ));
            continue;
        };
        if before["image"] != now["image"] {
            let (before, now) = (text(&before["image"]), text(&now["image"]));
            told.push(format!("image of {name} {before} -> {now}"));
        }
        let others = differing(before, now);
        let others: Vec<_> = others
            .into_iter()
            .filter(|field| field != "image")
            .collect();
        if !others.is_empty() {
            told.push(format!("{} of {name}", others.join(", ")));
        }
    }
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    told.extend(gone.map(|name| format!("container {name} is gone")));
    let spec = differing(&before["spec"], &now["spec"]).into_iter();
    told.extend(spec.filter(|field| field != "containers" && field != "initContainers"));
    let notes = |template: &Value| template["metadata"]["annotations"].clone();
    let notes = differing(&notes(before), &notes(now));
    if notes.contains(RESTARTED) {
        told.push("restart asked for".to_owned());
    }
    told.extend(
        notes
            .into_iter()
            .filter(|key| key != RESTARTED)
            .map(|key| format!("annotation {key}")),
    );
    if told.is_empty() {
        told.push("the same template".to_owned());
    }
    told.join("; ")
}

fn containers(template: &Value) -> BTreeMap<&str, &Value> {
    let lists = ["containers", "initContainers"].map(|list| template["spec"][list].as_array());
    let all = lists.into_iter().flatten().flatten();
    all.filter_map(|one| Some((one["name"].as_str()?, one)))
        .collect()
}

/// The keys under which two objects differ.
fn differing(before: &Value, now: &Value) -> BTreeSet<String> {
    let none = Map::new();
    let (before, now) = (
        before.as_object().unwrap_or(&none),
        now.as_object().unwrap_or(&none),
    );
    let keys = before.keys().chain(now.keys());
    keys.filter(|key| before.get(*key) != now.get(*key))
        .cloned()
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(number: u64, created: &str, written: &str, template: Value) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {
                "annotations": {REVISION: number.to_string()},
                "creationTimestamp": created,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}],
                "managedFields": [{"manager": "m", "time": written}],
            },
            "spec": {"selector": {}, "template": template},
        }))
        .unwrap()
    }

    fn with(image: &str, password: &str) -> Value {
        let app = json!({"name": "app", "image": image, "env": [{"name": "P", "value": password}]});
        json!({"spec": {"containers": [app]}})
    }

    fn told(sets: Vec<ReplicaSet>) -> Vec<String> {
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        of(sets, since).into_iter().map(|row| row.detail).collect()
    }

    #[test]
    fn a_revision_is_told_by_what_it_changed() {
        let (old, t1, t2) = (
            "2025-01-01T00:00:00Z",
            "2026-01-01T00:00:01Z",
            "2026-01-01T00:00:02Z",
        );
        let sets = vec![
            set(10, t2, t2, with("app:2", "changed")),
            set(9, t1, t1, with("app:2", "secret")),
            set(8, old, old, with("app:1", "secret")),
        ];
        let expected = [
            "revision 9: image of app app:1 -> app:2",
            "revision 10: env of app",
        ];
        assert_eq!(told(sets), expected);
        assert_eq!(
            told(vec![set(1, t1, t1, with("app:1", "x"))]),
            ["revision 1: image of app is app:1"]
        );
    }

    #[test]
    fn a_rollback_is_one() {
        let (old, t1, t2) = (
            "2025-01-01T00:00:00Z",
            "2026-01-01T00:00:01Z",
            "2026-01-01T00:00:02Z",
        );
        let sets = vec![
            set(3, old, t2, with("app:1", "x")),
            set(2, t1, t1, with("app:2", "x")),
        ];
        let expected = [
            "revision 2: image of app is app:2",
            "revision 3 (rolled back): image of app app:2 -> app:1",
        ];
        assert_eq!(told(sets), expected);
    }

    #[test]
    fn restarts_and_other_parts_of_a_template_are_named() {
        let plain = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let mut other = plain.clone();
        other["metadata"] = json!({"annotations": {RESTARTED: "now", "sum": "1"}});
        other["spec"]["nodeSelector"] = json!({"a": "b"});
        other["spec"]["initContainers"] = json!([{"name": "b", "image": "j"}]);
        let expected =
            "container b is new, image j; nodeSelector; restart asked for; annotation sum";
        assert_eq!(difference(&plain, &other), expected);
        assert_eq!(difference(&plain, &plain), "the same template");
        assert_eq!(difference(&json!(null), &json!([1])), "the same template");
    }
}
