//! Who wrote which fields of an object, and when: `metadata.managedFields`. It has
//! names, never values. A time means that the writer then changed something among
//! the fields that it owns.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;

use super::{Change, ChangeRow, line};

/// Fields that are named; the rest is counted.
const NAMED_MAX: usize = 6;

/// Fields of a hostile object that are looked at.
const LOOKED_MAX: usize = 5000;

/// What was written to an object since then.
pub(super) fn changes(kind: &str, meta: ObjectMeta, since: Timestamp) -> Vec<ChangeRow> {
    let object = format!("{kind}/{}", meta.name.as_deref().unwrap_or_default());
    let created = meta.creation_timestamp.map(|time| time.0);
    let is_new = created.is_some_and(|created| created >= since);
    let entries = meta.managed_fields.unwrap_or_default();
    let mut rows = Vec::new();
    let row = |at, change, by: Option<String>, detail: String| ChangeRow {
        at,
        change,
        object: object.clone(),
        by,
        detail: line(detail),
    };
    if let Some(at) = meta
        .deletion_timestamp
        .map(|time| time.0)
        .filter(|at| *at >= since)
    {
        let held = meta.finalizers.unwrap_or_default().join(", ");
        let detail = match held.as_str() {
            "" => "is being deleted".to_owned(),
            held => format!("is being deleted, held by {held}"),
        };
        rows.push(row(at, Change::Deleting, None, detail));
    }
    if let (Some(at), true) = (created, is_new) {
        let first = entries.iter().find(|entry| time(entry) == Some(at));
        let by = first.and_then(|entry| entry.manager.clone());
        rows.push(row(at, Change::Created, by, "is new".to_owned()));
    }
    for entry in entries {
        // What controllers report is not what somebody decided.
        if entry.subresource.as_deref() == Some("status") {
            continue;
        }
        let Some(at) = time(&entry).filter(|at| *at >= since) else {
            continue;
        };
        if is_new && created == Some(at) {
            continue;
        }
        let names = names(entry.fields_v1.as_ref().map(|fields| &fields.0));
        let change = match entry.subresource.as_deref() {
            Some("scale") => Change::Scale,
            _ if kind == "ConfigMap" => Change::Config,
            _ if names.iter().map(String::as_str).eq(["spec.replicas"]) => Change::Scale,
            _ => Change::Changed,
        };
        rows.push(row(at, change, entry.manager, summary(&names)));
    }
    rows
}

fn time(entry: &ManagedFieldsEntry) -> Option<Timestamp> {
    entry.time.as_ref().map(|time| time.0)
}

fn summary(names: &BTreeSet<String>) -> String {
    let shown: Vec<_> = names.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = names.len() - shown.len();
    match (shown.as_slice(), more) {
        ([], _) => "some field".to_owned(),
        ([one], 0) => one.to_string(),
        (_, 0) => format!("among {}", shown.join(", ")),
        _ => format!("among {} and {more} more", shown.join(", ")),
    }
}

/// The fields in a reader's words: `spec.replicas`, `image of app`, `data.app.yaml`.
fn names(fields: Option<&Value>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (field, below) in children(fields) {
        match field {
            "metadata" | "spec" | "data" | "binaryData" => {
                for (part, below) in children(Some(below)) {
                    match (field, part) {
                        ("spec", "template" | "jobTemplate") => template(part, below, &mut names),
                        _ => {
                            names.insert(format!("{field}.{part}"));
                        }
                    }
                }
            }
            other => {
                names.insert(other.to_owned());
            }
        }
    }
    names
}

fn template(part: &str, fields: &Value, names: &mut BTreeSet<String>) {
    let inner = match part {
        "jobTemplate" => &fields["f:spec"]["f:template"]["f:spec"],
        _ => &fields["f:spec"],
    };
    let before = names.len();
    for (field, below) in children(Some(inner)) {
        let entries = below.as_object().into_iter().flatten().take(LOOKED_MAX);
        let containers = entries.filter_map(|(key, below)| Some((container(key)?, below)));
        let mut any = false;
        for (name, below) in containers {
            for (what, _) in children(Some(below)).filter(|(what, _)| *what != "name") {
                any = true;
                names.insert(format!("{what} of {name}"));
            }
        }
        if !any {
            names.insert(format!("template {field}"));
        }
    }
    if names.len() == before {
        names.insert(format!("spec.{part}"));
    }
}

/// The fields below a field; the marks of the format are left out.
fn children(fields: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    let fields = fields.and_then(Value::as_object).into_iter().flatten();
    let named = fields.filter_map(|(key, below)| Some((key.strip_prefix("f:")?, below)));
    named.take(LOOKED_MAX)
}

/// `k:{"name":"app"}` is the container `app`.
fn container(key: &str) -> Option<String> {
    let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
    Some(key.get("name")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(kind: &str, meta: Value) -> Vec<(Change, Option<String>, String)> {
        let meta = serde_json::from_value(meta).unwrap();
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        let rows = changes(kind, meta, since).into_iter();
        rows.map(|row| (row.change, row.by, row.detail)).collect()
    }

    fn entry(by: &str, time: &str, subresource: &str, fields: Value) -> Value {
        json!({"manager": by, "operation": "Update", "time": time, "subresource": subresource, "fieldsV1": fields})
    }

    #[test]
    fn a_writer_is_told_with_what_it_owns() {
        let image = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}},
        }}}}});
        let rows = found(
            "Deployment",
            json!({
                "name": "web", "creationTimestamp": "2025-01-01T00:00:00Z",
                "managedFields": [
                    entry("helm", "2025-01-01T00:00:00Z", "", json!({"f:spec": {}})),
                    entry("kubectl-set", "2026-01-01T00:00:01Z", "", image),
                    entry("kubectl", "2026-01-01T00:00:02Z", "scale", json!({"f:spec": {"f:replicas": {}}})),
                    entry("kube-controller-manager", "2026-01-01T00:00:03Z", "status", json!({})),
                ],
            }),
        );
        let expected = [
            (
                Change::Changed,
                Some("kubectl-set".to_owned()),
                "image of app".to_owned(),
            ),
            (
                Change::Scale,
                Some("kubectl".to_owned()),
                "spec.replicas".to_owned(),
            ),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_config_map_names_its_keys() {
        let fields = json!({"f:data": {".": {}, "f:app.yaml": {}, "f:b": {}}, "f:metadata": {"f:labels": {}}});
        let rows = found(
            "ConfigMap",
            json!({
                "name": "c", "creationTimestamp": "2025-01-01T00:00:00Z",
                "managedFields": [entry("kubectl-edit", "2026-01-01T00:00:01Z", "", fields)],
            }),
        );
        let detail = "among data.app.yaml, data.b, metadata.labels";
        assert_eq!(
            rows,
            [(
                Change::Config,
                Some("kubectl-edit".to_owned()),
                detail.to_owned()
            )]
        );
    }

    #[test]
    fn what_is_new_or_going_is_told_once() {
        let rows = found(
            "Service",
            json!({
                "name": "s", "creationTimestamp": "2026-01-01T00:00:01Z",
                "deletionTimestamp": "2026-01-01T00:00:09Z", "finalizers": ["x/y"],
                "managedFields": [entry("helm", "2026-01-01T00:00:01Z", "", json!({"f:spec": {}}))],
            }),
        );
        let expected = [
            (
                Change::Deleting,
                None,
                "is being deleted, held by x/y".to_owned(),
            ),
            (
                Change::Created,
                Some("helm".to_owned()),
                "is new".to_owned(),
            ),
        ];
        assert_eq!(rows, expected);
    }

    proptest! {
        #[test]
        fn fuzz_any_fields_are_a_bounded_line(keys in prop::collection::vec("(f:|k:)?[\\PC]{0,30}", 0..40)) {
            let mut fields = json!({});
            for key in keys {
                let inner = fields.take();
                fields = json!({key.clone(): inner, "f:spec": {"f:template": {"f:spec": {key: {}}}}});
            }
            let detail = line(summary(&names(Some(&fields))));
            prop_assert!(!detail.is_empty() && detail.chars().count() <= super::super::DETAIL_CHARS_MAX + 3);
        }
    }
}
