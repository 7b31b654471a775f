//! Objects of any kind: in the API server's own columns, or whole, as YAML.

mod table;

use http::Request;
use kube::api::ListParams;
use serde_json::Value;

use self::table::TableResponse;
use super::{
    allowed::ObjectRef,
    client::{Cluster, list_params},
    each_namespace::Answers,
    error::{ClusterError, ErrorKind, Operation},
    identity,
    kinds::ApiKind,
    list::{ListQuery, PAGE_SIZE, Page, Remaining, page_params},
    name::Name,
    read_only::RefusedRequest,
    termination,
};
use kubecrier_redact::Redactor;

const JSON: &str = "application/json";
/// No alternative to a table: of Secrets, nothing else may be read.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// An aggregated API server without tables returns the objects, and their names are shown.
const TABLE_OR_OBJECTS: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A kind as a caller names it: `deploy`, `Deployment`, `deployments.apps`.
#[derive(Clone, Debug, Default)]
pub struct KindQuery {
    /// As kubectl takes it.
    pub kind: String,
    /// Group and version, if the caller names them.
    pub api_version: Option<String>,
    /// Kinds that the caller may not name.
    pub refused: Vec<RefusedKind>,
}

/// A kind that is not shown, and why.
#[derive(Clone, Debug)]
pub struct RefusedKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// As paths spell it.
    pub plural: &'static str,
    /// Why it is not shown.
    pub reason: String,
}

/// Objects as a table, redacted.
#[derive(Clone, Debug)]
pub struct ObjectTable {
    /// Full name of the resource: `deployments.apps`.
    pub resource: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// One cell per column.
    pub rows: Page<Vec<String>>,
}

/// Whole objects as YAML, redacted.
#[derive(Clone, Debug)]
pub struct ObjectText {
    /// Full name of the resource.
    pub resource: String,
    /// One document per object.
    pub documents: Page<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Objects of a kind, in the columns of `kubectl get`.
    pub async fn objects(
        &self,
        kind: &KindQuery,
        query: &ListQuery,
    ) -> Result<ObjectTable, ClusterError> {
        let kind = self.queried_kind(kind).await?;
        let with_namespace = kind.namespaced && query.namespace.is_none();
        let kind = &kind;
        let ask = async |query: ListQuery| self.table(kind, &query, with_namespace).await;
        let mut tables = self.each_query(kind, query, ask).await?;
        let columns = (tables.all.iter_mut()).map(|(columns, _)| std::mem::take(columns));
        let columns = columns.max_by_key(Vec::len).unwrap_or_default();
        let pages = Answers {
            all: tables.all.into_iter().map(|(_, rows)| rows).collect(),
            caveat: tables.caveat,
        };
        Ok(ObjectTable {
            resource: kind.full_name(),
            columns,
            rows: pages.into_page(query.limit),
        })
    }

    /// The columns and the rows of one list.
    async fn table(
        &self,
        kind: &ApiKind,
        query: &ListQuery,
        with_namespace: bool,
    ) -> Result<(Vec<String>, Page<Vec<String>>), ClusterError> {
        let mut columns = Vec::new();
        let accept = if kind.is_secret() {
            TABLE
        } else {
            TABLE_OR_OBJECTS
        };
        let rows = self
            .list_pages(kind, query, accept, |response: &mut TableResponse| {
                if kind.is_event() {
                    response.rows.retain(|row| !self.hides_event(&row.object));
                    response.items.retain(|item| !self.hides_event(item));
                }
                let (names, rows) =
                    std::mem::take(response).into_rows(with_namespace, self.redactor());
                columns = names;
                rows
            })
            .await?;
        Ok((columns, rows))
    }

    /// Objects of a kind, as YAML.
    pub async fn object_texts(
        &self,
        kind: &KindQuery,
        query: &ListQuery,
    ) -> Result<ObjectText, ClusterError> {
        let kind = self.readable_kind(kind, None).await?;
        let kind = &kind;
        let ask = async |query: ListQuery| self.documents(kind, &query).await;
        let pages = self.each_query(kind, query, ask).await?;
        Ok(ObjectText {
            resource: kind.full_name(),
            documents: pages.into_page(query.limit),
        })
    }

    /// The objects of one list, as YAML.
    async fn documents(
        &self,
        kind: &ApiKind,
        query: &ListQuery,
    ) -> Result<Page<String>, ClusterError> {
        let (api_version, name) = (kind.api_version(), kind.kind.clone());
        self.list_pages(kind, query, JSON, |response: &mut TableResponse| {
            let items = std::mem::take(&mut response.items).into_iter();
            let items = items.filter(|item| !(kind.is_event() && self.hides_event(item)));
            // Objects in a list have no apiVersion and kind.
            let named = items.map(|item| match item {
                Value::Object(mut fields) => {
                    fields.insert("apiVersion".to_owned(), api_version.clone().into());
                    fields.insert("kind".to_owned(), name.clone().into());
                    Value::Object(fields)
                }
                other => other,
            });
            named.map(|item| self.yaml(item)).collect()
        })
        .await
    }

    /// One object, in the columns of `kubectl get`.
    pub async fn object(
        &self,
        kind: &KindQuery,
        namespace: Option<&Name>,
        name: &Name,
    ) -> Result<ObjectTable, ClusterError> {
        let kind = self.queried_kind(kind).await?;
        let accept = if kind.is_secret() {
            TABLE
        } else {
            TABLE_OR_OBJECTS
        };
        let response: Value = self.get_object(&kind, namespace, name, accept).await?;
        let response = match response.get("kind").and_then(Value::as_str) {
            Some("Table") => serde_json::from_value(response).unwrap_or_default(),
            _ => TableResponse::of_object(response),
        };
        let (columns, rows) = response.into_rows(false, self.redactor());
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
            documents: Page::new(vec![self.yaml(object)], Remaining::NONE),
        })
    }

    /// Resolves a kind that the caller may name.
    async fn queried_kind(&self, query: &KindQuery) -> Result<ApiKind, ClusterError> {
        let kind = self.kind(&query.kind, query.api_version.as_deref()).await?;
        let is_kind = |one: &&RefusedKind| (one.group, one.plural) == (&*kind.group, &*kind.plural);
        let Some(refused) = query.refused.iter().find(is_kind) else {
            return Ok(kind);
        };
        let (resource, context) = (kind.full_name(), self.context());
        Err(ClusterError::new(
            ErrorKind::Forbidden,
            format!("cannot read `{resource}` of context `{context}`"),
            &refused.reason,
            None,
        ))
    }

    /// Resolves a kind whose objects may be shown whole: not Secrets.
    async fn readable_kind(
        &self,
        kind: &KindQuery,
        name: Option<&Name>,
    ) -> Result<ApiKind, ClusterError> {
        let kind = self.queried_kind(kind).await?;
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
        let hint = format!("names are exact; list them with resources_list, kind {resource}");
        let hint = |error: ClusterError| error.if_not_found(&hint);
        if kind.is_event() && self.scope().hides_some() {
            // A table does not say what an event is about.
            let event: Value = self
                .raw(&operation, get_request(&path), JSON)
                .await
                .map_err(hint)?;
            if self.hides_event(&event) {
                let (kind, action) = (ErrorKind::NotFound, operation.to_string());
                return Err(hint(ClusterError::new(
                    kind,
                    action,
                    "there is none of that name",
                    None,
                )));
            }
        }
        let request = get_request(&path);
        self.raw(&operation, request, accept).await.map_err(hint)
    }

    /// Whether an event is about an object that must not be shown.
    fn hides_event(&self, event: &Value) -> bool {
        // The two groups of events have different names for it.
        let about = match &event["involvedObject"] {
            Value::Null => &event["regarding"],
            involved => involved,
        };
        let text = |field: &str| about[field].as_str().unwrap_or_default();
        self.scope().hides_some()
            && self.hides(ObjectRef {
                api_version: text("apiVersion"),
                kind: text("kind"),
                namespace: text("namespace"),
                name: text("name"),
            })
    }

    /// The object as YAML, without owners of denied kinds.
    fn yaml(&self, mut object: Value) -> String {
        if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") {
            let text = |owner: &Value, field: &str| owner[field].as_str().map(str::to_owned);
            owners.retain(|owner| {
                let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
                let denied = &self.scope().denied;
                !denied.denies_object(&api_version.unwrap_or_default(), &kind.unwrap_or_default())
            });
        }
        if self.scope().hides_logs {
            termination::hide_log_tails(&mut object);
        }
        yaml(object, self.redactor())
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
            let mut request = list_request(&kind.path(namespace), &params)
                .map_err(|error| self.error(&operation, &error))?;
            if kind.is_event() && self.scope().hides_some() {
                // Metadata alone does not say what an event is about.
                include_objects(&mut request);
            }
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

/// Asks for whole objects beside the cells of a table.
fn include_objects(request: &mut Request<Vec<u8>>) {
    let uri = request.uri();
    let uri = format!("{uri}&includeObject=Object").parse();
    *request.uri_mut() = uri.expect("a list request has a query, to which a word is added");
}

/// The object as YAML for a person: without `managedFields`, without the
/// last-applied-configuration of kubectl, redacted, with its names as they are.
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
    identity::json(redactor, &mut object);
    serde_saphyr::to_string(&object)
        .unwrap_or_else(|error| format!("# cannot be written as YAML: {error}\n"))
}

#[cfg(test)]
mod tests;
