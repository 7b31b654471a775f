//! The answer of a tool: text for a model, the same as structured data, and never more
//! than the limit. Both are redacted field by field while they are made, so that names stay
//! as they are.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{cell::Cell, content, doors::SwitchedOff, table::Table};
use kubecrier_core::duration::ParseDurationError;
use kubecrier_k8s::{ClusterError, ErrorKind, Page, Remaining, identity};
use kubecrier_redact::Redactor;

/// A tool's answer, as it may leave.
#[derive(Debug)]
pub struct Output {
    text: String,
    data: Map<String, Value>,
}

/// A failure that the model should read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not fit.
    #[error("{0}")]
    Arguments(String),
    /// No such object, or none that the caller may know of.
    #[error("{0}")]
    NotFound(String),
    /// A limit is reached.
    #[error("{0}")]
    Limit(String),
    /// Not on this connection.
    #[error("{0}")]
    Unsupported(String),
    /// The operator has switched it off.
    #[error("{0}")]
    SwitchedOff(String),
    /// The store that servers share cannot be reached.
    #[error("{0}")]
    Unavailable(String),
    /// A bug of the server.
    #[error("the tool failed on a bug of the server, which ends now; its log says more")]
    Bug,
    /// The cluster refused or failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// The columns of a list.
pub(super) struct Listing<T> {
    /// The columns.
    pub(super) header: &'static [&'static str],
    /// A cell per column.
    pub(super) cells: fn(&T) -> Vec<Cell>,
    /// Members of a row that were composed of redacted text and names.
    pub(super) composed: &'static [&'static str],
    /// The name of the rows, as the key of the data and in "no ... found".
    pub(super) plural: &'static str,
    /// The hint how to get a shorter list.
    pub(super) narrow: &'static str,
}

// === impl Output ===

impl Output {
    /// An answer of data, which is redacted here, and text that was composed of redacted text
    /// and names.
    pub(super) fn new(redactor: &Redactor, text: String, data: Map<String, Value>) -> Self {
        let mut data = Value::Object(data);
        identity::answer(redactor, &mut data);
        let data = match data {
            Value::Object(data) => data,
            _ => Map::new(),
        };
        Self { text, data }
    }

    /// Data that is read as it is.
    pub(super) fn json(redactor: &Redactor, data: Map<String, Value>) -> Self {
        let output = Self::new(redactor, String::new(), data);
        let text = serde_json::to_string_pretty(&output.data).unwrap_or_default();
        output.with_text(text)
    }

    /// The same answer with another text, composed of redacted text and names.
    pub(super) fn with_text(mut self, text: String) -> Self {
        self.text = text;
        self
    }

    /// The same answer with more data, composed of redacted text and names.
    pub(super) fn with_composed(mut self, key: &str, value: Value) -> Self {
        self.data.insert(key.to_owned(), value);
        self
    }

    /// The same answer with the rows of a resource under the key `items`.
    pub(super) fn with_rows_as_items(mut self, resource: &str) -> Self {
        if let Some(rows) = self.data.remove(resource) {
            self.data.insert("items".to_owned(), rows);
        }
        self.data.insert("resource".to_owned(), resource.into());
        self
    }

    /// The text, for a model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The structured content, for a program.
    pub fn data(&self) -> &Map<String, Value> {
        &self.data
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(Value::Object(self.data));
        result
    }
}

// === impl ToolError ===

impl ToolError {
    /// The kind of the error, for metrics and programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Arguments(_) => ErrorKind::Invalid.as_str(),
            Self::NotFound(_) => ErrorKind::NotFound.as_str(),
            Self::Limit(_) => "limit",
            Self::Unsupported(_) => "unsupported",
            Self::SwitchedOff(_) => "switched_off",
            Self::Unavailable(_) => "unavailable",
            Self::Bug => "bug",
            Self::Cluster(error) => error.kind().as_str(),
        }
    }

    /// The hint what to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Arguments(_)
            | Self::NotFound(_)
            | Self::Limit(_)
            | Self::Unsupported(_)
            | Self::SwitchedOff(_)
            | Self::Unavailable(_)
            | Self::Bug => None,
            Self::Cluster(error) => error.hint(),
        }
    }

    /// The error only if it is that of a store that cannot be reached; of others the next step
    /// tells.
    pub(super) fn unless_unavailable(self) -> Result<(), Self> {
        match self {
            Self::Unavailable(_) => Err(self),
            _ => Ok(()),
        }
    }

    /// Whether the client can help itself with another call. Otherwise the cluster or
    /// the server has to be mended first.
    pub(super) fn is_client_error(&self) -> bool {
        match self {
            Self::Arguments(_)
            | Self::NotFound(_)
            | Self::Limit(_)
            | Self::Unsupported(_)
            | Self::SwitchedOff(_) => true,
            Self::Unavailable(_) | Self::Bug => false,
            Self::Cluster(error) => {
                matches!(
                    error.kind(),
                    ErrorKind::Invalid | ErrorKind::Context | ErrorKind::NotFound
                )
            }
        }
    }

    /// The message and the hint as they may leave.
    pub(super) fn redacted(&self, redactor: &Redactor) -> (String, Option<String>) {
        match self {
            Self::Cluster(error) => {
                let error = error.redacted(redactor);
                (error.to_string(), error.hint().map(str::to_owned))
            }
            own => (identity::sentence(redactor, &own.to_string()), None),
        }
    }

    pub(super) fn into_result(self, redactor: &Redactor) -> CallToolResult {
        let (message, hint) = self.redacted(redactor);
        let text = match &hint {
            Some(hint) => format!("{message}\nhint: {hint}"),
            None => message.clone(),
        };
        let data = json!({"error": {
            "kind": self.kind(),
            "message": message,
            "hint": hint,
        }});
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        result.structured_content = Some(data);
        result
    }
}

impl From<SwitchedOff> for ToolError {
    fn from(off: SwitchedOff) -> Self {
        Self::SwitchedOff(off.to_string())
    }
}

impl From<ParseDurationError> for ToolError {
    fn from(error: ParseDurationError) -> Self {
        Self::Arguments(error.to_string())
    }
}

// === impl Listing ===

impl<T: Serialize> Listing<T> {
    /// Renders as many rows as fit, with the number of those that do not.
    pub(super) fn show(&self, redactor: &Redactor, page: Page<T>, bytes_max: usize) -> Output {
        let header = self.header.iter().map(ToString::to_string).collect();
        let page = page.map(|item| {
            let mut value = serde_json::to_value(&item).unwrap_or_default();
            let composed = (self.composed.iter())
                .filter_map(|key| Some((*key, value.get_mut(key)?.take())))
                .collect::<Vec<_>>();
            identity::answer(redactor, &mut value);
            for (key, text) in composed {
                value[key] = text;
            }
            let cells = (self.cells)(&item);
            let cells = cells.iter().map(|cell| cell.show(redactor)).collect();
            (cells, value)
        });
        show_rows(redactor, header, self.plural, self.narrow, page, bytes_max)
    }
}

/// A cell per column, and the same as data, as they may leave.
pub(super) type Cells = (Vec<String>, Value);

/// Renders as many rows as fit, with the number of those that do not.
pub(super) fn show_rows(
    redactor: &Redactor,
    header: Vec<String>,
    plural: &str,
    narrow: &str,
    page: Page<Cells>,
    bytes_max: usize,
) -> Output {
    let Page {
        items,
        more,
        caveat,
    } = page;
    let total = items.len();
    let caveat = caveat.map(|caveat| identity::sentence(redactor, &caveat));
    let mut table = Table::new(header);
    let mut rows = Vec::new();
    let mut data_bytes = 0;
    for (cells, value) in items {
        data_bytes += value.to_string().len() + 1;
        table.row(cells);
        // At least one row: an empty answer would not say why.
        if data_bytes + table.bytes() > bytes_max && !rows.is_empty() {
            table.undo();
            break;
        }
        rows.push(value);
    }
    let more = more.plus(total - rows.len());
    let mut text = match (rows.len(), &caveat) {
        (0, None) => format!("no {plural} found\n"),
        (0, Some(_)) => format!("no {plural} found so far\n"),
        _ => table.render(),
    };
    text.push_str(&rest(more, narrow, caveat.as_deref()));
    let mut data = Map::new();
    data.insert(plural.to_owned(), Value::Array(rows));
    data.insert("more".to_owned(), json!(more));
    if let Some(caveat) = caveat {
        data.insert("note".to_owned(), caveat.into());
    }
    Output { text, data }
}

/// Renders as many documents as fit, with the number of those that do not. The first
/// one is cut if it alone is too long. They were redacted before they were written.
pub(super) fn show_documents(
    redactor: &Redactor,
    resource: &str,
    narrow: &str,
    page: Page<String>,
    bytes_max: usize,
) -> Output {
    let caveat = page
        .caveat
        .map(|caveat| identity::sentence(redactor, &caveat));
    // The text goes out twice, for reading and as data.
    let room = bytes_max / 2;
    let total = page.items.len();
    let (mut text, mut shown, mut truncated) = (String::new(), 0, false);
    for mut document in page.items {
        if text.len() + document.len() > room {
            if shown > 0 {
                break;
            }
            let end = document.floor_char_boundary(room);
            let end = document[..end].rfind('\n').map_or(end, |line| line + 1);
            let left = document.len() - end;
            document.truncate(end);
            document.push_str(&format!("# ... {left} more bytes of this object\n"));
            truncated = true;
        }
        if shown > 0 {
            text.push_str("---\n");
        }
        text.push_str(&document);
        shown += 1;
    }
    let more = page.more.plus(total - shown);
    let mut data = Map::new();
    data.insert("resource".to_owned(), resource.into());
    data.insert("yaml".to_owned(), text.clone().into());
    data.insert("truncated".to_owned(), truncated.into());
    data.insert("more".to_owned(), json!(more));
    if shown == 0 {
        text = format!("no {resource} found\n");
    }
    text.push_str(&rest(more, narrow, caveat.as_deref()));
    if let Some(caveat) = caveat {
        data.insert("note".to_owned(), caveat.into());
    }
    Output { text, data }
}

/// The lines after a list: how much is left out, and its caveat.
fn rest(more: Remaining, narrow: &str, caveat: Option<&str>) -> String {
    let left = match more {
        Remaining::Exactly(0) | Remaining::AtLeast(0) => None,
        Remaining::Exactly(count) => Some(count.to_string()),
        Remaining::AtLeast(count) => Some(format!("at least {count}")),
    };
    let left = left.map(|left| format!("... {left} more; {narrow}\n"));
    let note = caveat.map(|caveat| format!("NOTE: {caveat}\n"));
    left.into_iter().chain(note).collect()
}

/// The way out of the tools of a project, whose answers have no fields that are known to be
/// names.
pub(super) fn cleaned(redactor: &Redactor, mut result: CallToolResult) -> CallToolResult {
    for block in &mut result.content {
        match block {
            ContentBlock::Text(content) => {
                if let Cow::Owned(clean) = redactor.workload(&content.text) {
                    content.text = clean;
                }
            }
            other => content::clean(redactor, other),
        }
    }
    if let Some(data) = &mut result.structured_content {
        redactor.json(data);
    }
    result
}

/// The way out of every resource: documents field by field, any other text as a whole.
pub(super) fn cleaned_contents(
    redactor: &Redactor,
    mut contents: Vec<ResourceContents>,
) -> ReadResourceResult {
    for one in &mut contents {
        let ResourceContents::TextResourceContents {
            text, mime_type, ..
        } = one
        else {
            continue;
        };
        let is_json = mime_type.as_deref() == Some("application/json");
        let data = serde_json::from_str::<Value>(text).ok();
        let Some(mut data) = data.filter(|_| is_json) else {
            *text = redactor.workload(text).into_owned();
            continue;
        };
        let before = data.clone();
        identity::answer(redactor, &mut data);
        // Only if something was redacted: writing it again may change the order of its
        // keys.
        if data != before {
            *text = data.to_string();
        }
    }
    ReadResourceResult::new(contents)
}

/// The age of a time, as kubectl shows it.
pub(super) fn age(since: Option<jiff::Timestamp>) -> String {
    let Some(since) = since else {
        return "-".to_owned();
    };
    let seconds = jiff::Timestamp::now().as_second() - since.as_second();
    kubecrier_core::duration::short(std::time::Duration::from_secs(
        seconds.max(0).unsigned_abs(),
    ))
}

#[cfg(test)]
mod tests;
