//! Keys in a part of a configuration that names what they are for: `encryption:` and then
//! `key: ...`.

use std::ops::Range;

use super::separator::{self, Sep};
use crate::{
    names::{Class, Name},
    state::Pending,
    values,
};

/// Lines of a part in which its key is expected.
const LINES: u8 = 4;

/// A line of one word: the name of a part, whose word was found at `start`.
pub(crate) fn section(text: &str, end: usize, start: usize) -> Option<Pending> {
    if end > 64 || start > 48 {
        return None;
    }
    let line = &text[..end];
    let opener = line.trim_end_matches(|one: char| {
        matches!(
            one,
            ' ' | ':' | '{' | '[' | '(' | '=' | '>' | ']' | '"' | '\''
        )
    });
    let opens = opener.len() < line.len() || line.trim_start().starts_with('[');
    let opener = opener
        .strip_suffix("array")
        .unwrap_or(opener)
        .trim_end_matches([' ', '>', '=', '"', '\'', ':']);
    let word = opener.trim_start_matches([' ', '-', '[', '"', '\'']);
    let plain = !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    let closes = line.ends_with([':', '{', '[', '('])
        || line.ends_with(']') && line.trim_start().starts_with('[');
    let class = Class::Weak;
    (opens && plain && closes).then_some(Pending::Section {
        name: Name {
            class,
            kind: "secret",
            bare_pass: false,
            folder: false,
            foreign: false,
            many: false,
        },
        lines: LINES,
    })
}

/// The key in a line of a part.
pub(crate) fn section_key(line: &str) -> Option<Range<usize>> {
    let start = line.len() - line.trim_start().len();
    let key = line[start..].trim_start_matches(['"', '\'', '-', ' ']);
    let at = line.len() - key.len();
    let word = key
        .bytes()
        .take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        .count();
    if !matches!(
        &key[..word],
        "key" | "keys" | "value" | "KEY" | "Key" | "current" | "primary"
    ) {
        return None;
    }
    let found = separator::after(line, at + word)
        .filter(|found| matches!(found.sep, Sep::Assign | Sep::Colon))?;
    let rest = line[found.at..].trim_end().trim_end_matches([',', ';']);
    let inner = rest.trim_matches(['"', '\'']);
    let from = found.at + rest.find(inner)?;
    let hex = inner.bytes().all(|byte| byte.is_ascii_hexdigit());
    (inner.len() >= 16 && (values::is_random(inner) || hex)).then(|| from..from + inner.len())
}

/// What a command prints on the next line.
pub(crate) fn shown_next() -> Pending {
    Pending::Word {
        name: Name {
            class: Class::Session,
            kind: "secret",
            bare_pass: false,
            folder: false,
            foreign: false,
            many: false,
        },
        lines: 2,
    }
}
