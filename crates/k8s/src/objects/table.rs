//! The table of `kubectl get`, as an API server sends it.

use serde::Deserialize;
use serde_json::Value;

/// Limits on columns and cells: the author of a custom resource defines its columns.
pub(super) const COLUMNS_MAX: usize = 20;
pub(super) const COLUMN_CHARS_MAX: usize = 40;
pub(super) const CELL_CHARS_MAX: usize = 200;

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

    /// The columns of `kubectl get` and the rows, with a column for the namespace if the
    /// objects come from several.
    pub(super) fn into_rows(self, with_namespace: bool) -> (Vec<String>, Vec<Vec<String>>) {
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
            let names = names.map(|name| truncated(name.trim(), COLUMN_CHARS_MAX).to_uppercase());
            columns = names.collect();
        }
        let table_rows = self.rows.into_iter().map(|row| {
            let cell = |index: &usize| cell(row.cells.get(*index));
            let cells = shown.iter().map(cell).collect();
            let namespace = row.object["metadata"]["namespace"].as_str();
            (namespace.map(str::to_owned), cells)
        });
        let listed_objects = self.items.into_iter().map(|item| {
            let named: PartialObject = serde_json::from_value(item).unwrap_or_default();
            let name = named.metadata.name.unwrap_or_default();
            (
                named.metadata.namespace,
                vec![truncated(&name, CELL_CHARS_MAX)],
            )
        });
        let width = columns.len();
        let rows = table_rows
            .chain(listed_objects)
            .map(|(namespace, mut cells): (_, Vec<_>)| {
                cells.resize(width, String::new());
                if with_namespace {
                    cells.insert(0, truncated(&namespace.unwrap_or_default(), CELL_CHARS_MAX));
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

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => truncated(text, CELL_CHARS_MAX),
        Some(other) => truncated(&other.to_string(), CELL_CHARS_MAX),
    }
}

fn truncated(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}
