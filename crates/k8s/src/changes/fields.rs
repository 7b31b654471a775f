//! Changes by `metadata.managedFields`: which manager wrote which fields, and when. An entry
//! has names, never values. Its time means that the manager then changed at least one of the
//! fields that it owns.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;

use super::{ChangeKind, ChangeRow, truncated};
use crate::{events::latest_believed, identity};
use kubecrier_redact::Redactor;

/// Fields that are named; the others are counted.
const NAMED_MAX: usize = 6;

/// Fields that are read of a hostile object.
const SCANNED_MAX: usize = 5000;

/// The changes of an object since that time.
pub(super) fn changes(
    kind: &str,
    meta: ObjectMeta,
    since: Timestamp,
    redactor: &Redactor,
) -> Vec<ChangeRow> {
    let object = format!("{kind}/{}", meta.name.as_deref().unwrap_or_default());
    let created = meta.creation_timestamp.map(|time| time.0);
    let latest = latest_believed(created, Timestamp::now());
    let is_new = created.is_some_and(|created| created >= since);
    let entries = meta.managed_fields.unwrap_or_default();
    let mut rows = Vec::new();
    let row = |at, change, by: Option<String>, detail: String| ChangeRow {
        at,
        change,
        object: object.clone(),
        by: by.map(|by| identity::name(redactor, &by).into_owned()),
        detail: truncated(detail),
    };
    if let Some(at) = meta
        .deletion_timestamp
        .map(|time| time.0)
        .filter(|at| *at >= since)
    {
        let finalizers = meta.finalizers.unwrap_or_default();
        let finalizers = finalizers
            .iter()
            .map(|one| identity::label_key(redactor, one));
        let finalizers = finalizers.collect::<Vec<_>>().join(", ");
        let detail = match finalizers.as_str() {
            "" => "is being deleted".to_owned(),
            finalizers => format!("is being deleted, held by {finalizers}"),
        };
        rows.push(row(at, ChangeKind::Deleting, None, detail));
    }
    if let (Some(at), true) = (created, is_new) {
        let creator = entries.iter().find(|entry| written_at(entry) == Some(at));
        let by = creator.and_then(|entry| entry.manager.clone());
        rows.push(row(at, ChangeKind::Created, by, "is new".to_owned()));
    }
    for entry in entries {
        // The status is a controller's report, not a decision.
        if entry.subresource.as_deref() == Some("status") {
            continue;
        }
        // The writer itself may choose the time.
        let is_recent = |at: &Timestamp| (since..=latest).contains(at);
        let Some(at) = written_at(&entry).filter(is_recent) else {
            continue;
        };
        if is_new && created == Some(at) {
            continue;
        }
        let names = names(entry.fields_v1.as_ref().map(|fields| &fields.0), redactor);
        let change = match entry.subresource.as_deref() {
            Some("scale") => ChangeKind::Scale,
            _ if kind == "ConfigMap" => ChangeKind::Config,
            _ if names.iter().map(String::as_str).eq(["spec.replicas"]) => ChangeKind::Scale,
            _ => ChangeKind::Changed,
        };
        rows.push(row(at, change, entry.manager, summary(&names)));
    }
    rows
}

fn written_at(entry: &ManagedFieldsEntry) -> Option<Timestamp> {
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

/// The fields as a person names them: `spec.replicas`, `image of app`, `data.app.yaml`.
fn names(fields: Option<&Value>, redactor: &Redactor) -> BTreeSet<String> {
    let key = |key| identity::key(redactor, key);
    let mut names = BTreeSet::new();
    for (field, subtree) in children(fields) {
        match field {
            "metadata" | "spec" | "data" | "binaryData" => {
                for (part, subtree) in children(Some(subtree)) {
                    match (field, part) {
                        ("spec", "template" | "jobTemplate") => {
                            template(part, subtree, &mut names, redactor);
                        }
                        _ => {
                            names.insert(format!("{field}.{}", key(part)));
                        }
                    }
                }
            }
            other => {
                names.insert(key(other).into_owned());
            }
        }
    }
    names
}

fn template(part: &str, fields: &Value, names: &mut BTreeSet<String>, redactor: &Redactor) {
    let key = |key| identity::key(redactor, key);
    let inner = match part {
        "jobTemplate" => &fields["f:spec"]["f:template"]["f:spec"],
        _ => &fields["f:spec"],
    };
    let before = names.len();
    for (field, subtree) in children(Some(inner)) {
        let entries = subtree.as_object().into_iter().flatten().take(SCANNED_MAX);
        let containers = entries.filter_map(|(entry, subtree)| Some((container(entry)?, subtree)));
        let mut any = false;
        for (name, subtree) in containers {
            for (field, _) in children(Some(subtree)).filter(|(field, _)| *field != "name") {
                any = true;
                let name = identity::name(redactor, &name);
                names.insert(format!("{} of {name}", key(field)));
            }
        }
        if !any {
            names.insert(format!("template {}", key(field)));
        }
    }
    if names.len() == before {
        names.insert(format!("spec.{part}"));
    }
}

/// The fields below a field, without the markers of the format (`.`, `k:`, `v:`).
fn children(fields: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    let fields = fields.and_then(Value::as_object).into_iter().flatten();
    let named = fields.filter_map(|(key, subtree)| Some((key.strip_prefix("f:")?, subtree)));
    named.take(SCANNED_MAX)
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

    fn change_fields(kind: &str, meta: Value) -> Vec<(ChangeKind, Option<String>, String)> {
        let meta = serde_json::from_value(meta).unwrap();
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        let rows = changes(kind, meta, since, &Redactor::default()).into_iter();
        rows.map(|row| (row.change, row.by, row.detail)).collect()
    }

    fn entry(by: &str, written_at: &str, subresource: &str, fields: Value) -> Value {
        json!({"manager": by, "operation": "Update", "time": written_at, "subresource": subresource, "fieldsV1": fields})
    }

    #[test]
    fn a_writer_is_told_with_what_it_owns() {
        let image = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}},
        }}}}});
        let rows = change_fields(
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
                ChangeKind::Changed,
                Some("kubectl-set".to_owned()),
                "image of app".to_owned(),
            ),
            (
                ChangeKind::Scale,
                Some("kubectl".to_owned()),
                "spec.replicas".to_owned(),
            ),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_config_map_names_its_keys() {
        let fields = json!({"f:data": {".": {}, "f:app.yaml": {}, "f:b": {}}, "f:metadata": {"f:labels": {}}});
        let rows = change_fields(
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
                ChangeKind::Config,
                Some("kubectl-edit".to_owned()),
                detail.to_owned()
            )]
        );
    }

    #[test]
    fn what_is_new_or_going_is_told_once() {
        let rows = change_fields(
            "Service",
            json!({
                "name": "s", "creationTimestamp": "2026-01-01T00:00:01Z",
                "deletionTimestamp": "2026-01-01T00:00:09Z", "finalizers": ["x/y"],
                "managedFields": [entry("helm", "2026-01-01T00:00:01Z", "", json!({"f:spec": {}}))],
            }),
        );
        let expected = [
            (
                ChangeKind::Deleting,
                None,
                "is being deleted, held by x/y".to_owned(),
            ),
            (
                ChangeKind::Created,
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
            let detail = truncated(summary(&names(Some(&fields), &Redactor::default())));
            prop_assert!(!detail.is_empty() && detail.chars().count() <= super::super::DETAIL_CHARS_MAX + 3);
        }
    }
}
