//! Objects of any kind: in the API server's own columns, or whole, as YAML.

use http::Request;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::Value;

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, Operation},
    kinds::ApiKind,
    list::{ListQuery, More, PAGE, Page, page},
    name::Name,
    read_only::Refused,
};
use kubecrier_redact::Redactor;

const JSON: &str = "application/json";
/// No second choice for an API server that has no tables: of Secrets, nothing else
/// may come.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// An extension without tables answers with the objects, and their names are shown.
const TABLE_OR_OBJECTS: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Whoever writes a custom kind writes its columns too.
const COLUMNS_MAX: usize = 20;
const COLUMN_CHARS_MAX: usize = 40;
const CELL_CHARS_MAX: usize = 200;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which kind: `deploy`, `Deployment`, `deployments.apps`.
#[derive(Clone, Debug, Default)]
pub struct KindQuery {
    /// As kubectl takes it.
    pub kind: String,
    /// Only in that group and version.
    pub api_version: Option<String>,
}

/// Objects in columns.
#[derive(Clone, Debug)]
pub struct ObjectTable {
    /// The kind's full name, `deployments.apps`.
    pub resource: String,
    /// What the columns are called.
    pub columns: Vec<String>,
    /// A cell per column.
    pub rows: Page<Vec<String>>,
}

/// A whole object, or several.
#[derive(Clone, Debug)]
pub struct ObjectText {
    /// The kind's full name.
    pub resource: String,
    /// One document per object.
    pub documents: Page<String>,
}

/// What an API server answers when it is asked for a table; an extension that has
/// none answers with objects.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
    items: Vec<Value>,
    kind: String,
    metadata: Meta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Column {
    name: String,
    priority: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Row {
    cells: Vec<Value>,
    object: Named,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Meta,
}

/// Of a list or of an object: the fields that either has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<usize>,
    namespace: Option<String>,
    name: Option<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Objects of a kind, in the columns that kubectl shows.
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
        let spread = kind.namespaced && query.namespace.is_none();
        let rows = self
            .pages(&kind, query, accept, |answer: &mut Answer| {
                let (names, rows) = std::mem::take(answer).into_rows(spread);
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

    /// Whole objects of a kind.
    pub async fn object_texts(
        &self,
        kind: &KindQuery,
        query: &ListQuery,
    ) -> Result<ObjectText, ClusterError> {
        let kind = self.readable(kind, None).await?;
        let (api_version, name) = (kind.api_version(), kind.kind.clone());
        let documents = self
            .pages(&kind, query, JSON, |answer: &mut Answer| {
                let items = std::mem::take(&mut answer.items).into_iter();
                // Objects in a list do not say what they are.
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

    /// One object, in columns.
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
        let answer: Value = self.one(&kind, namespace, name, accept).await?;
        let answer = match answer.get("kind").and_then(Value::as_str) {
            Some("Table") => serde_json::from_value(answer).unwrap_or_default(),
            _ => Answer {
                items: vec![answer],
                ..Answer::default()
            },
        };
        let (columns, rows) = answer.into_rows(false);
        Ok(ObjectTable {
            resource: kind.full_name(),
            columns,
            rows: Page::new(rows, More::NONE),
        })
    }

    /// One object, whole.
    pub async fn object_text(
        &self,
        kind: &KindQuery,
        namespace: Option<&Name>,
        name: &Name,
    ) -> Result<ObjectText, ClusterError> {
        let kind = self.readable(kind, Some(name)).await?;
        let object: Value = self.one(&kind, namespace, name, JSON).await?;
        Ok(ObjectText {
            resource: kind.full_name(),
            documents: Page::new(vec![yaml(object, self.redactor())], More::NONE),
        })
    }

    /// A kind whose objects may be shown whole.
    async fn readable(
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
        Err(ClusterError::refused(&operation, &Refused::Secret))
    }

    async fn one(
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
        let request = get(&path);
        self.raw(&operation, request, accept)
            .await
            .map_err(|error| {
                let listed =
                    format!("names are exact; list them with resources_list, kind {resource}");
                error.if_not_found(&listed)
            })
    }

    /// Asks page by page until the limit is met.
    async fn pages<T>(
        &self,
        kind: &ApiKind,
        query: &ListQuery,
        accept: &'static str,
        mut take: impl FnMut(&mut Answer) -> Vec<T>,
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
        let mut from = None;
        let more = loop {
            let wanted = u32::try_from(query.limit - items.len()).unwrap_or(PAGE);
            let params = page(&selected, wanted.min(PAGE), from.take());
            let request = list(&kind.path(namespace), &params)
                .map_err(|error| ClusterError::from_kube(&operation, &error))?;
            let mut answer: Answer = match self.raw(&operation, request, accept).await {
                Ok(answer) => answer,
                Err(error) if items.is_empty() => return Err(error),
                Err(error) => {
                    let mut cut = Page::new(items, More::AtLeast(1));
                    cut.caveat = Some(format!("the list ends early: {error}"));
                    return Ok(cut);
                }
            };
            let meta = std::mem::take(&mut answer.metadata);
            items.extend(take(&mut answer));
            let next = meta.next.filter(|token| !token.is_empty());
            if items.len() >= query.limit {
                // An extension may not know of limits.
                let over = items.len() - query.limit;
                items.truncate(query.limit);
                break match (next, meta.remaining_item_count) {
                    (None, _) => More::Exactly(over),
                    (Some(_), Some(rest)) => More::Exactly(rest + over),
                    (Some(_), None) => More::AtLeast(1 + over),
                };
            }
            match next {
                None => break More::NONE,
                Some(next) => from = Some(next),
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

/// The path has only parts that were checked.
fn get(path: &str) -> Request<Vec<u8>> {
    let mut request = Request::new(Vec::new());
    *request.uri_mut() = path
        .parse()
        .expect("names are checked before they come here");
    request
}

/// The selectors are written into the query by the client library.
fn list(path: &str, params: &ListParams) -> kube::Result<Request<Vec<u8>>> {
    kube::core::Request::new(path)
        .list(params)
        .map_err(kube::Error::BuildRequest)
}

// === impl Answer ===

impl Answer {
    /// The columns that kubectl would show, and the rows; with namespaces if objects
    /// come from several.
    fn into_rows(self, spread: bool) -> (Vec<String>, Vec<Vec<String>>) {
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
            let names = names.map(|name| cut(name.trim(), COLUMN_CHARS_MAX).to_uppercase());
            columns = names.collect();
        }
        let tabled = self.rows.into_iter().map(|row| {
            let cell = |index: &usize| cell(row.cells.get(*index));
            let cells = shown.iter().map(cell).collect();
            (row.object.metadata.namespace, cells)
        });
        let plain = self.items.into_iter().map(|item| {
            let named: Named = serde_json::from_value(item).unwrap_or_default();
            let name = named.metadata.name.unwrap_or_default();
            (named.metadata.namespace, vec![cut(&name, CELL_CHARS_MAX)])
        });
        let width = columns.len();
        let rows = tabled
            .chain(plain)
            .map(|(namespace, mut cells): (_, Vec<_>)| {
                cells.resize(width, String::new());
                if spread {
                    cells.insert(0, cut(&namespace.unwrap_or_default(), CELL_CHARS_MAX));
                }
                cells
            });
        let rows = rows.collect();
        if spread {
            columns.insert(0, "NAMESPACE".to_owned());
        }
        (columns, rows)
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => cut(text, CELL_CHARS_MAX),
        Some(other) => cut(&other.to_string(), CELL_CHARS_MAX),
    }
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}...", &text[..at]),
    }
}

/// The object as a person reads it: without the bookkeeping of who set which field,
/// without the copy of itself that kubectl leaves, without secrets.
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
