//! Rows of tables in which one cell names a secret and a later one holds it:
//! `db-password   SecureString   ...`, `Database__Password | False | ...`.

use std::ops::Range;

use crate::{
    names::{self, Class, Name},
    values,
    work::examined,
};

/// The part of a row after the name that is looked at.
const ROW_MAX: usize = 240;

/// The cells after the name that are looked at.
const CELLS_MAX: usize = 5;

/// The secret in a cell after the name that ends at `end`.
pub(super) fn value(text: &str, name: Name, ident: &Range<usize>) -> Option<Range<usize>> {
    if !matches!(
        name.class,
        Class::Password | Class::Secret | Class::Object | Class::Weak
    ) || !names::is_whole(&text[ident.clone()])
    {
        return None;
    }
    let end = ident.end;
    let near = &text[end..text.floor_char_boundary((end + ROW_MAX).min(text.len()))];
    let near = &near[..near.find(['"', '\\', '\'']).unwrap_or(near.len())];
    border(near)?;
    examined(near.len());
    let mut secure = false;
    let mut at = 0;
    for _ in 0..CELLS_MAX {
        let gap = border(&near[at..])?;
        at += gap;
        let cell = &near[at..];
        let length = next_border(cell);
        let given = cell[..length].trim_end();
        let told = secure && !values::is_word(given) && !values::is_placeholder(given);
        secure = given == "SecureString";
        if told || is_opaque(given) {
            let from = end + at;
            let whole = from + given.len();
            let more = text.as_bytes()[whole..]
                .iter()
                .take_while(|byte| near.len() == ROW_MAX && byte.is_ascii_graphic())
                .count();
            examined(more);
            return Some(from..whole + more);
        }
        // A row has a word or a number in a cell, and no sentence.
        if given.matches(' ').count() > 3 {
            return None;
        }
        at += length;
    }
    None
}

/// Whether a cell can be nothing but a secret. A short digest is the number of a commit or
/// of an image.
fn is_opaque(cell: &str) -> bool {
    let digest = cell.len() < 16 && cell.bytes().all(|byte| byte.is_ascii_hexdigit());
    !digest
        && cell.len() >= 8
        && !cell.contains([' ', '(', '='])
        && !is_image(cell)
        && values::is_strong(cell)
        || cell.ends_with('=') && cell.len() >= 16 && !cell.contains(' ') && values::is_key(cell)
}

/// Whether a cell is the name of an image or of a host.
fn is_image(cell: &str) -> bool {
    cell.contains(['/', ':'])
        && cell.bytes().all(|byte| {
            byte.is_ascii_lowercase()
                || byte.is_ascii_digit()
                || matches!(byte, b'/' | b':' | b'.' | b'-' | b'_')
        })
}

/// The length of what separates two cells: a tab, a bar, or two spaces.
fn border(text: &str) -> Option<usize> {
    let rest = text.trim_start_matches([' ', '\t', '|', '│']);
    let gap = &text[..text.len() - rest.len()];
    (gap.len() > 1 || gap == "\t").then_some(gap.len())
}

/// Where the next such place begins.
fn next_border(text: &str) -> usize {
    let bytes = text.as_bytes();
    (0..bytes.len())
        .find(|at| match bytes[*at] {
            b'\t' => true,
            b' ' => matches!(bytes.get(at + 1), Some(b' ' | b'|' | 0xe2)),
            _ => false,
        })
        .unwrap_or(bytes.len())
}
