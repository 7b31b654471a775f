//! Passwords in statements of SQL: `IDENTIFIED BY 'X'`, `PRAGMA key = 'X'`,
//! `INSERT INTO users (name, password) VALUES ('joe', 'X')`.

use std::ops::Range;

use super::{
    names::{self, Class},
    pairs, urls, values,
    work::examined,
};

/// The part of a statement that is looked at.
const STATEMENT_MAX: usize = 1000;

/// The key of an encrypted database, after `PRAGMA` or `ATTACH DATABASE`, which end at `from`.
pub(super) fn key(text: &str, from: usize) -> Option<Range<usize>> {
    let until = text.floor_char_boundary((from + 200).min(text.len()));
    let near = &text[from..until];
    examined(near.len());
    let at = near.to_ascii_lowercase().find("key")? + 3;
    let rest = near[at..].trim_start_matches([' ', '=', '(']);
    let quote = rest
        .bytes()
        .next()
        .filter(|byte| matches!(byte, b'\'' | b'"'))?;
    let start = until - rest.len() + 1;
    let end = pairs::quoted_end(text, start, quote, 0);
    let escaped = text[start..end].trim_end_matches('\\').len();
    (end - start > 3 && !values::is_placeholder(&text[start..end]))
        .then_some(start..start + escaped)
}

/// Calls `found` with the values of the columns with the name of a secret, after `INSERT INTO`,
/// which ends at `from`. Returns how far it has read.
pub(super) fn inserted(text: &str, from: usize, mut found: impl FnMut(Range<usize>)) -> usize {
    let until = text.floor_char_boundary((from + STATEMENT_MAX).min(text.len()));
    let near = &text[..until];
    examined(until - from);
    let Some(open) = near[from..].find('(').map(|at| from + at + 1) else {
        return from;
    };
    let Some(close) = near[open..].find(')').map(|at| open + at) else {
        return open;
    };
    let mut columns = [false; 32];
    let mut any = false;
    for (nth, column) in near[open..close].split(',').take(32).enumerate() {
        let column = column.trim_matches([' ', '`', '"', '[', ']', '\\', '\'']);
        columns[nth] = names::classify(column).is_some_and(|name| {
            matches!(
                name.class,
                Class::Password | Class::Secret | Class::Object | Class::Weak
            )
        });
        any |= columns[nth];
    }
    let values = near[close..].get(1..8).map(str::trim_start);
    let says = values.is_some_and(|values| values.to_ascii_lowercase().starts_with("values"));
    if !any || !says {
        return close;
    }
    let mut at = close + 1;
    let bytes = near.as_bytes();
    let mut nth = 0;
    while at < until {
        match bytes[at] {
            b'(' => nth = 0,
            b',' => nth += 1,
            b';' => break,
            quote @ (b'\'' | b'"') => {
                let end = pairs::quoted_end(near, at + 1, quote, 0);
                let given = near[at + 1..end].trim_end_matches('\\');
                if columns.get(nth) == Some(&true) && !values::is_placeholder(given) {
                    found(at + 1..at + 1 + given.len());
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    at.min(until)
}

/// The password of Teradata after `.LOGON`, which ends at `from`: `host/user,x;`.
pub(super) fn logon(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = &text[from..text.floor_char_boundary((from + 160).min(text.len()))];
    let rest = &rest[..rest.find([' ', ';', '"', '\'']).unwrap_or(rest.len())];
    examined(rest.len());
    let comma = rest.find(',')?;
    let password = &rest[comma + 1..];
    (password.len() > 3 && !values::is_placeholder(password))
        .then(|| from + comma + 1..from + rest.len())
}

/// The password of a statement of SQL that says `IDENTIFIED` before `from`.
pub(super) fn identified(text: &str, from: usize) -> Option<Range<usize>> {
    let mut at = from;
    for _ in 0..6 {
        let rest = &text[at..];
        let gap = rest.len() - rest.trim_start().len();
        let start = at + gap;
        let rest = &text[start..];
        // A quote that follows at once closes the text that the statement stands in, unless
        // it follows `BY`.
        let closes = gap == 0
            && rest.starts_with(['"', '\'', '`', '\\'])
            && !text[..start].to_ascii_lowercase_ends_with("by");
        if gap > 8 || closes {
            return None;
        }
        if let Some(quote) = rest
            .bytes()
            .next()
            .filter(|byte| matches!(byte, b'\'' | b'"' | b'`'))
        {
            let end = pairs::quoted_end(text, start + 1, quote, 0);
            // `IDENTIFIED WITH 'plugin' BY 'x'`
            let given = &text[start + 1..end];
            if !text[..start]
                .trim_end()
                .to_ascii_lowercase_ends_with("with")
            {
                return (!values::is_placeholder(given)).then_some(start + 1..end);
            }
            at = (end + 1).min(text.len());
            continue;
        }
        let end = rest
            .find([' ', '\t', ';', ')', '"', '\''])
            .unwrap_or(rest.len())
            .min(64);
        let end = rest.floor_char_boundary(end);
        examined(end);
        let word = &rest[..end];
        match word.to_ascii_lowercase().as_str() {
            "" => return None,
            "by" | "with" | "as" | "password" | "using" => {}
            _ if text[..start]
                .trim_end()
                .to_ascii_lowercase_ends_with("with") => {}
            _ if text[..start].trim_end().to_ascii_lowercase_ends_with("by") => {
                return (!values::is_placeholder(word)).then_some(start..start + end);
            }
            _ => return None,
        }
        at = start + end;
    }
    None
}

/// Compares the end of a text without regard to case.
trait EndsWithIgnoringCase {
    fn to_ascii_lowercase_ends_with(&self, word: &str) -> bool;
}

impl EndsWithIgnoringCase for str {
    fn to_ascii_lowercase_ends_with(&self, word: &str) -> bool {
        let end = self
            .len()
            .checked_sub(word.len())
            .and_then(|at| self.get(at..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(word))
    }
}

/// The password of a statement that opens a session: `CONNECT joe/x@db`,
/// `CONNECT TO db USER joe USING x`.
pub(super) fn connect(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let upper = text[start..end]
        .bytes()
        .all(|byte| !byte.is_ascii_lowercase());
    if !upper && !text[..start].ends_with("SQL> ") {
        return None;
    }
    let near = &text[end..text.floor_char_boundary((end + 120).min(text.len()))];
    examined(near.len());
    if let Some(using) = near.find(" USING ").filter(|_| near.starts_with("TO ")) {
        let from = end + using + " USING ".len();
        let near = &text[from..end + near.len()];
        let length = near.find([' ', '"', ';', '\\']).unwrap_or(near.len());
        return (length > 3).then_some(from..from + length);
    }
    let range = urls::after_slash(text, end)?;
    // An address has dots.
    let host = text[end..range.start].contains('.');
    (text[range.end..].starts_with('@') && !host).then_some(range)
}
