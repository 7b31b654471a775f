//! Secrets that are known by the name of their key: `password=...`, `"token": "..."`,
//! `--api-key ...`, `{Name:DB_PASSWORD Value:...}`.

mod announce;
mod before;
mod codes;
mod columns;
mod context;
mod ending;
mod extent;
mod fields;
pub(super) mod foreign;
mod others;
mod prose;
mod reference;
mod row;
mod section;
mod separator;
mod space;
mod structure;
mod value;
mod verdict;

use std::ops::Range;

use self::{
    announce::{announce, pending, shown_file, shown_value},
    context::{Context, context},
    others::{
        is_architecture, is_arrow, is_blank, is_commit, is_material, is_next, is_program, is_tag,
    },
    prose::longer,
    separator::Sep,
};
pub(super) use self::{
    announce::{file_line, last_word, lone_word, tested},
    codes::codes,
    columns::{Column, Row, row},
    extent::quoted_end,
    fields::value_line,
    section::{section, section_key, shown_next},
    structure::{in_map, is_secret_field},
    verdict::hides,
};
use super::{
    names::{self, Class, NAME_MAX, Name},
    scan::Scan,
    state::Pending,
    values,
    work::examined,
};

/// Looks at the name that has a word for a secret at `hit`.
pub(super) fn at(scan: &mut Scan<'_>, hit: usize) {
    if hit < scan.names_until || hit < scan.done_until {
        return;
    }
    let text = scan.text;
    let bytes = text.as_bytes();
    let (start, end) = extent(bytes, scan.done_until, hit);
    scan.names_until = end;
    if let Some((range, kind)) = enclosed(text, start, end) {
        scan.find(range, kind);
        return;
    }
    if !may_separate(&bytes[end..]) {
        return;
    }
    let written = &text[start..end];
    let flag = written.starts_with('-');
    let ident = written
        .trim_start_matches(['-', '.', '_'])
        .trim_end_matches(['.', '-']);
    let written_at = start;
    let end =
        start + (written.len() - written.trim_start_matches(['-', '.', '_']).len()) + ident.len();
    let start = end - ident.len();
    if ident.ends_with("Secret") && (is_kind(text, start) || text[end..].starts_with('{')) {
        scan.next.secret_kind = true;
        return;
    }
    if shown_file(scan, start, end) {
        return;
    }
    let Some((name, name_start)) =
        name(text, start, end).or_else(|| content_of_file(text, start, end))
    else {
        return;
    };
    // `--from-file=password=/tmp/pw` names a file, `pam_unix(passwd:chauthtok)` a service,
    // `checksum/secret` the digest of an object, and a parser an unexpected token.
    let before = &text.as_bytes()[start.saturating_sub(12)..start];
    let others: [&[u8]; 5] = [
        b"from-file=",
        b"pam_unix(",
        b"checksum/",
        b"nexpected ",
        b"xpecting ",
    ];
    if is_commit(text, start, end) {
        return;
    }
    if is_material(ident) || others.iter().any(|other| before.ends_with(other)) {
        return;
    }
    shown_value(scan, name, start, end);
    if let Some(range) = before::value(text, scan.done_until, written_at, end, name) {
        scan.find_before(range, name.kind);
    }
    if fields::names_a_value(scan, start, end, name) {
        return;
    }
    if matches!(name.class, Class::Password | Class::Secret)
        && let Some(pending) = columns::header(text, start, end, name)
    {
        scan.next.pending = Some(pending);
    }
    // `variable "db_password" {`
    if text[end..].starts_with("\" {") && text[..start].ends_with("variable \"") {
        scan.next.pending = Some(Pending::Value {
            name: fields::strict(name),
            lines: 5,
        });
        return;
    }
    let (mut found, name, words) = match separator::after(text, end) {
        Some(found) => (found, name, name_start < start),
        None => {
            if let Some(range) = space::value(scan, name, written_at..end, flag) {
                scan.find(range, name.kind);
                return;
            }
            if let Some(range) = row::value(text, name, &(start..end)) {
                scan.find(range, name.kind);
                return;
            }
            if let Some(range) = prose::value(text, name, end) {
                scan.find(range, name.kind);
                return;
            }
            match longer(text, name, name_start, end) {
                Some((found, longer)) => (found, longer, true),
                None => {
                    announce(scan, name, start..end);
                    return;
                }
            }
        }
    };
    let mut context = context(text, name_start, &found);
    context.prose |= words;
    // `"--token", "x"` are arguments; otherwise a comma separates only in a tuple.
    let closers = &text[found.closers_at..][..found.closers];
    let tuple = matches!(context.before, Some(b'(' | b'[' | b'{'))
        && !closers.contains([')', ']'])
        && is_pair(text, found.at);
    // `'cookie', 'sid=x'` is a line of a list of headers.
    let tuple = tuple || context.alone && found.closers > 0 && is_lone_pair(scan, found.at);
    // `authenticate(password, user)` is code.
    let call = text[..start]
        .strip_suffix('(')
        .is_some_and(|before| before.ends_with(|one: char| one.is_ascii_alphanumeric()));
    let code = found.closers == 0 && call && {
        let next = &text[found.at..text.floor_char_boundary((found.at + 24).min(text.len()))];
        let word = next.bytes().take_while(u8::is_ascii_alphabetic).count();
        next[word..].starts_with([')', ','])
    };
    // `sec-websocket-protocol: access_token, x`
    if found.sep == Sep::Comma && found.closers == 0 && name.class == Class::Secret {
        let given = &text[found.at..scan.end.max(found.at)];
        let given = &given[..given.find(['"', '\\', ' ']).unwrap_or(given.len())];
        examined(given.len().min(values::SEEN_MAX));
        if given.len() >= 20 && given.len() <= values::SEEN_MAX && values::is_key(given) {
            scan.find(found.at..found.at + given.len(), name.kind);
            return;
        }
    }
    if found.sep == Sep::Comma && !flag && (!tuple || code) {
        if closers.contains(']') {
            fields::rejected(scan, name, found.at);
        }
        announce(scan, name, start..end);
        return;
    }
    if found.sep == Sep::Pipe
        && let Some(range) = row::value(text, name, &(start..end))
    {
        scan.find(range, name.kind);
        return;
    }
    // `echo "$PASSWORD" | base64`
    if found.sep == Sep::Pipe && bytes[..start].last() == Some(&b'$') {
        return;
    }
    // `arn:aws:secretsmanager:eu-west-1:123456789012:secret:name`
    if found.sep == Sep::Colon
        && !found.spaced
        && name.class != Class::Password
        && bytes[..start].last() == Some(&b':')
    {
        return;
    }
    if found.sep == Sep::Tag
        && (!is_tag_name(text, start) || is_blank(text, found.at, found.spaced))
    {
        return;
    }
    if found.sep == Sep::Assign && is_arrow(text, end, found.at, ident) {
        return;
    }
    if found.sep == Sep::Colon
        && found.spaced
        && found.closers == 0
        && is_program(text, ident, found.at)
    {
        return;
    }
    if found.sep == Sep::Colon && !found.spaced {
        if is_tag(text, start, found.at) || is_architecture(&text[found.at..]) {
            return;
        }
        // `${PASSWORD:?must be set}`, `${PASSWORD:-x}`
        if text[..start].ends_with("${") {
            match &bytes[found.at..] {
                [b'?' | b'+', ..] | [b'-', b'}', ..] => return,
                [b'-', ..] => found.at += 1,
                _ => {}
            }
        }
    }
    if found.sep == Sep::Comma && is_next(text, found.at, found.closers) {
        return;
    }
    if text.get(found.at..scan.end) == Some("{")
        && matches!(name.class, Class::Password | Class::Secret | Class::Object)
    {
        let (name, column) = (fields::strict(name), context.column);
        scan.next.pending = Some(Pending::Map { name, column });
        return;
    }
    if matches!(text.get(found.at..scan.end), Some("[" | "(" | "[\\")) {
        let name = fields::strict(name);
        scan.next.pending = Some(Pending::List { name, lines: 20 });
        return;
    }
    if name.class == Class::Code && ident.ends_with('s') {
        if found.at >= scan.end {
            scan.next.pending = Some(Pending::Codes { lines: 16 });
        } else {
            codes(text, found.at, |range| scan.find_before(range, name.kind));
        }
        return;
    }
    if found.at >= scan.end {
        scan.next.pending = pending(name, &context, flag).or(scan.next.pending);
        return;
    }
    // The value is on the next line.
    if text[found.at..scan.end] == *"\\" && found.sep == Sep::Assign {
        let name = fields::strict(name);
        scan.next.pending = Some(Pending::Word { name, lines: 1 });
        return;
    }
    // A line of a string ends here; the decoded string is looked at by itself.
    if ["\\n", "\\r\\n"]
        .iter()
        .any(|end| text[found.at..].starts_with(end))
    {
        return;
    }
    let mut at = found.at;
    // `on field 'password': rejected value [x]`
    for said in ["rejected value ", "!!str "] {
        at += if text[at..].starts_with(said) {
            said.len()
        } else {
            0
        };
    }
    // `password=Value 'password' of type 'string', value=x`
    if text[at..].starts_with("Value '")
        && let Some((_, value)) = fields::value_key(text, at + 5, 200)
    {
        at = value;
    }
    value::read(scan, name, at, &context);
}

/// Whether the name at `start` is that of a tag, which may have a prefix: `<wsse:Password`.
fn is_tag_name(text: &str, start: usize) -> bool {
    let near = &text.as_bytes()[start.saturating_sub(24)..start];
    let prefix = near
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'-'))
        .count();
    let prefix = &near[near.len() - prefix..];
    (prefix.is_empty() || prefix.ends_with(b":"))
        && text.as_bytes()[..start - prefix.len()].ends_with(b"<")
}

/// A name of a file whose line follows: `ssl_password_file line 1: "x"`.
fn content_of_file(text: &str, start: usize, end: usize) -> Option<(Name, usize)> {
    let stem = text[start..end].strip_suffix("file")?;
    text[end..].strip_prefix(" line ").filter(|rest| {
        rest.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_digit())
    })?;
    Some((names::classify(stem)?, start))
}

/// Whether what follows a name and a comma is the second and last part of a pair.
fn is_pair(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let escapes = bytes[at..]
        .iter()
        .take(4)
        .take_while(|byte| **byte == b'\\')
        .count();
    let prefix = usize::from(bytes.get(at) == Some(&b'b'));
    let Some(quote @ (b'"' | b'\'')) = bytes.get(at + escapes + prefix) else {
        return true;
    };
    let start = at + escapes + prefix + 1;
    let until = text.floor_char_boundary((start + values::SEEN_MAX).min(text.len()));
    let end = quoted_end(&text[..until], start, *quote, escapes);
    let other = &text[start..end];
    let more = text[end..].trim_start_matches(['\\', '"', '\'']);
    let ends = end == until
        || !more.starts_with(',')
        || !more[1..].trim_start().starts_with(['"', '\'', '\\']);
    ends && !(values::is_word(other) && names::classify(other).is_some())
}

/// Whether a quoted text is the last one of a line.
fn is_lone_pair(scan: &Scan<'_>, at: usize) -> bool {
    let text = &scan.text[at.min(scan.end)..scan.end];
    let quote = text.chars().next().filter(|one| matches!(one, '"' | '\''));
    quote.is_some_and(|quote| {
        text.len() > 2 && text.strip_suffix(',').unwrap_or(text).ends_with(quote)
    })
}

/// The value in the brackets after a name: `user[joe] password[x]`, `password(x)`.
fn enclosed(text: &str, start: usize, end: usize) -> Option<(Range<usize>, &'static str)> {
    let bytes = text.as_bytes();
    let close = match bytes.get(end)? {
        b'(' => b')',
        b'[' => b']',
        _ => return None,
    };
    let begins = start == 0 || matches!(bytes[start - 1], b' ' | b',' | b';' | b'"' | b'(' | b'[');
    let name = names::classify(&text[start..end]).filter(|_| begins)?;
    let plain = bytes[start..end]
        .iter()
        .all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let near = &bytes[end + 1..bytes.len().min(end + 1 + values::SEEN_MAX)];
    let length = near
        .iter()
        .take_while(|byte| byte.is_ascii_graphic() && **byte != close)
        .count();
    examined(length);
    let value = text.get(end + 1..end + 1 + length)?;
    let told = matches!(name.class, Class::Password | Class::Secret)
        && plain
        && near.get(length) == Some(&close)
        && values::is_strong(value)
        && !value.contains([',', '(', '$', '.', '>', '"', '\'']);
    told.then_some((end + 1..end + 1 + length, name.kind))
}

/// Whether what follows a name can separate it from a value.
fn may_separate(rest: &[u8]) -> bool {
    match rest {
        [b'(' | b'+', quote, ..] => matches!(quote, b'\'' | b'"' | b'\\'),
        [byte, ..] => {
            !byte.is_ascii_alphanumeric()
                && !matches!(
                    byte,
                    b'/' | b'@'
                        | b'('
                        | b'['
                        | b'#'
                        | b'%'
                        | b'&'
                        | b'$'
                        | b'?'
                        | b'!'
                        | b';'
                        | b'+'
                        | b'~'
                )
        }
        [] => true,
    }
}

/// The extent of the name around `hit`.
fn extent(bytes: &[u8], from: usize, hit: usize) -> (usize, usize) {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let near = from.max(hit.saturating_sub(NAME_MAX)).min(hit);
    let before = bytes[near..hit]
        .iter()
        .rev()
        .take_while(|byte| inside(byte))
        .count();
    let after = bytes[hit..]
        .iter()
        .take(NAME_MAX)
        .take_while(|byte| inside(byte))
        .count();
    examined(before + after);
    (hit - before, hit + after)
}

/// Whether a word is the value of `kind`.
fn is_kind(text: &str, start: usize) -> bool {
    let near = &text[text.floor_char_boundary(start.saturating_sub(16))..start];
    let key = near.trim_end_matches(['"', '\'', '\\', ' ', '=', ':']);
    key.len() < near.len() && key.to_ascii_lowercase().ends_with("kind")
}

/// What the name is, and where it begins; it may have a word before it: `API key`.
fn name(text: &str, start: usize, end: usize) -> Option<(Name, usize)> {
    let ident = &text[start..end];
    let before = || {
        let near = &text.as_bytes()[start.saturating_sub(24)..start];
        let near = near.strip_suffix(b" ")?;
        let word = near
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        (word > 0).then(|| start - 1 - word)
    };
    // Any word may stand before `key` in a sentence.
    let with_word = |from: usize| {
        let name = names::classify(&text[from..end])?;
        (name.class != Class::Opaque).then_some((name, from))
    };
    if matches!(ident.len(), 2..=6)
        && matches!(
            ident.to_ascii_lowercase().as_str(),
            "key" | "keys" | "phrase" | "id" | "code" | "codes" | "pin"
        )
    {
        let alone = || Some((names::classify(ident)?, start));
        return before().and_then(with_word).or_else(alone);
    }
    Some((names::classify(ident)?, start))
}
