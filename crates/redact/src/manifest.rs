//! Secret objects of Kubernetes printed as YAML, JSON or by Go. Their values may look like
//! anything, so they are found by the keys `data` and `stringData`.

use super::{encoded, finds::Finds, state, values, work::examined};

/// The lines of an object.
const LINES_MAX: u16 = 1000;

/// The object that earlier lines have begun to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    kind: Kind,
    /// Lines that may still belong to it.
    lines: u16,
    data: Option<Data>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// `kubectl` prints `data` before `kind`: until then the values decide.
    #[default]
    Unknown,
    Secret,
    Other,
}

/// The values that earlier lines have begun to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Data {
    /// The column of the key `data`.
    column: usize,
    /// The column of its entries.
    entry: Option<usize>,
    /// The last entry is a block scalar or another value of several lines.
    open: bool,
}

// === impl Manifest ===

impl Manifest {
    /// Notes that a line begins an object, or says that it is a Secret.
    pub(super) fn begin(&mut self, text: &str, secret: bool) {
        let content = content(text).1;
        let starts = content
            .trim_start_matches(['{', '-', ' ', '"'])
            .starts_with("apiVersion");
        if starts || self.lines == 0 {
            *self = Self::default();
        }
        self.lines = LINES_MAX;
        if secret {
            self.kind = Kind::Secret;
        }
    }

    /// Finds the values in the next line.
    pub(super) fn line(&mut self, text: &str, finds: &mut Finds) {
        if self.lines == 0 {
            return;
        }
        self.lines -= 1;
        let (column, body) = content(text);
        let start = text.len() - body.len();
        let body = body.trim_end();
        if body.is_empty() {
            return;
        }
        if body.starts_with("---") {
            *self = Self::default();
            return;
        }
        if let Some(data) = &mut self.data {
            if column > data.column {
                data.value(text, start, column, self.kind, finds);
                return;
            }
            self.data = None;
        }
        let item = body.strip_prefix("- ").unwrap_or(body);
        let key = item.trim_start_matches('"');
        if let Some(kind) = key
            .strip_prefix("kind")
            .map(|rest| rest.trim_start_matches(['"', ':', ' ']))
        {
            let kind = kind.trim_end_matches(['"', ',', ' ']);
            self.kind = if kind == "Secret" {
                Kind::Secret
            } else {
                Kind::Other
            };
        }
        let begins = ["data", "stringData"].iter().any(|name| {
            let rest = key
                .strip_prefix(name)
                .map(|rest| rest.trim_start_matches('"').trim_start());
            rest.is_some_and(|rest| matches!(rest.strip_prefix(':').map(str::trim), Some("" | "{")))
        });
        if begins {
            self.data = Some(Data {
                column: column + (body.len() - item.len()),
                entry: None,
                open: false,
            });
        }
    }
}

// === impl Data ===

impl Data {
    fn value(&mut self, text: &str, start: usize, column: usize, kind: Kind, finds: &mut Finds) {
        let body = text[start..].trim_end();
        let entry = *self.entry.get_or_insert(column);
        if column > entry && self.open {
            if kind != Kind::Other {
                state::hide_from(text, start, finds, "secret");
            }
            return;
        }
        let Some(colon) = body
            .find(": ")
            .or_else(|| body.ends_with(':').then(|| body.len() - 1))
            .or_else(|| body.find("\":").map(|at| at + 1))
        else {
            return;
        };
        let value = body[colon + 1..].trim_start();
        let value_at = start + body.len() - value.len();
        let unquoted = value.trim_end_matches(',').trim_matches(['"', '\'']);
        self.open = matches!(unquoted, "" | "|" | "|-" | ">" | ">-" | "|+" | ">+");
        if self.open || kind == Kind::Other || values::is_placeholder(unquoted) {
            self.open &= kind == Kind::Secret;
            return;
        }
        if kind == Kind::Secret || is_encoded(unquoted) {
            let from = value_at + value.find(unquoted).unwrap_or_default();
            finds.add(from..from + unquoted.len(), "secret");
        }
    }
}

/// Whether a value is rather base64 than the text of a `ConfigMap`.
fn is_encoded(value: &str) -> bool {
    let shaped = value.len() >= 4
        && value.len().is_multiple_of(4)
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    if !shaped {
        return false;
    }
    let decoded = encoded::decode_base64(value.as_bytes());
    let printable = decoded
        .iter()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
    printable || value.len() >= 16 && values::is_random(value)
}

/// The column of a line's content without its prefix and without the mark of a list, and
/// the content.
fn content(text: &str) -> (usize, &str) {
    let body = &text[state::prefix(text)..];
    let content = body.trim_start();
    (body.len() - content.len(), content)
}

/// Finds the values in a line that has a whole Secret: JSON, or what Go prints.
pub(super) fn in_line(text: &str, finds: &mut Finds) {
    examined(text.len());
    for opening in [
        "\"data\"",
        "\"stringData\"",
        "Data:map[",
        "data: {",
        "stringData: {",
        "'data'",
        "'stringData'",
    ] {
        let mut from = 0;
        while let Some(found) = text[from..]
            .find(opening)
            .map(|at| from + at + opening.len())
        {
            let rest = &text[found..];
            let open = match opening.as_bytes()[opening.len() - 1] {
                b'[' | b'{' => Some(found),
                _ => {
                    let value = rest.trim_start().strip_prefix(':').map(str::trim_start);
                    value
                        .and_then(|value| value.strip_prefix('{'))
                        .map(|value| text.len() - value.len())
                }
            };
            from = match open {
                Some(open) => {
                    let end = close(text, open);
                    if !values::is_placeholder(&text[open..end]) {
                        finds.add(open..end, "secret");
                    }
                    end
                }
                None => found,
            };
        }
    }
}

/// Where the bracket that was opened before `from` closes.
fn close(text: &str, from: usize) -> usize {
    let (mut depth, mut quoted, mut escaped) = (1_usize, false, false);
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}
