//! Codes that are typed in when nothing else helps: `Recovery codes: 8f2k-9d3j 7h4m-2x8q`.

use std::ops::Range;

use super::verdict::is_code;
use crate::work::examined;

/// The codes that are looked at in a line.
const CODES_MAX: usize = 20;

/// Calls `found` with the codes from `at` on; whether there are nothing but codes.
pub(crate) fn codes(text: &str, at: usize, mut found: impl FnMut(Range<usize>)) -> bool {
    let end = |from: usize| {
        let near = &text[from..text.floor_char_boundary((from + 64).min(text.len()))];
        let inside = |one: char| one.is_ascii_alphanumeric() || one == '-';
        from + near.find(|one| !inside(one)).unwrap_or(near.len())
    };
    let mut from = at;
    for nth in 0..CODES_MAX {
        let near = &text[from..];
        let skipped = near.trim_start_matches([' ', ',', ';', '"', '\'', '[', '-', '*', '|']);
        let start = from + (near.len() - skipped.len());
        // `1. 8f2k-9d3j`
        let number = skipped.bytes().take_while(u8::is_ascii_digit).count();
        let start = match skipped.as_bytes().get(number) {
            Some(b'.' | b')' | b':') if (1..=2).contains(&number) => {
                let rest = &skipped[number + 1..];
                start + number + 1 + (rest.len() - rest.trim_start_matches(' ').len())
            }
            _ => start,
        };
        let end = end(start);
        examined(end - from);
        if end == start {
            return nth > 0 && start == text.len();
        }
        if !is_code(&text[start..end], true) && !is_halves(&text[start..end]) {
            return false;
        }
        found(start..end);
        from = end;
    }
    false
}

/// Whether a text is made of parts of the same length: `xkqpz-mwrtb`.
fn is_halves(text: &str) -> bool {
    let mut parts = text.split('-');
    let length = parts.next().map_or(0, str::len);
    (4..=8).contains(&length) && text.len() > length && parts.all(|part| part.len() == length)
}
