//! What one line says about the lines after it: keys, block scalars, values on the next
//! line, printed Secrets.
//!
//! A whole text and a stream of lines pass through the same state, so that a stream is
//! protected as a whole text is.

use super::{
    commands::Lines,
    encoded,
    finds::Finds,
    keys::{self, Block, KeyLine},
    manifest::Manifest,
    names::{self, Name},
    pairs,
    repeats::Repeats,
    scan::{self, LineContext},
    tokens, values,
};

/// Lines after the id of an AWS key in which its secret is expected.
const AWS_LINES: u8 = 4;

/// Lines after one that speaks of tokens in which a bootstrap token is expected.
const TOKEN_LINES: u8 = 2;

/// Lines of a JSON Web Key that has one member on each.
const WEB_KEY_LINES: u8 = 14;

/// The shortest first line of base64 that goes on in the next line.
const WRAPPED_MIN: usize = 40;

/// The end of a decoded line that is looked at together with the next one.
const WRAPPED_TAIL: usize = 192;

/// What a line says about the next ones.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and all combinations happen"
)]
#[derive(Debug, Default)]
pub(super) struct Next {
    pub(super) block: Option<Block>,
    pub(super) pending: Option<Pending>,
    pub(super) aws: bool,
    /// It speaks of tokens.
    pub(super) token: bool,
    pub(super) web_key: bool,
    /// What its command says about the next line.
    pub(super) lines: Lines,
    /// It has the key `apiVersion`.
    pub(super) object: bool,
    /// It says `kind: Secret`.
    pub(super) secret_kind: bool,
}

/// A value that one of the next lines has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// The value of `value`, after a line with `name`.
    Value { name: Name, lines: u8 },
    /// A block scalar: all lines that are deeper than its key.
    Block {
        column: usize,
        deeper: Option<usize>,
    },
    /// A value that begins on the next line if that is deeper than its key.
    Scalar { name: Name, column: usize },
    /// The fields of a map under the name of a secret.
    Map { name: Name, column: usize },
    /// The lines of a file that a command shows.
    File { name: Name, lines: u8 },
    /// A column of the rows of a table.
    Column {
        name: Name,
        column: pairs::Column,
        rows: u8,
    },
    /// The key of a part of a configuration.
    Section { name: Name, lines: u8 },
    /// Codes, one or more in each of the next lines.
    Codes { lines: u8 },
    /// The elements of a list, one on each line.
    List { name: Name, lines: u8 },
    /// The last word of the answer in a dialog.
    Answer { lines: u8 },
    /// What a shell tests after it has assigned it: `+ '[' -n x ']'`.
    Tested { lines: u8 },
    /// A quoted text that goes on in the next line.
    Joined { name: Name },
    /// The rest of a JWT that lines cut.
    Jwt { lines: u8 },
    /// A word that stands alone in one of the next lines.
    Word { name: Name, lines: u8 },
}

/// The state between two lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    block: Option<Block>,
    pending: Option<Pending>,
    aws: u8,
    token: u8,
    web_key: u8,
    lines: Lines,
    manifest: Manifest,
    /// The end of the text that lines of base64 have decoded to.
    wrapped: String,
    repeats: Repeats,
}

// === impl State ===

impl State {
    /// Finds the secrets of the next line, which is text inside of other text at this depth.
    pub(super) fn line(&mut self, text: &str, finds: &mut Finds, depth: u8) {
        let text = text.strip_suffix('\r').unwrap_or(text);
        let context = LineContext {
            aws: self.aws > 0,
            token: self.token > 0,
            web_key: self.web_key > 0,
            lines: self.lines,
            public: self.block == Some(Block::Public),
            pending: None,
        };
        self.aws = self.aws.saturating_sub(1);
        self.token = self.token.saturating_sub(1);
        self.web_key = self.web_key.saturating_sub(1);
        if context.public && keys::is_block_line(text) {
            return;
        }
        self.in_block(text, finds);
        let context = LineContext {
            pending: self.in_pending(text, finds),
            ..context
        };
        self.manifest.line(text, finds);
        self.in_wrapped(text, finds, depth);
        let next = scan::line(text, finds, &context, depth);
        self.repeats.line(text, finds);
        if next.block.is_some() {
            self.block = next.block;
        }
        if let Some(pending) = next.pending {
            self.pending = Some(pending);
        }
        if next.aws {
            self.aws = AWS_LINES;
        }
        if next.token {
            self.token = TOKEN_LINES;
        }
        self.lines = next.lines;
        if next.web_key {
            self.web_key = WEB_KEY_LINES;
        }
        if next.object || next.secret_kind {
            self.manifest.begin(text, next.secret_kind);
        }
    }

    /// The private key that goes on after the last line.
    pub(super) fn private_block(&self) -> Option<Block> {
        self.block
            .filter(|block| matches!(block, Block::Private { .. }))
    }

    /// Looks at a line after one that began a key.
    fn in_block(&mut self, text: &str, finds: &mut Finds) {
        let Some(block) = self.block else {
            self.lone_line(text, finds);
            return;
        };
        if ends_block(text) {
            // The search finds what stands before the marker.
            self.block = None;
            return;
        }
        match block {
            Block::Public => {}
            Block::Counted { lines } => {
                hide(text, finds, "private key");
                self.block = (lines > 1).then(|| Block::Counted { lines: lines - 1 });
            }
            Block::Private { .. } | Block::Headless => match keys::key_line(text) {
                KeyLine::Quiet => {}
                KeyLine::Material(ranges) => {
                    for range in ranges {
                        finds.add(range, "private key");
                    }
                    if matches!(block, Block::Private { .. }) {
                        self.block = Some(Block::Private { strangers: 0 });
                    }
                }
                KeyLine::Stranger => self.block = block.after_stranger(),
            },
        }
    }

    /// Looks at a line of base64 together with the lines before it.
    fn in_wrapped(&mut self, text: &str, finds: &mut Finds, depth: u8) {
        let min = if self.wrapped.is_empty() {
            WRAPPED_MIN
        } else {
            4
        };
        let start = prefix(text);
        let word = text[start..].trim();
        let decoded = if word.len() >= min && depth < scan::DEPTH_MAX {
            encoded::whole_text(word)
        } else {
            None
        };
        let Some(decoded) = decoded else {
            self.wrapped.clear();
            return;
        };
        self.wrapped.push_str(&decoded);
        if scan::has_secret(&self.wrapped, depth + 1) {
            hide(text, finds, "secret");
        }
        let tail = self.wrapped.len().saturating_sub(WRAPPED_TAIL);
        self.wrapped.drain(..self.wrapped.floor_char_boundary(tail));
    }

    /// Looks at a field of a map in YAML that stands under the name of a secret.
    fn in_map(&mut self, name: Name, of: usize, text: &str, start: usize, finds: &mut Finds) {
        let body = &text[start..];
        let column = body.len() - body.trim_start().len();
        self.pending = Some(Pending::Map { name, column: of });
        match pairs::in_map(name, body) {
            Some((_, true)) => {
                let deeper = None;
                self.pending = Some(Pending::Block { column, deeper });
            }
            Some((range, false)) => {
                finds.add(start + range.start..start + range.end, name.kind);
            }
            None => {}
        }
    }

    /// A line that looks like one of a key whose beginning was not seen.
    fn lone_line(&mut self, text: &str, finds: &mut Finds) {
        let word = memchr::memrchr(b' ', text.as_bytes()).map_or(0, |at| at + 1);
        if !keys::is_lone_line(&text[word..]) || word > 0 && word != prefix(text) {
            return;
        }
        // Ordinary text in base64 is looked at as text.
        if matches!(
            encoded::content(&text[word..]),
            Some(encoded::Content::Text(_))
        ) {
            return;
        }
        finds.add(word..text.len(), "private key");
        self.block = Some(Block::Headless);
    }

    /// Looks at a line that may have the value that an earlier one announced.
    fn in_pending(&mut self, text: &str, finds: &mut Finds) -> Option<(Name, u8)> {
        let pending = self.pending.take()?;
        let start = prefix(text);
        let body = &text[start..];
        let content = body.trim_start();
        let column = body.len() - content.len();
        match pending {
            Pending::Value { name, lines } => return Some((name, lines)),
            Pending::Block { column: of, deeper } => {
                if content.trim_end().is_empty() {
                    self.pending = Some(pending);
                } else if column > of && deeper.is_none_or(|deeper| column >= deeper) {
                    hide_from(text, start + column, finds, "secret");
                    self.pending = Some(Pending::Block {
                        column: of,
                        deeper: deeper.or(Some(column)),
                    });
                }
            }
            Pending::Scalar { name, column: of } => {
                let map = content.trim_end().ends_with(':')
                    || content.contains(": ")
                    || content.starts_with("- ")
                    || content.starts_with(['{', '[', '}']);
                if column > of && map {
                    self.in_map(name, of, text, start, finds);
                    return None;
                }
                let content = content.trim_end().trim_end_matches(',');
                // The answer to a question is not indented.
                if column <= of
                    && (values::is_strong(content)
                        || values::is_secretish(content)
                        || values::is_pin(content))
                    && !content.contains([' ', '=', ':'])
                {
                    finds.add(start + column..start + column + content.len(), name.kind);
                }
                if column > of && !map && !content.is_empty() {
                    let quotes = content.len() - content.trim_start_matches(['"', '\'']).len();
                    let inner = content.trim_matches(['"', '\'']);
                    if !values::is_placeholder(inner) {
                        let from = start + column + quotes;
                        finds.add(from..from + inner.len(), name.kind);
                    }
                    self.pending = Some(Pending::Block {
                        column: of,
                        deeper: Some(column),
                    });
                }
            }
            Pending::Map { name, column: of } => {
                if column > of {
                    self.in_map(name, of, text, start, finds);
                }
            }
            Pending::File { name, lines } => {
                if let Some(range) = pairs::file_line(body) {
                    finds.add(start + range.start..start + range.end, name.kind);
                    self.pending = (lines > 1).then(|| Pending::File {
                        name,
                        lines: lines - 1,
                    });
                }
            }
            Pending::Column { name, column, rows } => {
                if let Some(row) = pairs::row(body, column) {
                    if let pairs::Row::Secret(range) = row {
                        finds.add(start + range.start..start + range.end, name.kind);
                    }
                    let rows = rows.saturating_sub(1);
                    self.pending = (rows > 0).then_some(Pending::Column { name, column, rows });
                }
            }
            Pending::Section { name, lines } => {
                if let Some(range) = pairs::section_key(body) {
                    finds.add(start + range.start..start + range.end, name.kind);
                } else if lines > 1 {
                    let lines = lines - 1;
                    self.pending = Some(Pending::Section { name, lines });
                }
            }
            Pending::Codes { lines } => {
                let blank = content.trim_end().is_empty();
                let only =
                    blank || pairs::codes(text, start + column, |range| finds.add(range, "token"));
                self.pending = (only && lines > 1).then(|| Pending::Codes { lines: lines - 1 });
            }
            Pending::List { name, lines } => {
                let more = content.trim_end().trim_end_matches(',');
                let inner = more
                    .strip_prefix(['"', '\''])
                    .and_then(|inner| inner.strip_suffix(['"', '\'']));
                if let Some(inner) = inner.filter(|_| lines > 0) {
                    if pairs::hides(name, inner, None) {
                        let from = start + column + 1;
                        finds.add(from..from + inner.len(), name.kind);
                    }
                    let lines = lines - 1;
                    self.pending = Some(Pending::List { name, lines });
                }
            }
            Pending::Answer { lines } => {
                // The server asks once more.
                if body.contains("334") || body.trim_end().ends_with('+') {
                    self.pending = (lines > 1).then(|| Pending::Answer { lines: lines - 1 });
                } else if let Some(range) = pairs::last_word(body) {
                    finds.add(start + range.start..start + range.end, "password");
                }
            }
            Pending::Tested { lines } => {
                for range in pairs::tested(body) {
                    finds.add(start + range.start..start + range.end, "secret");
                }
                self.pending = (lines > 1).then(|| Pending::Tested { lines: lines - 1 });
            }
            Pending::Joined { name } => {
                let more = content.trim_end();
                let quoted = more.trim_end_matches([',', ')', ']', '}', ';', '+', '\\', ' ']);
                let inner = quoted
                    .strip_prefix(['"', '\''])
                    .and_then(|inner| inner.strip_suffix(['"', '\'']));
                if let Some(inner) = inner.filter(|inner| !inner.contains(['"', '\''])) {
                    let from = start + column + 1;
                    finds.add(from..from + inner.len(), name.kind);
                    let ends = more.len() > quoted.len() && !more.ends_with(['+', '\\']);
                    self.pending = (!ends).then_some(pending);
                }
            }
            Pending::Jwt { lines } => {
                if let Some(range) = tokens::jwt_line(body) {
                    finds.add(start + range.start..start + range.end, "jwt");
                    self.pending = (lines > 1).then(|| Pending::Jwt { lines: lines - 1 });
                }
            }
            Pending::Word { .. }
                if column < 4
                    && content.len() >= 3
                    && content.bytes().all(|byte| matches!(byte, b'-' | b'=')) =>
            {
                // The line under a title.
                self.pending = Some(pending);
            }
            Pending::Word { name, lines } => {
                if content.trim_end().is_empty() {
                    self.pending = (lines > 1).then(|| Pending::Word {
                        name,
                        lines: lines - 1,
                    });
                } else if let Some(range) = pairs::lone_word(body, name) {
                    finds.add(start + range.start..start + range.end, name.kind);
                } else if body.contains("input_value=") {
                    let class = names::Class::Password;
                    return Some((Name { class, ..name }, 1));
                }
            }
        }
        None
    }
}

/// The length of the time that a kubelet or a runtime puts before a line, with the stream
/// after it: `2026-01-01T00:00:00.000000000Z stdout F `.
pub(super) fn prefix(text: &str) -> usize {
    let bytes = text.as_bytes();
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = bytes.len() > shape.len()
        && bytes.iter().zip(shape).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b' '),
            other => byte == other,
        });
    if !fits {
        return 0;
    }
    let Some(space) = memchr::memchr(b' ', &bytes[shape.len()..bytes.len().min(40)]) else {
        return 0;
    };
    let end = shape.len() + space + 1;
    let rest = &bytes[end..];
    let stream = [&b"stdout F "[..], b"stderr F ", b"stdout P ", b"stderr P "]
        .iter()
        .any(|stream| rest.starts_with(stream));
    end + if stream { 9 } else { 0 }
}

/// Whether a line has the marker of the end of a block.
fn ends_block(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), b"-----END").is_some()
        || memchr::memmem::find(text.as_bytes(), b"---- END").is_some()
}

fn hide(text: &str, finds: &mut Finds, kind: &'static str) {
    let start = prefix(text);
    let indent = text[start..].len() - text[start..].trim_start().len();
    hide_from(text, start + indent, finds, kind);
}

/// Hides a line from an offset on.
pub(super) fn hide_from(text: &str, from: usize, finds: &mut Finds, kind: &'static str) {
    let end = from + text[from..].trim_end().len();
    if !values::is_placeholder(&text[from..end]) {
        finds.add(from..end, kind);
    }
}
