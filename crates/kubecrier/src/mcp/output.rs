//! What a tool answers: text for a model, the same as data, and never more than
//! the limit.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    cluster::{ClusterError, ErrorKind, More, Page},
    duration::NotADuration,
    redact::Redactor,
    table::Table,
};

/// A tool's answer.
#[derive(Debug)]
pub struct Output {
    /// For a model.
    pub text: String,
    /// For a program.
    pub data: Map<String, Value>,
}

/// A failure that the model should read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not fit.
    #[error("{0}")]
    Arguments(String),
    /// There is no such thing, or none that the caller may know of.
    #[error("{0}")]
    NotFound(String),
    /// A limit is reached.
    #[error("{0}")]
    Limit(String),
    /// Not on this connection.
    #[error("{0}")]
    Unsupported(String),
    /// We have made a mistake.
    #[error("the tool failed on a bug of the server, which ends now; its log says more")]
    Bug,
    /// The cluster did not play along.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// How a row of a list is shown.
pub(super) struct Listing<T> {
    /// The columns.
    pub(super) header: &'static [&'static str],
    /// A cell per column.
    pub(super) cells: fn(&T) -> Vec<String>,
    /// What the rows are, for the data and for "no such".
    pub(super) plural: &'static str,
    /// How to get a shorter list.
    pub(super) narrow: &'static str,
}

// === impl Output ===

impl Output {
    /// Data that is read as it is.
    pub(super) fn json(data: Map<String, Value>) -> Self {
        let text = serde_json::to_string_pretty(&data).unwrap_or_default();
        Self { text, data }
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(Value::Object(self.data));
        result
    }
}

// === impl ToolError ===

impl ToolError {
    /// For metrics and programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Arguments(_) => ErrorKind::Invalid.as_str(),
            Self::NotFound(_) => ErrorKind::NotFound.as_str(),
            Self::Limit(_) => "limit",
            Self::Unsupported(_) => "unsupported",
            Self::Bug => "bug",
            Self::Cluster(error) => error.kind().as_str(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Arguments(_)
            | Self::NotFound(_)
            | Self::Limit(_)
            | Self::Unsupported(_)
            | Self::Bug => None,
            Self::Cluster(error) => error.hint(),
        }
    }

    /// Whether another call would do better, with nothing mended in between.
    pub(super) fn is_the_callers(&self) -> bool {
        match self {
            Self::Arguments(_) | Self::NotFound(_) | Self::Limit(_) | Self::Unsupported(_) => true,
            Self::Bug => false,
            Self::Cluster(error) => {
                matches!(
                    error.kind(),
                    ErrorKind::Invalid | ErrorKind::Context | ErrorKind::NotFound
                )
            }
        }
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let text = match self.hint() {
            Some(hint) => format!("{self}\nhint: {hint}"),
            None => self.to_string(),
        };
        let data = json!({"error": {
            "kind": self.kind(),
            "message": self.to_string(),
            "hint": self.hint(),
        }});
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        result.structured_content = Some(data);
        result
    }
}

impl From<NotADuration> for ToolError {
    fn from(error: NotADuration) -> Self {
        Self::Arguments(error.to_string())
    }
}

// === impl Listing ===

impl<T: Serialize> Listing<T> {
    /// Shows as many rows as fit, and says how many do not.
    pub(super) fn show(&self, page: Page<T>, bytes_max: usize) -> Output {
        let Page {
            items,
            more,
            caveat,
        } = page;
        let total = items.len();
        let mut table = Table::new(self.header);
        let mut rows = Vec::new();
        let mut data_bytes = 0;
        for item in items {
            let value = serde_json::to_value(&item).unwrap_or_default();
            data_bytes += value.to_string().len() + 1;
            table.row((self.cells)(&item));
            // One row always: an answer of nothing would be a riddle.
            if data_bytes + table.bytes() > bytes_max && !rows.is_empty() {
                table.undo();
                break;
            }
            rows.push(value);
        }
        let more = more.plus(total - rows.len());
        let mut text = match (rows.len(), &caveat) {
            (0, None) => format!("no {} found\n", self.plural),
            (0, Some(_)) => format!("no {} found so far\n", self.plural),
            _ => table.render(),
        };
        let left = match more {
            More::Exactly(0) | More::AtLeast(0) => None,
            More::Exactly(count) => Some(count.to_string()),
            More::AtLeast(count) => Some(format!("at least {count}")),
        };
        if let Some(left) = left {
            text.push_str(&format!("... {left} more; {}\n", self.narrow));
        }
        if let Some(caveat) = &caveat {
            text.push_str(&format!("NOTE: {caveat}\n"));
        }
        let mut data = Map::new();
        data.insert(self.plural.to_owned(), Value::Array(rows));
        data.insert("more".to_owned(), json!(more));
        if let Some(caveat) = caveat {
            data.insert("note".to_owned(), caveat.into());
        }
        Output { text, data }
    }
}

/// The way out of every tool: nothing that a workload wrote reaches a client with
/// its secrets or its control characters.
pub(super) fn cleaned(redactor: &Redactor, mut result: CallToolResult) -> CallToolResult {
    for block in &mut result.content {
        if let ContentBlock::Text(content) = block
            && let Cow::Owned(clean) = redactor.workload(&content.text)
        {
            content.text = clean;
        }
    }
    if let Some(data) = &mut result.structured_content {
        redactor.json(data);
    }
    result
}

/// The same for what is read as a resource.
pub(super) fn cleaned_contents(
    redactor: &Redactor,
    mut contents: Vec<ResourceContents>,
) -> ReadResourceResult {
    for one in &mut contents {
        let ResourceContents::TextResourceContents { text, .. } = one else {
            continue;
        };
        let Ok(mut data) = serde_json::from_str::<Value>(text) else {
            *text = redactor.workload(text).into_owned();
            continue;
        };
        let before = data.clone();
        redactor.json(&mut data);
        // Only then: to write it anew may change the order of its keys.
        if data != before {
            *text = data.to_string();
        }
    }
    ReadResourceResult::new(contents)
}

/// When something was, seen from now, as kubectl shows it.
pub(super) fn age(since: Option<jiff::Timestamp>) -> String {
    let Some(since) = since else {
        return "-".to_owned();
    };
    let seconds = jiff::Timestamp::now().as_second() - since.as_second();
    crate::duration::short(std::time::Duration::from_secs(
        seconds.max(0).unsigned_abs(),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: Listing<String> = Listing {
        header: &["WORD"],
        cells: |word| vec![word.clone()],
        plural: "words",
        narrow: "ask for less",
    };

    fn page(count: usize, more: More) -> Page<String> {
        Page::new((0..count).map(|n| format!("word-{n}")).collect(), more)
    }

    #[test]
    fn a_cut_list_says_how_much_is_missing() {
        let text = |output: Output| output.text;
        assert_eq!(
            text(WORDS.show(page(0, More::NONE), 100)),
            "no words found\n"
        );
        assert_eq!(text(WORDS.show(page(1, More::NONE), 100)), "WORD\nword-0\n");
        let cut = text(WORDS.show(page(1, More::Exactly(3)), 100));
        assert_eq!(cut, "WORD\nword-0\n... 3 more; ask for less\n");
        let unsure = text(WORDS.show(page(1, More::AtLeast(3)), 100));
        assert!(unsure.ends_with("... at least 3 more; ask for less\n"));
    }

    proptest! {
        #[test]
        fn rows_shown_and_rows_missing_make_the_list(
            count in 0..200_usize, rest in 0..50_usize, bytes_max in 50..5000_usize,
        ) {
            let output = WORDS.show(page(count, More::Exactly(rest)), bytes_max);
            let shown = output.data["words"].as_array().unwrap().len();
            let missing = output.data["more"]["exactly"].as_u64().unwrap();
            prop_assert_eq!(shown as u64 + missing, (count + rest) as u64);
            let json = serde_json::to_string(&output.data["words"]).unwrap();
            prop_assert!(shown <= 1 || json.len() + output.text.len() <= bytes_max + 60);
            prop_assert_eq!(shown > 0, count > 0);
        }
    }
}
