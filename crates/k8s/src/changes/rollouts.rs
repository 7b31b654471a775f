//! Rollouts of Deployments: each revision leaves a ReplicaSet behind, and the diff of two
//! consecutive ones is the change. Values of variables are not shown, only that they differ.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope, api::apps::v1::ReplicaSet,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ChangeKind, ChangeRow, truncated};
use crate::{events::latest_believed, identity};
use kubecrier_redact::Redactor;

const REVISION: &str = "deployment.kubernetes.io/revision";
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// A ReplicaSet as far as it is read. Its template is compared as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RevisionSet {
    metadata: ObjectMeta,
    spec: RevisionSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RevisionSpec {
    template: Value,
}

impl Resource for RevisionSet {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        <ReplicaSet as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <ReplicaSet as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <ReplicaSet as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <ReplicaSet as Resource>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A revision of a Deployment.
struct Revision {
    number: u64,
    created: Timestamp,
    /// When any field manager last wrote to the ReplicaSet.
    written: Option<Timestamp>,
    template: Value,
}

/// The rollouts since that time.
pub(super) fn of(sets: Vec<RevisionSet>, since: Timestamp, redactor: &Redactor) -> Vec<ChangeRow> {
    let mut deployments: BTreeMap<String, Vec<Revision>> = BTreeMap::new();
    for set in sets {
        if let Some((deployment, revision)) = revision(set) {
            deployments.entry(deployment).or_default().push(revision);
        }
    }
    let rows = deployments.into_iter().flat_map(|(name, mut revisions)| {
        revisions.sort_by_key(|revision| revision.number);
        rollouts(&name, &revisions, since, redactor)
    });
    rows.collect()
}

fn revision(set: RevisionSet) -> Option<(String, Revision)> {
    let meta = set.metadata;
    let owners = meta.owner_references.unwrap_or_default();
    let owner = owners
        .into_iter()
        .find(|owner| owner.kind == "Deployment")?;
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
        template: Some(set.spec.template).filter(Value::is_object)?,
    };
    Some((owner.name, revision))
}

fn rollouts(
    name: &str,
    revisions: &[Revision],
    since: Timestamp,
    redactor: &Redactor,
) -> Vec<ChangeRow> {
    let rows = revisions.iter().enumerate().filter_map(|(index, now)| {
        let before = index.checked_sub(1).map(|index| &revisions[index]);
        // A rollback takes an old ReplicaSet and gives it a new number.
        let rollback = before.is_some_and(|before| before.created > now.created);
        // The writer itself may choose its time.
        let latest = latest_believed(Some(now.created), Timestamp::now());
        let written = now.written.filter(|at| *at <= latest);
        let at = if rollback { written? } else { now.created };
        if at < since {
            return None;
        }
        let summary = match before {
            Some(before) => diff(&before.template, &now.template, redactor),
            None => images(&now.template, redactor),
        };
        let rollback = if rollback { " (rolled back)" } else { "" };
        Some(ChangeRow {
            at,
            change: ChangeKind::Rollout,
            object: format!("Deployment/{name}"),
            by: None,
            detail: truncated(format!("revision {}{rollback}: {summary}", now.number)),
        })
    });
    rows.collect()
}

fn images(template: &Value, redactor: &Redactor) -> String {
    let images = containers(template).into_iter();
    let images = images.map(|(name, entry)| {
        let name = identity::name(redactor, name);
        format!(
            "image of {name} is {}",
            image_name(&entry["image"], redactor)
        )
    });
    images.collect::<Vec<_>>().join("; ")
}

/// The differences between two pod templates.
fn diff(before: &Value, now: &Value, redactor: &Redactor) -> String {
    let mut parts = Vec::new();
    let shown = |name: &str| identity::name(redactor, name).into_owned();
    let key = |key: &str| identity::key(redactor, key).into_owned();
    let (old, new) = (containers(before), containers(now));
    for (name, now) in &new {
        let Some(before) = old.get(name) else {
            parts.push(format!(
                "container {} is new, image {}",
                shown(name),
                image_name(&now["image"], redactor)
            ));
            continue;
        };
        if before["image"] != now["image"] {
            let [before, now] = [before, now].map(|one| image_name(&one["image"], redactor));
            parts.push(format!("image of {} {before} -> {now}", shown(name)));
        }
        let others = differing_keys(before, now);
        let others: Vec<_> = others
            .into_iter()
            .filter(|field| field != "image")
            .collect();
        if !others.is_empty() {
            let others: Vec<_> = others.iter().map(|other| key(other)).collect();
            parts.push(format!("{} of {}", others.join(", "), shown(name)));
        }
    }
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    parts.extend(removed.map(|name| format!("container {} is gone", shown(name))));
    let spec = differing_keys(&before["spec"], &now["spec"]).into_iter();
    parts.extend(spec.filter(|field| field != "containers" && field != "initContainers"));
    let annotations = |template: &Value| template["metadata"]["annotations"].clone();
    let annotations = differing_keys(&annotations(before), &annotations(now));
    if annotations.contains(RESTARTED_AT) {
        parts.push("restart asked for".to_owned());
    }
    parts.extend(
        annotations
            .into_iter()
            .filter(|key| key != RESTARTED_AT)
            .map(|key| format!("annotation {}", identity::label_key(redactor, &key))),
    );
    if parts.is_empty() {
        parts.push("the same template".to_owned());
    }
    parts.join("; ")
}

fn containers(template: &Value) -> BTreeMap<&str, &Value> {
    let lists = ["containers", "initContainers"].map(|list| template["spec"][list].as_array());
    let all = lists.into_iter().flatten().flatten();
    all.filter_map(|entry| Some((entry["name"].as_str()?, entry)))
        .collect()
}

/// The keys under which two objects differ.
fn differing_keys(before: &Value, now: &Value) -> BTreeSet<String> {
    let none = Map::new();
    let (before, now) = (
        before.as_object().unwrap_or(&none),
        now.as_object().unwrap_or(&none),
    );
    let keys = before.keys().chain(now.keys());
    keys.filter(|key| given(before, key) != given(now, key))
        .cloned()
        .collect()
}

/// The value of a key; what is `null` is not there.
fn given<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn image_name<'a>(value: &'a Value, redactor: &Redactor) -> Cow<'a, str> {
    identity::image(redactor, value.as_str().unwrap_or("none"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(number: u64, created: &str, written: &str, template: Value) -> RevisionSet {
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

    fn details(sets: Vec<RevisionSet>) -> Vec<String> {
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        of(sets, since, &Redactor::default())
            .into_iter()
            .map(|row| row.detail)
            .collect()
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
        assert_eq!(details(sets), expected);
        assert_eq!(
            details(vec![set(1, t1, t1, with("app:1", "x"))]),
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
        assert_eq!(details(sets), expected);
    }

    #[test]
    fn restarts_and_other_parts_of_a_template_are_named() {
        let plain = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let mut other = plain.clone();
        other["metadata"] = json!({"annotations": {RESTARTED_AT: "now", "sum": "1"}});
        other["spec"]["nodeSelector"] = json!({"a": "b"});
        other["spec"]["initContainers"] = json!([{"name": "b", "image": "j"}]);
        let expected =
            "container b is new, image j; nodeSelector; restart asked for; annotation sum";
        assert_eq!(diff(&plain, &other, &Redactor::default()), expected);
        assert_eq!(
            diff(&plain, &plain, &Redactor::default()),
            "the same template"
        );
        assert_eq!(
            diff(&json!(null), &json!([1]), &Redactor::default()),
            "the same template"
        );
    }
}
