//! What stands around a name.

use super::separator::{Sep, Separator};
use crate::names::NAME_MAX;

/// The text around a name and its separator that tells how to read the value.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and all combinations happen"
)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(super) sep: Sep,
    /// A space or tab stands before the value.
    pub(super) spaced: bool,
    /// The name is a word of a sentence.
    pub(super) prose: bool,
    /// Only indentation stands before the name, as in a file of settings.
    pub(super) alone: bool,
    /// The last character before the name that is no space.
    pub(super) before: Option<u8>,
    /// The quote that the name stands in, together with its value: `-H 'Cookie: ...'`.
    pub(super) enclosing: Option<u8>,
    /// The number of backslashes before that quote.
    pub(super) escapes: usize,
    /// The name follows that quote at once.
    pub(super) tight: bool,
    /// How far the name is indented.
    pub(super) column: usize,
}

/// What stands around a name.
pub(super) fn context(text: &str, start: usize, found: &Separator) -> Context {
    let bytes = text.as_bytes();
    let line = &bytes[..start];
    let near = &line[line.len().saturating_sub(NAME_MAX)..];
    let trimmed = near.trim_ascii_end();
    let open = match trimmed {
        [rest @ .., b'"' | b'\'' | b'`'] if found.closers > 0 => rest.trim_ascii_end(),
        other => other,
    };
    let before = open.last().copied();
    let word = trimmed
        .iter()
        .rev()
        .take_while(|byte| !byte.is_ascii_whitespace())
        .count();
    let word = &trimmed[trimmed.len() - word..];
    // A word in lower case before the name makes it a word of a sentence; a level, a time or
    // punctuation do not.
    let prose = trimmed.len() < near.len()
        && !word.is_empty()
        && word[0].is_ascii_alphabetic()
        && word[1..]
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || *byte == b'-')
        && !matches!(
            word,
            b"export" | b"set" | b"env" | b"with" | b"and" | b"setenv" | b"declare"
        );
    // A string of JSON is a line of its own.
    let enclosing = quote_before(open, found.closers);
    let rest_of_line = match enclosing {
        Some(at) => open[at + 1..].trim_ascii(),
        None => open.trim_ascii(),
    };
    let alone = (near.len() == line.len() || enclosing.is_some())
        && matches!(
            rest_of_line,
            b"" | b"-" | b"export" | b"env" | b"set" | b"ENV" | b"+" | b"++" | b"#" | b"ARG"
        );
    let escapes = enclosing.map_or(0, |at| {
        open[..at]
            .iter()
            .rev()
            .take_while(|byte| **byte == b'\\')
            .count()
    });
    let tight = line
        .last()
        .is_some_and(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    Context {
        sep: found.sep,
        spaced: found.spaced,
        prose,
        alone,
        before,
        enclosing: enclosing.map(|at| open[at]),
        escapes,
        tight,
        column: column(line),
    }
}

/// The quote in which a name stands at the beginning, with nothing but spaces, the mark of a
/// list or `export` between.
fn quote_before(before: &[u8], closers: usize) -> Option<usize> {
    let at = before
        .iter()
        .rposition(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    let between = before[at + 1..].trim_ascii();
    let begins = closers == 0 && matches!(between, b"" | b"-" | b"export" | b"set" | b"ENV");
    // A quote after a word closes.
    let opens = at == 0 || !before[at - 1].is_ascii_alphanumeric();
    (begins && opens).then_some(at)
}

/// How far a name is indented, by the spaces before it and the mark of a list. What stands
/// before these is the prefix of the line.
fn column(before: &[u8]) -> usize {
    let spaces = |text: &[u8]| text.iter().rev().take_while(|byte| **byte == b' ').count();
    let before = match before {
        [rest @ .., b'"' | b'\''] => rest,
        other => other,
    };
    let near = &before[before.len().saturating_sub(NAME_MAX)..];
    let inner = spaces(near);
    match &near[..near.len() - inner] {
        [rest @ .., b'-'] if inner > 0 => inner + 1 + spaces(rest),
        _ => inner,
    }
}
