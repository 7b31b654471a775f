//! A value that stands before its name: `invalid value "x" for flag -password`,
//! `Resolved value [x] for property: db.password`.

use std::ops::Range;

use super::{fields::strict, verdict::hides};
use crate::{
    names::{Class, Name},
    values,
    work::examined,
};

/// The part of the line before the name that is looked at.
const BEFORE_MAX: usize = 160;

/// What the name is called after the value.
#[rustfmt::skip]
const CALLED: &[&str] = &[
    "argument", "configuration", "env", "environment", "field", "flag", "key", "option",
    "parameter", "property", "setting", "variable",
];

/// The secret before the name at `start`.
pub(super) fn value(
    text: &str,
    from: usize,
    start: usize,
    end: usize,
    name: Name,
) -> Option<Range<usize>> {
    if !matches!(name.class, Class::Password | Class::Secret | Class::Object) {
        return None;
    }
    let near = from
        .max(text.floor_char_boundary(start.saturating_sub(BEFORE_MAX)))
        .min(start);
    let before = text[near..start].trim_end_matches(['"', '\'', '\\', '`', '-', ':', ' ', '[']);
    let word_at = before.rfind(' ').map_or(0, |at| at + 1);
    let word = &before[word_at..];
    // `for "--token" flag` names it after the name.
    let after = text[end..].trim_start_matches(['"', '\'', '\\', '`']);
    let trailing = word == "for"
        && after
            .strip_prefix(' ')
            .is_some_and(|after| CALLED.iter().any(|called| after.starts_with(called)));
    // `use x as password`
    if let Some(range) = told(before, word_at, after) {
        return Some(near + range.start..near + range.end);
    }
    let named = CALLED.binary_search(&word).is_ok();
    examined(before.len());
    let before = match () {
        () if trailing => &before[..word_at],
        () if named => before[..word_at]
            .trim_end()
            .strip_suffix("for")
            .or(before[..word_at].trim_end().strip_suffix("into"))?,
        () => return None,
    };
    let before = before.trim_end();
    let (open, close) = match before.bytes().next_back()? {
        b'"' => ('"', 1),
        b'\'' => ('\'', 1),
        b'`' => ('`', 1),
        b']' => ('[', 1),
        b')' => ('(', 1),
        _ => (' ', 0),
    };
    let value_end = before.len() - close;
    let value_end = value_end
        - before[..value_end]
            .bytes()
            .rev()
            .take(4)
            .take_while(|byte| *byte == b'\\')
            .count();
    let value_start = before[..value_end].rfind(open)? + 1;
    let said = before[..value_start - 1].trim_end_matches(['\\', ' ', ':', '=', '[']);
    let given = &before[value_start..value_end];
    let says = [
        "value", "argument", "setting", "set", "using", "input", "got",
    ]
    .iter()
    .any(|says| said.to_ascii_lowercase().ends_with(says));
    (says && hides(strict(name), given, None)).then(|| near + value_start..near + value_end)
}

/// The secret of `use x as the password` and `x is your new password`, where nothing follows.
fn told(before: &str, word_at: usize, after: &str) -> Option<Range<usize>> {
    let ends = after.is_empty()
        || after.starts_with(['.', ',', ';', ')', '!'])
        || after.starts_with(" for ")
        || after.starts_with(" to ");
    if !ends {
        return None;
    }
    let mut at = word_at;
    let mut word = &before[word_at..];
    let mut rest = before[..at].trim_end();
    for _ in 0..3 {
        if !matches!(
            word,
            "the" | "your" | "a" | "new" | "my" | "temporary" | "initial" | "its" | "admin" | "an"
        ) {
            break;
        }
        at = rest.rfind(' ').map_or(0, |at| at + 1);
        word = &rest[at..];
        rest = rest[..at].trim_end();
    }
    if !matches!(word, "as" | "is") {
        return None;
    }
    let start = rest.rfind([' ', '"', '\'', '`']).map_or(0, |at| at + 1);
    let quoted = rest.trim_end_matches(['"', '\'', '`']);
    let start = if quoted.len() < rest.len() {
        quoted.rfind(['"', '\'', '`']).map_or(0, |at| at + 1)
    } else {
        start
    };
    let value = quoted.get(start..)?;
    (values::is_strong(value) && !value.contains(' ')).then_some(start..quoted.len())
}
