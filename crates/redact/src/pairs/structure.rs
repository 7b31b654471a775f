//! A map under the name of a secret: `"password": {"value": "x", "origin": "..."}`.

use std::ops::Range;

use super::{extent::quoted_end, fields::strict, verdict::hides};
use crate::{
    names::{self, Class, Name},
    scan::Scan,
    values,
    work::examined,
};

/// The part of a map that is looked at.
const MAP_MAX: usize = 600;

/// Looks at the fields of the map that begins at `at`.
pub(super) fn read(scan: &mut Scan<'_>, name: Name, at: usize) {
    if at < scan.maps_until
        || !matches!(name.class, Class::Password | Class::Secret | Class::Object)
    {
        return;
    }
    let text = &scan.text[..scan
        .text
        .floor_char_boundary((at + MAP_MAX).min(scan.text.len()))];
    scan.maps_until = text.len();
    let mut found = Vec::new();
    let end = fields(text, at, |key, value| {
        if is_secret_field(name, &text[key], &text[value.clone()]) {
            found.push(value);
        }
    });
    scan.maps_until = end;
    examined(end - at);
    for range in found {
        scan.find_before(range, name.kind);
    }
}

/// Whether a field of a map under the name of a secret is this secret.
pub(crate) fn is_secret_field(name: Name, key: &str, value: &str) -> bool {
    if values::is_placeholder(value) {
        return false;
    }
    if names::carries(key) {
        return hides(strict(name), value, None);
    }
    if names::describes(key) {
        return false;
    }
    let seen = &value[..value.floor_char_boundary(values::SEEN_MAX)];
    if name.many && name.kind == "password" {
        let digits = seen.len() >= 6 && seen.bytes().all(|byte| byte.is_ascii_digit());
        return seen.len() > 3 && !values::is_status(seen) && (digits || !values::is_measure(seen));
    }
    values::is_random(seen)
        || (name.class == Class::Password || name.kind == "password")
            && values::is_secretish(seen)
            && !values::is_identifier(seen)
}

/// What of a line of YAML is a secret that stands under the name of one; and whether it
/// begins a block.
pub(crate) fn in_map(name: Name, line: &str) -> Option<(Range<usize>, bool)> {
    let entry = line.trim_start().trim_start_matches("- ");
    let (key, value) = entry.split_once(':')?;
    let key = key.trim_matches(['"', '\'']);
    let value = value.strip_prefix(' ')?.trim();
    let start = line.rfind(value)?;
    if value.len() <= 2 && value.starts_with(['|', '>']) {
        return names::carries(key).then_some((start..start, true));
    }
    let inner = value.trim_end_matches(',').trim_matches(['"', '\'']);
    let start = line.rfind(inner)?;
    is_secret_field(name, key, inner).then_some((start..start + inner.len(), false))
}

/// Calls `found` with the key and the value of every field, and says where the map ends.
fn fields(text: &str, at: usize, mut found: impl FnMut(Range<usize>, Range<usize>)) -> usize {
    let bytes = text.as_bytes();
    let mut key: Option<Range<usize>> = None;
    let mut at = at;
    let mut depth = 0_usize;
    // Fields deeper than this belong to a reference.
    let mut reference: Option<usize> = None;
    while at < bytes.len() {
        let word = match bytes[at] {
            b'{' | b'[' | b'(' => {
                let refers = key.take().is_some_and(|key| names::describes(&text[key]));
                if refers && reference.is_none() {
                    reference = Some(depth);
                }
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                if reference.is_some_and(|reference| depth <= reference) {
                    reference = None;
                }
                key = None;
                at += 1;
                // `map[string]string{...}`
                let goes_on = bytes
                    .get(at)
                    .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'{' | b'*'));
                if depth == 0 && !(goes_on && bytes[at - 1] == b']') {
                    break;
                }
                continue;
            }
            b'\\' | b'"' | b'\'' => {
                let escapes = bytes[at..]
                    .iter()
                    .take(8)
                    .take_while(|byte| **byte == b'\\')
                    .count();
                let Some(quote @ (b'"' | b'\'')) = bytes.get(at + escapes) else {
                    at += escapes.max(1);
                    continue;
                };
                let start = at + escapes + 1;
                let end = quoted_end(text, start, *quote, escapes);
                at = (end + escapes + 1).min(text.len());
                start..end
            }
            b' ' | b',' | b'\t' | b';' | b':' | b'=' => {
                at += 1;
                continue;
            }
            _ => {
                let inside = |byte: &&u8| {
                    !matches!(
                        byte,
                        b' ' | b','
                            | b':'
                            | b'='
                            | b'{'
                            | b'}'
                            | b'['
                            | b']'
                            | b'"'
                            | b'\t'
                            | b'('
                            | b')'
                    )
                };
                // The value of a field may have the characters that separate.
                let value = |byte: &&u8| {
                    !matches!(byte, b' ' | b',' | b'}' | b']' | b'"' | b'{' | b'[' | b'(')
                };
                let length = if key.is_some() {
                    bytes[at..].iter().take_while(value).count()
                } else {
                    bytes[at..].iter().take_while(inside).count()
                };
                let start = at;
                at += length.max(1);
                start..start + length
            }
        };
        let word = text.floor_char_boundary(word.start)..text.floor_char_boundary(word.end);
        let rest = text.get(at..).unwrap_or_default().trim_start_matches(' ');
        let names = key.is_none() && rest.starts_with([':', '=']);
        match key.take() {
            None if names => key = Some(word),
            Some(key) if reference.is_none() && !word.is_empty() => found(key, word),
            _ => {}
        }
    }
    at.min(text.len())
}
