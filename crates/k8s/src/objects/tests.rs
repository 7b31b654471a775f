use proptest::prelude::*;
use serde_json::json;

use super::{
    table::{CELL_CHARS_MAX, COLUMN_CHARS_MAX, COLUMNS_MAX},
    *,
};

fn read(answer: Value, with_namespace: bool) -> (Vec<String>, Vec<Vec<String>>) {
    serde_json::from_value::<TableResponse>(answer)
        .unwrap()
        .into_rows(with_namespace, &Redactor::default())
}

#[test]
fn a_table_shows_what_kubectl_shows() {
    let table = json!({
        "kind": "Table",
        "columnDefinitions": [
            {"name": "Name", "priority": 0}, {"name": "Wide", "priority": 1},
            {"name": "Ready", "priority": 0},
        ],
        "rows": [
            {"cells": ["web", "no", 3], "object": {"metadata": {"namespace": "shop"}}},
            {"cells": ["db"], "object": {"metadata": {"namespace": "shop"}}},
        ],
    });
    let (columns, rows) = read(table.clone(), false);
    assert_eq!(columns, ["NAME", "READY"]);
    assert_eq!(rows, [["web", "3"], ["db", ""]]);
    let (columns, rows) = read(table, true);
    assert_eq!(columns, ["NAMESPACE", "NAME", "READY"]);
    assert_eq!(rows[0], ["shop", "web", "3"]);
}

#[test]
fn an_extension_without_tables_still_has_names() {
    let list =
        json!({"kind": "ThingList", "items": [{"metadata": {"name": "a", "namespace": "b"}}, 7]});
    let (columns, rows) = read(list, true);
    assert_eq!(columns, ["NAMESPACE", "NAME"]);
    assert_eq!(rows, [["b", "a"], ["", ""]]);
}

#[test]
fn columns_of_a_hostile_kind_are_cut() {
    let long = "x".repeat(100_000);
    let columns: Vec<_> = (0..1000)
        .map(|_| json!({"name": long, "priority": 0}))
        .collect();
    let cells: Vec<_> = (0..1000).map(|_| json!({"deep": [long]})).collect();
    let table = json!({"kind": "Table", "columnDefinitions": columns, "rows": [{"cells": cells}]});
    let (columns, rows) = read(table, true);
    assert_eq!(
        (columns.len(), rows[0].len()),
        (COLUMNS_MAX + 1, COLUMNS_MAX + 1)
    );
    assert!(
        columns
            .iter()
            .all(|name| name.len() <= COLUMN_CHARS_MAX + 3)
    );
    assert!(rows[0].iter().all(|cell| cell.len() <= CELL_CHARS_MAX + 3));
}

#[test]
fn yaml_is_for_reading() {
    let object = json!({
        "spec": {"env": [{"name": "DB_PASSWORD", "value": "swordfish"}], "text": "a\nb"},
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "managedFields": [{"manager": "x"}],
            "annotations": {LAST_APPLIED: "{\"kind\": \"Pod\"}"}},
    });
    let text = yaml(object, &Redactor::default());
    assert!(
        text.starts_with("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n"),
        "{text}"
    );
    for word in ["managedFields", "last-applied", "swordfish", "annotations"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("kind|rows|cells|items|metadata|[a-z]{1,5}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn fuzz_any_answer_has_as_many_cells_as_columns(value in any_value(), with_namespace: bool) {
        if let Ok(answer) = serde_json::from_value::<TableResponse>(value.clone()) {
            let (columns, rows) = answer.into_rows(with_namespace, &Redactor::default());
            prop_assert!(rows.iter().all(|row| row.len() == columns.len()));
        }
        prop_assert!(!yaml(value, &Redactor::default()).is_empty());
    }
}
