//! Objects of any kind: in the API server's own columns, or whole, as YAML.

use http::Request;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::Value;

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, Operation},
    kinds::ApiKind,
    list::{ListQuery, PAGE_SIZE, Page, Remaining, page_params},
    name::Name,
    read_only::RefusedRequest,
};
use kubecrier_redact::Redactor;

const JSON: &str = "application/json";
/// No alternative to a table: of Secrets, nothing else may be read.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// An aggregated API server without tables returns the objects, and their names are shown.
const TABLE_OR_OBJECTS: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Limits on columns and cells: the author of a custom resource defines its columns.
const COLUMNS_MAX: usize = 20;
const COLUMN_CHARS_MAX: usize = 40;
const CELL_CHARS_MAX: usize = 200;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A kind as a caller names it: `deploy`, `Deployment`, `deployments.apps`.
#[derive(Clone, Debug, Default)]
pub struct KindQuery {
    /// As kubectl takes it.
    pub kind: String,
    /// Group and version, if the caller names them.
    pub api_version: Option<String>,
}

/// Objects as a table.
#[derive(Clone, Debug)]
pub struct ObjectTable {
    /// Full name of the resource: `deployments.apps`.
    pub resource: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// One cell per column.
    pub rows: Page<Vec<String>>,
}

/// Whole objects as YAML.
#[derive(Clone, Debug)]
pub struct ObjectText {
    /// Full name of the resource.
    pub resource: String,
    /// One document per object.
    pub documents: Page<String>,
}

/// The response to a request for a table; an aggregated API server without tables returns
/// the objects.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TableResponse {
    column_definitions: Vec<ColumnDefinition>,
    rows: Vec<TableRow>,
    items: Vec<Value>,
    kind: String,
    metadata: ResponseMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ColumnDefinition {
    name: String,
    priority: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TableRow {
    cells: Vec<Value>,
    object: PartialObject,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PartialObject {
    metadata: ResponseMeta,
}

/// Metadata of a list or of an object: the fields of both.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResponseMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<usize>,
    namespace: Option<String>,
    name: Option<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Objects of a kind, in the columns of `kubectl get`.
    pub async fn objects(
        &self,
        kind: &KindQuery,
        query: &ListQuery,
    ) -> Result<ObjectTable, ClusterError> {
        let kind = self.kind(&kind.kind, kind.api_version.as_deref()).await?;
        let mut columns = Vec::new();
        let accept = if kind.is_secret() {
            TABLE
        } else {
            TABLE_OR_OBJECTS
        };
        let with_namespace = kind.namespaced && query.namespace.is_none();
        let rows = self
            .list_pages(&kind, query, accept, |response: &mut TableResponse| {
                let (names, rows) = std::mem::take(response).into_rows(with_namespace);
                columns = names;
                rows
            })
            .await?;
        Ok(ObjectTable {
            resource: kind.full_name(),
            columns,
            rows,
        })
    }

    /// Objects of a kind, as YAML.
    pub async fn object_texts(
        &self,
        kind: &KindQuery,
        query: &ListQuery,
    ) -> Result<ObjectText, ClusterError> {
        let kind = self.readable_kind(kind, None).await?;
        let (api_version, name) = (kind.api_version(), kind.kind.clone());
        let documents = self
            .list_pages(&kind, query, JSON, |response: &mut TableResponse| {
                let items = std::mem::take(&mut response.items).into_iter();
                // Objects in a list have no apiVersion and kind.
                let named = items.map(|item| match item {
                    Value::Object(mut fields) => {
                        fields.insert("apiVersion".to_owned(), api_version.clone().into());
                        fields.insert("kind".to_owned(), name.clone().into());
                        Value::Object(fields)
                    }
                    other => other,
                });
                named.map(|item| yaml(item, self.redactor())).collect()
            })
            .await?;
        Ok(ObjectText {
            resource: kind.full_name(),
            documents,
        })
    }

    /// One object, in the columns of `kubectl get`.
    pub async fn object(
        &self,
        kind: &KindQuery,
        namespace: Option<&Name>,
        name: &Name,
    ) -> Result<ObjectTable, ClusterError> {
        let kind = self.kind(&kind.kind, kind.api_version.as_deref()).await?;
        let accept = if kind.is_secret() {
            TABLE
        } else {
            TABLE_OR_OBJECTS
        };
        let response: Value = self.get_object(&kind, namespace, name, accept).await?;
        let response = match response.get("kind").and_then(Value::as_str) {
            Some("Table") => serde_json::from_value(response).unwrap_or_default(),
            _ => TableResponse {
                items: vec![response],
                ..TableResponse::default()
            },
        };
        let (columns, rows) = response.into_rows(false);
        Ok(ObjectTable {
            resource: kind.full_name(),
            columns,
            rows: Page::new(rows, Remaining::NONE),
        })
    }

    /// One object, as YAML.
    pub async fn object_text(
        &self,
        kind: &KindQuery,
        namespace: Option<&Name>,
        name: &Name,
    ) -> Result<ObjectText, ClusterError> {
        let kind = self.readable_kind(kind, Some(name)).await?;
        let object: Value = self.get_object(&kind, namespace, name, JSON).await?;
        Ok(ObjectText {
            resource: kind.full_name(),
            documents: Page::new(vec![yaml(object, self.redactor())], Remaining::NONE),
        })
    }

    /// Resolves a kind whose objects may be shown whole: not Secrets.
    async fn readable_kind(
        &self,
        kind: &KindQuery,
        name: Option<&Name>,
    ) -> Result<ApiKind, ClusterError> {
        let kind = self.kind(&kind.kind, kind.api_version.as_deref()).await?;
        if !kind.is_secret() {
            return Ok(kind);
        }
        let operation = Operation {
            verb: "read",
            resource: "secrets",
            name: name.map(Name::as_str),
            namespace: None,
            context: self.context(),
        };
        Err(ClusterError::refused(&operation, &RefusedRequest::Secret))
    }

    async fn get_object(
        &self,
        kind: &ApiKind,
        namespace: Option<&Name>,
        name: &Name,
        accept: &'static str,
    ) -> Result<Value, ClusterError> {
        let resource = kind.full_name();
        let namespace = namespace.filter(|_| kind.namespaced);
        let operation = Operation {
            verb: "get",
            resource: &resource,
            name: Some(name.as_str()),
            namespace: namespace.map(Name::as_str),
            context: self.context(),
        };
        let path = format!("{}/{name}", kind.path(namespace));
        let request = get_request(&path);
        self.raw(&operation, request, accept)
            .await
            .map_err(|error| {
                let hint =
                    format!("names are exact; list them with resources_list, kind {resource}");
                error.if_not_found(&hint)
            })
    }

    /// Lists page by page up to the limit.
    async fn list_pages<T>(
        &self,
        kind: &ApiKind,
        query: &ListQuery,
        accept: &'static str,
        mut convert: impl FnMut(&mut TableResponse) -> Vec<T>,
    ) -> Result<Page<T>, ClusterError> {
        let resource = kind.full_name();
        let namespace = query.namespace.as_ref().filter(|_| kind.namespaced);
        let operation = Operation {
            verb: "list",
            resource: &resource,
            name: None,
            namespace: namespace.map(Name::as_str),
            context: self.context(),
        };
        let selected = list_params(
            query.label_selector.as_deref(),
            query.field_selector.as_deref(),
        );
        let mut items: Vec<T> = Vec::new();
        let mut continue_token = None;
        let more = loop {
            let missing = u32::try_from(query.limit - items.len()).unwrap_or(PAGE_SIZE);
            let params = page_params(&selected, missing.min(PAGE_SIZE), continue_token.take());
            let request = list_request(&kind.path(namespace), &params)
                .map_err(|error| ClusterError::from_kube(&operation, &error))?;
            let mut response: TableResponse = match self.raw(&operation, request, accept).await {
                Ok(response) => response,
                Err(error) if items.is_empty() => return Err(error),
                Err(error) => {
                    let mut truncated = Page::new(items, Remaining::AtLeast(1));
                    truncated.caveat = Some(format!("the list ends early: {error}"));
                    return Ok(truncated);
                }
            };
            let meta = std::mem::take(&mut response.metadata);
            items.extend(convert(&mut response));
            let next = meta.next.filter(|token| !token.is_empty());
            if items.len() >= query.limit {
                // An aggregated API server may ignore the limit.
                let excess = items.len() - query.limit;
                items.truncate(query.limit);
                break match (next, meta.remaining_item_count) {
                    (None, _) => Remaining::Exactly(excess),
                    (Some(_), Some(remaining)) => Remaining::Exactly(remaining + excess),
                    (Some(_), None) => Remaining::AtLeast(1 + excess),
                };
            }
            match next {
                None => break Remaining::NONE,
                Some(next) => continue_token = Some(next),
            }
        };
        let mut page = Page::new(items, more);
        if query.namespace.is_some() && !kind.namespaced {
            page.caveat = Some(format!(
                "{resource} are not in any namespace: all are listed"
            ));
        }
        Ok(page)
    }
}

/// A GET request. The parts of the path are validated names.
fn get_request(path: &str) -> Request<Vec<u8>> {
    let mut request = Request::new(Vec::new());
    *request.uri_mut() = path
        .parse()
        .expect("names are checked before they come here");
    request
}

/// A list request. The client library encodes the selectors.
fn list_request(path: &str, params: &ListParams) -> kube::Result<Request<Vec<u8>>> {
    kube::core::Request::new(path)
        .list(params)
        .map_err(kube::Error::BuildRequest)
}

// === impl TableResponse ===

impl TableResponse {
    /// The columns of `kubectl get` and the rows, with a column for the namespace if the
    /// objects come from several.
    fn into_rows(self, with_namespace: bool) -> (Vec<String>, Vec<Vec<String>>) {
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
            (row.object.metadata.namespace, cells)
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

/// The object as YAML for a person: without `managedFields`, without the
/// last-applied-configuration of kubectl, redacted.
fn yaml(mut object: Value, redactor: &Redactor) -> String {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    redactor.json(&mut object);
    serde_saphyr::to_string(&object)
        .unwrap_or_else(|error| format!("# cannot be written as YAML: {error}\n"))
}

#[cfg(test)]
mod tests;
