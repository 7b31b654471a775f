//! Tables whose first line names their columns: the rows of a database, of CSV, of `kubectl`.

use std::ops::Range;

use crate::{names::Name, state::Pending, values, work::examined};

/// A longer line is no header.
const HEADER_MAX: usize = 300;

/// The rows that are looked at.
const ROWS: u8 = 50;

/// Where the column of a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// After this number of bars.
    Bars(usize),
    /// After this number of commas.
    Commas(usize),
    /// After this number of gaps of tabs.
    Tabs(usize),
    /// At this offset.
    Offset(usize),
}

/// The column that the name from `start` to `end` is the header of.
pub(super) fn header(text: &str, start: usize, end: usize, name: Name) -> Option<Pending> {
    if text.len() > HEADER_MAX {
        return None;
    }
    examined(text.len());
    let line = text.trim_end();
    let (before, after) = (&line[..start.min(line.len())], line.get(end..)?);
    let count = |sign: u8| before.bytes().filter(|byte| *byte == sign).count();
    let cells = |more: &str| {
        line.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || byte == b'_' || more.as_bytes().contains(&byte)
        })
    };
    let column = if before.trim_end().ends_with('|') || after.trim_start().starts_with('|') {
        let digits = line.bytes().any(|byte| byte.is_ascii_digit());
        (cells(" |") && !digits).then(|| Column::Bars(count(b'|')))?
    } else if (before.is_empty() || before.ends_with(','))
        && (after.is_empty() || after.starts_with(','))
    {
        (cells(",") && line.contains(',')).then(|| Column::Commas(count(b',')))?
    } else if line.contains('\t') {
        let alone = (before.is_empty() || before.ends_with('\t'))
            && (after.is_empty() || after.starts_with('\t'));
        let gaps = |text: &str| text.split('\t').filter(|cell| !cell.is_empty()).count();
        (alone && cells(" \t-#/") && gaps(line) > 1).then(|| Column::Tabs(gaps(before)))?
    } else {
        // `NAME   TOKEN`, `Name   Token`
        let titled = line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .all(|cell| cell.starts_with(|one: char| one.is_ascii_uppercase()) && cell.len() <= 24);
        let upper = titled || !line.bytes().any(|byte| byte.is_ascii_lowercase());
        let aligned = before.ends_with("  ") && (after.is_empty() || after.starts_with("  "));
        let aligned = aligned || before.is_empty() && after.starts_with("  ");
        (upper && aligned && cells(" -")).then_some(Column::Offset(start))?
    };
    Some(Pending::Column {
        name,
        column,
        rows: ROWS,
    })
}

/// What a line after the header is.
#[derive(Clone, Debug)]
pub(crate) enum Row {
    /// It has a secret.
    Secret(Range<usize>),
    /// It has none.
    Other,
}

/// The secret in a row; `None` ends the table.
pub(crate) fn row(line: &str, column: Column) -> Option<Row> {
    let body = line.trim_end();
    if body.len() > HEADER_MAX * 4 || body.is_empty() {
        return None;
    }
    if body
        .bytes()
        .all(|byte| matches!(byte, b'-' | b'+' | b'|' | b' ' | b'='))
    {
        return Some(Row::Other);
    }
    examined(body.len());
    let nth = |sign: char, nth: usize| {
        let mut at = 0;
        for cell in body.split(sign).take(nth) {
            at += cell.len() + 1;
        }
        let rest = body.get(at..)?;
        Some(at..at + rest.find(sign).unwrap_or(rest.len()))
    };
    let cell = match column {
        Column::Bars(bars) => nth('|', bars)?,
        Column::Commas(commas) if body.contains(',') => nth(',', commas)?,
        Column::Commas(_) => return None,
        Column::Tabs(tabs) => {
            let mut at = 0;
            let cells = body.split('\t').map(|cell| {
                let start = at;
                at += cell.len() + 1;
                start..start + cell.len()
            });
            let mut cells = cells.filter(|cell| !cell.is_empty());
            cells.nth(tabs)?
        }
        Column::Offset(offset) => {
            let rest = body.get(offset..)?;
            if offset > 0 && !body[..offset].ends_with(' ') {
                return None;
            }
            offset..offset + rest.find(' ').unwrap_or(rest.len())
        }
    };
    let text = &body[cell.clone()];
    let inner = text.trim().trim_matches(['"', '\'']);
    let shown = inner.len() > 3
        && !values::is_placeholder(inner)
        && !values::is_status(inner)
        && !values::is_measure(inner)
        && !values::is_word(inner)
        && !inner.contains(['(', ' ']);
    let from = cell.start + text.find(inner)?;
    Some(if shown {
        Row::Secret(from..from + inner.len())
    } else {
        Row::Other
    })
}
