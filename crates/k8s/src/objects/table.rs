//! The table of `kubectl get`, as an API server sends it.

use serde::Deserialize;
use serde_json::Value;

use crate::identity::{self, Fields};
use kubecrier_redact::Redactor;

/// Limits on columns and cells: the author of a custom resource defines its columns.
pub(super) const COLUMNS_MAX: usize = 20;
pub(super) const COLUMN_CHARS_MAX: usize = 40;
pub(super) const CELL_CHARS_MAX: usize = 200;
const CELL_BYTES_READ_MAX: usize = 4096;

/// The response to a request for a table; an aggregated API server without tables returns
/// the objects.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TableResponse {
    column_definitions: Vec<ColumnDefinition>,
    pub(super) rows: Vec<TableRow>,
    pub(super) items: Vec<Value>,
    kind: String,
    pub(super) metadata: ResponseMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ColumnDefinition {
    name: String,
    priority: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TableRow {
    cells: Vec<Value>,
    /// The metadata of the object, or all of it where that was asked for.
    pub(super) object: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PartialObject {
    metadata: ResponseMeta,
}

/// Metadata of a list or of an object: the fields of both.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResponseMeta {
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
    pub(super) remaining_item_count: Option<usize>,
    namespace: Option<String>,
    name: Option<String>,
}

// === impl TableResponse ===

impl TableResponse {
    /// One object, from an API server without tables.
    pub(super) fn of_object(object: Value) -> Self {
        Self {
            items: vec![object],
            ..Self::default()
        }
    }

    /// The columns of `kubectl get` and the rows, redacted, with a column for the namespace if the
    /// objects come from several.
    pub(super) fn into_rows(
        self,
        with_namespace: bool,
        redactor: &Redactor,
    ) -> (Vec<String>, Vec<Vec<String>>) {
        let mut fields = Fields::new(redactor);
        let is_table = self.kind == "Table" || !self.column_definitions.is_empty();
        let shown: Vec<usize> = (self.column_definitions.iter().enumerate())
            .filter(|(_, column)| column.priority == 0)
            .map(|(index, _)| index)
            .take(COLUMNS_MAX)
            .collect();
        let mut columns = vec!["NAME".to_owned()];
        if is_table {
            let names = shown
                .iter()
                .map(|index| &self.column_definitions[*index].name);
            let names = names.map(|name| {
                let name = identity::key(redactor, name.trim());
                truncated(&name, COLUMN_CHARS_MAX).to_uppercase()
            });
            columns = names.collect();
        }
        // A column is called as the field it shows.
        let names: Vec<_> = columns.iter().map(|name| name.to_lowercase()).collect();
        let name = |text: String| truncated(&identity::name(redactor, &text), CELL_CHARS_MAX);
        let table_rows = self.rows.into_iter().map(|row| {
            let cells = shown.iter().zip(&names);
            let cells = cells.map(|(index, name)| cell(&mut fields, name, row.cells.get(*index)));
            let namespace = row.object["metadata"]["namespace"].as_str();
            (namespace.map(str::to_owned), cells.collect())
        });
        let listed_objects = self.items.into_iter().map(|item| {
            let named: PartialObject = serde_json::from_value(item).unwrap_or_default();
            let shown = name(named.metadata.name.unwrap_or_default());
            (named.metadata.namespace, vec![shown])
        });
        let width = columns.len();
        let rows = table_rows
            .chain(listed_objects)
            .map(|(namespace, mut cells): (_, Vec<_>)| {
                cells.resize(width, String::new());
                if with_namespace {
                    cells.insert(0, name(namespace.unwrap_or_default()));
                }
                cells
            });
        let rows = rows.collect();
        if with_namespace {
            columns.insert(0, "NAMESPACE".to_owned());
        }
        (columns, rows)
    }
}

/// A cell, redacted and then truncated: a part of a secret would not be recognised.
fn cell(fields: &mut Fields<'_>, column: &str, value: Option<&Value>) -> String {
    let mut text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    text.truncate(text.floor_char_boundary(CELL_BYTES_READ_MAX));
    truncated(&fields.show(column, text), CELL_CHARS_MAX)
}

fn truncated(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}
