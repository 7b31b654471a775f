//! Where a value ends.

use super::{Context, separator::Sep};
use crate::{
    names::{Class, Name},
    work::examined,
};

/// The words of a value that is a phrase.
const PHRASE_MAX: usize = 128;

/// The end of a value without quotes that begins at `at`, not after `until`.
pub(super) fn bare(text: &str, at: usize, until: usize, context: &Context) -> usize {
    let bytes = &text.as_bytes()[..until];
    let mut end = at;
    while end < until {
        let byte = bytes[end];
        let ends = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => true,
            b'<' => {
                bytes.get(end + 1) == Some(&b'/')
                    || bytes.get(end + 1).is_some_and(u8::is_ascii_alphabetic)
                        && context.sep == Sep::Tag
            }
            b'"' | b'\'' | b'`' => {
                Some(byte) == context.enclosing || structure(&text.as_bytes()[end + 1..], byte)
            }
            b'\\' => {
                let run = bytes[end..]
                    .iter()
                    .take_while(|byte| **byte == b'\\')
                    .count();
                let next = bytes.get(end + run).copied();
                // A quote with more escapes than the one around the value is a part of it.
                if next.is_some() && next == context.enclosing && run > context.escapes {
                    end += run + 1;
                    continue;
                }
                escape_ends(&text.as_bytes()[end + 1..])
            }
            b',' | b';' | b'&' | b'}' | b']' | b')' | b'>' | b'|' => {
                !context.alone && structure(&text.as_bytes()[end + 1..], byte)
            }
            _ => false,
        };
        if ends {
            break;
        }
        end += 1;
    }
    examined(end - at);
    text.floor_char_boundary(end)
}

/// Whether an escape after a backslash ends the value: a quote, or a line break and then
/// something with a name.
fn escape_ends(rest: &[u8]) -> bool {
    match rest {
        [] | [b'"' | b'\'', ..] => true,
        [b'\\', more @ ..] => more.first() == Some(&b'"') || more.first() == Some(&b'\\'),
        [b'n' | b'r' | b't', more @ ..] => structure(more, b','),
        _ => false,
    }
}

/// Whether what follows a character shows that it separates: the end, a space, another such
/// character, or the name of the next value.
fn structure(rest: &[u8], of: u8) -> bool {
    let Some(first) = rest.first() else {
        return true;
    };
    if first.is_ascii_whitespace()
        || matches!(
            first,
            b'"' | b'\'' | b'`' | b',' | b';' | b')' | b']' | b'}' | b'>' | b'\\' | b'|' | b'<'
        )
    {
        return true;
    }
    if matches!(of, b'"' | b'\'' | b'`') {
        return matches!(first, b':' | b'&' | b'=');
    }
    let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let word = rest.iter().take(40).take_while(inside).count();
    examined(word);
    let next = rest.get(word);
    word > 0
        && (matches!(next, Some(b'=' | b':'))
            || of == b'&' && next.is_none_or(u8::is_ascii_whitespace))
}

/// The end of the line, or of the string that the line stands in.
pub(super) fn line_end(text: &str, at: usize, context: &Context) -> usize {
    match context.enclosing {
        Some(quote) => quoted_end(text, at, quote, context.escapes),
        None => text.len(),
    }
}

/// The end of a value of several words: a phrase in a file of settings, a field of a struct
/// or of a connection string.
pub(super) fn phrase(text: &str, name: Name, word_end: usize, context: &Context) -> usize {
    let setting = context.alone && context.sep == Sep::Assign && context.spaced;
    if name.class != Class::Password && !setting {
        return word_end;
    }
    let until = text.floor_char_boundary((word_end + PHRASE_MAX).min(text.len()));
    let rest = &text[word_end..until];
    if !rest.starts_with([' ', '\t']) {
        return word_end;
    }
    examined(rest.len());
    let to_end = |rest: &str| {
        let quote = rest.char_indices().find(|(nth, one)| {
            matches!(one, '"' | '\'' | '`') && structure(&rest.as_bytes()[nth + 1..], b'"')
        });
        word_end + quote.map_or(rest.len(), |(nth, _)| nth)
    };
    let bytes = rest.as_bytes();
    let next_name = |nth: usize| {
        let word = bytes[nth..]
            .iter()
            .take(40)
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
            .count();
        word > 0 && matches!(bytes.get(nth + word), Some(b'=' | b':'))
    };
    // Up to the next name, or to what closes the struct.
    let field = || {
        for (nth, byte) in bytes.iter().enumerate() {
            let ends = match byte {
                b' ' => next_name(nth + 1),
                b',' | b';' | b')' | b'}' | b']' => structure(&bytes[nth + 1..], *byte),
                b'"' | b'\'' => true,
                _ => false,
            };
            if ends {
                return Some(nth);
            }
        }
        None
    };
    let connection = context.before == Some(b';')
        || rest.find(';').is_some_and(|semi| {
            next_name(semi + 1 + usize::from(bytes.get(semi + 1) == Some(&b' ')))
                && !rest[..semi].contains(['=', '"', '\''])
        });
    let inner = matches!(context.before, Some(b'{' | b'(' | b'[' | b','))
        || context.sep == Sep::Colon && !context.spaced && rest.contains('}');
    match context.sep {
        _ if connection => {
            let end = rest.find([';', '"', '\'']).unwrap_or(rest.len());
            word_end + end
        }
        Sep::Colon | Sep::Assign if inner => field().map_or(word_end, |nth| word_end + nth),
        Sep::Tag => text[word_end..until]
            .find("</")
            .map_or(word_end, |nth| word_end + nth),
        // A line of settings, or of a log whose prefix ends before the name.
        Sep::Colon if context.alone => line_end(text, word_end, context),
        Sep::Colon if context.spaced && !context.prose => to_end(rest),
        Sep::Assign
            if context.alone && (context.spaced || !rest.contains('=') && !rest.contains(" -")) =>
        {
            line_end(text, word_end, context)
        }
        // `"POSTGRES_PASSWORD=correct horse"`
        Sep::Assign if context.enclosing.is_some() && context.tight => {
            let end = line_end(text, word_end, context);
            if text[word_end..end].contains('=') || end > until {
                word_end
            } else {
                end
            }
        }
        _ => word_end,
    }
}

/// Quotes inside of one quoted value. Without a limit, each of many values that are never closed
/// would be read to the end of the text.
const JOINS_MAX: usize = 24;

/// The end of a quoted value: its closing quote, or the end of the line.
pub(crate) fn quoted_end(text: &str, from: usize, quote: u8, escapes: usize) -> usize {
    let bytes = text.as_bytes();
    let mut run = 0;
    let mut skip = from;
    let mut joins = 0;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        if *byte == b'\\' {
            run += 1;
            continue;
        }
        // A closing quote has as many escapes as the opening one. One with fewer ends the
        // text around the value.
        if at < skip {
            run = 0;
            continue;
        }
        if *byte == quote && run <= escapes {
            let may_join = escapes == 0 && run == 0 && at > from && joins < JOINS_MAX;
            let joined = if may_join {
                goes_on(&bytes[at + 1..], quote)
            } else {
                0
            };
            if joined > 0 {
                joins += 1;
                skip = at + 1 + joined;
                continue;
            }
            examined(at - from);
            return at - run;
        }
        run = 0;
    }
    examined(text.len() - from);
    text.len()
}

/// The length of what joins a quoted text with more of it: a quote that is written twice, as
/// YAML, SQL and CSV do, or the quotes that a shell puts around a quote.
fn goes_on(rest: &[u8], quote: u8) -> usize {
    let more = |length: usize| rest.get(length).is_some_and(|byte| !ends_text(*byte));
    match rest {
        [b'\\', b'\'', b'\'', ..] if quote == b'\'' && more(3) => 3,
        [b'"', b'\'', b'"', b'\'', ..] if quote == b'\'' && more(4) => 4,
        [next, ..] if *next == quote && more(1) => 1,
        _ => 0,
    }
}

/// Whether a character after a quote shows that the text has ended.
fn ends_text(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(
            byte,
            b',' | b';' | b':' | b')' | b']' | b'}' | b'>' | b'"' | b'\'' | b'\\' | b'/' | b'|'
        )
}
