//! A value that stands before its name: `invalid value "x" for flag -password`,
//! `Resolved value [x] for property: db.password`.

use std::ops::Range;

use super::{fields::strict, verdict::hides};
use crate::{
    names::{Class, Name},
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
