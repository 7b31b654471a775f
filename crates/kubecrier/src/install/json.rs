//! The entry in a JSON file, with or without comments. Only the bytes of the entry, and a comma
//! where one is needed, are inserted into or cut out of the text: a concrete syntax tree such as
//! jsonc-parser's would tidy up blank lines and commas that are not ours.

use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseResult,
    ast::{Object, ObjectProp, Value},
    common::Ranged,
    parse_to_ast,
    tokens::{Token, TokenAndRange},
};

use super::{document::Content, entry::Node};
use crate::clients::json_options;

/// Indentation in a file that has none.
const UNIT: &str = "  ";

/// Begins a file that some editors on Windows wrote.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The name of an entry in the object under a key at the top.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) comments: bool,
}

/// A parsed text.
struct Source<'a> {
    text: &'a str,
    tokens: Vec<TokenAndRange<'a>>,
    root: Option<Value<'a>>,
}

/// Writes a value.
type Render<'a> = &'a dyn Fn(&Layout<'_>) -> String;

/// A key and its value.
type Field<'a> = (&'a str, Render<'a>);

/// How a value is written.
struct Layout<'a> {
    /// The indentation of its first line; `None` for all on one line.
    indent: Option<String>,
    unit: &'a str,
    newline: &'static str,
}

// === impl Place ===

impl Place {
    /// The text with the entry, inserted or replaced; `None` if there is no place for it.
    pub(super) fn set(&self, text: &str, content: &Content<'_>) -> Option<String> {
        let (mark, text) = split_mark(text);
        let source = Source::parse(text, self.comments)?;
        let entry = |layout: &Layout<'_>| layout.content(content);
        let servers = |layout: &Layout<'_>| layout.object(&[(self.name, &entry)]);
        let changed = match source.root() {
            None => {
                let layout = source.layout(Some(String::new()));
                let root = layout.object(&[(self.key, &servers)]);
                let newline = layout.newline;
                let ends_line = text.ends_with('\n') || text.is_empty();
                let between = if ends_line { "" } else { newline };
                format!("{text}{between}{root}{newline}")
            }
            Some(Value::Object(root)) => match root.get(self.key).map(|found| &found.value) {
                None => source.insert(root, self.key, &servers),
                Some(Value::Object(listed)) => match listed.get(self.name) {
                    None => source.insert(listed, self.name, &entry),
                    Some(found) => source.replace(listed, found, &entry),
                },
                Some(_) => return None,
            },
            Some(_) => return None,
        };
        Some(format!("{mark}{changed}"))
    }

    /// The text without the entry; `None` if it is not there.
    pub(super) fn remove(&self, text: &str) -> Option<String> {
        let (mark, text) = split_mark(text);
        let source = Source::parse(text, self.comments)?;
        let (listed, found) = source.find(self)?;
        Some(format!("{mark}{}", source.cut(listed, found)))
    }

    /// The entry as it is written.
    pub(super) fn raw<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (_, text) = split_mark(text);
        let source = Source::parse(text, self.comments)?;
        let (_, found) = source.find(self)?;
        let range = found.value.range();
        text.get(range.start..range.end)
    }
}

fn split_mark(text: &str) -> (&str, &str) {
    let rest = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.split_at(text.len() - rest.len())
}

// === impl Source ===

impl<'a> Source<'a> {
    fn parse(text: &'a str, comments: bool) -> Option<Self> {
        let collect = CollectOptions {
            comments: CommentCollectionStrategy::AsTokens,
            tokens: true,
        };
        let parsed = parse_to_ast(text, &collect, &json_options(comments)).ok()?;
        let ParseResult { value, tokens, .. } = parsed;
        Some(Self {
            text,
            tokens: tokens?,
            root: value,
        })
    }

    fn root(&self) -> Option<&Value<'a>> {
        self.root.as_ref()
    }

    fn find(&self, place: &Place) -> Option<(&Object<'a>, &ObjectProp<'a>)> {
        let listed = self.root()?.as_object()?.get_object(place.key)?;
        Some((listed, listed.get(place.name)?))
    }

    /// Inserts a property behind all others, and behind the comments that follow those.
    fn insert(&self, object: &Object<'_>, name: &str, value: Render<'_>) -> String {
        let close = object.range.end - 1;
        let last = object.properties.last().map(|one| one.range.end);
        let tail = last.unwrap_or(object.range.start + 1);
        let has_comma = (self.tokens_within(tail, close)).any(|one| one.token == Token::Comma);
        let behind = self.tokens_within(object.range.start, close).last();
        let at = behind.map_or(tail, |one| one.range.end);
        let layout = self.layout_within(object);
        let mut piece = match &layout.indent {
            Some(indent) => format!("{}{indent}", layout.newline),
            None => " ".to_owned(),
        };
        piece.push_str(&format!("{}: {}", quoted(name), value(&layout)));
        if has_comma {
            piece.push(',');
        }
        if layout.indent.is_some() && !self.text[at..close].contains('\n') {
            piece.push_str(layout.newline);
            piece.push_str(self.indent_at(object.range.start));
        }
        let comma = if last.is_some() && !has_comma {
            ","
        } else {
            ""
        };
        let (before, between, after) = (&self.text[..tail], &self.text[tail..at], &self.text[at..]);
        format!("{before}{comma}{between}{piece}{after}")
    }

    fn replace(&self, object: &Object<'_>, property: &ObjectProp<'_>, value: Render<'_>) -> String {
        let mut layout = self.layout_within(object);
        layout.indent = (layout.indent).map(|_| self.indent_at(property.range.start).to_owned());
        let range = property.value.range();
        let (before, after) = (&self.text[..range.start], &self.text[range.end..]);
        format!("{before}{}{after}", value(&layout))
    }

    /// Cuts a property out, with one comma and the space in front of it.
    fn cut(&self, object: &Object<'_>, property: &ObjectProp<'_>) -> String {
        let (open, close) = (object.range.start, object.range.end - 1);
        let (start, mut end) = (property.range.start, property.range.end);
        let next = self.tokens_within(end, close).next();
        let followed = next.filter(|one| one.token == Token::Comma);
        let mut comma = None;
        match followed {
            Some(followed) => end = followed.range.end,
            None => {
                let previous = (object.properties.iter())
                    .rev()
                    .find(|one| one.range.end <= start);
                let from = previous.map_or(start, |one| one.range.end);
                let mut between = self.tokens_within(from, start);
                comma = between
                    .find(|one| one.token == Token::Comma)
                    .map(|one| one.range);
            }
        }
        let behind = self.tokens_within(open, start).last();
        let mut from = behind.map_or(open + 1, |one| one.range.end);
        let mut to = end;
        // The end of its line ends a comment, if no other follows.
        let ends_line = |text: &str| text.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        if behind.is_some_and(|one| matches!(one.token, Token::CommentLine(_)))
            && !ends_line(&self.text[to..])
        {
            let line = &self.text[from..start];
            from += line.find('\n').map_or(line.len(), |end| end + 1);
        }
        // Nothing is left in the object.
        if from == open + 1 && self.text[to..close].trim().is_empty() {
            to = close;
        }
        let after = &self.text[to..];
        match comma {
            Some(comma) => {
                let (before, between) = (
                    &self.text[..comma.start],
                    &self.text[comma.end..from.max(comma.end)],
                );
                format!("{before}{between}{after}")
            }
            None => format!("{}{after}", &self.text[..from]),
        }
    }

    /// The tokens and comments between two positions.
    fn tokens_within(&self, start: usize, end: usize) -> impl Iterator<Item = &TokenAndRange<'a>> {
        let tokens = self.tokens.iter();
        tokens.filter(move |one| one.range.start >= start && one.range.end <= end)
    }

    /// The layout of a property of this object.
    fn layout_within(&self, object: &Object<'_>) -> Layout<'_> {
        let (open, close) = (object.range.start, object.range.end - 1);
        let first = object.properties.first().map(|one| one.range.start);
        let last = object.properties.last().map(|one| one.range.end);
        let head = &self.text[open + 1..first.unwrap_or(close)];
        let tail = &self.text[last.unwrap_or(open + 1)..close];
        if first.is_some() && !head.contains('\n') && !tail.contains('\n') {
            return self.layout(None);
        }
        let indent = match first.filter(|_| head.contains('\n')) {
            Some(first) => self.indent_at(first).to_owned(),
            None => format!("{}{}", self.indent_at(open), self.unit()),
        };
        self.layout(Some(indent))
    }

    fn layout(&self, indent: Option<String>) -> Layout<'_> {
        let newline = if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        };
        Layout {
            indent,
            unit: self.unit(),
            newline,
        }
    }

    /// The white space at the begin of a line.
    fn indent_at(&self, position: usize) -> &str {
        let line = self.text[..position].rfind('\n').map_or(0, |end| end + 1);
        let line = &self.text[line..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// One step of indentation: that of the first property at the top.
    fn unit(&self) -> &str {
        let first = self
            .root()
            .and_then(|root| root.as_object()?.properties.first());
        let unit = first.map_or("", |first| self.indent_at(first.range.start));
        if unit.is_empty() { UNIT } else { unit }
    }
}

// === impl Layout ===

impl Layout<'_> {
    fn content(&self, content: &Content<'_>) -> String {
        match content {
            Content::Raw(text) => (*text).to_owned(),
            Content::Entry(node) => self.node(node),
        }
    }

    fn node(&self, node: &Node) -> String {
        match node {
            Node::Text(text) => quoted(text),
            Node::Flag(flag) => flag.to_string(),
            Node::List(words) => {
                let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
                format!("[{}]", words.join(", "))
            }
            Node::Map(fields) => {
                let values: Vec<_> = fields
                    .iter()
                    .map(|(key, node)| (*key, move |layout: &Layout<'_>| layout.node(node)))
                    .collect();
                let fields: Vec<Field<'_>> = values
                    .iter()
                    .map(|(key, value)| (*key, value as _))
                    .collect();
                self.object(&fields)
            }
        }
    }

    fn object(&self, fields: &[Field<'_>]) -> String {
        let inner = Layout {
            indent: (self.indent.as_ref()).map(|indent| format!("{indent}{}", self.unit)),
            ..*self
        };
        let fields: Vec<_> = fields
            .iter()
            .map(|(key, value)| format!("{}: {}", quoted(key), value(&inner)))
            .collect();
        match (&self.indent, &inner.indent) {
            (Some(indent), Some(inner)) => {
                let newline = self.newline;
                let fields = fields.join(&format!(",{newline}{inner}"));
                format!("{{{newline}{inner}{fields}{newline}{indent}}}")
            }
            _ => format!("{{ {} }}", fields.join(", ")),
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
