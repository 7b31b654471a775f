//! The value after a separator: what stands around it, and what it is made of.

use std::ops::Range;

use super::{
    Context,
    extent::{bare, line_end, phrase, quoted_end},
    reference::{is_reference, is_remark, is_size},
    separator::Sep,
    structure,
    verdict::{How, hides, is_opaque, is_scheme, is_scheme_like},
};
use crate::{
    finds::MARK,
    names::{Class, Name},
    scan::Scan,
    state::Pending,
    values::{self, SEEN_MAX},
    work::examined,
};

/// Wrappers of a value that are looked into: `[`, `Some(`, `b"`.
const WRAPPERS_MAX: usize = 4;

/// Reads the value that begins at `at`, and notes what of it is a secret.
pub(super) fn read(scan: &mut Scan<'_>, name: Name, at: usize, context: &Context) {
    let text = scan.text;
    let bytes = text.as_bytes();
    if let Some(range) = second_of_tuple(text, name, at) {
        scan.find(range, name.kind);
        return;
    }
    let at = after_go_type(text, at);
    if is_remark(&text[at..]) {
        return;
    }
    if let Some(range) = braced(text, name, at, context) {
        scan.find(range, name.kind);
        return;
    }
    let (mut at, mut list) = (at, false);
    for _ in 0..WRAPPERS_MAX {
        match wrapper(text, at) {
            Some(length) => {
                list |= bytes[at] == b'[';
                at += length;
            }
            None => break,
        }
    }
    at = after_type(text, at);
    if text[at..].starts_with(MARK) {
        return;
    }
    if is_object(&bytes[at..]) {
        structure::read(scan, name, at);
        return;
    }
    if context.sep == Sep::Colon && is_block(&text[at..]) {
        scan.next.pending = Some(Pending::Block {
            column: context.column,
            deeper: None,
        });
        return;
    }
    // `Authorization: Bearer` and the token on the next line.
    if name.class == Class::Header && scan.end > at && is_scheme(&text[at..scan.end]) {
        let class = Class::Session;
        scan.next.pending = Some(Pending::Word {
            name: Name { class, ..name },
            lines: 1,
        });
        return;
    }
    // Each element of a list.
    let mut from = at;
    loop {
        let Some((value, quoted, close)) = one(text, name, from, list, context) else {
            return;
        };
        if let Some(range) = value {
            scan.find(range, name.kind);
            if context.sep == Sep::Assign && bytes[0] == b'+' {
                scan.next.pending = Some(Pending::Tested { lines: 3 });
            }
        }
        scan.names_until = scan.names_until.max(from);
        let next = &text[close..];
        // Two texts that follow each other are one.
        if quoted
            && close + 4 > scan.end
            && scan.next.pending.is_none()
            && matches!(next.trim(), "" | "+" | "\\")
        {
            scan.next.pending = Some(Pending::Joined { name });
        }
        // `"old" -> "new"`
        if quoted && let Some(new) = next.strip_prefix(" -> ").filter(|new| new.starts_with('"')) {
            from = text.len() - new.len();
            continue;
        }
        let gap = next.len() - next.trim_start_matches([',', ' ']).len();
        if !list || !quoted || !next.starts_with(',') || !next[gap..].starts_with(['"', '\'']) {
            return;
        }
        from = close + gap;
    }
}

/// The password of `auth=('joe', 'x')`.
fn second_of_tuple(text: &str, name: Name, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let quote = bytes
        .get(at + 1)
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\''))?;
    if name.class != Class::Weak || !matches!(bytes[at], b'(' | b'[') {
        return None;
    }
    let first = quoted_end(text, at + 2, quote, 0);
    let rest = text.get(first + 1..)?;
    let value = rest
        .strip_prefix(',')?
        .trim_start()
        .strip_prefix(char::from(quote))?;
    let start = text.len() - value.len();
    let end = quoted_end(text, start, quote, 0);
    // A longer list is no pair.
    let last = matches!(bytes.get(end + 1), Some(b')' | b']'));
    (last && !values::is_placeholder(&text[start..end])).then_some(start..end)
}

/// A value in the braces of a connection string: `PWD={x};`.
fn braced(text: &str, name: Name, at: usize, context: &Context) -> Option<Range<usize>> {
    let inner = text[at..].strip_prefix('{')?;
    if name.class != Class::Password || context.sep != Sep::Assign || context.spaced {
        return None;
    }
    let seen = &inner[..inner.floor_char_boundary(SEEN_MAX)];
    let mut end = seen.find('}')?;
    // A brace in it is written twice.
    while seen[end + 1..].starts_with('}') {
        end = seen[end + 2..].find('}').map(|next| end + 2 + next)?;
    }
    examined(end);
    let given = &seen[..end];
    let after = &inner[end + 1..];
    let connection = context.before == Some(b';') || after.starts_with(';');
    let blank = values::is_placeholder(given)
        || given
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.'))
            && (!connection || crate::names::classify(given).is_some());
    (connection && !blank).then_some(at + 1..at + 1 + end)
}

/// One value: the secret in it, whether it is quoted, and where it ends.
fn one(
    text: &str,
    name: Name,
    at: usize,
    list: bool,
    context: &Context,
) -> Option<(Option<Range<usize>>, bool, usize)> {
    let bytes = text.as_bytes();
    if is_reference(&text[at..], context)
        || text[at..]
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_digit())
            && is_size(&text[at..])
    {
        return None;
    }
    let escapes = bytes[at..]
        .iter()
        .take(8)
        .take_while(|byte| **byte == b'\\')
        .count();
    if let Some(quote @ (b'"' | b'\'' | b'`')) = bytes.get(at + escapes) {
        let mut start = at + escapes + 1;
        // It closes the text that the name stands in: `"msg":"password="`, `"Password: " NAME`.
        let encloses = context.enclosing == Some(*quote) && escapes == context.escapes;
        if encloses
            && bytes
                .get(start)
                .is_none_or(|byte| matches!(byte, b' ' | b';'))
        {
            return None;
        }
        if matches!(
            bytes.get(start),
            None | Some(b',' | b'}' | b']' | b':' | b')')
        ) {
            return None;
        }
        // A quote in a field of CSV is written twice.
        let double = escapes == 0
            && bytes.get(start) == Some(quote)
            && bytes.get(start + 1).is_some_and(u8::is_ascii_alphanumeric);
        start += usize::from(double);
        let triple = escapes == 0 && bytes[start..].starts_with(&[*quote, *quote]);
        start += if triple { 2 } else { 0 };
        if triple
            && matches!(
                bytes.get(start),
                None | Some(b',' | b'}' | b']' | b':' | b')')
            )
        {
            return None;
        }
        let end = quoted_end(text, start, *quote, escapes);
        let how = How {
            context: *context,
            quoted: true,
            more: false,
        };
        let given = &text[start..end];
        let close = (end + escapes + 1).min(text.len());
        let close = if text.is_char_boundary(close) {
            close
        } else {
            end
        };
        let secret = hides(name, given, Some(how)).then_some(start..end);
        return Some((secret, true, close));
    }
    let end = match name.class {
        Class::Header | Class::Cookie => {
            return Some((header(text, name, at, list, context), false, at));
        }
        _ => bare(text, at, text.len().min(at + SEEN_MAX), context),
    };
    let word = &text[at..end];
    let after = &text[end..];
    // `--password=<password>`, `password: This field is required.`
    let line = &text[at..text.floor_char_boundary((at + SEEN_MAX).min(text.len()))];
    let blank = line.strip_prefix('<').is_some_and(|inner| {
        let close = inner.find('>').unwrap_or_default();
        close > 0 && values::is_placeholder(&line[..close + 2])
    });
    if blank && context.sep != Sep::Tag || after.starts_with(' ') && values::is_sentence(line) {
        return None;
    }
    let more = after
        .trim_start_matches([' ', '\t'])
        .starts_with(|one: char| one.is_ascii_alphanumeric());
    let how = How {
        context: *context,
        quoted: false,
        more,
    };
    // `token: Bearer x`
    if is_scheme(word) && after.starts_with(' ') {
        let next = end + 1;
        let end = bare(text, next, text.len(), context);
        let token = &text[next..end];
        let shown =
            !values::is_word(token) && !values::is_placeholder(token) && !values::is_pair(token);
        return Some((shown.then_some(at..end), false, end));
    }
    if !hides(name, word, Some(how)) || is_example(text, at, word) {
        return Some((None, false, end));
    }
    let end = if end + 4 > at + SEEN_MAX {
        bare(text, at, text.len(), context)
    } else {
        end
    };
    let end = phrase(text, name, end, context);
    let end = at + text[at..end].trim_end().len();
    Some((Some(at..end), false, end))
}

/// Whether a sentence shows how to write a value: `For example, PASSWORD=password`.
fn is_example(text: &str, at: usize, word: &str) -> bool {
    let near = &text[text.floor_char_boundary(at.saturating_sub(80))..at];
    examined(near.len());
    values::is_word(word)
        && ["xample", "e.g.", "sage:"]
            .iter()
            .any(|says| near.contains(says))
        && !near.contains("xample.")
}

/// The length of what stands around a value: `[`, `(`, `<<`, `Some(`, `b"`.
fn wrapper(text: &str, at: usize) -> Option<usize> {
    if text[at..].starts_with(MARK) {
        return None;
    }
    match &text.as_bytes()[at..] {
        [b'<', b'<', b'"', ..] | [b'[', b' ', b'"' | b'\'', ..] => Some(2),
        [b'<', b'!', rest @ ..] if rest.starts_with(b"[CDATA[") => Some(9),
        bytes if bytes.starts_with(b"<Value>") || bytes.starts_with(b"<value>") => Some(7),
        [b'[' | b'(', ..]
        | [
            b'b' | b'u' | b'r' | b'f' | b'B' | b'U' | b'R' | b'@' | b'$' | b'L' | b'&' | b'N',
            b'"' | b'\'',
            ..,
        ] => Some(1),
        bytes => {
            let word = bytes
                .iter()
                .take(24)
                .take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'.' | b':' | b'_'))
                .count();
            let call = word > 0 && bytes.get(word) == Some(&b'(');
            let inner = bytes.get(word + 1);
            let wraps = matches!(inner, Some(b'"' | b'\''))
                && bytes[0].is_ascii_uppercase()
                && !bytes[..word].contains(&b'.')
                || matches!(inner, Some(b'"' | b'\''))
                    && matches!(&bytes[..word], b"string" | b"str")
                || matches!(
                    &bytes[..word],
                    b"Some"
                        | b"Ok"
                        | b"Just"
                        | b"Optional"
                        | b"Str"
                        | b"String"
                        | b"Bytes"
                        | b"Slice"
                        | b"Secret"
                        | b"Password"
                );
            (call && wraps && !bytes.starts_with(b"ENC")).then_some(word + 1)
        }
    }
}

/// Skips the types that Go prints before a text: `(string) (len=8) "x"`, and PHP:
/// `string(8) "x"`.
fn after_go_type(text: &str, at: usize) -> usize {
    let near = &text[at..text.floor_char_boundary((at + 80).min(text.len()))];
    let begins = near.starts_with('(') || near.starts_with("string");
    let Some(quote) = near.find(['"', '\'']).filter(|_| begins) else {
        return at;
    };
    let types = near[..quote].trim_end_matches(['(', '\\']).trim_end();
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'(' | b')' | b' ' | b'=' | b'*' | b'.')
    };
    let whole = types == "string" || types.ends_with(')');
    if whole && types.bytes().all(plain) {
        at + near[..quote].trim_end_matches('\\').len()
    } else {
        at
    }
}

/// Skips a type: `password: str = "x"`.
fn after_type(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let word = rest
        .bytes()
        .take(16)
        .take_while(u8::is_ascii_alphabetic)
        .count();
    if !matches!(
        &rest[..word],
        "str" | "string" | "String" | "SecretStr" | "bytes" | "Text" | "any"
    ) {
        return at;
    }
    let assign = rest[word..].trim_start_matches(' ').strip_prefix('=');
    assign.map_or(at, |value| text.len() - value.trim_start_matches(' ').len())
}

/// Whether a value is a map, whose fields have names of their own; `{SSHA}...` is not.
fn is_object(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"{") else {
        return bytes.starts_with(b"map[") || bytes.starts_with(b"&{") || bytes.starts_with(b"#<");
    };
    let word = rest
        .iter()
        .take(16)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-')
        .count();
    !(word > 0
        && rest.get(word) == Some(&b'}')
        && rest.get(word + 1).is_some_and(u8::is_ascii_alphanumeric))
}

/// Whether a value is the indicator of a block scalar of YAML.
fn is_block(rest: &str) -> bool {
    let rest = rest.trim_end();
    let rest = rest
        .strip_prefix("!!binary ")
        .or(rest.strip_prefix("!vault "))
        .unwrap_or(rest);
    let Some(more) = rest.strip_prefix(['|', '>']) else {
        return false;
    };
    more.split(" #").next().is_some_and(|more| {
        more.len() <= 2
            && more
                .bytes()
                .all(|byte| matches!(byte, b'+' | b'-' | b'0'..=b'9'))
    })
}

/// The value of `Authorization` or of a cookie without quotes.
fn header(
    text: &str,
    name: Name,
    at: usize,
    list: bool,
    context: &Context,
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let stop = || {
        let stop = line_end(text, at, context);
        let close = bytes[at..stop]
            .iter()
            .position(|byte| list && *byte == b']');
        let stop = close.map_or(stop, |close| at + close);
        examined(stop - at);
        let value = text[at..stop].trim_end();
        at + value.trim_end_matches(['"', '\'']).len()
    };
    let word_end = bare(text, at, text.len().min(at + SEEN_MAX), context);
    let word = &text[at..word_end];
    if name.class == Class::Cookie {
        let pairs = word.contains('=') && !values::is_placeholder(word);
        return match context.sep {
            Sep::Colon if pairs => Some(at..stop()),
            _ if pairs || values::is_random(word) => Some(at..bare(text, at, text.len(), context)),
            _ => None,
        };
    }
    let second = text[word_end..].strip_prefix(' ').map(|_| {
        let next = word_end + 1;
        next..bare(text, next, text.len(), context)
    });
    match second {
        Some(next) if !next.is_empty() => {
            let given = text[next.clone()].trim_matches(['<', '>']);
            // `Bearer $(cat token)`
            if given.starts_with("$(") || given.starts_with("${") {
                return None;
            }
            if values::is_placeholder(&text[next.clone()]) || word.is_empty() {
                return None;
            }
            if is_scheme(word) {
                let third = text[next.end..]
                    .trim_start_matches(' ')
                    .starts_with(|one: char| one.is_ascii_alphabetic());
                let prose = values::is_word(given) && third;
                return (!prose && !values::is_status(given)).then_some(at..next.end);
            }
            let rest = &text[next.end..];
            let last =
                rest.starts_with(['"', '\'', '\\', ',', '\r']) || rest.trim_start().is_empty();
            if is_scheme_like(word) && is_opaque(given) && last {
                return Some(at..next.end);
            }
            // Digest username="joe", ...; AWS4-HMAC-SHA256 Credential=...
            let scheme = word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let parts = scheme && text[next].contains('=');
            (parts || values::is_random(word)).then(|| at..stop())
        }
        _ => {
            let opaque = values::is_random(word)
                || values::is_secretish(word) && !values::is_identifier(word);
            (opaque && !values::is_status(word) || values::is_uuid(word))
                .then(|| at..bare(text, at, text.len(), context))
        }
    }
}
